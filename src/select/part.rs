//! `part:NAME` and `part:NAME/…`: a value in one part of a multipart body.

use std::borrow::Cow;
use std::fmt;

use super::multipart::{self, Part};
use super::{Body, header, text};
use crate::event::Request;

/// Which parts, and what of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Place {
    /// None: any.
    name: Option<String>,
    what: What,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum What {
    /// All of it.
    Text,
    Header(header::Name),
    Body(Body),
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, what) = match text.split_once('/') {
            Some((name, what)) => (name, Some(what)),
            None => (text, None),
        };
        if name.is_empty() {
            return Err(
                "a part has a name, or it is any, as in part:info or part:*/json:/id".to_owned(),
            );
        }
        let what = match what.map(|what| what.split_once(':').unwrap_or((what, ""))) {
            None => What::Text,
            Some(("header", name)) => What::Header(header::Name::parse(name)?),
            Some((kind, rest)) => match Body::parse(kind, rest) {
                Some(body) => What::Body(body?),
                None => {
                    return Err(format!(
                        "\"{kind}\" does not look into a part; what does: {}, header:Name",
                        Body::KINDS
                    ));
                }
            },
        };
        let name = (name != "*").then(|| name.to_owned());
        Ok(Self { name, what })
    }

    /// The first value that is found.
    pub(super) fn find_in(&self, request: &Request) -> Option<String> {
        let is_it = |part: &Part<'_>| {
            let name = self.name.as_ref().map(String::as_bytes);
            name.is_none() || part.name() == name
        };
        let mut left = multipart::MOST_INFLATED;
        multipart::parts(request)
            .filter(is_it)
            .find_map(|part| match &self.what {
                What::Text => text::owned(&part.content(&mut left)),
                What::Header(name) => text::owned(part.header(name.as_str())?),
                What::Body(body) => body.find_in(&part.content(&mut left)).map(Cow::into_owned),
            })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("*"))?;
        match &self.what {
            What::Text => Ok(()),
            What::Header(name) => write!(f, "/header:{name}"),
            What::Body(body) => write!(f, "/{body}"),
        }
    }
}
