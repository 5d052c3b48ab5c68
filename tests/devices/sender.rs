//! A sender on a raw socket. Whatever it hears is held to what every answer promises.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::common::PATIENCE;

/// One connection.
pub(crate) struct Sender {
    reader: BufReader<TcpStream>,
    /// Whether the gateway's clock is known to be right.
    clock_certain: bool,
}

/// What it heard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    /// Status line and header lines.
    pub(crate) head: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

impl Sender {
    pub(crate) fn connect(address: SocketAddr, clock_certain: bool) -> Self {
        let stream = TcpStream::connect(address).expect("the gateway listens");
        let option = "a socket takes that";
        stream.set_read_timeout(Some(PATIENCE)).expect(option);
        stream.set_write_timeout(Some(PATIENCE)).expect(option);
        stream.set_nodelay(true).expect(option);
        Self {
            reader: BufReader::new(stream),
            clock_certain,
        }
    }

    /// Sends all of it at once.
    pub(crate) fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let stream = self.reader.get_mut();
        stream.write_all(bytes.as_ref()).expect("the gateway reads");
    }

    /// Sends it in pieces of these sizes, over and over, each a packet of its own. Stops when the
    /// gateway has closed.
    pub(crate) fn drip(&mut self, bytes: &[u8], sizes: impl IntoIterator<Item = usize>) {
        let mut rest = bytes;
        for size in sizes {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            if piece.is_empty() || self.reader.get_mut().write_all(piece).is_err() {
                return;
            }
            rest = after;
        }
    }

    /// Says that nothing more will come.
    pub(crate) fn end(&mut self) {
        let shut = self.reader.get_ref().shutdown(Shutdown::Write);
        // The gateway may have closed before.
        assert!(shut.is_ok() || shut.is_err_and(|error| error.kind() == ErrorKind::NotConnected));
    }

    /// Reads one answer, and what is said before it to a sender that expects it.
    pub(crate) fn hear(&mut self, what: &str) -> Heard {
        let mut heard = self.hear_head(what);
        let length = value(&heard.head, "Content-Length").expect("every answer has a length");
        let mut body = vec![0; length.parse().expect("it is a number")];
        self.reader.read_exact(&mut body).expect("the body comes");
        heard.body = String::from_utf8(body).expect("answers are text");
        assert!(!heard.body.is_empty(), "{heard:?}");
        heard
    }

    /// The same for an answer without a body: that to a HEAD.
    pub(crate) fn hear_head(&mut self, what: &str) -> Heard {
        let mut head = self.head(what);
        if head.starts_with("HTTP/1.1 100 ") {
            assert_eq!(head, "HTTP/1.1 100 Continue\r\n\r\n");
            head = self.head(what);
        }
        self.check(&head);
        let status = head[9..12].parse().expect("a status is a number");
        let content_type = value(&head, "Content-Type").unwrap_or_default();
        Heard {
            status,
            content_type: content_type.to_owned(),
            body: String::new(),
            head,
        }
    }

    /// Asserts that the gateway has closed, or closes, without another word.
    pub(crate) fn is_closed(&mut self, what: &str) {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => {}
            // Of what is not HTTP not all was read.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => unreachable!("{what}: not closed: {error}"),
        }
        assert_eq!(String::from_utf8_lossy(&rest), "", "{what}");
    }

    /// Reads the head of an answer.
    pub(crate) fn head(&mut self, what: &str) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.reader.read_line(&mut head);
            let count = read.unwrap_or_else(|error| unreachable!("{what}: no answer: {error}"));
            assert_ne!(count, 0, "{what}: closed after {head:?}");
        }
        head
    }

    /// What holds of every answer: never 204, always a length that is not 0 and a media type, a
    /// date only by a clock that is right, and nothing but 2xx and 503.
    fn check(&self, head: &str) {
        let is_one_of = |known: [&str; 3]| known.iter().any(|known| head.starts_with(known));
        let known = ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 202 Accepted\r\n"];
        let refused = "HTTP/1.1 503 Service Unavailable\r\n";
        assert!(is_one_of([known[0], known[1], refused]), "{head}");
        let count = |name: &str| head.matches(&format!("\r\n{name}: ")).count();
        let counts = (count("Content-Length"), count("Content-Type"));
        assert_eq!(counts, (1, 1), "{head}");
        assert_ne!(value(head, "Content-Length"), Some("0"), "{head}");
        assert_eq!(count("Date"), usize::from(self.clock_certain), "{head}");
        let is_refusal = head.starts_with(refused);
        assert_eq!(count("Retry-After"), usize::from(is_refusal), "{head}");
    }
}

/// The value of a header of an answer.
fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
