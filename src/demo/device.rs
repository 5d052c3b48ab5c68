//! A device: sends its events over a raw socket, and each again until it hears 2xx.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, never};

use super::count::{Fate, Try};
use super::message::Message;
use super::stage::News;
use super::{Error, PATIENCE};

/// How long a device waits before it tries again: real ones take seconds.
const AGAIN: Duration = Duration::from_millis(250);

/// How long a device has nothing to send after an event.
const BETWEEN_EVENTS: Duration = Duration::from_millis(150);

/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// How a device sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pace {
    /// Without a stop.
    Steady,
    /// Its first try stops half way and never goes on.
    Halting,
}

/// Sends `messages` to `to` one after the other, in a thread of its own. What happens is told to
/// `news`; the thread ends when all are acknowledged, or when nobody listens any more.
pub(super) fn send(
    messages: Vec<Message>,
    to: SocketAddr,
    mut pace: Pace,
    news: Sender<News>,
) -> Result<(), Error> {
    let work = move || {
        for message in &messages {
            loop {
                let tried = Try {
                    device: message.device,
                    name: message.name.clone(),
                    digest: message.digest(),
                    fate: fate(message, to, pace, &news),
                };
                pace = Pace::Steady;
                let done = tried.is_acknowledged();
                if news.send(News::Tried(tried)).is_err() {
                    return;
                }
                let pause = if done { BETWEEN_EVENTS } else { AGAIN };
                _ = never::<()>().recv_timeout(pause);
                if done {
                    break;
                }
            }
        }
    };
    let spawned = thread::Builder::new().name("device".to_owned()).spawn(work);
    spawned.map_err(|error| Error::System("cannot start a thread".to_owned(), error))?;
    Ok(())
}

/// What comes of one try.
fn fate(message: &Message, to: SocketAddr, pace: Pace, news: &Sender<News>) -> Fate {
    let Ok(mut stream) = TcpStream::connect_timeout(&to, PATIENCE) else {
        return Fate::Nobody;
    };
    let request = message.request(to);
    let sent = match pace {
        Pace::Steady => send_all(&mut stream, &request),
        Pace::Halting => send_all(&mut stream, &request[..request.len() / 2]).inspect(|()| {
            // A listener that has left is noticed when the end of the try is told.
            _ = news.send(News::HalfSent(message.device));
        }),
    };
    let heard = sent.and_then(|()| hear(&mut stream));
    match heard.map(|answer| parse(&answer)) {
        Ok(Some((status, body))) => Fate::Answered { status, body },
        Ok(None) => Fate::Broken("no answer".to_owned()),
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {
            Fate::Broken("the connection broke".to_owned())
        }
        Err(error) => Fate::Broken(error.to_string()),
    }
}

fn send_all(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)
}

/// All that comes until the gateway closes.
fn hear(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Status and body of an answer, if it is whole.
fn parse(answer: &[u8]) -> Option<(u16, String)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length: usize = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    })?;
    (body.len() == length).then(|| (status, body.trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use crossbeam_channel::unbounded;

    use super::*;

    #[test]
    fn an_answer_counts_only_when_it_is_whole() {
        let whole = "HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\n{}\n";
        assert_eq!(parse(whole.as_bytes()), Some((202, "{}".to_owned())));
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn a_device_repeats_until_it_hears_2xx() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let to = listener.local_addr().expect("it is bound");
        let (news, told) = unbounded();
        send(vec![Message::camera(1)], to, Pace::Halting, news).expect("a thread can be started");
        let answers = [
            "",
            "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 20",
        ];
        let last = "HTTP/1.1 202 Yes\r\nContent-Length: 0\r\n\r\n";
        for answer in answers.into_iter().chain([last]) {
            let (mut stream, _) = listener.accept().expect("the device comes");
            if !answer.is_empty() {
                let length = Message::camera(1).request(to).len();
                let mut request = vec![0; length];
                stream.read_exact(&mut request).expect("it is whole");
                stream.write_all(answer.as_bytes()).expect("it is there");
            }
        }
        let fates: Vec<Fate> = told
            .iter()
            .filter_map(|news| match news {
                News::Tried(tried) => Some(tried.fate),
                _ => None,
            })
            .collect();
        let answered = |status| Fate::Answered {
            status,
            body: String::new(),
        };
        assert_eq!(fates.len(), 4, "{fates:?}");
        assert!(matches!(fates[0], Fate::Broken(_)), "{fates:?}");
        assert_eq!(fates[1], answered(503));
        assert_eq!(fates[2], Fate::Broken("no answer".to_owned()));
        assert_eq!(fates[3], answered(202));
    }
}
