//! Small servers that do what real ones do.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// No socket of a server waits longer, so that no test hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// What a server does with a connection; gets its number, from 0.
pub(crate) type Script = fn(&mut Peer, usize) -> io::Result<()>;

/// A server's side of a connection.
pub(crate) struct Peer {
    pub(crate) reader: BufReader<TcpStream>,
    seen: Sender<Seen>,
    number: usize,
    told: Rc<Receiver<()>>,
}

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Over which connection, from 0.
    pub(crate) connection: usize,
    /// Request line and header lines, without line ends.
    pub(crate) head: Vec<Vec<u8>>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn value(&self, name: &str) -> Option<&[u8]> {
        let start = format!("{name}: ");
        let line = self
            .head
            .iter()
            .find(|line| line.starts_with(start.as_bytes()))?;
        Some(&line[start.len()..])
    }
}

impl Peer {
    /// Reads one request whole.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        let mut head = Vec::new();
        loop {
            let mut line = Vec::new();
            self.reader.read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_ascii_end().to_vec();
            if line.is_empty() {
                break;
            }
            head.push(line);
        }
        let mut seen = Seen {
            connection: self.number,
            head,
            body: Vec::new(),
        };
        let length = seen
            .value("content-length")
            .expect("the client always sends one");
        let length = std::str::from_utf8(length)
            .expect("digits")
            .parse()
            .expect("a number");
        seen.body.resize(length, 0);
        self.reader.read_exact(&mut seen.body)?;
        self.seen.send(seen).map_err(io::Error::other)
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    pub(crate) fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.read()?;
        self.write(bytes)
    }

    /// Waits until the test says [`Server::go_on`].
    pub(crate) fn wait(&self) -> io::Result<()> {
        self.wait_for(PATIENCE)
    }

    /// Waits for that, and no longer than `limit`, which makes it a slow server.
    pub(crate) fn wait_for(&self, limit: Duration) -> io::Result<()> {
        self.told.recv_timeout(limit).map_err(io::Error::other)
    }

    /// Waits until the client has gone.
    pub(crate) fn outlast(&mut self) -> io::Result<()> {
        io::copy(&mut self.reader, &mut io::sink()).map(|_| ())
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Receiver<Seen>,
    tell: Sender<()>,
}

impl Server {
    /// Serves `connections`, one after the other, and ends.
    pub(crate) fn start(connections: usize, script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let (sender, seen) = channel();
        let (tell, told) = channel();
        thread::spawn(move || {
            let told = Rc::new(told);
            for number in 0..connections {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                _ = stream.set_read_timeout(Some(PATIENCE));
                _ = stream.set_write_timeout(Some(PATIENCE));
                let seen = sender.clone();
                let mut peer = Peer {
                    reader: BufReader::new(stream),
                    seen,
                    number,
                    told: Rc::clone(&told),
                };
                // A client that goes away is part of many tests.
                _ = script(&mut peer, number);
            }
        });
        Self {
            address,
            seen,
            tell,
        }
    }

    /// Lets one script go on that waits, or is going to.
    pub(crate) fn go_on(&self) {
        self.tell.send(()).expect("the server still runs");
    }

    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).expect("a request arrives")
    }
}
