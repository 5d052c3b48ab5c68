//! What the answers of one destination mean, where the table of all destinations is wrong for it.

use std::collections::BTreeMap;
use std::fmt;

use super::classify;
use crate::delivery::{Outcome, Verdict};

/// What a status is said to mean.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Word {
    Delivered,
    Dead,
    Retry,
    Pause,
    Hold,
    Down,
}

/// Each with how it is written.
const WORDS: &[(&str, Word)] = &[
    ("delivered", Word::Delivered),
    ("dead", Word::Dead),
    ("retry", Word::Retry),
    ("pause", Word::Pause),
    ("hold", Word::Hold),
    ("down", Word::Down),
];

/// The overrides of one destination; none by default.
///
/// Only answers can be overridden: what follows where there is none (nobody there, no answer in
/// time) is no matter of how a destination speaks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Overrides {
    statuses: BTreeMap<u16, Word>,
    /// By their first digit.
    classes: BTreeMap<u16, Word>,
}

impl Overrides {
    /// Adds what `key`, a status or a class as in `5xx`, is said to mean.
    ///
    /// # Errors
    ///
    /// Says what would be right. Nothing is added then.
    pub fn add(&mut self, key: &str, word: &str) -> Result<(), String> {
        let number = |digits: &str| digits.parse().ok();
        let class = match key.as_bytes() {
            [b'2'..=b'5', b'x', b'x'] => number(&key[..1]),
            _ => None,
        };
        let status = match key.as_bytes() {
            [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'] => number(key),
            _ => None,
        };
        let Some((_, word)) = WORDS.iter().find(|(written, _)| *written == word) else {
            let words: Vec<&str> = WORDS.iter().map(|(written, _)| *written).collect();
            return Err(format!("\"{word}\" is none of: {}", words.join(", ")));
        };
        match (status, class) {
            (Some(status), _) => _ = self.statuses.insert(status, *word),
            (None, Some(class)) => _ = self.classes.insert(class, *word),
            (None, None) => {
                return Err(
                    "it is neither a status, 200 to 599, nor a class, as \"5xx\"".to_owned(),
                );
            }
        }
        Ok(())
    }

    /// What follows from an outcome at this destination: a status counts more than its class, its
    /// class more than the table of [`classify`]. A pause is as long as the answer asks.
    #[must_use]
    pub fn classify(&self, outcome: &Outcome) -> Verdict {
        let Outcome::Answered(answer) = outcome else {
            return classify(outcome);
        };
        let class = || self.classes.get(&(answer.status / 100));
        match self.statuses.get(&answer.status).or_else(class) {
            None => classify(outcome),
            Some(Word::Delivered) => Verdict::Delivered,
            Some(Word::Dead) => Verdict::Dead,
            Some(Word::Retry) => Verdict::Retry,
            Some(Word::Pause) => Verdict::Pause(answer.retry_after),
            Some(Word::Hold) => Verdict::Hold,
            Some(Word::Down) => Verdict::Down,
        }
    }
}

/// `404 is dead, 5xx is hold`; empty if there is none.
impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statuses = self.statuses.iter();
        let statuses = statuses.map(|(status, word)| format!("{status} is {word}"));
        let classes = self.classes.iter();
        let classes = classes.map(|(class, word)| format!("{class}xx is {word}"));
        let all: Vec<String> = statuses.chain(classes).collect();
        f.write_str(&all.join(", "))
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = WORDS.iter().find(|(_, word)| word == self);
        f.write_str(written.map_or("", |(written, _)| written))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::delivery::{Answer, RetryAfter};

    fn answered(status: u16, retry_after: Option<RetryAfter>) -> Outcome {
        Outcome::Answered(Answer {
            status,
            retry_after,
            head: Vec::new(),
            headers: Vec::new(),
        })
    }

    fn overrides(rows: &[(&str, &str)]) -> Overrides {
        let mut overrides = Overrides::default();
        for (key, word) in rows {
            overrides.add(key, word).expect(key);
        }
        overrides
    }

    #[test]
    fn a_status_counts_more_than_its_class_and_both_more_than_the_table() {
        let soon = RetryAfter::Delay(Duration::from_secs(7));
        let overrides = overrides(&[
            ("404", "dead"),
            ("409", "delivered"),
            ("503", "hold"),
            ("5xx", "pause"),
            ("202", "retry"),
            ("3xx", "down"),
        ]);
        let rows = [
            (404, None, Verdict::Dead),
            (409, None, Verdict::Delivered),
            (503, None, Verdict::Hold),
            (503, Some(soon), Verdict::Hold),
            (500, None, Verdict::Pause(None)),
            (599, Some(soon), Verdict::Pause(Some(soon))),
            (202, None, Verdict::Retry),
            (307, None, Verdict::Down),
            // What nothing is said of.
            (200, None, Verdict::Delivered),
            (401, None, Verdict::Hold),
            (422, None, Verdict::Dead),
            (600, None, Verdict::Retry),
        ];
        for (status, retry_after, verdict) in rows {
            let outcome = answered(status, retry_after);
            assert_eq!(overrides.classify(&outcome), verdict, "{status}");
        }
    }

    #[test]
    fn each_word_has_its_verdict_and_is_shown_as_written() {
        let rows = [
            ("delivered", Verdict::Delivered),
            ("dead", Verdict::Dead),
            ("retry", Verdict::Retry),
            ("pause", Verdict::Pause(None)),
            ("hold", Verdict::Hold),
            ("down", Verdict::Down),
        ];
        assert_eq!(rows.len(), WORDS.len());
        for (word, verdict) in rows {
            let overrides = overrides(&[("418", word), ("2xx", word)]);
            assert_eq!(overrides.classify(&answered(418, None)), verdict, "{word}");
            assert_eq!(overrides.classify(&answered(299, None)), verdict, "{word}");
            assert_eq!(
                overrides.to_string(),
                format!("418 is {word}, 2xx is {word}")
            );
        }
        assert_eq!(Overrides::default().to_string(), "");
    }

    #[test]
    fn where_nobody_answers_nothing_can_be_overridden() {
        let overrides = overrides(&[("2xx", "dead"), ("4xx", "dead"), ("5xx", "dead")]);
        let words = || "words".to_owned();
        for outcome in [
            Outcome::TimedOut,
            Outcome::Unreachable(words()),
            Outcome::Unproven(words()),
            Outcome::Damaged(words()),
            Outcome::Failed(words()),
        ] {
            assert_eq!(
                overrides.classify(&outcome),
                classify(&outcome),
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn what_is_neither_a_status_nor_a_class_is_named() {
        let mut overrides = Overrides::default();
        for key in [
            "", "99", "100", "1xx", "600", "6xx", "40x", "5XX", "x", "4040", "+40",
        ] {
            let why = overrides.add(key, "dead").expect_err(key);
            let right = "it is neither a status, 200 to 599, nor a class, as \"5xx\"";
            assert_eq!(why, right, "{key}");
        }
        let why = overrides.add("404", "Dead").expect_err("it is no word");
        let right = "\"Dead\" is none of: delivered, dead, retry, pause, hold, down";
        assert_eq!(why, right);
        assert_eq!(overrides, Overrides::default());
    }
}
