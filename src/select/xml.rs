//! `xml:Root/child/leaf` and `xml:Root/child@attribute`: a value from an XML body.
//!
//! # Guarantees
//!
//! - Prefixes of namespaces don't count; `*` is any one element.
//! - Only the five entities of XML and numeric ones mean anything. A DOCTYPE declares nothing.
//! - It descends at most [`DEEPEST`] levels. What comes before a mistake is found.
//!
//! Forgiven: a byte order mark, an end tag of another name, a lone ampersand, and text that is not
//! UTF-8: it is read byte by byte then, so a name in GBK does not hide the id.

use std::borrow::Cow;
use std::fmt;

use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::LONGEST_VALUE;
use super::text;

/// The most levels of a body.
const DEEPEST: usize = 64;

/// The most steps of a path.
const LONGEST: usize = 32;

/// The way to an element or to one of its attributes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Path {
    steps: Vec<String>,
    attribute: Option<String>,
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (path, attribute) = match text.split_once('@') {
            Some((path, attribute)) => (path, Some(attribute.to_owned())),
            None => (text, None),
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains([' ', '<', '>', ':', '@']);
        let steps: Vec<String> = path.split('/').map(str::to_owned).collect();
        let names = steps.iter().chain(&attribute);
        if LONGEST < steps.len() || !names.into_iter().all(|name| is_name(name)) {
            return Err(format!(
                "a path is at most {LONGEST} names of elements from the root on, without prefixes, \
                 and perhaps an attribute, as in xml:Root/child@id"
            ));
        }
        Ok(Self { steps, attribute })
    }

    /// The first value there that is not blank.
    pub(super) fn find_in(&self, body: &[u8]) -> Option<String> {
        let mut found = None;
        self.walk(body, |value| {
            found = text::owned(&value);
            found.is_some()
        });
        found
    }

    /// How many elements there are, or attributes.
    pub(super) fn count_in(&self, body: &[u8]) -> u64 {
        let mut count = 0;
        self.walk(body, |_| {
            count += 1;
            false
        });
        count
    }

    /// Hands on the value of each element or attribute of this path, until `enough` says so.
    fn walk(&self, body: &[u8], mut enough: impl FnMut(Vec<u8>) -> bool) {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let (body, is_utf8) = match std::str::from_utf8(body) {
            Ok(text) => (Cow::Borrowed(text), true),
            Err(_) => (
                Cow::Owned(body.iter().copied().map(char::from).collect()),
                false,
            ),
        };
        let mut reader = Reader::from_str(&body);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let mut place = Place {
            path: self,
            is_utf8,
            depth: 0,
            matched: 0,
            value: Vec::new(),
        };
        loop {
            let ended = match reader.read_event() {
                Ok(Event::Start(start)) => {
                    if DEEPEST <= place.depth {
                        return;
                    }
                    place.enter(&start)
                }
                Ok(Event::Empty(start)) => {
                    let attribute = place.enter(&start);
                    let element = place.leave();
                    attribute.or(element)
                }
                Ok(Event::End(_)) => place.leave(),
                Ok(Event::Text(text)) => place.take(&text),
                Ok(Event::CData(text)) => place.take(&text),
                Ok(Event::GeneralRef(reference)) => place.take_reference(&reference),
                Ok(Event::Eof) | Err(_) => return,
                Ok(_) => None,
            };
            if ended.is_some_and(&mut enough) {
                return;
            }
        }
    }
}

/// Where in a body a walk is.
struct Place<'p> {
    path: &'p Path,
    is_utf8: bool,
    depth: usize,
    /// How many steps of the path the elements around here have taken, from the root on.
    matched: usize,
    value: Vec<u8>,
}

