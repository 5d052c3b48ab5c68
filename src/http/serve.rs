//! What becomes of one connection: its turns, its requests, its answers, its end.

use super::connection::{Connection, Heard, Phase, Then, Waiting};
use super::reader::{After, Complete, Reader, Step};
use super::reply::{self, Manner};
use super::server::Loop;
use super::{Answer, Ticket};

/// Above that the memory an answer was written in is not kept for the next one.
const LARGE_ANSWER: usize = 64 * 1024;

impl Loop {
    /// One turn: at most one read, at most one request.
    pub(super) fn turn(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        match connection.phase {
            Phase::Reading if connection.granted || !connection.rest.is_empty() => {
                connection.granted = false;
                let mut rest = std::mem::take(&mut connection.rest);
                let (used, step) = self.feed(slot, &rest);
                rest.drain(..used);
                self.keep(slot, rest);
                self.follow(slot, step);
            }
            Phase::Reading if connection.is_readable() => self.read(slot),
            Phase::Lingering if connection.is_readable() => {
                if matches!(connection.hear(&mut self.scratch), Heard::End | Heard::Lost) {
                    self.close(slot);
                }
            }
            _ => {}
        }
    }

    fn read(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        match connection.hear(&mut self.scratch) {
            Heard::Bytes(count) => {
                let scratch = std::mem::take(&mut self.scratch);
                let (used, step) = self.feed(slot, &scratch[..count]);
                if used < count {
                    self.keep(slot, scratch[used..count].to_vec());
                }
                self.scratch = scratch;
                self.follow(slot, step);
            }
            Heard::Nothing => {}
            Heard::End => {
                let step = connection.reader.end();
                self.follow(slot, step);
            }
            Heard::Lost => self.close(slot),
        }
    }

    /// Feeds the reader and keeps its clock.
    fn feed(&mut self, slot: usize, input: &[u8]) -> (usize, Step) {
        let Some(connection) = self.connections.get(slot) else {
            return (input.len(), Step::Close);
        };
        let Connection { reader, held, .. } = connection;
        let earlier = reader.stage();
        let budget = &mut self.budget;
        let fed = reader.feed(input, &self.limits, &mut |wanted| {
            budget.ask(slot, held, wanted)
        });
        connection.progressed(earlier, self.now, &self.limits);
        fed
    }

    /// Keeps what comes after the current request.
    fn keep(&mut self, slot: usize, rest: Vec<u8>) {
        if let Some(connection) = self.connections.get(slot)
            && !rest.is_empty()
        {
            connection.rest = rest;
        }
    }

    /// Does what follows from the bytes of this turn.
    fn follow(&mut self, slot: usize, step: Step) {
        match step {
            Step::More => {}
            Step::Continue => {
                if let Some(connection) = self.connections.get(slot)
                    && connection.say(reply::CONTINUE).is_err()
                {
                    self.close(slot);
                }
            }
            Step::Room => self.wait_for_room(slot),
            Step::Complete(complete) => self.complete(slot, complete),
            Step::Refuse => self.refuse(slot),
            Step::Close => self.close(slot),
        }
    }

