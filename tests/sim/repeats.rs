//! What must be recognised when it comes again, and what must not.

use std::collections::BTreeMap;
use std::time::Duration;

use gatepost::event::Seq;

use crate::sim::devices::{Message, MessageNo};
use crate::sim::settings::same_content;

/// The longest that an event is on its way from its receipt to a commit.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// What was stored lately of messages that have no id.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    /// When an event was stored.
    stored: BTreeMap<Seq, Duration>,
    /// What this process stored of a message last.
    last: BTreeMap<MessageNo, Duration>,
}

impl Repeats {
    /// A new process, which may not know by what clock the one before has stored what it did.
    pub(crate) fn begin(&mut self) {
        self.last.clear();
    }

    /// A message that has no id, or was not understood, is on disk.
    pub(crate) fn stored(&mut self, seq: Seq, number: MessageNo, message: &Message, now: Duration) {
        let before = self.last.insert(number, now);
        self.stored.insert(seq, now);
        let Some(before) = before else {
            return;
        };
        assert!(!message.is_odd, "message {number} fills the quarantine");
        if let Some(window) = same_content(message.route) {
            let again = now.saturating_sub(before) + ON_THE_WAY;
            assert!(
                window <= again,
                "message {number} came again after {again:?}"
            );
        }
    }

    /// A message was taken for what is stored as `seq`.
    pub(crate) fn repeated(&self, seq: Seq, number: MessageNo, message: &Message, now: Duration) {
        // Unknown if the process ended before it could be said.
        let Some(at) = self.stored.get(&seq) else {
            return;
        };
        if !message.is_odd {
            let window = same_content(message.route).expect("only by its content");
            let after = now.saturating_sub(*at);
            assert!(
                after <= window + ON_THE_WAY,
                "message {number} is lost after {after:?}"
            );
        }
    }
}
