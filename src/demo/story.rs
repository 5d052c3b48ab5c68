//! The story, chapter by chapter.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::count::{Count, Facts};
use super::device::{self, Pace};
use super::folder::Folder;
use super::gateway::{self, Gateway};
use super::message::{Message, UNKNOWN_BADGE};
use super::operator::Operator;
use super::stage::Stage;
use super::upstream::{self, Mood, Upstream};

/// How long the upstream takes for each event while it is slow.
const SLOW: Duration = Duration::from_millis(300);

/// How long a reader has for each event of the second chapter.
const TO_READ: Duration = Duration::from_millis(300);

/// How many events it takes before it is well again.
const SLOW_EVENTS: usize = 5;

/// How many events no delivery is made for: one is malformed, one has no route.
const QUARANTINED: usize = 2;

/// Where everything is.
struct Site {
    /// Of the devices' side of the gateway; port 0 until it has chosen one.
    gateway: SocketAddr,
    upstream: SocketAddr,
    // Last, so that it goes after whoever uses it.
    folder: Folder,
}

impl Site {
    fn config_file(&self) -> PathBuf {
        self.folder.path().join("gatepost.toml")
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("events.redb")
    }

    fn start_gateway(&self, stage: &Stage<'_>) -> Result<Gateway, Error> {
        let config = gateway::config(self.gateway, self.upstream);
        Gateway::start(&self.config_file(), &config, stage.sender())
    }

    /// `messages`, sent by their device at its own pace while the story goes on.
    fn send(&self, messages: Vec<Message>, pace: Pace, stage: &Stage<'_>) -> Result<(), Error> {
        device::send(messages, self.gateway, pace, stage.sender())
    }

    /// Sends one message and waits until it is acknowledged.
    fn send_one(&self, message: Message, stage: &mut Stage<'_>) -> Result<(), Error> {
        let Message {
            device, ref name, ..
        } = message;
        let awaited = format!("{device} to hear that {name} is kept");
        let before = stage.facts().acknowledged(device);
        self.send(vec![message], Pace::Steady, stage)?;
        stage.wait_for(&awaited, |facts| before < facts.acknowledged(device))
    }
}

/// Tells it. `Ok` means that it ended well; see [`super::run`].
pub(super) fn tell(stage: &mut Stage<'_>) -> Result<Count, Error> {
    let mut site = Site {
        gateway: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        upstream: upstream::vacant_address()?,
        folder: Folder::new()?,
    };
    let gateway = a_gateway_starts(&mut site, stage)?;
    devices_send(&site, stage)?;
    let gateway = the_power_goes(&site, gateway, stage)?;
    let upstream = the_upstream_comes_back(&site, stage)?;
    an_operator_looks(&site, &upstream, stage)?;
    drop(gateway);
    the_count(stage)
}

fn a_gateway_starts(site: &mut Site, stage: &mut Stage<'_>) -> Result<Gateway, Error> {
    let config = gateway::config(site.gateway, site.upstream);
    stage.print(format_args!(
        "The life of some events, from devices through a gateway to an upstream. All happens\n\
         in a temporary folder and on 127.0.0.1, and is gone afterwards.\n"
    ))?;
    stage.chapter(
        "1. A gateway on a fresh machine",
        "This program once more, as `gatepost run --config gatepost.toml`. The file:",
    )?;
    for line in config.lines() {
        let line = format!("    {line}");
        stage.print(format_args!("{}\n", line.trim_end()))?;
    }
    stage.print(format_args!("\n"))?;
    let gateway = site.start_gateway(stage)?;
    let address = |facts: &Facts| facts.log.iter().find_map(|line| gateway::address_in(line));
    stage.wait_for("the gateway to listen", |facts| address(facts).is_some())?;
    site.gateway = address(stage.facts()).unwrap_or(site.gateway);
    Ok(gateway)
}

fn devices_send(site: &Site, stage: &mut Stage<'_>) -> Result<(), Error> {
    stage.chapter(
        "2. Devices send, and the upstream is down",
        "A device repeats an event until it hears 2xx, which it hears once the event is on disk:\n\
         202 for a new one, 200 for one that was there before or that nobody can deliver.",
    )?;
    let messages = [
        Message::camera(1),
        Message::camera(2),
        Message::camera(1),
        Message::door(1, "1007"),
        Message::door(2, UNKNOWN_BADGE),
        Message::door(3, "1008"),
        Message::payment(),
        Message::face(25_731),
        Message::broken(),
        Message::stray(),
    ];
    for message in messages {
        site.send_one(message, stage)?;
        stage.rest(TO_READ)?;
    }
    stage.wait_for("the gateway to find the upstream down", |facts| {
        0 < facts.logged("[destination cloud] down")
    })?;
    let status = Operator::at(&site.store())?.status()?;
    for to in &status.destinations {
        let (name, pending, why) = (&to.name, to.pending, &to.why);
        stage.say("operator", format_args!("{pending} wait for {name}, {why}"))?;
    }
    Ok(())
}

