//! The query of a request, and the cursors in it.

use super::Refusal;
use crate::delivery::DeliveryId;
use crate::event::{DestinationNo, Lane, Seq};

/// How many rows a page has if the request does not say.
pub const USUAL_LIMIT: usize = 100;

/// How many rows a page has at most.
pub const MOST_LIMIT: usize = 1_000;

/// The parameters of a query, decoded.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads `text`. A name that is not in `known` is refused and not ignored.
    pub(super) fn read(text: &str, known: &[&str]) -> Result<Self, Refusal> {
        let mut parameters = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(&name.replace('+', " "))?;
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                return Err(Refusal::bad(format!(
                    "unknown parameter \"{}\"; there are: {known}",
                    crate::event::printable(&name)
                )));
            }
            parameters.push((name, decode(&value.replace('+', " "))?));
        }
        Ok(Self(parameters))
    }

    /// The value of the first parameter called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The `limit` of a page.
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        match self.get("limit").map(str::parse) {
            None => Ok(USUAL_LIMIT),
            Some(Ok(limit)) if (1..=MOST_LIMIT).contains(&limit) => Ok(limit),
            Some(_) => Err(Refusal::bad(format!(
                "limit must be a number from 1 to {MOST_LIMIT}"
            ))),
        }
    }

    /// The `after` of a page: `N` numbers.
    pub(super) fn after<const N: usize>(&self) -> Result<Option<[u64; N]>, Refusal> {
        self.get("after").map(read_cursor).transpose()
    }
}

/// A cursor is the key of the last row that was seen, so pages neither repeat nor leave out what
/// was there all the time, whatever comes and goes meanwhile.
pub(super) fn cursor(key: &[u64]) -> String {
    let numbers: Vec<String> = key.iter().map(u64::to_string).collect();
    numbers.join("-")
}

/// Reads what [`cursor`] wrote. The highest seq is refused: nothing can come after it.
pub(super) fn read_cursor<const N: usize>(text: &str) -> Result<[u64; N], Refusal> {
    let numbers: Option<Vec<u64>> = text.split('-').map(|number| number.parse().ok()).collect();
    numbers
        .filter(|numbers| numbers.last() != Some(&u64::MAX))
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| Refusal::bad("after must be the `next` of an earlier answer"))
}

/// The number of a destination in a cursor.
pub(super) fn destination(number: u64) -> Result<DestinationNo, Refusal> {
    let number = u16::try_from(number);
    number
        .map(DestinationNo)
        .map_err(|_| Refusal::bad("after must be the `next` of an earlier answer"))
}

/// The delivery that a cursor of the queue stands for.
pub(super) fn delivery(key: [u64; 3]) -> Result<DeliveryId, Refusal> {
    Ok(DeliveryId {
        destination: destination(key[0])?,
        lane: Lane(key[1]),
        seq: Seq(key[2]),
    })
}

/// Undoes percent-encoding. Source: RFC 3986 section 2.1.
fn decode(text: &str) -> Result<String, Refusal> {
    let bad = || Refusal::bad("the query is not percent-encoded UTF-8");
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = bytes.next().and_then(|byte| char::from(byte).to_digit(16));
            digit
                .and_then(|digit| u8::try_from(digit).ok())
                .ok_or_else(bad)
        };
        decoded.push(digit()? * 16 + digit()?);
    }
    String::from_utf8(decoded).map_err(|_| bad())
}

/// `text` as it can stand as a value in a query.
#[must_use]
pub fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_survives_a_query() {
        for text in ["", "e-1", "a b&c=d#e%f+g", "ไทย\n", "#12"] {
            let query = format!("id={}", encode(text));
            let query = Query::read(&query, &["id"]).expect("a query");
            assert_eq!(query.get("id"), Some(text));
        }
    }

    #[test]
    fn what_is_not_a_query_is_refused() {
        for text in ["other=1", "id=%", "id=%g0", "id=%ff"] {
            assert!(Query::read(text, &["id"]).is_err(), "{text}");
        }
        for limit in ["0", "1001", "-1", "x", ""] {
            let query = Query::read(&format!("limit={limit}"), &["limit"]).expect("a query");
            assert!(query.limit().is_err(), "{limit}");
        }
    }

    #[test]
    fn a_cursor_reads_back_and_nothing_else_does() {
        let key = [1, 2, u64::MAX - 1];
        assert_eq!(read_cursor(&cursor(&key)).ok(), Some(key));
        for text in [
            "",
            "1",
            "1-2",
            "1-2-x",
            "1-2-18446744073709551615",
            "1-2-3-4",
        ] {
            assert!(read_cursor::<3>(text).is_err(), "{text}");
        }
        assert!(destination(65_536).is_err());
    }
}
