//! What looks into the bytes of a body, or of a part of one.

use std::borrow::Cow;
use std::fmt;

use super::{json, pairs, text, time, xml};

/// Where in a body a value is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Body {
    /// In JSON.
    Json(json::Pointer),
    /// In XML.
    Xml(xml::Path),
    /// In `name=value&…`.
    Form(pairs::Name),
    /// It is the line of that number, from 1.
    Line(usize),
    /// It is the first date with a time of day in any line.
    Time,
}

/// The highest number of a line.
const MOST_LINES: usize = 1_000;

impl Body {
    /// What an operator can write, for messages.
    pub(super) const KINDS: &str = "json:/pointer, xml:Root/child@attribute, form:name, line:1";

    /// None if that is no kind of these.
    pub(super) fn parse(kind: &str, rest: &str) -> Option<Result<Self, String>> {
        Some(match kind {
            "json" => json::Pointer::parse(rest).map(Self::Json),
            "xml" => xml::Path::parse(rest).map(Self::Xml),
            "form" => pairs::Name::parse(rest, kind).map(Self::Form),
            "line" => match rest.parse() {
                Ok(number @ 1..=MOST_LINES) => Ok(Self::Line(number)),
                Err(_) if rest == "time" => Ok(Self::Time),
                _ => Err(format!(
                    "a line has a number from 1 to {MOST_LINES}, as in line:1; line:time is the \
                     first date with a time of day in any line"
                )),
            },
            _ => return None,
        })
    }

    /// The value, if there is one.
    pub(super) fn find_in<'b>(&self, body: &'b [u8]) -> Option<Cow<'b, str>> {
        match self {
            Self::Json(pointer) => {
                let mut wanted = json::Wanted::default();
                wanted.add(pointer);
                let document = wanted.find_in(body).ok()?;
                let value = document.text(pointer)?;
                Some(Cow::Owned(value.into_owned()))
            }
            Self::Xml(path) => path.find_in(body).map(Cow::Owned),
            Self::Form(name) => name.find_in(body).map(Cow::Owned),
            Self::Time => time::find_in(body).map(Cow::Borrowed),
            Self::Line(number) => text::of(body.split(|byte| *byte == b'\n').nth(number - 1)?),
        }
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Xml(path) => write!(f, "xml:{path}"),
            Self::Form(name) => write!(f, "form:{name}"),
            Self::Line(number) => write!(f, "line:{number}"),
            Self::Time => f.write_str("line:time"),
        }
    }
}
