//! `json:/pointer`: values from a JSON body, without building a tree of it.
//!
//! # Guarantees
//!
//! - One walk serves all pointers. It borrows from the body and keeps nothing of what nobody asked
//!   for, so a body of 16 MiB costs no more memory than one of 16 bytes. (A member's name with
//!   escapes in it is decoded to be compared, and forgotten.)
//! - The whole body is one JSON value, or no pointer finds anything: half a body may name the
//!   wrong event.
//! - It descends at most [`DEEPEST`] levels.
//!
//! Forgiven: a byte order mark before the value, and text that is not UTF-8 in names and values
//! nobody asked for (a person's name in GBK does not hide the event's id).

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize as _;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// The most pointers of one walk: the bits of [`Active`].
pub(super) const MOST: usize = 32;

/// The most levels of a body; as many as `serde_json` allows itself by default.
const DEEPEST: usize = 128;

/// The most steps of a pointer; well within what one walk may descend.
const LONGEST: usize = 64;

/// A JSON pointer. Source: RFC 6901.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Pointer {
    text: String,
    steps: Vec<Step>,
}

/// One step down: the member of that name, or the element of that index.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Step {
    name: String,
    index: Option<usize>,
}

impl Pointer {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(format!(
                "a JSON pointer begins with \"/\", as in json:/{text}"
            ));
        }
        let steps: Vec<_> = text.split('/').skip(1).map(Step::parse).collect();
        if LONGEST < steps.len() {
            return Err(format!("a JSON pointer has at most {LONGEST} steps"));
        }
        let steps = steps.into_iter().collect::<Result<_, _>>()?;
        let text = text.to_owned();
        Ok(Self { text, steps })
    }
}

impl Step {
    /// Source: RFC 6901 sections 3 and 4: `~1` is a slash, `~0` a tilde, an index has no leading
    /// zero.
    fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text;
        while let Some(at) = rest.find('~') {
            if !rest[at + 1..].starts_with(['0', '1']) {
                return Err("in a JSON pointer \"~\" is written ~0 and \"/\" ~1".to_owned());
            }
            rest = &rest[at + 2..];
        }
        let is_index = text == "0"
            || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(Self {
            name: text.replace("~1", "/").replace("~0", "~"),
            index: text.parse().ok().filter(|_| is_index),
        })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why nothing was found in a body.
#[derive(Debug)]
pub(super) enum Error {
    /// There is no body.
    Empty,
    /// It is not one JSON value. `serde_json` says why, and where by line and column.
    NotJson(serde_json::Error),
    /// It goes down more than [`DEEPEST`] levels.
    TooDeep {
        /// The line, from 1.
        line: usize,
        /// The byte in it, from 1.
        column: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("body is empty"),
            Self::NotJson(error) => write!(f, "body is not JSON: {error}"),
            Self::TooDeep { line, column } => write!(
                f,
                "body is not JSON: more than {DEEPEST} levels at line {line} column {column}"
            ),
        }
    }
}

/// The pointers of one walk.
#[derive(Default)]
pub(super) struct Wanted<'p> {
    pointers: [Option<&'p Pointer>; MOST],
    count: usize,
}

/// What a walk found.
#[derive(Default)]
pub(super) struct Document<'p, 'b> {
    pointers: [Option<&'p Pointer>; MOST],
    values: [Option<&'b RawValue>; MOST],
}

impl<'p> Wanted<'p> {
    /// Adds a pointer; one more than [`MOST`] is not looked for.
    pub(super) fn add(&mut self, pointer: &'p Pointer) {
        if let Some(place) = self.pointers.get_mut(self.count) {
            *place = Some(pointer);
            self.count += 1;
        }
    }

    /// Walks through `body`, unless there is nothing to look for.
    pub(super) fn find_in<'b>(self, body: &'b [u8]) -> Result<Document<'p, 'b>, Error> {
        let mut document = Document {
            pointers: self.pointers,
            ..Document::default()
        };
        if self.count == 0 {
            return Ok(document);
        }
        let body = bare(body);
        if body.trim_ascii().is_empty() {
            return Err(Error::Empty);
        }
        check_depth(body)?;
        let all = Active(u32::MAX >> (MOST - self.count));
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let walk = Walk {
            document: &mut document,
            active: all,
            depth: 0,
        };
        let outcome = walk
            .deserialize(&mut deserializer)
            .and_then(|()| deserializer.end());
        outcome.map(|()| document).map_err(Error::NotJson)
    }
}

impl<'b> Document<'_, 'b> {
    /// What `pointer` points at, as text: a string's content, a number with all its digits, or
    /// `true` and `false`. Not found: null, objects, arrays and the empty string.
    pub(super) fn text(&self, pointer: &Pointer) -> Option<Cow<'b, str>> {
        let mut places = self.pointers.iter().flatten();
        let place = places.position(|wanted| std::ptr::eq(*wanted, pointer))?;
        let raw = self.values[place]?.get();
        match raw.as_bytes().first()? {
            b'"' => string(raw),
            b'n' | b'{' | b'[' => None,
            _ => Some(Cow::Borrowed(raw)),
        }
    }
}

