//! JSON Schema: whether a body is what a route's destination expects.
//!
//! # Guarantees
//!
//! - A document stands alone: nothing it refers to is fetched from a disk or a network.
//! - What is wrong with a body is said by its place in it and in words: one line of at most
//!   [`LONGEST_REASON`] bytes, in which the names of members may stand, but no values.
//!
//! Drafts 4 to 2020-12, told apart by `$schema`; without it the latest. Checked when an event is
//! delivered, not when it comes: a wrong schema must not turn a device away.
//!
//! Built without the feature `json-schema`, no document can be read, and the configuration says so.

use std::fmt;

/// The longest reason, in bytes.
pub const LONGEST_REASON: usize = 300;

/// A document that bodies are checked by.
#[derive(Clone)]
pub struct Schema(Validator);

#[cfg(feature = "json-schema")]
type Validator = std::sync::Arc<jsonschema::Validator>;

#[cfg(not(feature = "json-schema"))]
type Validator = std::sync::Arc<std::convert::Infallible>;

impl Schema {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// Says in words why it is none.
    #[cfg(feature = "json-schema")]
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let document = json(text).map_err(|why| format!("it is not JSON: {why}"))?;
        let validator = jsonschema::validator_for(&document);
        let validator = validator.map_err(|why| match why.instance_path().as_str() {
            "" => cut(&format!("it is not a JSON Schema: {why}")),
            place => cut(&format!("it is not a JSON Schema: at {place}: {why}")),
        })?;
        Ok(Self(validator.into()))
    }

    /// Says that this program can't.
    #[cfg(not(feature = "json-schema"))]
    pub fn parse(_: &[u8]) -> Result<Self, String> {
        Err("this gatepost was built without JSON Schema; \
             remove the key, or build it with the feature json-schema"
            .to_owned())
    }

    /// Checks a body.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it: where, as a JSON pointer, and what.
    #[cfg(feature = "json-schema")]
    pub fn check(&self, body: &[u8]) -> Result<(), String> {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let document = json(body).map_err(|why| format!("it is not JSON: {why}"))?;
        self.0.validate(&document).map_err(|why| {
            let place = match why.instance_path().as_str() {
                "" => "/".to_owned(),
                place => place.to_owned(),
            };
            cut(&format!("at {place}: {}", why.masked()))
        })
    }

    /// There is no such document in this build.
    #[cfg(not(feature = "json-schema"))]
    pub fn check(&self, _: &[u8]) -> Result<(), String> {
        match *self.0 {}
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema")
    }
}

#[cfg(feature = "json-schema")]
fn json(text: &[u8]) -> Result<serde_json::Value, serde_json::Error> {
    serde_json::from_slice(text)
}

/// A reason as it may stand in a log: names of members may be long, and hold anything.
#[cfg(feature = "json-schema")]
fn cut(text: &str) -> String {
    let mut reason = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            reason.extend(character.escape_default());
        } else {
            reason.push(character);
        }
    }
    if LONGEST_REASON < reason.len() {
        let mut end = LONGEST_REASON - "…".len();
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        reason.push('…');
    }
    reason
}

#[cfg(all(test, feature = "json-schema"))]
mod tests {
    use super::*;

    const DOOR: &str = r#"{
        "type": "object",
        "required": ["eventId"],
        "properties": {
            "eventId": {"type": "string", "minLength": 1},
            "items": {"type": "array", "items": {"type": "object", "required": ["qty"]}}
        }
    }"#;

    #[test]
    fn a_violation_is_told_by_its_place() {
        let schema = Schema::parse(DOOR.as_bytes()).expect("it is one");
        let rows: &[(&str, Option<&str>)] = &[
            (r#"{"eventId":"e-1"}"#, None),
            ("\u{feff}{\"eventId\":\"e-1\"}", None),
            (r#"{"eventId":1}"#, Some("at /eventId: ")),
            (
                r#"{"eventId":"1","items":[{"qty":1},{}]}"#,
                Some("at /items/1: "),
            ),
            ("{}", Some("at /: ")),
            ("{", Some("it is not JSON: ")),
            ("", Some("it is not JSON: ")),
        ];
        for (body, expected) in rows {
            match (schema.check(body.as_bytes()), expected) {
                (Ok(()), None) => {}
                (Err(why), Some(start)) => assert!(why.starts_with(start), "{body}: {why}"),
                (checked, _) => unreachable!("{body}: {checked:?}"),
            }
        }
    }

    #[test]
    fn a_reason_is_short_whatever_members_are_called() {
        let schema = Schema::parse(br#"{"additionalProperties": false}"#).expect("it is one");
        let body = format!(r#"{{"{}ไทย":1}}"#, "x".repeat(10_000));
        let why = schema
            .check(body.as_bytes())
            .expect_err("there is one more");
        assert!(why.len() <= LONGEST_REASON, "{}", why.len());
    }

    #[test]
    fn a_reason_holds_nothing_of_the_values_and_stays_on_its_line() {
        let schema = br#"{"additionalProperties": {"maxLength": 2}, "maxProperties": 2}"#;
        let schema = Schema::parse(schema).expect("it is one");
        for body in [
            "{\"a\\n[event x] delivered\":\"secret\"}",
            r#"{"a":"secret"}"#,
            r#"{"a":"1","b":"2","c":"secret"}"#,
            "{\"a\\u2028\\u001b[2J\":\"secret\"}",
        ] {
            let why = schema
                .check(body.as_bytes())
                .expect_err("too long or too many");
            assert!(!why.contains("secret"), "{why}");
            assert!(!why.chars().any(char::is_control), "{why:?}");
        }
    }

    #[test]
    fn what_is_no_schema_or_refers_elsewhere_is_said() {
        let rows = [
            ("{", "it is not JSON: "),
            (r#"{"type": 5}"#, "it is not a JSON Schema: "),
            (
                r#"{"$ref": "file:///etc/passwd"}"#,
                "it is not a JSON Schema: ",
            ),
            (
                r#"{"$ref": "http://127.0.0.1:1/x"}"#,
                "it is not a JSON Schema: ",
            ),
        ];
        for (text, start) in rows {
            let why = Schema::parse(text.as_bytes()).expect_err("it is none");
            assert!(why.starts_with(start), "{text}: {why}");
        }
    }
}
