//! Chance.
//!
//! Everything random that decides something comes from an [`Rng`] made from a seed, so a
//! simulation repeats exactly. [`entropy`] is the one place where the seed of a real process comes
//! from.

use std::time::Duration;

/// A seeded generator. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(fastrand::Rng);

impl Rng {
    /// The generator that `seed` stands for.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A number below `limit`, each equally likely; 0 if `limit` is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.0.u64(0..limit) }
    }

    /// `pause`, made up to `share` longer or shorter.
    pub fn jitter(&mut self, pause: Duration, share: f64) -> Duration {
        let factor = 1.0 + share * (2.0 * self.0.f64() - 1.0);
        pause.mul_f64(factor.max(0.0))
    }
}

/// 64 bits that no other process has: the seed of a real process, the name of a new store.
///
/// # Errors
///
/// When the kernel has no randomness to give, which ends the start.
pub fn entropy() -> std::io::Result<u64> {
    getrandom::u64().map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats() {
        let mut one = Rng::from_seed(7);
        let mut two = Rng::from_seed(7);
        for _ in 0..100 {
            assert_eq!(one.below(1_000), two.below(1_000));
        }
    }

    #[test]
    fn jitter_stays_within_its_share() {
        let mut rng = Rng::from_seed(1);
        let pause = Duration::from_secs(10);
        for _ in 0..1_000 {
            let jittered = rng.jitter(pause, 0.2);
            assert!(Duration::from_secs(8) <= jittered, "{jittered:?}");
            assert!(jittered <= Duration::from_secs(12), "{jittered:?}");
        }
        assert_eq!(rng.jitter(pause, 0.0), pause);
    }
}
