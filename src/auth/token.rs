//! A token that senders send along: in a header, in the query, or in the path.

use std::fmt;

use super::CONCEALED;
use super::secret::{Known, lines};
use crate::event::Request;
use crate::select::{self, LONGEST_VALUE, Selector, Subject};

/// The header whose value begins with the name of a scheme. Source: RFC 6750 section 2.1.
const AUTHORIZATION: &str = "authorization";

/// What stands before a token there.
const BEARER: &str = "bearer ";

/// Where a token is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Place {
    /// The header of that name; in `Authorization` behind `Bearer`.
    Header(String),
    /// The value of that name in the query.
    Query(String),
    /// The hole of that name in the route's path.
    Path(String),
}

/// `header X-Token`, `query token`, `path token`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Query(name) => write!(f, "query {name}"),
            Self::Path(name) => write!(f, "path {{{name}}}"),
        }
    }
}

/// What must be sent along, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Token {
    place: Place,
    selector: Selector,
    known: Known,
}

impl Token {
    /// A token in that place. Until it has some from a file, none is right.
    ///
    /// # Errors
    ///
    /// Says in words why it can't be there.
    pub fn new(place: Place) -> Result<Self, String> {
        let selector = match &place {
            Place::Header(name) => format!("header:{name}"),
            Place::Query(name) => format!("query:{name}"),
            Place::Path(name) => format!("path:{name}"),
        };
        if selector.contains(" + ") {
            return Err(format!("{place} has blanks in its name"));
        }
        Ok(Self {
            selector: Selector::parse(&selector).map_err(|why| why.to_string())?,
            known: Known::default(),
            place,
        })
    }

