//! The loop: waits for sockets, answers and deadlines, and gives each connection its turns.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::SockRef;

use super::answers::{Answers, Batch, Shared};
use super::budget::{Budget, Held};
use super::connection::{Input, Phase};
use super::connections::Connections;
use super::reply::Date;
use super::{Answer, Error, Limits, Ticket};
use crate::clock::{Clock, Moment};
use crate::event::Request;

/// The wake from another thread. Slots count from 0, listeners from the other end.
const WAKE: Token = Token(usize::MAX);

/// How many senders may wait to be let in. One more is not heard, and tries again after 1 s, 3 s
/// and 7 s (RFC 6298 section 2): after a power cut all of a site come at once. The kernel's own
/// limit, `net.core.somaxconn`, is 4096.
const BACKLOG: i32 = 1024;

/// How many readiness events are taken at once.
const EVENTS: usize = 1024;

/// How much is read at once, at most: one turn of one connection.
const SCRATCH: usize = 64 * 1024;

/// One listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    address: SocketAddr,
    /// Whether somebody may wait in its backlog. The kernel says so only once.
    pub(super) ready: bool,
}

/// All device connections and what is needed to serve them.
pub(super) struct Loop {
    pub(super) poll: Poll,
    pub(super) listeners: Vec<Listener>,
    answers: Answers,
    queue: Receiver<Batch>,
    shared: Arc<Shared>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limits: Limits,
    pub(super) requests: Sender<Vec<(Ticket, Request)>>,
    pub(super) connections: Connections,
    pub(super) budget: Budget,
    /// What the requests hold whose senders left before they were answered.
    pub(super) orphans: HashMap<u64, Held>,
    /// Connections with something to do in the next turn.
    pub(super) ready: Vec<usize>,
    /// Requests that became complete in this turn.
    pub(super) batch: Vec<(Ticket, Request)>,
    pub(super) scratch: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) date: Date,
    /// The number of the last ticket.
    pub(super) number: u64,
    /// What time it was when this turn began.
    pub(super) now: Moment,
    /// No deadline is earlier than this.
    pub(super) next_due: Option<Moment>,
    /// Nobody is accepted before this.
    pub(super) accept_again: Option<Moment>,
    pub(super) draining: bool,
    pub(super) refusing: bool,
}