/// How many elements the array has that `pointer` points at in `body`; none if there is none.
pub(super) fn length(pointer: &Pointer, body: &[u8]) -> Option<u64> {
    let mut wanted = Wanted::default();
    wanted.add(pointer);
    let document = wanted.find_in(body).ok()?;
    let array = document.values[0]?.get();
    // An `IgnoredAny` takes no memory.
    let elements: Vec<IgnoredAny> = serde_json::from_str(array).ok()?;
    Some(elements.len() as u64)
}

/// The content of a string literal.
///
/// Half a surrogate pair (RFC 8259 section 8.2) stands for no text; such an id is kept as it is
/// spelt, since it still tells one event from another.
fn string(raw: &str) -> Option<Cow<'_, str>> {
    let content = raw.strip_prefix('"')?.strip_suffix('"')?;
    let text = if content.contains('\\') {
        serde_json::from_str(raw).map_or(Cow::Borrowed(content), Cow::Owned)
    } else {
        Cow::Borrowed(content)
    };
    Some(text).filter(|text| !text.is_empty())
}

/// `body` without a byte order mark, and without the NUL that ends a string in C.
fn bare(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let end = body.iter().rposition(|byte| *byte != 0);
    &body[..end.map_or(0, |end| end + 1)]
}

/// The skipping of `serde_json` does not count levels, so we do, but only where there can be too
/// many.
fn check_depth(body: &[u8]) -> Result<(), Error> {
    let opens = |byte: &&u8| matches!(byte, b'[' | b'{');
    if body.iter().filter(opens).count() <= DEEPEST {
        return Ok(());
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in body.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if DEEPEST < depth {
            let before = &body[..at];
            let line_start = before.iter().rposition(|byte| *byte == b'\n');
            return Err(Error::TooDeep {
                line: before.split(|byte| *byte == b'\n').count(),
                column: line_start.map_or(at + 1, |start| at - start),
            });
        }
    }
    Ok(())
}

/// The pointers that a walk is still on the way of, one bit each.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Active(u32);

impl Active {
    const NONE: Self = Self(0);

    fn places(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let place = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            Some(place).filter(|place| *place < MOST)
        })
    }

    /// Those of them that `keep` keeps.
    fn filter(self, keep: impl Fn(usize) -> bool) -> Self {
        let places = self.places().filter(|place| keep(*place));
        Self(places.fold(0, |bits, place| bits | 1 << place))
    }
}

/// One value of the body, `depth` levels down, and the pointers that lead to it or through it.
struct Walk<'w, 'p, 'b> {
    document: &'w mut Document<'p, 'b>,
    active: Active,
    depth: usize,
}

impl<'p, 'b> Walk<'_, 'p, 'b> {
    fn step(&self, place: usize) -> Option<&'p Step> {
        self.document.pointers[place]?.steps.get(self.depth)
    }

    /// Those of the pointers whose next step is right.
    fn leading(&self, is_right: impl Fn(&Step) -> bool) -> Active {
        let leads_there = |place| self.step(place).is_some_and(&is_right);
        self.active.filter(leads_there)
    }

    /// The value that `active` lead to from here.
    fn below(&mut self, active: Active) -> Walk<'_, 'p, 'b> {
        Walk {
            document: self.document,
            active,
            depth: self.depth + 1,
        }
    }
}

