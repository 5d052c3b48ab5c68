//! A device: one keep-alive connection on which it sends events and reads the answers.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// One device.
pub(crate) struct Device(BufReader<TcpStream>);

/// What it heard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Status line and header lines.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The body of a plain event.
pub(crate) fn event(device: &str, id: &str) -> String {
    format!("{{\"deviceId\":\"{device}\",\"eventId\":\"{id}\",\"event\":\"door opened\"}}")
}

/// A whole request. `headers` are lines, each with its line end.
pub(crate) fn post(target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("POST {target} HTTP/1.1\r\nHost: site\r\n{headers}");
    let head = head + &format!("Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

impl Device {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).expect("the gateway listens")
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends bytes, whatever they are.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)
    }

    /// Reads one answer.
    pub(crate) fn hear(&mut self) -> io::Result<Answer> {
        answer_from(&mut self.0)
    }

    /// Sends a body as JSON and reads the answer.
    pub(crate) fn try_send(&mut self, body: &str) -> io::Result<Answer> {
        let json = "Content-Type: application/json\r\n";
        self.say(&post("/ingest/door", json, body.as_bytes()))?;
        self.hear()
    }

    /// The same, where nothing may go wrong.
    pub(crate) fn send(&mut self, body: &str) -> Answer {
        self.try_send(body).expect("the gateway answers")
    }

    /// The same, where it must be taken as new.
    pub(crate) fn deliver(&mut self, device: &str, id: &str) {
        let answer = self.send(&event(device, id));
        assert_eq!(answer.status, 202, "{id}: {answer:?}");
    }
}

/// Reads one answer: its head and as much body as that says.
pub(crate) fn answer_from(reader: &mut BufReader<impl Read>) -> io::Result<Answer> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let wrong = || io::Error::other(format!("not an answer: {head:?}"));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(wrong)?;
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "));
    let length = length.and_then(|length| length.parse().ok());
    let mut body = vec![0; length.ok_or_else(wrong)?];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).map_err(io::Error::other)?;
    Ok(Answer { status, head, body })
}