fn the_power_goes(
    site: &Site,
    mut gateway: Gateway,
    stage: &mut Stage<'_>,
) -> Result<Gateway, Error> {
    stage.chapter(
        "3. The power goes",
        "The gateway is killed with SIGKILL while a terminal is half way through a picture and a\n\
         camera sends one event after the other. Whoever hears no 2xx tries again.",
    )?;
    site.send(vec![Message::face(25_732)], Pace::Halting, stage)?;
    stage.wait_for("the terminal to send half of its picture", |facts| {
        facts.half_sent
    })?;
    let before = (
        stage.facts().acknowledged("cam-7"),
        stage.facts().acknowledged("terminal"),
    );
    let messages: Vec<Message> = (3..=8).map(Message::camera).collect();
    let all = messages.len();
    site.send(messages, Pace::Steady, stage)?;
    stage.wait_for("the camera to hear of two events", |facts| {
        before.0 + 2 <= facts.acknowledged("cam-7")
    })?;
    gateway.kill();
    drop(gateway);
    stage.say("power", "the gateway was killed")?;
    stage.wait_for("the terminal to find nobody", |facts| {
        facts.found_nobody("terminal")
    })?;
    stage.say("power", "the gateway is started again, on the same store")?;
    let gateway = site.start_gateway(stage)?;
    stage.wait_for("the camera and the terminal to be done", |facts| {
        before.0 + all <= facts.acknowledged("cam-7") && before.1 < facts.acknowledged("terminal")
    })?;
    Ok(gateway)
}

fn the_upstream_comes_back(site: &Site, stage: &mut Stage<'_>) -> Result<Upstream, Error> {
    stage.chapter(
        "4. The upstream comes back",
        "First it is slow. All that waits is delivered, the events of each device in their order.\n\
         One it refuses for good: a dead letter, while the others of that device go on.",
    )?;
    let mood = Mood {
        pause: SLOW,
        mended: false,
    };
    let upstream = Upstream::start(site.upstream, mood, stage.sender())?;
    let slow = SLOW.as_millis();
    stage.say(
        "upstream",
        format_args!("is there, and takes {slow} ms for each event"),
    )?;
    stage.wait_for("the first events to arrive", |facts| {
        SLOW_EVENTS <= facts.taken()
    })?;
    let mood = Mood {
        pause: Duration::ZERO,
        ..mood
    };
    upstream.be(mood);
    stage.say("upstream", "is well again")?;
    stage.wait_for(
        "all others to arrive, and one to become a dead letter",
        |facts| {
            facts.taken() + QUARANTINED + 1 == Count::of(facts).events
                && facts.taken() <= facts.logged("delivered to cloud")
                && 0 < facts.logged("dead letter for cloud")
        },
    )?;
    Ok(upstream)
}

fn an_operator_looks(site: &Site, upstream: &Upstream, stage: &mut Stage<'_>) -> Result<(), Error> {
    stage.chapter(
        "5. An operator looks",
        "Nothing that was acknowledged ends by itself: it waits, whole, for a decision.",
    )?;
    let operator = Operator::at(&site.store())?;
    for row in operator.dead()? {
        let (name, letter) = (&row.event.name, &row.letter);
        let (outcome, answer) = (&letter.outcome, &letter.answer);
        stage.say(
            "operator",
            format_args!("dead letter {name}: {outcome} {answer}"),
        )?;
    }
    for row in operator.quarantine()? {
        let (name, why) = (&row.event.name, &row.why);
        let digest = operator.digest_of(row.event.seq)?;
        stage.keep_in_quarantine(digest);
        stage.say("operator", format_args!("in quarantine {name}: {why}"))?;
    }
    upstream.be(Mood {
        pause: Duration::ZERO,
        mended: true,
    });
    stage.say(
        "upstream",
        format_args!("is mended and knows badge {UNKNOWN_BADGE}"),
    )?;
    let done = operator.replay_all()?.done;
    stage.say(
        "operator",
        format_args!("gatepost replay --all: {done} sent again"),
    )?;
    stage.wait_for("the replayed event to arrive", |facts| {
        facts.taken() + QUARANTINED == Count::of(facts).events
    })?;
    stage.look_for("the gateway to have nothing left to do", || {
        let all = operator.status()?.destinations;
        Ok(all.iter().all(|to| to.pending == 0 && to.dead == 0))
    })?;
    stage.say("operator", "nothing waits any more, no dead letters")
}

fn the_count(stage: &mut Stage<'_>) -> Result<Count, Error> {
    stage.chapter(
        "6. The count",
        "Each body that was acknowledged is looked for, byte for byte, in what the upstream took\n\
         and in what lies in quarantine.",
    )?;
    let facts = stage.facts();
    let count = Count::of(facts);
    let lost = facts.lost().map(|names| format!("lost: {names}"));
    let wrong = lost
        .or_else(|| facts.disorder())
        .or_else(|| facts.wrong_key())
        .or_else(|| unsigned(facts));
    stage.print(format_args!("{count}\n"))?;
    if let Some(wrong) = wrong {
        return Err(Error::Wrong(wrong));
    }
    let time = stage.time().as_secs_f64();
    stage.print(format_args!(
        "  The events of each device arrived in the order in which it sent them.\n  \
         Each came with one Idempotency-Key, the replayed one with the same as before.\n  \
         The payment's signature arrived as it was sent.\n  \
         All of it took {time:.1} s.\n\n\
         Now with your own devices:\n\n    \
         gatepost run --listen 0.0.0.0:8080 --forward-to https://your.example/events\n"
    ))?;
    Ok(count)
}

/// What is wrong with the signature of the payment, if anything.
fn unsigned(facts: &Facts) -> Option<String> {
    let payment = Message::payment().digest();
    let mut arrivals = facts.arrivals.iter();
    let is_signed = arrivals.any(|arrival| {
        arrival.digest == payment && arrival.signature.as_deref() == Some(Message::SIGNATURE)
    });
    (!is_signed).then(|| "the payment's signature did not arrive as it was sent".to_owned())
}
