//! gatepost: an on-site event gateway.
//!
//! It takes the events that the devices of a site push, has each one on disk before it answers,
//! and delivers them upstream until that succeeds.
//!
//! # The seven rooms of an event's way
//!
//! ```text
//! device ─► http ─► ingest ─► commit ─► store     one sync for all who wait; then the answers
//!                               ▲         │
//!                       settled │         │ seq, destination, lane
//!                               │         ▼
//!                            dispatch: whose turn is it, and may it be tried?
//!                               ▲         │
//!                       outcome │         ▼
//! upstream ◄────────────── upstream ◄─ deliver
//! ```
//!
//! 1. [`http`] reads what devices really send and hands on whole requests, one at a time for each
//!    connection. It knows no routes.
//! 2. [`ingest`] finds the route and the ids, decides between delivery and quarantine, and words
//!    the answer.
//! 3. [`commit`] is the only writer: new events, settlements and operators' wishes of a moment
//!    become one transaction and one sync. Only then does anybody hear of it.
//! 4. [`store`] is one redb file: immutable events, what waits, what is dead, what happened.
//! 5. [`dispatch`] decides which delivery is tried next ([`lanes`], [`health`], [`pace`]) and what
//!    follows from an attempt ([`retry`]).
//! 6. [`deliver`] builds the request and makes one attempt.
//! 7. [`upstream`] carries it over the network and says what came of it.
//!
//! # What holds everywhere
//!
//! - A non-2xx answer means "I do not have your bytes, send them again", and nothing else.
//! - Acknowledged means on disk. There is no mode in which it does not.
//! - An event ends delivered, discarded by an operator, or expired by a rule that an operator
//!   wrote. A dead letter and a quarantine are places to wait, not ends.
//! - An outage costs no event its attempts. Only an answer that blames the event counts.
//! - A panic or a failed store ends the process. It is started again, and nothing was lost.
//!
//! # Where a line belongs
//!
//! A module uses only modules above it in this table; `tests/tidy.rs` holds the exact arrows.
//!
//! | | |
//! |---|---|
//! | words | [`clock`] [`rng`] [`event`] [`delivery`] [`audit`]: plain data |
//! | rules | [`retry`] [`health`] [`pace`] [`lanes`] [`select`] [`schema`] [`sign`] [`profile`] |
//! | | [`proof`] [`devices`] [`auth`] [`route`] [`config`]: decisions |
//! | edges | [`store`] [`http`] [`upstream`] [`logger`] `memory`: disk, network, the system |
//! | flow | [`commit`] [`ingest`] [`dispatch`] [`deliver`]: the life of an event |
//! | process | [`admin`] [`daemon`] [`demo`] [`cli`] |
//!
//! Time, chance, disk and network come in as arguments, so a simulation can be all four. Each
//! foreign crate is named in one module only, so it can be replaced there.
//!
//! # Decisions that are not in the design
//!
//! - A profile is a `[route]` with a description, so it can say what a route can and nothing else,
//!   and one piece of code checks both. What is known at run time of a kind of sender ([`profile`])
//!   stands above [`route`]; the texts for people stay in [`config::profiles`].
//! - A case that is no event is one of a profile's own description. A heartbeat that nobody has
//!   described is stored: too much is better than too little.
//! - What an event's own record says (received, quarantined) is not written to the audit table
//!   again: the trail begins with [`audit::Entry::of_arrival`]. One table less in each commit.
//! - The deduplication key begins with the hash of the event id alone, so that an event can be
//!   found by its id without an index whose random keys would cost more than the event.
//! - Address, token and password are asked of whoever calls, for a heartbeat too; a signature is
//!   asked of events only, since senders that sign do not sign a look by hand ([`auth`]). Tokens
//!   and passwords are taken out of a request before it becomes a record: what is stored is shown.
//! - An event that failed as often as an event may, and nobody knows whether it is to blame, lets
//!   the next one of its lane be tried at once: see `dispatch/suspects.rs`. It is the one way in
//!   which an event arrives before an earlier one of its lane, and then two probes may be on their
//!   way together.
//! - `when_full = "shed-lowest-priority"` is a fourth way for an event to end. Of the last that
//!   were given up record and trail stay; of the others only the log and the counters tell.
//! - A body that breaks the schema of its route counts for the breaker like any other dead letter:
//!   a wrong schema file must not turn a whole backlog into dead letters either.
//! - Events without a destination are pending for a destination number that nobody ever gets
//!   ([`commit::HELD`]), and move on at the first start that has one for their route.

pub mod admin;
pub mod audit;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod commit;
pub mod config;
pub mod daemon;
pub mod deliver;
pub mod delivery;
pub mod demo;
pub mod devices;
pub mod dispatch;
pub mod event;
mod fault;
pub mod health;
pub mod http;
pub mod ingest;
pub mod lanes;
pub mod logger;
mod memory;
pub mod pace;
pub mod profile;
pub mod proof;
pub mod retry;
pub mod rng;
pub mod route;
pub mod schema;
pub mod select;
pub mod sign;
pub mod store;
pub mod upstream;
