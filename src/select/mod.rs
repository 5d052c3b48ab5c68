//! Selectors: where a value is found in a request.
//!
//! A route has a list of them for each thing it wants to know; the first that finds a value wins.
//!
//! # Guarantees
//!
//! - A selector is a view: it never changes a byte of the request.
//! - A body is parsed at most once for all lists of one [`read`], and not at all if headers
//!   answer. Only the values that are found are allocated, whatever the length of the body.
//! - A value is text, not empty, and at most [`LONGEST_VALUE`] bytes long. The same bytes always
//!   give the same text.
//! - Whatever a device sends, the answer is a value or a reason in words.
//!
//! Kinds that look into a body, or into a part of one, are in [`body`]; the others have a file here
//! each, a line in [`KINDS`] and an arm in [`Kind`].

mod body;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzz;
mod header;
mod items;
mod json;
mod multipart;
mod pairs;
mod part;
mod text;
mod time;
mod xml;

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::event::Request;
use body::Body;

pub use items::Items;

/// What an operator can write, for messages.
pub const KINDS: &str = "json:/pointer, header:Name, query:name, path:hole, form:name, \
                         xml:Root/child@attribute, part:name, part:name/json:/pointer, line:1, \
                         peer, const:text";

/// The most selectors one list may have.
pub const LONGEST_LIST: usize = 8;

/// The most values that one selector may join.
pub const LONGEST_JOIN: usize = 4;

/// The most JSON pointers that one walk through a body serves.
pub const MOST_POINTERS: usize = json::MOST;

/// What stands between the values of a selector that joins several.
const JOINED_BY: &str = "/";

/// The longest value that is taken for an id, in bytes. A longer one is not found.
///
/// UUIDs, serial numbers and signed tokens stay far below it, and an id is copied into the
/// event's record, each audit line and a header upstream.
pub const LONGEST_VALUE: usize = 1024;

/// One selector, as `json:/eventId` or `header:X-Id`, or several values joined to one, as
/// `json:/device + json:/count`. Displays as it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selector(Vec<Kind>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Kind {
    Body(Body),
    Header(header::Name),
    Query(pairs::Name),
    Path(String),
    Part(part::Place),
    Peer,
    Const(String),
}

/// What selectors look at.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    request: &'a Request,
    holes: &'a [(String, Vec<u8>)],
}

impl<'a> Subject<'a> {
    /// A request, and what the holes of its route's pattern took.
    #[must_use]
    pub fn new(request: &'a Request, holes: &'a [(String, Vec<u8>)]) -> Self {
        Self { request, holes }
    }
}

impl Selector {
    /// Reads what an operator wrote: a kind, a colon, and what that kind needs.
    ///
    /// - `json:` and a JSON pointer (RFC 6901): `json:/event/id`, `json:/items/0/id`.
    /// - `header:` and the name of a header, in any spelling.
    /// - `query:` and `form:` and a name: of the target, of an urlencoded body.
    /// - `path:` and a hole of the route's path: `path:device`; `path:*` for `{*}`.
    /// - `xml:` and a path from the root element on, perhaps with an attribute.
    /// - `part:` and the name of a part of a multipart body, `*` for any, and perhaps `/` and one
    ///   of `json:`, `xml:`, `form:`, `line:`, `header:` in it.
    /// - `line:` and the number of a line of the body, from 1.
    /// - `peer`: the sender's address without its port. `const:` and any text.
    ///
    /// Several with ` + ` between them must all be found, and are joined by `/`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let kinds: Vec<&str> = text.split(" + ").map(str::trim).collect();
        if LONGEST_JOIN < kinds.len() {
            return Err(Error::Malformed {
                selector: text.to_owned(),
                why: format!("it joins more than {LONGEST_JOIN} values"),
            });
        }
        let kinds = kinds.into_iter().map(|kind| Kind::parse(kind, text));
        kinds.collect::<Result<_, _>>().map(Self)
    }

    /// The holes of a route's path that it looks at.
    pub fn holes(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|kind| match kind {
            Kind::Path(hole) => Some(hole.as_str()),
            _ => None,
        })
    }

    /// How many JSON pointers it follows from the root of the body.
    #[must_use]
    pub fn pointers(&self) -> usize {
        let is_json = |kind: &&Kind| matches!(kind, Kind::Body(Body::Json(_)));
        self.0.iter().filter(is_json).count()
    }

    /// Whether it needs the body: then it costs more than a look at the head.
    #[must_use]
    pub fn looks_into_body(&self) -> bool {
        let inside = |kind: &Kind| matches!(kind, Kind::Body(_) | Kind::Part(_));
        self.0.iter().any(inside)
    }

    fn looks_into_json(&self) -> bool {
        0 < self.pointers()
    }

    /// What is found without a look into the body; none also if it must be looked into.
    fn find_outside(&self, subject: &Subject<'_>) -> Option<String> {
        if self.looks_into_body() {
            return None;
        }
        self.find_in(subject, &json::Document::default())
    }

    fn find_in(&self, subject: &Subject<'_>, document: &json::Document<'_, '_>) -> Option<String> {
        let mut values = self.0.iter().map(|kind| kind.find_in(subject, document));
        let first = values.next()??.into_owned();
        values.try_fold(first, |joined, value| Some(joined + JOINED_BY + &value?))
    }
}

