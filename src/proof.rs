//! What an answer must show before a 2xx is believed.
//!
//! A captive portal, a proxy's error page or a router's login answers 200 to everything. Taken for
//! the destination's, such an answer ends an event that nobody has. A destination whose own answers
//! can be told from those says how, and whatever else answers 2xx is then no answer of it.
//!
//! # Guarantees
//!
//! - [`Proof::lacks`] is pure; it looks at one answer and decides nothing else.
//! - Only what counts as delivered because of its 2xx needs a proof: a refusal needs none, since it
//!   settles nothing but the refused event, and that for a decision of an operator.
//!
//! What follows from a lacking proof is that the destination is down: see
//! [`crate::retry::classify`].

use std::fmt;

use crate::delivery::Answer;
use crate::profile::Glob;

/// What the answers of one destination show. All that is set must hold; with nothing set all do.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Proof {
    /// One of these statuses, 200 to 299; empty: any.
    pub statuses: Vec<u16>,
    /// A header, and what one of its values must look like.
    pub header: Option<(String, Glob)>,
    /// A text that must occur in the first [`Answer::LONGEST_HEAD`] bytes of the body; empty: any.
    pub body: String,
}

impl Proof {
    /// What an answer lacks, in words; none if it proves what it must. Never repeats what was sent.
    #[must_use]
    pub fn lacks(&self, answer: &Answer) -> Option<String> {
        let status = answer.status;
        if !self.statuses.is_empty() && !self.statuses.contains(&status) {
            return Some(format!("HTTP {status}, which is no proof here"));
        }
        if let Some((name, glob)) = &self.header {
            let named = answer
                .headers
                .iter()
                .filter(|(other, _)| other.eq_ignore_ascii_case(name));
            let mut values = named.map(|(_, value)| String::from_utf8_lossy(value.trim_ascii()));
            if !values.any(|value| glob.matches(Some(&value))) {
                return Some(format!("HTTP {status} without the proof in header {name}"));
            }
        }
        let body = self.body.as_bytes();
        let is_there = body.is_empty() || answer.head.windows(body.len()).any(|part| part == body);
        (!is_there).then(|| format!("HTTP {status} without the proof in its body"))
    }
}

/// `status 200 or 202 and header X-Ack = "*"`.
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statuses: Vec<String> = self.statuses.iter().map(u16::to_string).collect();
        let statuses = (!statuses.is_empty()).then(|| format!("status {}", statuses.join(" or ")));
        let header = self.header.as_ref();
        let header = header.map(|(name, glob)| format!("header {name} = \"{glob}\""));
        let body = (!self.body.is_empty()).then(|| format!("{:?} in the body", self.body));
        let all: Vec<String> = statuses.into_iter().chain(header).chain(body).collect();
        f.write_str(&all.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], head: &str) -> Answer {
        Answer {
            status,
            retry_after: None,
            head: head.as_bytes().to_vec(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
                .collect(),
        }
    }

    #[test]
    fn all_that_is_asked_for_must_be_there() {
        let whole = Proof {
            statuses: vec![200, 202],
            header: Some(("X-Ack".to_owned(), Glob::new("*"))),
            body: "\"ok\":true".to_owned(),
        };
        let shown =
            "status 200 or 202 and header X-Ack = \"*\" and \"\\\"ok\\\":true\" in the body";
        assert_eq!(whole.to_string(), shown);
        let ack = &[("x-ack", "17")][..];
        let body = "{\"ok\":true}\n";
        let rows = [
            (answer(200, ack, body), None),
            (answer(202, ack, body), None),
            (
                answer(204, ack, body),
                Some("HTTP 204, which is no proof here"),
            ),
            (
                answer(200, &[("x-other", "17")], body),
                Some("HTTP 200 without the proof in header X-Ack"),
            ),
            (
                answer(200, &[], "<html>Welcome to Free Wi-Fi</html>"),
                Some("HTTP 200 without the proof in header X-Ack"),
            ),
            (
                answer(202, ack, "{\"ok\":false}"),
                Some("HTTP 202 without the proof in its body"),
            ),
            (
                answer(200, ack, ""),
                Some("HTTP 200 without the proof in its body"),
            ),
        ];
        for (answer, expected) in rows {
            assert_eq!(whole.lacks(&answer).as_deref(), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_header_must_look_as_it_is_written() {
        let rows = [
            ("*", &["17"][..], true),
            ("*", &[""], true),
            ("*", &[], false),
            ("gateway/2", &["gateway/2"], true),
            ("gateway/2", &["Gateway/2"], false),
            ("gateway/*", &[" gateway/2 "], true),
            ("gateway/*", &["nginx", "gateway/2"], true),
            ("gateway/*", &["nginx"], false),
        ];
        for (glob, values, expected) in rows {
            let proof = Proof {
                header: Some(("Server".to_owned(), Glob::new(glob))),
                ..Proof::default()
            };
            let headers: Vec<_> = values.iter().map(|value| ("SERVER", *value)).collect();
            let lacks = proof.lacks(&answer(200, &headers, ""));
            assert_eq!(lacks.is_none(), expected, "{glob} in {values:?}: {lacks:?}");
        }
    }

    #[test]
    fn who_asks_for_nothing_believes_everything() {
        assert_eq!(Proof::default().lacks(&answer(200, &[], "<html>")), None);
    }
}
