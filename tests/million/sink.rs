//! An upstream for a million events: it keeps no more than their names, and those of the backlog as
//! one bit each. Until it is opened it hangs up on everybody.

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::backlog;
use crate::common::PATIENCE;

/// The upstream. Its threads end with the test's process.
pub(crate) struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    arrived: Mutex<Arrived>,
    news: Condvar,
}

struct Arrived {
    is_open: bool,
    /// For each event of the backlog, by its number: whether it is there.
    backlog: Vec<bool>,
    left: usize,
    others: HashSet<String>,
}

impl Sink {
    /// One that is not open yet, for a backlog of so many events.
    pub(crate) fn closed(events: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            arrived: Mutex::new(Arrived {
                is_open: false,
                backlog: vec![false; events],
                left: events,
                others: HashSet::new(),
            }),
            news: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    /// From now on it takes everything.
    pub(crate) fn open(&self) {
        self.shared.lock().is_open = true;
    }

    /// How many events of the backlog have not come.
    pub(crate) fn left(&self) -> usize {
        self.shared.lock().left
    }

    /// Waits until an event has come that is not of the backlog.
    pub(crate) fn wait_for(&self, name: &str) {
        let missing = |arrived: &mut Arrived| !arrived.others.contains(name);
        let arrived = self.shared.lock();
        let waited = self
            .shared
            .news
            .wait_timeout_while(arrived, PATIENCE, missing);
        let waited = waited.expect("no thread panics with it").1;
        assert!(!waited.timed_out(), "{name} does not come");
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().expect("no thread panics with it")
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while let Ok((stream, _)) = listener.accept() {
            if !self.lock().is_open {
                // The other side may have been faster.
                _ = stream.shutdown(Shutdown::Both);
                continue;
            }
            let serving = Arc::clone(self);
            // The gateway hangs up when it ends.
            thread::spawn(move || _ = serving.serve(stream));
        }
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some((name, length)) = read_head(&mut reader)? {
            io::copy(&mut io::Read::take(&mut reader, length), &mut io::sink())?;
            self.lock().note(name);
            self.news.notify_all();
            let answer = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
            reader.get_mut().write_all(answer)?;
        }
        Ok(())
    }
}

impl Arrived {
    fn note(&mut self, name: String) {
        match backlog::number_of(&name) {
            Some(number) => {
                let was_there = std::mem::replace(&mut self.backlog[number], true);
                self.left -= usize::from(!was_there);
            }
            None => _ = self.others.insert(name),
        }
    }
}

/// The name of the next request's event and the length of its body; none at the end.
fn read_head(reader: &mut BufReader<TcpStream>) -> io::Result<Option<(String, u64)>> {
    let (mut name, mut length) = (String::new(), 0);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let text = line.trim_end();
        if text.is_empty() {
            return Ok(Some((name, length)));
        }
        if let Some((field, value)) = text.split_once(": ") {
            match field.to_ascii_lowercase().as_str() {
                "x-gatepost-event" => value.clone_into(&mut name),
                "content-length" => length = value.parse().map_err(io::Error::other)?,
                _ => {}
            }
        }
    }
}