impl Kind {
    fn parse(text: &str, whole: &str) -> Result<Self, Error> {
        if text == "peer" {
            return Ok(Self::Peer);
        }
        let Some((kind, rest)) = text.split_once(':') else {
            return Err(Error::NoKind(whole.to_owned()));
        };
        let parsed = match kind {
            "header" => header::Name::parse(rest).map(Self::Header),
            "query" => pairs::Name::parse(rest, kind).map(Self::Query),
            "path" if rest.is_empty() => Err("a hole has a name, as in path:device".to_owned()),
            "path" => Ok(Self::Path(rest.to_owned())),
            "part" => part::Place::parse(rest).map(Self::Part),
            "const" if rest.is_empty() => Err("it has no text".to_owned()),
            "const" => Ok(Self::Const(rest.to_owned())),
            _ => match Body::parse(kind, rest) {
                Some(parsed) => parsed.map(Self::Body),
                None => {
                    return Err(Error::UnknownKind {
                        selector: whole.to_owned(),
                        kind: kind.to_owned(),
                    });
                }
            },
        };
        parsed.map_err(|why| Error::Malformed {
            selector: whole.to_owned(),
            why,
        })
    }

    fn find_in<'s>(
        &'s self,
        subject: &Subject<'s>,
        document: &json::Document<'_, 's>,
    ) -> Option<Cow<'s, str>> {
        let request = subject.request;
        match self {
            // One walk has served all pointers.
            Self::Body(Body::Json(pointer)) => document.text(pointer),
            Self::Body(body) => body.find_in(&request.body),
            Self::Header(name) => name.text(request),
            Self::Query(name) => name.find_in(request.path_and_query().1?).map(Cow::Owned),
            Self::Path(hole) => {
                let mut holes = subject.holes.iter();
                let (_, value) = holes.find(|(name, _)| name == hole)?;
                text::of(value)
            }
            Self::Part(place) => place.find_in(request).map(Cow::Owned),
            Self::Peer => Some(Cow::Owned(request.peer.ip().to_canonical().to_string())),
            Self::Const(text) => Some(Cow::Borrowed(text)),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, kind) in self.0.iter().enumerate() {
            if index != 0 {
                f.write_str(" + ")?;
            }
            match kind {
                Kind::Body(body) => write!(f, "{body}"),
                Kind::Header(name) => write!(f, "header:{name}"),
                Kind::Query(name) => write!(f, "query:{name}"),
                Kind::Path(hole) => write!(f, "path:{hole}"),
                Kind::Part(place) => write!(f, "part:{place}"),
                Kind::Peer => f.write_str("peer"),
                Kind::Const(text) => write!(f, "const:{text}"),
            }?;
        }
        Ok(())
    }
}

/// Why a text is not a selector.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Error {
    /// It does not say where to look.
    NoKind(String),
    /// It wants to look somewhere this program can't.
    UnknownKind {
        /// The whole text.
        selector: String,
        /// What stands before the colon.
        kind: String,
    },
    /// What follows the kind is not what that kind needs.
    Malformed {
        /// The whole text.
        selector: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKind(selector) => write!(
                f,
                "selector \"{selector}\" does not say where to look; the kinds are: {KINDS}"
            ),
            Self::UnknownKind { selector, kind } => write!(
                f,
                "selector \"{selector}\" is of unknown kind \"{kind}\"; the kinds are: {KINDS}"
            ),
            Self::Malformed { selector, why } => write!(f, "selector \"{selector}\": {why}"),
        }
    }
}