impl Place<'_> {
    /// An element begins. Returns the attribute that is looked for, if this is the place.
    fn enter(&mut self, start: &BytesStart<'_>) -> Option<Vec<u8>> {
        let steps = &self.path.steps;
        let is_next = self.matched == self.depth
            && steps
                .get(self.depth)
                .is_some_and(|step| step == "*" || start.local_name().as_ref() == step.as_str());
        self.depth += 1;
        if !is_next {
            return None;
        }
        self.matched += 1;
        if self.matched < steps.len() {
            return None;
        }
        self.value.clear();
        let name = self.path.attribute.as_ref()?;
        let mut attributes = start.attributes();
        let attribute = attributes
            .with_checks(false)
            .filter_map(Result::ok)
            .find(|attribute| attribute.key.local_name().as_ref() == name.as_str())?;
        let value = quick_xml::escape::unescape(&attribute.value);
        let value = value.unwrap_or(Cow::Borrowed(&attribute.value));
        Some(self.bytes(&value))
    }

    /// An element ends. Returns its text, if this is the place and no attribute is looked for.
    fn leave(&mut self) -> Option<Vec<u8>> {
        let is_it = self.is_inside() && self.path.attribute.is_none();
        self.depth = self.depth.saturating_sub(1);
        self.matched = self.matched.min(self.depth);
        is_it.then(|| std::mem::take(&mut self.value))
    }

    fn is_inside(&self) -> bool {
        self.matched == self.path.steps.len() && self.depth == self.matched
    }

    fn take(&mut self, text: &str) -> Option<Vec<u8>> {
        if self.is_inside() && self.value.len() <= LONGEST_VALUE {
            let bytes = self.bytes(text);
            self.value.extend(bytes);
        }
        None
    }

    fn take_reference(&mut self, reference: &BytesRef<'_>) -> Option<Vec<u8>> {
        let character = match &**reference {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "apos" => Some('\''),
            "quot" => Some('"'),
            _ => reference.resolve_char_ref().ok().flatten(),
        };
        if let Some(character) = character.filter(|_| self.is_inside()) {
            self.value
                .extend(character.encode_utf8(&mut [0; 4]).bytes());
        }
        None
    }

    /// Text as the bytes it was in the body.
    fn bytes(&self, text: &str) -> Vec<u8> {
        if self.is_utf8 {
            return text.as_bytes().to_vec();
        }
        let byte = |character| u8::try_from(u32::from(character)).unwrap_or(b'?');
        text.chars().map(byte).collect()
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.steps.join("/"))?;
        match &self.attribute {
            Some(attribute) => write!(f, "@{attribute}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str, body: &[u8]) -> Option<String> {
        Path::parse(path).expect("a right path").find_in(body)
    }

    #[test]
    fn values_are_found_by_their_path() {
        let body = br#"<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "no">]>
            <a xmlns:n="u" n:id="7"><n:b> one </n:b><b><c k='2&amp;3'>x</c></b><d/>
            <b><c>x&lt;&#65;&y;z</c></b><e><![CDATA[<raw>]]></e></a>"#;
        let rows = [
            ("a/b", Some("one")),
            ("a/b/c", Some("x")),
            ("a/b/c@k", Some("2&3")),
            ("a@id", Some("7")),
            ("a/e", Some("<raw>")),
            ("*/e", Some("<raw>")),
            ("a/d", None),
            ("b", None),
            ("a/b/c/d", None),
            ("a/c", None),
        ];
        for (path, expected) in rows {
            assert_eq!(find(path, body).as_deref(), expected, "{path}");
        }
        assert_eq!(Path::parse("a/b").map(|path| path.count_in(body)), Ok(3));
    }

    #[test]
    fn mistakes_hide_only_what_comes_after_them() {
        let rows: &[(&[u8], Option<&str>)] = &[
            (b"\xef\xbb\xbf<a><id>7</id></a>", Some("7")),
            (b"<a><id>7</id><", Some("7")),
            (b"<a><name>\xd5\xc5</name><id>7</id></a>", Some("7")),
            (b"<a><id>\xd5\xc5</id></a>", Some("hex:d5c5")),
            (b"<a><id>7 & 8</id></a>", Some("7 & 8")),
            (b"<a><id>x&amp;&lt;&#66;y</id></a>", Some("x&<By")),
            (b"<a><id>7</ID></a>", Some("7")),
            (b"<a><id>7", None),
            (b"no XML", None),
            (b"", None),
        ];
        for (body, expected) in rows {
            let shown = String::from_utf8_lossy(body);
            assert_eq!(find("a/id", body).as_deref(), *expected, "{shown}");
        }
        let deep = "<a>".repeat(1_000_000);
        assert_eq!(find("a/a/id", deep.as_bytes()), None);
    }

    #[test]
    fn what_is_no_path_is_said() {
        for text in ["", "a//b", "a/", "a b", "n:a", "a@", "a@b@c", "@b"] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
        for text in ["a", "a/b@c", "*/b"] {
            let path = Path::parse(text).expect(text);
            assert_eq!(path.to_string(), text);
        }
    }
}
