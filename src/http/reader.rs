//! The pure part: bytes of one connection in, requests out.
//!
//! # Guarantees
//!
//! - However the bytes are cut into pieces, the same requests come out.
//! - Never reads beyond the end of a request: what follows is the caller's to keep.
//!
//! It knows no socket, no clock and no budget. When to call [`Reader::end`] because a sender has
//! closed or fallen silent, and when to give up, are the caller's decisions.

use std::net::SocketAddr;

use super::Limits;
use super::body::{Body, Room};
use super::chunked::{Chunked, Part};
use super::framing::{Framing, Length};
use super::head::{Fault, Head, Partial, begins_a_request, is_line_end, position};
use crate::event::Request;

/// Reads the requests of one connection.
#[derive(Debug)]
pub(super) struct Reader {
    peer: SocketAddr,
    state: State,
}

#[derive(Debug)]
enum State {
    Head(Partial),
    Body(Box<Incoming>),
}

/// A request whose head is complete.
#[derive(Debug)]
struct Incoming {
    head: Head,
    /// What the head takes of the memory for requests, beside the body.
    cost: usize,
    /// Whether it was given that. Until then nothing of the body is read.
    has_cost: bool,
    after: After,
    /// The sender must be told to go on, unless it does so by itself.
    owes_continue: bool,
    coding: Coding,
    body: Body,
}

#[derive(Debug)]
enum Coding {
    /// So many bytes are still to come.
    Bytes(u64),
    Chunked(Chunked),
    UntilClose,
    /// Until it is known whether what has come is a body or the next request.
    Unannounced {
        /// How many ends of lines it begins with, as far as that was looked at.
        blank: usize,
    },
}

/// How far the current request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stage {
    /// Nothing of it has come.
    Idle,
    /// Its head is incomplete.
    Head,
    /// Its body is incomplete.
    Body {
        /// How many bytes of the body have come.
        seen: u64,
        /// What it means if nothing more comes.
        silence: Silence,
    },
}

/// What it means if nothing more of a body comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Silence {
    /// Its sender said that there is more.
    Lost,
    /// It is complete; there may never have been one.
    Complete,
    /// It is complete, or the rest of it is still on its way.
    Doubtful,
}

/// A request with what its answer must know.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Complete {
    pub(super) request: Request,
    /// It is a HEAD: the answer has no body.
    pub(super) head_only: bool,
    /// The sender speaks HTTP/1.0.
    pub(super) old: bool,
    pub(super) after: After,
}

/// What comes after a request, if it is up to the sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum After {
    /// Another one.
    Another,
    /// Nothing.
    Nothing,
    /// The rest of a body that is too long to wait for.
    Rest,
}

/// What follows from the bytes that were fed.
#[derive(Debug)]
pub(super) enum Step {
    /// All was taken and more is needed.
    More,
    /// The same, and the sender waits to hear that its body is wanted.
    Continue,
    /// No more is taken before [`Reader::grant`].
    Room,
    /// A request is complete; what was not taken comes after it.
    Complete(Complete),
    /// Refuse and close: what comes cannot be understood.
    Refuse,
    /// Close without a word.
    Close,
}