impl Loop {
    pub(super) fn new(
        addresses: &[SocketAddr],
        limits: Limits,
        clock: Arc<dyn Clock>,
        requests: Sender<Vec<(Ticket, Request)>>,
    ) -> Result<Self, Error> {
        let poll = Poll::new().map_err(Error::Poll)?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(Error::Poll)?;
        let (answers, queue, shared) = Answers::new(waker);
        let mut listeners = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            let listener = listen(*address, &poll, index);
            listeners.push(listener.map_err(|source| Error::Listen {
                address: *address,
                source,
            })?);
        }
        let longest = limits.longest_request();
        Ok(Self {
            poll,
            listeners,
            answers,
            queue,
            connections: Connections::new(Arc::clone(&shared)),
            shared,
            now: clock.moment(),
            clock,
            budget: Budget::new(limits.body_memory, longest),
            limits,
            requests,
            orphans: HashMap::new(),
            ready: Vec::new(),
            batch: Vec::new(),
            scratch: vec![0; SCRATCH],
            out: Vec::new(),
            date: Date::default(),
            number: 0,
            next_due: None,
            accept_again: None,
            draining: false,
            refusing: false,
        })
    }

    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.listeners.iter();
        addresses.map(|listener| listener.address).collect()
    }

    pub(super) fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// Turns until it is told to stop.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS);
        let mut more = false;
        loop {
            let timeout = if more {
                Some(Duration::ZERO)
            } else {
                self.pause()
            };
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::Poll(error)),
            }
            self.now = self.clock.moment();
            for event in &events {
                self.note(event);
            }
            self.follow_orders();
            if self.shared.stopping.load(Ordering::SeqCst) {
                return Ok(());
            }
            self.turns();
            self.deadlines();
            self.hand_on();
            let waiting = self.accept();
            if self.draining {
                self.close_idle();
                if self.connections.len() == 0 {
                    return Ok(());
                }
            }
            more = waiting || !self.ready.is_empty();
        }
    }

    /// How long nothing needs to be done unless something happens.
    fn pause(&self) -> Option<Duration> {
        let accept_again = self.accept_again.filter(|_| !self.draining);
        let next = self.next_due.into_iter().chain(accept_again).min()?;
        // The kernel counts in whole milliseconds, and waking too early is a turn for nothing.
        Some(next.since(self.now) + Duration::from_millis(1))
    }

    /// Remembers what the kernel says once.
    fn note(&mut self, event: &Event) {
        let Token(token) = event.token();
        if event.token() == WAKE {
            return;
        }
        let index = usize::MAX - 1 - token;
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.ready = true;
            return;
        }
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let gone = event.is_error() || (event.is_read_closed() && event.is_write_closed());
        let input = match event.is_readable() {
            _ if gone || event.is_read_closed() => Input::Last,
            true => Input::Some,
            false => Input::None,
        };
        connection.input = connection.input.max(input);
        match connection.phase {
            // Nobody is left to hear the answer.
            Phase::Waiting(_) | Phase::Writing { .. } | Phase::Room { .. } if gone => {
                self.close(token);
            }
            _ => {
                if event.is_writable() && !connection.is_flushed() {
                    self.flush(token);
                }
                self.plan(token);
            }
        }
    }

    /// Does what [`Answers`] was asked for.
    fn follow_orders(&mut self) {
        self.shared.seen();
        if self.shared.draining.load(Ordering::SeqCst) && !self.draining {
            self.draining = true;
            self.listeners.clear();
        }
        while let Ok(answers) = self.queue.try_recv() {
            for (ticket, answer) in answers {
                self.answer(ticket, &answer);
            }
        }
        if self.shared.refusing.load(Ordering::SeqCst) && !self.refusing {
            self.refusing = true;
            self.refuse_waiting();
        }
    }

    /// Gives each connection that has something to do one turn. Who then has more to do gets
    /// another one in the next turn of the loop, after everybody else.
    fn turns(&mut self) {
        for slot in std::mem::take(&mut self.ready) {
            if let Some(connection) = self.connections.get(slot) {
                connection.queued = false;
                self.turn(slot);
                self.plan(slot);
            }
        }
    }

    /// Plans a turn for a connection that has something to do.
    pub(super) fn plan(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        if let Some(due) = connection.due {
            self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
        }
        if !connection.queued && connection.has_work() {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    /// Ends what has lasted too long.
    fn deadlines(&mut self) {
        if self.next_due.is_none_or(|due| self.now < due) {
            return;
        }
        let now = self.now;
        let all = self.connections.iter();
        let late: Vec<usize> = all
            .filter(|(_, connection)| connection.due.is_some_and(|due| due <= now))
            .map(|(slot, _)| slot)
            .collect();
        for slot in late {
            self.expire(slot);
        }
        let all = self.connections.iter();
        self.next_due = all.filter_map(|(_, connection)| connection.due).min();
    }

    /// Sends the requests of this turn on; refuses them if nobody takes them.
    fn hand_on(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        if let Err(error) = self.requests.try_send(batch) {
            for (ticket, _) in error.into_inner() {
                self.answer(ticket, &Answer::refusal());
            }
        }
    }

    fn close_idle(&mut self) {
        let all = self.connections.iter();
        let idle: Vec<usize> = all
            .filter(|(_, connection)| connection.idle_since().is_some())
            .map(|(slot, _)| slot)
            .collect();
        for slot in idle {
            self.close(slot);
        }
    }
}

fn listen(address: SocketAddr, poll: &Poll, index: usize) -> std::io::Result<Listener> {
    let mut socket = TcpListener::bind(address)?;
    // Once more, since mio asks for 128. Source: listen(2).
    SockRef::from(&socket).listen(BACKLOG)?;
    let address = socket.local_addr()?;
    let token = Token(usize::MAX - 1 - index);
    poll.registry()
        .register(&mut socket, token, Interest::READABLE)?;
    Ok(Listener {
        socket,
        address,
        ready: false,
    })
}