    /// The same with the tokens of a file, one a line.
    ///
    /// # Errors
    ///
    /// Says in words why they can't be taken; never what they are.
    pub fn with_file(mut self, file: &[u8]) -> Result<Self, String> {
        for (number, line) in lines(file) {
            let token = line.trim_ascii();
            if LONGEST_VALUE < token.len() || !token.iter().all(u8::is_ascii_graphic) {
                return Err(format!(
                    "line {number} is no token; one a line, of at most {LONGEST_VALUE} letters \
                     and digits without blanks, is right"
                ));
            }
            self.known.add(token);
        }
        if self.known.is_empty() {
            return Err("it is empty; write a token into it, one a line".to_owned());
        }
        Ok(self)
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The selector that finds it.
    #[must_use]
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Whether a request has one that is right; else what is wrong, to be read after `token `.
    pub(super) fn check(&self, subject: &Subject<'_>) -> Result<(), String> {
        let found = select::find(subject, &self.selector);
        let found = found.ok_or_else(|| match &self.place {
            Place::Header(name) => format!("missing: no header {name}"),
            Place::Query(name) => format!("missing: no {name} in the query"),
            Place::Path(name) => format!("missing: nothing for {{{name}}} in the path"),
        })?;
        let token = match &self.place {
            Place::Header(name) if name.eq_ignore_ascii_case(AUTHORIZATION) => {
                let head = found.get(..BEARER.len()).unwrap_or_default();
                if !head.eq_ignore_ascii_case(BEARER) {
                    return Err("missing: no Bearer in header Authorization".to_owned());
                }
                found[BEARER.len()..].trim_start()
            }
            _ => found.as_str(),
        };
        if self.known.has(token.as_bytes()) {
            Ok(())
        } else {
            Err("wrong".to_owned())
        }
    }

    /// Takes it out of a request that is to be kept, unless it is in the path: that is the
    /// pattern's.
    pub(super) fn conceal(&self, request: &mut Request) {
        match &self.place {
            Place::Header(name) => conceal_header(request, name),
            Place::Query(name) => {
                let query = request.query_at();
                let shown = select::conceal_in_query(name, &request.target[query.clone()]);
                request.target.truncate(query.end);
                request.target.splice(query, shown);
            }
            Place::Path(_) => {}
        }
    }
}

pub(super) fn conceal_header(request: &mut Request, name: &str) {
    for header in &mut request.headers {
        if header.name.eq_ignore_ascii_case(name) {
            header.value = CONCEALED.to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Header;

    fn request(target: &str, headers: &[(&str, &str)]) -> Request {
        let header = |(name, value): &(&str, &str)| Header {
            name: (*name).to_owned(),
            value: value.as_bytes().to_vec(),
        };
        Request {
            peer: ([10, 0, 0, 7], 1).into(),
            method: "POST".to_owned(),
            target: target.as_bytes().to_vec(),
            headers: headers.iter().map(header).collect(),
            body: Vec::new(),
            oversize: None,
        }
    }

    fn token(place: Place) -> Token {
        let token = Token::new(place).and_then(|token| token.with_file(b"old-1\nnew-2\r\n"));
        token.unwrap_or_else(|why| unreachable!("{why}"))
    }

    #[test]
    fn a_token_is_right_wrong_or_missing() {
        let header = || token(Place::Header("X-Token".to_owned()));
        let bearer = || token(Place::Header("Authorization".to_owned()));
        let query = || token(Place::Query("token".to_owned()));
        let missing = "missing: no header X-Token";
        let rows = [
            (header(), "/", ("x-token", "new-2"), Ok(())),
            (header(), "/", ("X-Token", "old-1"), Ok(())),
            (header(), "/", ("X-Token", "new-3"), Err("wrong")),
            (header(), "/", ("X-Token", "new-2x"), Err("wrong")),
            (header(), "/", ("X-Token", "new-"), Err("wrong")),
            (header(), "/", ("X-Token", ""), Err(missing)),
            (
                header(),
                "/?X-Token=new-2",
                ("X-Tok", "new-2"),
                Err(missing),
            ),
            (bearer(), "/", ("Authorization", "Bearer new-2"), Ok(())),
            (bearer(), "/", ("authorization", "bearer  old-1"), Ok(())),
            (bearer(), "/", ("Authorization", "Bearer x"), Err("wrong")),
            (
                bearer(),
                "/",
                ("Authorization", "new-2"),
                Err("missing: no Bearer in header Authorization"),
            ),
            (query(), "/a?x=1&token=new-2", ("", ""), Ok(())),
            (query(), "/a?x=1&token=new-3", ("", ""), Err("wrong")),
            (query(), "/a?token=x&token=new-2", ("", ""), Err("wrong")),
            (
                query(),
                "/a?tokens=new-2",
                ("token", "new-2"),
                Err("missing: no token in the query"),
            ),
        ];
        for (token, target, header, expected) in rows {
            let request = request(target, &[header]);
            let checked = token.check(&Subject::new(&request, &[]));
            let expected = expected.map_err(str::to_owned);
            assert_eq!(checked, expected, "{target} {header:?}");
        }
        let hole = token(Place::Path("key".to_owned()));
        let request = request("/hook/new-2", &[]);
        for (value, expected) in [(&b"new-2"[..], true), (b"new-3", false), (b"", false)] {
            let holes = [("key".to_owned(), value.to_vec())];
            let checked = hole.check(&Subject::new(&request, &holes));
            assert_eq!(checked.is_ok(), expected, "{value:?} {checked:?}");
        }
    }

    #[test]
    fn without_a_file_no_token_is_right() {
        let token = Token::new(Place::Query("t".to_owned())).expect("a place");
        for target in ["/?t=", "/?t=x", "/"] {
            let request = request(target, &[]);
            assert!(
                token.check(&Subject::new(&request, &[])).is_err(),
                "{target}"
            );
        }
    }

    #[test]
    fn what_is_kept_of_a_request_does_not_have_its_token() {
        let query = || token(Place::Query("token".to_owned()));
        let rows = [
            (query(), "/a?token=s&x=1", "/a?token=***&x=1"),
            (
                query(),
                "/a?x=1&%74oken=s&token=s2&y",
                "/a?x=1&%74oken=***&token=***&y",
            ),
            (
                query(),
                "http://box/a?token=s#token=s",
                "http://box/a?token=***",
            ),
            (query(), "/a?x=1", "/a?x=1"),
            (query(), "/a", "/a"),
            (
                token(Place::Path("token".to_owned())),
                "/a?token=s",
                "/a?token=s",
            ),
        ];
        for (token, target, expected) in rows {
            let mut request = request(target, &[("X-Other", "s")]);
            token.conceal(&mut request);
            assert_eq!(
                String::from_utf8_lossy(&request.target),
                expected,
                "{target}"
            );
            assert_eq!(request.header("X-Other"), Some(&b"s"[..]));
        }
        let token = token(Place::Header("X-Token".to_owned()));
        let mut request = request("/", &[("x-token", "s"), ("X-TOKEN", "s2"), ("X-T", "s3")]);
        token.conceal(&mut request);
        let values: Vec<&[u8]> = request.headers.iter().map(|one| &*one.value).collect();
        assert_eq!(values, [CONCEALED, CONCEALED, b"s3"]);
    }

    #[test]
    fn a_file_that_holds_no_tokens_is_explained() {
        let rows: [(&[u8], &str); 4] = [
            (b"", "it is empty; write a token into it, one a line"),
            (b"\n \r\n", "it is empty; write a token into it, one a line"),
            (b"ok\n\ntwo words", "line 3 is no token; one a line"),
            (b"caf\xe9", "line 1 is no token; one a line"),
        ];
        for (file, expected) in rows {
            let token = Token::new(Place::Query("t".to_owned())).expect("a place");
            let why = token.with_file(file).expect_err(expected);
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