impl Reader {
    pub(super) fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            state: State::Head(Partial::default()),
        }
    }

    /// Takes bytes, at most to the end of a request. Returns how many and what follows.
    pub(super) fn feed(&mut self, input: &[u8], limits: &Limits, room: Room<'_>) -> (usize, Step) {
        match &mut self.state {
            State::Head(partial) => {
                let (used, result) = partial.feed(input, limits.head_bytes);
                match result {
                    Ok(None) => (used, Step::More),
                    Ok(Some(head)) => {
                        let (more, step) = self.begin(head, &input[used..], limits, room);
                        (used + more, step)
                    }
                    Err(Fault::NotHttp) => (used, Step::Close),
                    Err(Fault::Hopeless) => (used, Step::Refuse),
                }
            }
            State::Body(incoming) => match incoming.feed(input, limits, room) {
                (used, Ok(Whole::Yes)) => (used, self.complete()),
                (used, Ok(Whole::AndBegun(next))) => {
                    let step = self.complete();
                    self.state = State::Head(next);
                    (used, step)
                }
                (used, Ok(Whole::No(step)) | Err(step)) => (used, step),
            },
        }
    }

    /// The memory that the request waited for is there, so many bytes in all.
    pub(super) fn grant(&mut self, room: usize) {
        if let State::Body(incoming) = &mut self.state {
            incoming.has_cost = true;
            incoming.body.grant(room.saturating_sub(incoming.cost));
        }
    }

    /// Nothing more will come. A body that is complete by that becomes a request, everything else
    /// is lost: it is not what its sender wanted to say.
    pub(super) fn end(&mut self) -> Step {
        match self.stage() {
            Stage::Body {
                silence: Silence::Complete | Silence::Doubtful,
                ..
            } => match self.complete() {
                Step::Complete(complete) => Step::Complete(Complete {
                    after: After::Nothing,
                    ..complete
                }),
                step => step,
            },
            _ => Step::Close,
        }
    }

    pub(super) fn stage(&self) -> Stage {
        match &self.state {
            State::Head(partial) if partial.is_empty() => Stage::Idle,
            State::Head(_) => Stage::Head,
            State::Body(incoming) => Stage::Body {
                seen: incoming.body.seen(),
                silence: match &incoming.coding {
                    Coding::Chunked(chunked) if chunked.is_whole() => Silence::Complete,
                    Coding::UntilClose if incoming.body.seen() == 0 => Silence::Complete,
                    Coding::Unannounced { .. } if incoming.is_blank() => Silence::Complete,
                    Coding::UntilClose | Coding::Unannounced { .. } => Silence::Doubtful,
                    Coding::Bytes(_) | Coding::Chunked(_) => Silence::Lost,
                },
            },
        }
    }

    /// How many bytes it can use at once: `usual` as long as it does not know better.
    ///
    /// At most `usual` more than the body has room for: what is read and must wait is not counted.
    pub(super) fn wanted(&self, usual: usize) -> usize {
        match &self.state {
            State::Body(incoming) => match incoming.coding {
                Coding::Bytes(left) => {
                    let left = usize::try_from(left).unwrap_or(usize::MAX);
                    left.min(incoming.body.free().max(usual))
                }
                _ => usual,
            },
            State::Head(_) => usual,
        }
    }

    fn begin(
        &mut self,
        head: Head,
        input: &[u8],
        limits: &Limits,
        room: Room<'_>,
    ) -> (usize, Step) {
        let Ok(framing) = Framing::of(&head) else {
            return (0, Step::Refuse);
        };
        let after = if framing.keep_alive {
            After::Another
        } else {
            After::Nothing
        };
        let (coding, declared) = match framing.length {
            Length::None => (Coding::Bytes(0), Some(0)),
            Length::Bytes(bytes) => (Coding::Bytes(bytes), Some(bytes)),
            Length::Chunked => (Coding::Chunked(Chunked::new()), None),
            Length::UntilClose => (Coding::UntilClose, None),
            Length::Unannounced => (Coding::Unannounced { blank: 0 }, None),
        };
        let mut incoming = Incoming {
            cost: head.cost(),
            has_cost: false,
            head,
            after,
            owes_continue: framing.wants_continue,
            coding,
            body: Body::new(declared, limits),
        };
        match incoming.feed(input, limits, room) {
            (used, Ok(Whole::Yes)) => {
                let step = incoming.complete(self.peer);
                (used, step)
            }
            (used, Ok(Whole::AndBegun(next))) => {
                self.state = State::Head(next);
                (used, incoming.complete(self.peer))
            }
            (used, Ok(Whole::No(step))) => {
                self.state = State::Body(Box::new(incoming));
                (used, step)
            }
            (used, Err(step)) => (used, step),
        }
    }

    fn complete(&mut self) -> Step {
        let state = std::mem::replace(&mut self.state, State::Head(Partial::default()));
        match state {
            State::Body(incoming) => incoming.complete(self.peer),
            State::Head(_) => Step::Close,
        }
    }
}

/// Whether a body is whole; if not, what follows.
enum Whole {
    Yes,
    /// There is none, and the next request has begun.
    AndBegun(Partial),
    No(Step),
}

