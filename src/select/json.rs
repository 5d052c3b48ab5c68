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
//! Forgiven: a byte order mark before the value, and text that is not UTF-8 in names and values: a
//! person's name in GBK does not hide the event's id, and what is asked for and no text is an id in
//! hexadecimal digits. A body with such a value where a pointer leads is read twice, from a copy.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::Deserialize as _;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::text;

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
    /// As they stand in the body.
    values: [Option<&'b [u8]>; MOST],
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
        let pointers = self.pointers;
        if self.count == 0 {
            return Ok(Document::default());
        }
        let body = bare(body);
        if body.trim_ascii().is_empty() {
            return Err(Error::Empty);
        }
        check_depth(body)?;
        let raw = match self.walk(body, Care::Usual) {
            Ok(values) => values.map(|value| Some(value?.get().as_bytes())),
            Err(why) => {
                let legible = legible(body).ok_or(Error::NotJson(why))?;
                let values = self.walk(&legible, Care::Great).map_err(Error::NotJson)?;
                values.map(|value| Some(&body[place_of(value?.get(), &legible)]))
            }
        };
        Ok(Document {
            pointers,
            values: raw,
        })
    }

    fn walk<'b>(&self, body: &'b [u8], care: Care) -> Result<Found<'b>, serde_json::Error> {
        let mut found = Found::default();
        let walk = Walk {
            pointers: &self.pointers,
            found: &mut found,
            active: Active(u32::MAX >> (MOST - self.count)),
            depth: 0,
            care,
        };
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        walk.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found)
    }
}

impl<'b> Document<'_, 'b> {
    /// What `pointer` points at, as text: a string's content, a number with all its digits, or
    /// `true` and `false`; a string that is not UTF-8 as [`text::of`] has it. Not found: null,
    /// objects, arrays and the empty string.
    pub(super) fn text(&self, pointer: &Pointer) -> Option<Cow<'b, str>> {
        let mut places = self.pointers.iter().flatten();
        let place = places.position(|wanted| std::ptr::eq(*wanted, pointer))?;
        let raw = self.values[place]?;
        match raw.first()? {
            b'"' => string(raw),
            b'n' | b'{' | b'[' => None,
            _ => std::str::from_utf8(raw).ok().map(Cow::Borrowed),
        }
    }
}

/// How many elements the array has that `pointer` points at in `body`; none if there is none.
pub(super) fn length(pointer: &Pointer, body: &[u8]) -> Option<u64> {
    let mut wanted = Wanted::default();
    wanted.add(pointer);
    let document = wanted.find_in(body).ok()?;
    let array = document.values[0]?;
    // An `IgnoredAny` takes no memory.
    let elements: Vec<IgnoredAny> = serde_json::from_slice(array).ok()?;
    Some(elements.len() as u64)
}

/// The content of a string literal.
fn string(raw: &[u8]) -> Option<Cow<'_, str>> {
    let content = raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let is_plain = !content.contains(&b'\\');
    let text = match std::str::from_utf8(content) {
        Ok(content) if is_plain => Cow::Borrowed(content),
        Ok(content) => serde_json::from_slice(raw).map_or(Cow::Borrowed(content), Cow::Owned),
        Err(_) if is_plain => return text::of(content),
        Err(_) => {
            let mut literal = serde_json::Deserializer::from_slice(raw);
            let content = literal.deserialize_bytes(Unescaped).ok()?;
            return text::owned(&content).map(Cow::Owned);
        }
    };
    Some(text).filter(|text| !text.is_empty())
}

/// The bytes of a string literal that is not UTF-8.
struct Unescaped;

impl Visitor<'_> for Unescaped {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, content: &[u8]) -> Result<Vec<u8>, E> {
        Ok(content.to_vec())
    }
}

/// A body as long with all that is not UTF-8 crossed out, if it is JSON but for that.
fn legible(body: &[u8]) -> Option<Vec<u8>> {
    // Nothing is copied of a picture.
    serde_json::from_slice::<IgnoredAny>(body).ok()?;
    let mut legible = Vec::with_capacity(body.len());
    for chunk in body.utf8_chunks() {
        legible.extend_from_slice(chunk.valid().as_bytes());
        // No pointer has it in a name that is meant.
        legible.resize(legible.len() + chunk.invalid().len(), b'\x7f');
    }
    Some(legible)
}

/// Where in `whole` the part of it lies.
fn place_of(part: &str, whole: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - whole.as_ptr().addr();
    start..start + part.len()
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

/// The values of one walk.
type Found<'b> = [Option<&'b RawValue>; MOST];

/// How a walk looks at what is neither object nor array, though a pointer leads on from there.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Care {
    /// As a value, which a number may be too large for and half a surrogate pair is not.
    Usual,
    /// Not at all: each value is skipped first, to see what it is. That takes as many times as
    /// long as pointers have steps.
    Great,
}

/// One value of the body, `depth` levels down, and the pointers that lead to it or through it.
struct Walk<'w, 'p, 'b> {
    pointers: &'w [Option<&'p Pointer>; MOST],
    found: &'w mut Found<'b>,
    active: Active,
    depth: usize,
    care: Care,
}

impl<'p, 'b> Walk<'_, 'p, 'b> {
    fn step(&self, place: usize) -> Option<&'p Step> {
        self.pointers[place]?.steps.get(self.depth)
    }

    /// Those of the pointers whose next step is right.
    fn leading(&self, is_right: impl Fn(&Step) -> bool) -> Active {
        let leads_there = |place| self.step(place).is_some_and(&is_right);
        self.active.filter(leads_there)
    }

    /// The value that `active` lead to from here.
    fn below(&mut self, active: Active) -> Walk<'_, 'p, 'b> {
        Walk {
            pointers: self.pointers,
            found: self.found,
            active,
            depth: self.depth + 1,
            care: self.care,
        }
    }
}

/// Of equal names in one object the last counts, as for most that will read the event upstream
/// (RFC 8259 section 4 leaves it open): so what an earlier one led to is forgotten first.
impl<'b> DeserializeSeed<'b> for Walk<'_, '_, 'b> {
    type Value = ();

    fn deserialize<D: Deserializer<'b>>(mut self, deserializer: D) -> Result<(), D::Error> {
        for place in self.active.places() {
            self.found[place] = None;
        }
        let here = self.active.filter(|place| self.step(place).is_none());
        if here == Active::NONE && self.care == Care::Usual {
            return deserializer.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(deserializer)?;
        for place in here.places() {
            self.found[place] = Some(raw);
        }
        self.active = self.active.filter(|place| self.step(place).is_some());
        let goes_down = raw.get().starts_with(['{', '[']);
        if self.active == Active::NONE || !goes_down {
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
mod tests;