/// Looks for one value for each of `lists`: in each list the first selector that finds one wins.
///
/// Of a list longer than [`LONGEST_LIST`] the rest is not looked at, nor are JSON pointers beyond
/// the first [`MOST_POINTERS`]; the configuration refuses such lists.
#[must_use]
pub fn read<'a, const N: usize>(
    subject: &Subject<'_>,
    lists: [&'a [Selector]; N],
) -> Values<'a, N> {
    let lists = lists.map(|list| &list[..list.len().min(LONGEST_LIST)]);
    let mut wanted = json::Wanted::default();
    for selector in lists.iter().copied().flat_map(up_to_a_sure_one(subject)) {
        for kind in &selector.0 {
            if let Kind::Body(Body::Json(pointer)) = kind {
                wanted.add(pointer);
            }
        }
    }
    let (document, json_error) = match wanted.find_in(&subject.request.body) {
        Ok(document) => (document, None),
        Err(why) => (json::Document::default(), Some(why)),
    };
    let mut too_long = false;
    let found = lists.map(|list| {
        list.iter().find_map(|selector| {
            let value = selector.find_in(subject, &document)?;
            too_long |= !fits(&value);
            fits(&value).then_some(value)
        })
    });
    Values {
        lists,
        found,
        json_error,
        too_long,
    }
}

/// Looks for one value.
#[must_use]
pub fn find(subject: &Subject<'_>, selector: &Selector) -> Option<String> {
    let [found] = read(subject, [std::slice::from_ref(selector)]).into_found();
    found
}

/// A query with `***` for each value of that name: what [`Selector`] `query:` would find.
#[must_use]
pub fn conceal_in_query(name: &str, query: &[u8]) -> Vec<u8> {
    pairs::conceal(name, query)
}

/// The selectors of a list up to the first that is known to find something without a look into
/// the body: what follows it can't win.
fn up_to_a_sure_one<'a>(
    subject: &Subject<'_>,
) -> impl FnMut(&'a [Selector]) -> std::slice::Iter<'a, Selector> {
    |list| {
        let is_sure = |selector: &Selector| {
            let found = selector.find_outside(subject);
            found.is_some_and(|value| fits(&value))
        };
        let sure = list.iter().position(is_sure);
        list[..sure.unwrap_or(list.len())].iter()
    }
}

fn fits(value: &str) -> bool {
    value.len() <= LONGEST_VALUE
}

/// What [`read`] found.
#[derive(Debug)]
pub struct Values<'a, const N: usize> {
    lists: [&'a [Selector]; N],
    found: [Option<String>; N],
    json_error: Option<json::Error>,
    too_long: bool,
}

impl<const N: usize> Values<'_, N> {
    /// The value found for each list.
    #[must_use]
    pub fn found(&self) -> &[Option<String>; N] {
        &self.found
    }

    /// The values themselves.
    #[must_use]
    pub fn into_found(self) -> [Option<String>; N] {
        self.found
    }

    /// Why nothing was found for the list with that index: what was looked at, and what was the
    /// matter with it.
    #[must_use]
    pub fn why_not(&self, index: usize) -> String {
        let list = self.lists.get(index).copied().unwrap_or_default();
        if list.is_empty() {
            return "the route has no selector for it".to_owned();
        }
        let mut why = match &self.json_error {
            Some(error) if list.iter().any(Selector::looks_into_json) => {
                let others = list.iter().filter(|selector| !selector.looks_into_json());
                match either(others) {
                    others if others.is_empty() => error.to_string(),
                    others => format!("{error}, and nothing at {others}"),
                }
            }
            _ => format!("nothing at {}", either(list.iter())),
        };
        if self.too_long {
            _ = write!(why, " that is at most {LONGEST_VALUE} bytes long");
        }
        why
    }
}

fn either<'a>(selectors: impl Iterator<Item = &'a Selector>) -> String {
    let selectors: Vec<String> = selectors.map(Selector::to_string).collect();
    selectors.join(" or ")
}