impl Incoming {
    /// Takes bytes of the body. An error is the step that ends the connection.
    fn feed(
        &mut self,
        input: &[u8],
        limits: &Limits,
        room: Room<'_>,
    ) -> (usize, Result<Whole, Step>) {
        let cost = self.cost;
        self.has_cost = self.has_cost || room(cost);
        let room: Room<'_> = &mut |wanted| room(cost + wanted);
        let is_needed = !input.is_empty() || self.owes_continue;
        if !self.has_cost || (is_needed && !self.body.has_room(limits, room)) {
            return (0, Ok(Whole::No(Step::Room)));
        }
        if std::mem::take(&mut self.owes_continue) && input.is_empty() {
            return (0, Ok(Whole::No(Step::Continue)));
        }
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let data = match &mut self.coding {
                Coding::Bytes(left) => rest.len().min(usize::try_from(*left).unwrap_or(usize::MAX)),
                Coding::UntilClose => rest.len(),
                // Not beyond the line that decides.
                Coding::Unannounced { .. } => {
                    position(rest, b'\n').map_or(rest.len(), |end| end + 1)
                }
                Coding::Chunked(chunked) => {
                    let Ok((framing, part)) = chunked.next(rest) else {
                        return (used, Err(Step::Refuse));
                    };
                    used += framing;
                    match part {
                        Part::Data(data) => data,
                        Part::More => return (used, Ok(Whole::No(Step::More))),
                        Part::End => return (used, Ok(Whole::Yes)),
                    }
                }
            };
            let taken = self.body.take(&input[used..used + data], limits, room);
            used += taken;
            let whole = match self.took(taken, limits) {
                Ok(whole) => whole,
                Err(next) => return (used, Ok(Whole::AndBegun(next))),
            };
            if !whole && self.body.is_cut(limits) {
                self.after = After::Rest;
                return (used, Ok(Whole::Yes));
            }
            match &self.coding {
                _ if whole => return (used, Ok(Whole::Yes)),
                _ if taken < data => return (used, Ok(Whole::No(Step::Room))),
                Coding::Chunked(_) => {}
                Coding::Unannounced { .. } | Coding::UntilClose if used < input.len() => {}
                _ => return (used, Ok(Whole::No(Step::More))),
            }
        }
    }

    /// Whether it is whole after these bytes of the body; or they were the next request.
    fn took(&mut self, taken: usize, limits: &Limits) -> Result<bool, Partial> {
        match &mut self.coding {
            Coding::Bytes(left) => {
                *left -= u64::try_from(taken).unwrap_or(*left);
                return Ok(*left == 0);
            }
            Coding::Chunked(chunked) => chunked.took(taken),
            Coding::UntilClose => {}
            Coding::Unannounced { .. } => return self.decide(limits).map_or(Ok(false), Err),
        }
        Ok(false)
    }

    /// Whether what has come is a body or the next request, as far as that can be known: in the
    /// one case it is read on as such, in the other this is how that begins.
    fn decide(&mut self, limits: &Limits) -> Option<Partial> {
        let seen = usize::try_from(self.body.seen()).unwrap_or(usize::MAX);
        let kept = self.body.kept();
        let is_whole = kept.len() == seen && seen < limits.head_bytes;
        let Coding::Unannounced { blank } = &mut self.coding else {
            return None;
        };
        // Each end of a line comes by itself: to look at all of them again would take its time.
        let more = kept[*blank..].iter().take_while(|byte| is_line_end(**byte));
        *blank += more.count();
        match begins_a_request(&kept[*blank..]) {
            Some(true) if is_whole => Some(Partial::of(self.body.forget())),
            None if is_whole => None,
            _ => {
                self.coding = Coding::UntilClose;
                None
            }
        }
    }

    /// Whether nothing has come but the ends of lines, which are no body that anybody would mean.
    fn is_blank(&self) -> bool {
        matches!(self.coding, Coding::Unannounced { blank } if blank == self.body.kept().len())
    }

    fn complete(mut self, peer: SocketAddr) -> Step {
        if self.is_blank() {
            self.body.forget();
        }
        let Self { head, body, .. } = self;
        let (body, oversize) = body.finish();
        Step::Complete(Complete {
            head_only: head.method.eq_ignore_ascii_case("head"),
            old: head.old,
            after: self.after,
            request: Request {
                peer,
                method: head.method,
                target: head.target,
                headers: head.headers,
                body,
                oversize,
            },
        })
    }
}

#[cfg(test)]
mod tests;