/// Of equal names in one object the last counts, as for most that will read the event upstream
/// (RFC 8259 section 4 leaves it open): so what an earlier one led to is forgotten first.
impl<'b> DeserializeSeed<'b> for Walk<'_, '_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(mut self, deserializer: D) -> Result<(), D::Error> {
        for place in self.active.places() {
            self.document.values[place] = None;
        }
        let here = self.active.filter(|place| self.step(place).is_none());
        if here == Active::NONE {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?;
        for place in here.places() {
            self.document.values[place] = Some(raw);
        }
        self.active = self.active.filter(|place| self.step(place).is_some());
        if self.active == Active::NONE {
            return Ok(());
        }
        let mut again = serde_json::Deserializer::from_str(raw.get());
        again.deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'b> Visitor<'b> for Walk<'_, '_, 'b> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'b>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(active) = map.next_key_seed(Member(&self))? {
            if active == Active::NONE {
                map.next_value::<IgnoredAny>()?;
            } else {
                map.next_value_seed(self.below(active))?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'b>>(mut self, mut seq: A) -> Result<(), A::Error> {
        for index in 0.. {
            let active = self.leading(|step| step.index == Some(index));
            let element = if active == Active::NONE {
                seq.next_element::<IgnoredAny>()?.map(drop)
            } else {
                seq.next_element_seed(self.below(active))?
            };
            if element.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// The name of a member; read as bytes, so that one that is not UTF-8 is no obstacle.
struct Member<'a, 'w, 'p, 'b>(&'a Walk<'w, 'p, 'b>);

impl<'b> DeserializeSeed<'b> for Member<'_, '_, '_, '_> {
    type Value = Active;

    fn deserialize<D: Deserializer<'b>>(self, deserializer: D) -> Result<Active, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Member<'_, '_, '_, '_> {
    type Value = Active;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Active, E> {
        Ok(self.0.leading(|step| step.name.as_bytes() == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(body: &[u8], pointers: &[&str]) -> Result<Vec<Option<String>>, String> {
        let parse = |text: &&str| Pointer::parse(text).expect("the test writes it right");
        let pointers: Vec<_> = pointers.iter().map(parse).collect();
        let mut wanted = Wanted::default();
        for pointer in &pointers {
            wanted.add(pointer);
        }
        let document = wanted.find_in(body).map_err(|why| why.to_string())?;
        let text = |pointer| document.text(pointer).map(Cow::into_owned);
        Ok(pointers.iter().map(text).collect())
    }

    #[test]
    fn a_pointer_finds_text_numbers_and_truth_values() {
        let body = br#" {"id":"e-1","n":12345678901234567890123,"f":-1.50e+3,"t":true,"no":false,
            "null":null,"empty":"","esc":"\u00e9\n\"","half":"\ud83d","o":{"x":[7,{"y":"deep"}]},
            "a/b":1,"m~n":2,"":3,"e":1e999,"0":"zero"} "#;
        let rows = [
            ("/id", Some("e-1")),
            ("/n", Some("12345678901234567890123")),
            ("/f", Some("-1.50e+3")),
            ("/t", Some("true")),
            ("/no", Some("false")),
            ("/null", None),
            ("/empty", None),
            ("/esc", Some("\u{e9}\n\"")),
            ("/half", Some("\\ud83d")),
            ("/o", None),
            ("/o/x", None),
            ("/o/x/0", Some("7")),
            ("/o/x/1/y", Some("deep")),
            ("/o/x/2", None),
            ("/o/x/-", None),
            ("/o/x/00", None),
            ("/o/x/+1", None),
            ("/id/0", None),
            ("/a~1b", Some("1")),
            ("/m~0n", Some("2")),
            ("/", Some("3")),
            ("/e", Some("1e999")),
            ("/0", Some("zero")),
            ("/missing", None),
            ("", None),
        ];
        for (pointer, expected) in rows {
            let found = find(body, &[pointer]).expect("it is JSON");
            assert_eq!(found[0].as_deref(), expected, "{pointer}");
        }
        for some in rows.chunks(7) {
            let pointers: Vec<_> = some.iter().map(|row| row.0).collect();
            let found = find(body, &pointers).expect("it is JSON");
            for (found, row) in found.iter().zip(some) {
                assert_eq!(found.as_deref(), row.1, "{} among {pointers:?}", row.0);
            }
        }
    }

    #[test]
    fn any_value_is_a_document() {
        let rows: &[(&[u8], &str, Option<&str>)] = &[
            (b"\"e-1\"", "", Some("e-1")),
            (b"17\r\n", "", Some("17")),
            (b"[1,[2]]", "/1/0", Some("2")),
            (b"null", "/a", None),
            (b"-0", "/a", None),
            (b"\xef\xbb\xbf{\"a\":1}", "/a", Some("1")),
            (b"{\"a\":1}\0", "/a", Some("1")),
            (b"{\"a\":1}\r\n\0\0", "/a", Some("1")),
            (b"{\"\xc4\xe3\":\"\xba\xc3\",\"a\":1}", "/a", Some("1")),
        ];
        for (body, pointer, expected) in rows {
            let shown = String::from_utf8_lossy(body);
            let found = find(body, &[pointer]).expect("it is JSON");
            assert_eq!(found[0].as_deref(), *expected, "{shown}");
        }
    }

    #[test]
    fn of_equal_names_the_last_counts() {
        type Row<'a> = (&'a str, &'a [&'a str], &'a [Option<&'a str>]);
        let rows: &[Row<'_>] = &[
            (r#"{"a":1,"a":2}"#, &["/a"], &[Some("2")]),
            (r#"{"a":1,"a":null}"#, &["/a"], &[None]),
            (r#"{"a":{"b":1},"a":{}}"#, &["/a/b"], &[None]),
            (
                r#"{"a":{"b":1},"a":5}"#,
                &["/a/b", "/a"],
                &[None, Some("5")],
            ),
            (r#"{"a":5,"\u0061":6}"#, &["/a"], &[Some("6")]),
        ];
        for (body, pointers, expected) in rows {
            let found = find(body.as_bytes(), pointers).expect("it is JSON");
            let found: Vec<_> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found, *expected, "{body}");
        }
    }

    #[test]
    fn what_is_not_wholly_json_finds_nothing_and_says_where() {
        let rows: &[(&[u8], &str)] = &[
            (b"", "body is empty"),
            (b" \r\n", "body is empty"),
            (
                br#"{"a":1"#,
                "body is not JSON: EOF while parsing an object at line 1 column 6",
            ),
            (
                br#"{"a":1 "b":2}"#,
                "body is not JSON: expected `,` or `}` at line 1 column 8",
            ),
            (
                b"{\"a\":1,\n\"b\":nil}",
                "body is not JSON: expected ident at line 2 column 6",
            ),
            (
                br#"{"a":1}{"a":2}"#,
                "body is not JSON: trailing characters at line 1 column 8",
            ),
            (
                br"{'a':1}",
                "body is not JSON: key must be a string at line 1 column 2",
            ),
            (
                b"eventId=7&deviceId=8",
                "body is not JSON: expected value at line 1 column 1",
            ),
            (
                b"{\"a\":\"\xff\"}",
                "body is not JSON: invalid unicode code point at line 1 column 7",
            ),
        ];
        for (body, why) in rows {
            let shown = String::from_utf8_lossy(body);
            let found = find(body, &["/a"]).expect_err(&shown);
            assert_eq!(found, *why, "{shown}");
        }
    }

    #[test]
    fn depth_is_bounded_and_brackets_in_text_are_not_depth() {
        let nested = |levels: usize| {
            let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
            format!(
                "{{\"text\":\"{}\\\"\",\n\"deep\":{open}{close},\"a\":1}}",
                "[".repeat(500)
            )
        };
        let found = find(nested(128).as_bytes(), &["/a"]);
        assert_eq!(found, Ok(vec![Some("1".to_owned())]));
        assert_eq!(
            find(nested(129).as_bytes(), &["/a"]),
            Err("body is not JSON: more than 128 levels at line 2 column 135".to_owned())
        );
        let bomb = vec![b'['; 1 << 20];
        assert!(find(&bomb, &["/a/0/0"]).is_err());
        let longest = "/0".repeat(LONGEST);
        let arrays = "[".repeat(LONGEST) + "5" + &"]".repeat(LONGEST);
        let found = find(arrays.as_bytes(), &[&longest]);
        assert_eq!(found, Ok(vec![Some("5".to_owned())]));
    }

    #[test]
    fn nothing_is_copied_from_the_body_but_what_is_asked_for() {
        let body = br#"{"id":"plain","esc":"a\tb"}"#;
        let pointers = ["/id", "/esc"].map(|text| Pointer::parse(text).expect("it is a pointer"));
        let mut wanted = Wanted::default();
        for pointer in &pointers {
            wanted.add(pointer);
        }
        let document = wanted.find_in(body).expect("it is JSON");
        let [id, esc] = pointers.each_ref().map(|pointer| document.text(pointer));
        assert!(matches!(id, Some(Cow::Borrowed("plain"))), "{id:?}");
        assert!(matches!(esc, Some(Cow::Owned(_))), "{esc:?}");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body: Vec<u8>, id: String) {
            _ = find(&body, &["/a/0", "/a", ""]);
            let json = serde_json::json!({"x": [id], "id": id}).to_string();
            let expected = Some(id).filter(|id| !id.is_empty());
            let found = find(json.as_bytes(), &["/id", "/x/0"]);
            proptest::prop_assert_eq!(found, Ok(vec![expected.clone(), expected]));
        }
    }
}
