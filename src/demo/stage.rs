//! The stage: who says what is printed as it happens, and kept as a fact.
//!
//! Gateway, upstream and devices have threads of their own, which only ever send [`News`]. The
//! one thread that tells the story takes them while it waits for something.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, select, unbounded};

use super::count::{Arrival, Facts, Fate, Try};
use super::{Error, PATIENCE};
use crate::clock::{Clock as _, Moment, SystemClock};
use crate::daemon;
use crate::event::Digest;

/// How many of the gateway's last lines explain why a story did not end well.
const LAST_LINES: usize = 15;

/// The most characters of what a device heard that are printed: a line of a terminal.
const LONGEST_ANSWER: usize = 90;

/// How long a reader has before a chapter begins.
const BETWEEN_CHAPTERS: Duration = Duration::from_secs(1);

/// How often something is looked at that does not tell by itself.
const LOOK: Duration = Duration::from_millis(50);

/// Something that happened.
pub(super) enum News {
    /// The gateway logged a line.
    Logged(String),
    /// The gateway ended, and nobody had killed it.
    GatewayEnded,
    /// A device tried to send an event, and this came of it.
    Tried(Try),
    /// A device has sent half of an event and goes on in its own time.
    HalfSent(&'static str),
    /// The upstream has answered a delivery. With what the story says of it, if anything.
    Arrived(Arrival, Option<String>),
    /// A signal.
    Interrupted,
}

/// Where the story is told.
pub(super) struct Stage<'a> {
    out: &'a mut dyn Write,
    clock: SystemClock,
    sender: Sender<News>,
    news: Receiver<News>,
    facts: Facts,
}

impl<'a> Stage<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        let (sender, news) = unbounded();
        Self {
            out,
            clock: SystemClock::new(),
            sender,
            news,
            facts: Facts::default(),
        }
    }

    /// Lets SIGTERM and SIGINT end the story, from now on.
    pub(super) fn heed_signals(&self) -> Result<(), Error> {
        daemon::watch_signals(self.sender(), || News::Interrupted).map_err(Error::Signals)
    }

    /// Where news go.
    pub(super) fn sender(&self) -> Sender<News> {
        self.sender.clone()
    }

    /// What has happened so far.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// A body was found in quarantine.
    pub(super) fn keep_in_quarantine(&mut self, digest: Digest) {
        self.facts.quarantine.insert(digest);
    }

    /// How long the story has lasted.
    pub(super) fn time(&self) -> Duration {
        self.clock.moment().since(Moment::START)
    }

    /// A new chapter, with what is about to happen.
    pub(super) fn chapter(&mut self, title: &str, text: &str) -> Result<(), Error> {
        self.rest(BETWEEN_CHAPTERS)?;
        self.print(format_args!("\n{title}\n{text}\n\n"))
    }

    /// Somebody says or does something.
    pub(super) fn say(&mut self, who: &str, what: impl fmt::Display) -> Result<(), Error> {
        let time = self.time().as_secs_f64();
        self.print(format_args!("{time:6.2} s  {who:<8} | {what}\n"))
    }

    /// Something that is not part of the story's lines, as it is.
    pub(super) fn print(&mut self, text: fmt::Arguments<'_>) -> Result<(), Error> {
        let written = self.out.write_fmt(text);
        written
            .and_then(|()| self.out.flush())
            .map_err(Error::Output)
    }

    /// Tells what happens until `is` holds. `awaited` completes "waited in vain for".
    pub(super) fn wait_for(
        &mut self,
        awaited: &str,
        is: impl Fn(&Facts) -> bool,
    ) -> Result<(), Error> {
        let too_late = after(PATIENCE);
        while !is(&self.facts) {
            let news = select! {
                recv(self.news) -> news => news.ok(),
                recv(too_late) -> _ => None,
            };
            let news = news.ok_or_else(|| Error::Awaited(awaited.to_owned()))?;
            self.take(news)?;
        }
        Ok(())
    }

    /// The same for something that has to be looked at.
    pub(super) fn look_for(
        &mut self,
        awaited: &str,
        is: impl Fn() -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let end = self.time() + PATIENCE;
        while !is()? {
            if end < self.time() {
                return Err(Error::Awaited(awaited.to_owned()));
            }
            self.rest(LOOK)?;
        }
        Ok(())
    }

    /// Tells what happens for so long. Only for readers: nothing may depend on it.
    pub(super) fn rest(&mut self, pause: Duration) -> Result<(), Error> {
        let end = after(pause);
        while let Some(news) = select! {
            recv(self.news) -> news => news.ok(),
            recv(end) -> _ => None,
        } {
            self.take(news)?;
        }
        Ok(())
    }

    /// What is missing and what the gateway said last, for a story that did not end well.
    pub(super) fn last_words(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            if let News::Logged(line) = news {
                self.facts.log.push(line);
            }
        }
        let log = std::mem::take(&mut self.facts.log);
        let last = &log[log.len().saturating_sub(LAST_LINES)..];
        // The story has an error already, and another one would hide it.
        if let Some(names) = self.facts.lost() {
            let text = "acknowledged, and seen neither upstream nor in quarantine by now";
            _ = self.print(format_args!("\n{text}:\n  {names}\n"));
        }
        _ = self.print(format_args!("\nwhat the gateway said last:\n"));
        for line in last {
            _ = self.print(format_args!("  {line}\n"));
        }
    }

    fn take(&mut self, news: News) -> Result<(), Error> {
        match news {
            News::Logged(line) => {
                self.say("gateway", &line)?;
                self.facts.log.push(line);
            }
            News::GatewayEnded => return Err(Error::GatewayEnded),
            News::Interrupted => return Err(Error::Interrupted),
            News::HalfSent(device) => {
                self.say(device, "has sent the first half of its picture …")?;
                self.facts.half_sent = true;
            }
            News::Tried(tried) => {
                let what = match &tried.fate {
                    Fate::Nobody => "nobody there, trying again".to_owned(),
                    Fate::Broken(why) => format!("{why}, trying again"),
                    Fate::Answered { status, body } => format!("{status} {}", cut(body)),
                };
                self.say(tried.device, format_args!("{} -> {what}", tried.name))?;
                self.facts.tries.push(tried);
            }
            News::Arrived(arrival, said) => {
                if let Some(said) = said {
                    self.say("upstream", said)?;
                }
                self.facts.arrivals.push(arrival);
            }
        }
        Ok(())
    }
}

/// As much of `text` as fits into a line.
fn cut(text: &str) -> String {
    let mut characters = text.chars();
    let mut cut: String = characters.by_ref().take(LONGEST_ANSWER).collect();
    if characters.next().is_some() {
        cut.push('…');
    }
    cut
}
