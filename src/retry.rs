//! When to try a delivery again, and what an outcome means.

use std::time::Duration;

/// How patient we are with one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The pause after the first failure; doubles with every further one.
    pub first: Duration,
    /// Pauses stop doubling here.
    pub max: Duration,
    /// Each pause is made longer or shorter by up to this share of itself, after the cap.
    pub jitter: f64,
    /// After this many attempts that count, the delivery becomes a dead letter.
    pub max_attempts: u32,
}
