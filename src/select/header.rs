//! `header:Name`: a value from the request's head.

use std::borrow::Cow;
use std::fmt;

use super::text;
use crate::event::Request;

/// A header's name, spelt as the operator did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Name(String);

impl Name {
    /// Source: RFC 9110 section 5.6.2, `token`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if text.is_empty() || !text.bytes().all(is_token) {
            return Err(
                "a header's name is letters, digits and hyphens, as in header:X-Event-Id"
                    .to_owned(),
            );
        }
        Ok(Self(text.to_owned()))
    }

    /// The value of the first header of that name that is not blank.
    pub(super) fn text<'a>(&self, request: &'a Request) -> Option<Cow<'a, str>> {
        let mut values = request
            .headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(&self.0))
            .filter_map(|header| text::of(&header.value));
        values.next()
    }

    /// As it was written.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Header;

    #[test]
    fn a_header_is_found_in_any_spelling_and_kept_whatever_its_bytes() {
        let rows: &[(&[&[u8]], Option<&str>)] = &[
            (&[b"e-1"], Some("e-1")),
            (&[b" \te-1 "], Some("e-1")),
            (&[b"", b"second"], Some("second")),
            (&[b"first", b"second"], Some("first")),
            (&["Größe".as_bytes()], Some("Größe")),
            (&[b"caf\xe9"], Some("hex:636166e9")),
            (&[b" "], None),
            (&[], None),
        ];
        let name = Name::parse("x-event-id").expect("it is a name");
        for (values, expected) in rows {
            let headers = values.iter().map(|value| Header {
                name: "X-Event-ID".to_owned(),
                value: value.to_vec(),
            });
            let request = Request {
                peer: ([127, 0, 0, 1], 1).into(),
                method: "POST".to_owned(),
                target: b"/".to_vec(),
                headers: headers.collect(),
                body: Vec::new(),
                oversize: None,
            };
            assert_eq!(name.text(&request).as_deref(), *expected, "{values:?}");
        }
    }
}
