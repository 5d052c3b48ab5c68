//! How many events one request holds: `json:/notificationItems`, `lines`, `xml:Root/item`.
//!
//! They are counted and stay one event: its bytes go through untouched.

use std::fmt;

use super::{json, xml};

/// What is counted in a body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Items(Kind);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Kind {
    Json(json::Pointer),
    Xml(xml::Path),
    Lines,
}

impl Items {
    /// Reads what an operator wrote.
    ///
    /// # Errors
    ///
    /// Says in words what is wrong and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let kind = match text.split_once(':') {
            Some(("json", pointer)) => Kind::Json(json::Pointer::parse(pointer)?),
            Some(("xml", path)) => Kind::Xml(xml::Path::parse(path)?),
            None if text == "lines" => Kind::Lines,
            _ => {
                return Err(format!(
                    "\"{text}\" is nothing that can be counted; write \"json:/…\" for an array, \
                     \"xml:Root/item\" or \"lines\""
                ));
            }
        };
        Ok(Self(kind))
    }

    /// How many there are in `body`; none if it is not what they are counted in.
    #[must_use]
    pub fn count(&self, body: &[u8]) -> Option<u64> {
        match &self.0 {
            Kind::Json(pointer) => json::length(pointer, body),
            Kind::Xml(path) => Some(path.count_in(body)).filter(|count| 0 < *count),
            Kind::Lines if body.contains(&0) => None,
            Kind::Lines => {
                let lines = body.split(|byte| *byte == b'\n');
                Some(lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64)
            }
        }
    }
}

impl fmt::Display for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Json(pointer) => write!(f, "json:{pointer}"),
            Kind::Xml(path) => write!(f, "xml:{path}"),
            Kind::Lines => f.write_str("lines"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_counted() {
        let rows: &[(&str, &[u8], Option<u64>)] = &[
            ("json:/items", br#"{"items":[{"a":[1,2]},{},3]}"#, Some(3)),
            ("json:/items", br#"{"items":[]}"#, Some(0)),
            ("json:", b"[1,2]", Some(2)),
            ("json:/items", br#"{"items":{}}"#, None),
            ("json:/items", b"{", None),
            ("lines", b"a\tb\nc\r\n\n \nd", Some(3)),
            ("lines", b"", Some(0)),
            ("lines", b"a\nb\0\xff\n\xd8", None),
            ("xml:a/b", b"<a><b/><b>1</b><c/></a>", Some(2)),
            ("xml:a/b", b"<a/>", None),
        ];
        for (text, body, expected) in rows {
            let items = Items::parse(text).expect(text);
            assert_eq!(items.to_string(), *text);
            let shown = String::from_utf8_lossy(body);
            assert_eq!(items.count(body), *expected, "{text} {shown}");
        }
        for text in ["items", "json:items", "line:1", ""] {
            assert!(Items::parse(text).is_err(), "{text}");
        }
    }
}