#[cfg(test)]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Header;

    fn request(headers: &[(&str, &[u8])], body: &[u8]) -> Request {
        let headers = headers.iter().map(|(name, value)| Header {
            name: (*name).to_owned(),
            value: value.to_vec(),
        });
        Request {
            peer: ([127, 0, 0, 1], 1).into(),
            method: "POST".to_owned(),
            target: b"/".to_vec(),
            headers: headers.collect(),
            body: body.to_vec(),
            oversize: None,
        }
    }

    fn list(texts: &[&str]) -> Vec<Selector> {
        let parse = |text: &&str| Selector::parse(text).expect("the test writes it right");
        texts.iter().map(parse).collect()
    }

    fn one(request: &Request, texts: &[&str]) -> Result<String, String> {
        let list = list(texts);
        let values = read(&Subject::new(request, &[]), [list.as_slice()]);
        let why = values.why_not(0);
        let [found] = values.into_found();
        found.ok_or(why)
    }

    #[test]
    fn a_selector_displays_as_it_was_written() {
        for text in [
            "json:/eventId",
            "json:",
            "json:/a~1b/0",
            "header:X-Id",
            "query:SN",
            "path:device",
            "path:*",
            "form:imgBase64",
            "xml:EventNotificationAlert/macAddress",
            "xml:*/a@b",
            "part:event_log/json:/serialNo",
            "part:*/xml:a/b",
            "part:info",
            "part:info/header:Content-ID",
            "line:2",
            "peer",
            "const:x",
            "json:/a + query:b + peer",
        ] {
            let selector = Selector::parse(text).expect(text);
            assert_eq!(selector.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_selector_is_told_what_there_is() {
        let rows = [
            (
                "eventId",
                "selector \"eventId\" does not say where to look; the kinds are: KINDS",
            ),
            (
                "cookie:id",
                "selector \"cookie:id\" is of unknown kind \"cookie\"; the kinds are: KINDS",
            ),
            (
                "json:eventId",
                "selector \"json:eventId\": a JSON pointer begins with \"/\", as in json:/eventId",
            ),
            (
                "json:/a~2",
                "selector \"json:/a~2\": in a JSON pointer \"~\" is written ~0 and \"/\" ~1",
            ),
            (
                "header:",
                "selector \"header:\": a header's name is letters, digits and hyphens, \
                 as in header:X-Event-Id",
            ),
            (
                "header:X Id",
                "selector \"header:X Id\": a header's name is letters, digits and hyphens, \
                 as in header:X-Event-Id",
            ),
        ];
        for (text, message) in rows {
            let error = Selector::parse(text).expect_err(text);
            assert_eq!(error.to_string(), message.replace("KINDS", KINDS));
        }
        let deep = format!("json:{}", "/a".repeat(65));
        let error = Selector::parse(&deep).expect_err("it is too deep");
        assert!(error.to_string().ends_with("at most 64 steps"), "{error}");
    }

    #[test]
    fn the_first_selector_that_finds_something_wins() {
        type Row<'a> = (&'a [u8], &'a [u8], Result<&'a str, &'a str>);
        let both = ["json:/eventId", "header:x-event-id"];
        let rows: &[Row<'_>] = &[
            (br#"{"eventId":"e-1"}"#, b"h-1", Ok("e-1")),
            (br#"{"eventId":""}"#, b"h-1", Ok("h-1")),
            (b"{\"eventId\"", b"h-1", Ok("h-1")),
            (
                b"{}",
                b" ",
                Err("nothing at json:/eventId or header:x-event-id"),
            ),
            (
                br#"{"eventId":1"#,
                b"",
                Err(
                    "body is not JSON: EOF while parsing an object at line 1 column 12, \
                     and nothing at header:x-event-id",
                ),
            ),
        ];
        for (body, header, expected) in rows {
            let request = request(&[("X-Event-Id", header)], body);
            let shown = String::from_utf8_lossy(body);
            let found = one(&request, &both);
            let found = found.as_deref().map_err(String::as_str);
            assert_eq!(found, *expected, "{shown}");
        }
    }

    #[test]
    fn several_lists_are_answered_at_once() {
        let request = request(&[("X-Device-Id", b"cam-7")], br#"{"a":{"id":1},"b":true}"#);
        let lists = [
            list(&["json:/a/id"]),
            list(&["json:/none", "header:x-device-id", "json:/b"]),
            list(&["json:/a"]),
            list(&[]),
        ];
        let values = read(
            &Subject::new(&request, &[]),
            lists.each_ref().map(Vec::as_slice),
        );
        let found = values.found().each_ref().map(Option::as_deref);
        assert_eq!(found, [Some("1"), Some("cam-7"), None, None]);
        assert_eq!(values.why_not(2), "nothing at json:/a");
        assert_eq!(values.why_not(3), "the route has no selector for it");
    }

    #[test]
    fn a_body_is_not_parsed_when_a_header_comes_first() {
        let request = request(&[("X-Id", b"7")], b"no JSON");
        let list = list(&["header:x-id", "json:/id"]);
        let values = read(&Subject::new(&request, &[]), [list.as_slice()]);
        assert_eq!(values.found()[0].as_deref(), Some("7"));
        assert!(values.json_error.is_none());
    }

    #[test]
    fn a_value_too_long_for_an_id_is_not_one() {
        let fits = "x".repeat(LONGEST_VALUE);
        let body = format!(r#"{{"fits":"{fits}","long":"x{fits}"}}"#);
        let request = request(&[], body.as_bytes());
        assert_eq!(one(&request, &["json:/fits"]), Ok(fits.clone()));
        assert_eq!(one(&request, &["json:/long", "json:/fits"]), Ok(fits));
        assert_eq!(
            one(&request, &["json:/long"]).expect_err("it is too long"),
            "nothing at json:/long that is at most 1024 bytes long"
        );
    }
}
