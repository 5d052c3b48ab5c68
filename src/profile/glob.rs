//! What a value must look like: a text in which `*` stands for anything.

use std::fmt;

/// `*getrequest*`, `up`, or nothing: then there must be no value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Glob(String);

impl Glob {
    /// What an operator wrote.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether a value looks so; case counts.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        match value {
            Some(value) => !self.0.is_empty() && looks_like(value, &self.0),
            None => self.0.is_empty(),
        }
    }
}

/// The pieces between the stars must follow each other: the first at the start, the last at the
/// end, each other one where it comes first.
fn looks_like(value: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return value == pattern;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(value) = value.strip_prefix(start) else {
        return false;
    };
    let Some(mut value) = value.strip_suffix(end) else {
        return false;
    };
    for piece in middle.split('*') {
        match value.find(piece) {
            Some(at) => value = &value[at + piece.len()..],
            None => return false,
        }
    }
    true
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        let rows = [
            ("up", Some("up"), true),
            ("up", Some("upper"), false),
            ("up*", Some("upper"), true),
            ("*", Some(""), true),
            ("*", Some("x"), true),
            ("*", None, false),
            ("*a*b*", Some("xaxbx"), true),
            ("*a*b*", Some("xbxax"), false),
            ("a*a", Some("a"), false),
            ("a*a", Some("aa"), true),
            ("ไ*ย", Some("ไทย"), true),
            ("", None, true),
            ("", Some("x"), false),
        ];
        for (pattern, value, expected) in rows {
            let found = Glob::new(pattern).matches(value);
            assert_eq!(found, expected, "{pattern} {value:?}");
        }
    }
}