    fn complete(&mut self, slot: usize, complete: Complete) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        self.number += 1;
        let ticket = Ticket {
            slot,
            number: self.number,
        };
        let waiting = Waiting {
            number: ticket.number,
            head_only: complete.head_only,
            old: complete.old,
            after: complete.after,
        };
        connection.phase = Phase::Waiting(waiting);
        connection.due = None;
        if self.refusing {
            self.answer(ticket, &Answer::refusal());
        } else {
            self.batch.push((ticket, complete.request));
        }
    }

    /// Answers the request of `ticket`, if it still waits.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: &Answer) {
        if let Some(held) = self.orphans.remove(&ticket.number) {
            self.budget.release(held);
            self.give_room();
            return;
        }
        let Some(connection) = self.connections.get(ticket.slot) else {
            return;
        };
        let Phase::Waiting(waiting) = connection.phase else {
            return;
        };
        if waiting.number != ticket.number {
            return;
        }
        let manner = Manner {
            head_only: waiting.head_only,
            close: answer.close || self.draining || waiting.after != After::Another,
            old: waiting.old,
        };
        let then = match manner.close {
            true if waiting.after == After::Rest => Then::Linger,
            true => Then::Close,
            false => Then::Read,
        };
        self.say(ticket.slot, answer, manner, then);
    }

    /// Answers everybody who waits that nothing is kept.
    pub(super) fn refuse_waiting(&mut self) {
        let all = self.connections.iter();
        let waiting: Vec<Ticket> = all
            .filter_map(|(slot, connection)| match connection.phase {
                Phase::Waiting(Waiting { number, .. }) => Some(Ticket { slot, number }),
                _ => None,
            })
            .collect();
        for ticket in waiting {
            self.answer(ticket, &Answer::refusal());
        }
        for (_, held) in std::mem::take(&mut self.orphans) {
            self.budget.release(held);
        }
        self.give_room();
    }

    /// What has lasted too long ends.
    pub(super) fn expire(&mut self, slot: usize) {
        let now = self.now;
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        // The end of another one may have helped it meanwhile.
        if connection.due.is_none_or(|due| now < due) {
            return;
        }
        match connection.phase {
            Phase::Reading if connection.ended_in_silence(now, &self.limits) => {
                let step = connection.reader.end();
                self.follow(slot, step);
            }
            Phase::Room { .. } => self.end_wait(slot),
            _ => self.close(slot),
        }
    }

    /// Somebody has waited for memory as long as it may. Who leaves large memory unused makes room
    /// for it; if nobody does, it is refused itself.
    fn end_wait(&mut self, slot: usize) {
        while let Some(connection) = self.connections.get(slot)
            && matches!(connection.phase, Phase::Room { .. })
        {
            let silent = self.connections.most_silent(self.now, self.limits.stalled);
            self.refuse(silent.unwrap_or(slot));
        }
    }

    /// Ends a connection at once.
    pub(super) fn close(&mut self, slot: usize) {
        let Some(connection) = self.connections.remove(slot) else {
            return;
        };
        match connection.phase {
            // The request is still in somebody's hands, so its memory is not free yet.
            Phase::Waiting(Waiting { number, .. }) => {
                self.orphans.insert(number, connection.held);
            }
            _ => self.budget.release(connection.held),
        }
        self.budget.forget(slot);
        drop(connection);
        self.give_room();
    }

    /// Takes from the sender what it has not taken yet of its answer.
    pub(super) fn flush(&mut self, slot: usize) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        if connection.flush().is_err() {
            self.close(slot);
        } else if connection.is_flushed()
            && let Phase::Writing { then } = connection.phase
        {
            self.said(slot, then);
        }
    }

    /// Refuses what cannot be read to its end, and closes.
    fn refuse(&mut self, slot: usize) {
        self.budget.forget(slot);
        if let Some(connection) = self.connections.get(slot) {
            // What it has of a body goes now, since its memory is given to others.
            connection.reader = Reader::new(connection.peer);
        }
        let manner = Manner {
            head_only: false,
            close: true,
            old: false,
        };
        self.say(slot, &Answer::refusal(), manner, Then::Linger);
    }

    fn say(&mut self, slot: usize, answer: &Answer, manner: Manner, then: Then) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let date = self.date.at(self.now, self.clock.as_ref());
        self.out.clear();
        reply::write(&mut self.out, answer, date, manner);
        let held = std::mem::take(&mut connection.held);
        // Whatever happens from here on, its request has its answer: it must not be taken for one
        // whose sender has left.
        connection.go(Phase::Writing { then }, self.now, &self.limits);
        if connection.say(&self.out).is_err() {
            self.close(slot);
        } else if connection.is_flushed() {
            self.said(slot, then);
        } else {
            self.plan(slot);
        }
        if self.out.capacity() > LARGE_ANSWER {
            self.out = Vec::new();
        }
        if !held.is_nothing() {
            self.budget.release(held);
            self.give_room();
        }
    }

    /// The sender has taken its answer.
    fn said(&mut self, slot: usize, then: Then) {
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let unread = connection.is_readable() || !connection.rest.is_empty();
        match then {
            Then::Read => connection.go(Phase::Reading, self.now, &self.limits),
            Then::Close if !unread => return self.close(slot),
            Then::Close | Then::Linger => {
                if connection.hang_up().is_err() {
                    return self.close(slot);
                }
                connection.rest = Vec::new();
                connection.go(Phase::Lingering, self.now, &self.limits);
            }
        }
        self.plan(slot);
    }

    fn wait_for_room(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot) {
            let began = connection.since();
            connection.go(Phase::Room { began }, self.now, &self.limits);
        }
    }

    /// Lets those go on whose memory has become free.
    fn give_room(&mut self) {
        while let Some((slot, held, room)) = self.budget.next() {
            if let Some(connection) = self.connections.get(slot) {
                connection.held = held;
                connection.reader.grant(room);
                connection.resume(self.now, &self.limits);
                self.plan(slot);
            } else {
                self.budget.release(held);
            }
        }
    }
}
