//! What is answered when something cannot be done. Source: RFC 9457.

use std::error::Error as _;

use super::Unavailable;
use super::views::Problem;
use super::{Refusal, Response};
use crate::store;

/// What kind of problem it is. Its name is the end of the `type` of the problem details.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The request is not one the API understands.
    BadRequest,
    /// Nothing lies at this path.
    NotFound,
    /// There is no such event.
    NoEvent,
    /// The event's body was kept for as long as the configuration says.
    Expired,
    /// There is no such destination.
    NoDestination,
    /// There is no such device.
    NoDevice,
    /// The path takes other methods.
    Method,
    /// Changes are not taken over TCP.
    ReadOnly,
    /// The request was made for another host.
    OtherHost,
    /// What was asked for cannot be done in the state that things are in.
    Conflict,
    /// The daemon is stopping or cannot write.
    Unavailable,
    /// The store failed, or a record is damaged.
    Store,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::BadRequest,
        Self::NotFound,
        Self::NoEvent,
        Self::Expired,
        Self::NoDestination,
        Self::NoDevice,
        Self::Method,
        Self::ReadOnly,
        Self::OtherHost,
        Self::Conflict,
        Self::Unavailable,
        Self::Store,
    ];

    /// Status, name and title.
    fn facts(self) -> (u16, &'static str, &'static str) {
        match self {
            Self::BadRequest => (400, "bad-request", "the request is not understood"),
            Self::NotFound => (404, "not-found", "there is nothing at this path"),
            Self::NoEvent => (404, "no-such-event", "there is no such event"),
            Self::Expired => (410, "expired", "the body is no longer kept"),
            Self::NoDestination => (
                404,
                "no-such-destination",
                "there is no destination of this name",
            ),
            Self::NoDevice => (404, "no-such-device", "there is no device of this name"),
            Self::Method => (405, "method", "the path does not take this method"),
            Self::ReadOnly => (403, "read-only", "changes are not taken here"),
            Self::OtherHost => (421, "other-host", "this is not the host that was asked for"),
            Self::Conflict => (409, "conflict", "it cannot be done as things are"),
            Self::Unavailable => (503, "unavailable", "the daemon cannot do it now"),
            Self::Store => (500, "store", "the store could not be read or written"),
        }
    }

    /// The kind that a problem says it is; none if it is not one of ours.
    #[must_use]
    pub fn of(problem: &Problem) -> Option<Self> {
        let name = problem.kind.strip_prefix(PREFIX)?;
        Self::ALL.into_iter().find(|kind| kind.facts().1 == name)
    }
}

const PREFIX: &str = "urn:gatepost:problem:";

impl Refusal {
    /// A problem of this kind; `detail` says what is wrong here and what would be right.
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail }
    }

    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }

    /// The problem as an answer.
    pub(super) fn response(self) -> Response {
        let (status, name, title) = self.kind.facts();
        let problem = Problem {
            kind: format!("{PREFIX}{name}"),
            title: title.to_owned(),
            status,
            detail: self.detail,
            ..Problem::default()
        };
        Response {
            content_type: "application/problem+json",
            ..Response::json(status, &problem)
        }
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        Self::new(Kind::Store, with_sources(&error))
    }
}

impl From<Unavailable> for Refusal {
    fn from(error: Unavailable) -> Self {
        match error {
            Unavailable::Stopping => Self::new(Kind::Unavailable, error.to_string()),
            Unavailable::Store(error) => error.into(),
        }
    }
}

/// An error's text and those of what caused it.
fn with_sources(error: &store::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_back_from_its_problem() {
        for kind in Kind::ALL {
            let response = Refusal::new(kind, "why").response();
            assert_eq!(response.content_type, "application/problem+json");
            let problem: Problem = serde_json::from_slice(&response.body).expect("a problem");
            assert_eq!(Kind::of(&problem), Some(kind));
            assert_eq!(problem.status, response.status, "{kind:?}");
            assert_eq!(problem.detail, "why");
        }
    }
}
