//! What `ZKTeco` terminals (ADMS, "push SDK") must hear.
//!
//! Sources: Attendance PUSH protocol notes and public receivers, in `devices.md` section 3.3 and
//! samples 13 to 17.

use std::fmt::Write as _;

use super::Facts;
use crate::select::{self, Items, Selector, Subject};

/// The usual order of the lines of a handshake. What is not here follows by its name.
const ORDER: &[&str] = &[
    "ATTLOGStamp",
    "OPERLOGStamp",
    "ATTPHOTOStamp",
    "ErrorDelay",
    "Delay",
    "TransTimes",
    "TransInterval",
    "TransFlag",
    "TimeZone",
    "Realtime",
    "Encrypt",
];

/// `OK:` and how many lines were taken. A terminal that hears another number sends them again.
///
/// A picture (`table=ATTPHOTO`: some lines, a NUL, a JPEG) is no lines; `OK` is what it waits for.
pub(super) fn upload(facts: &Facts<'_>) -> String {
    let body = &facts.request.body;
    let lines = Items::parse("lines").ok();
    match lines.and_then(|lines| lines.count(body)) {
        Some(lines) => format!("OK:{lines}"),
        None => "OK".to_owned(),
    }
}

/// Who is spoken to, then one line for each option. Without its first line a terminal uploads
/// nothing and asks again.
pub(super) fn handshake(facts: &Facts<'_>) -> String {
    let serial = Selector::parse("query:SN").ok();
    let subject = Subject::new(facts.request, &[]);
    let serial = serial.and_then(|serial| select::find(&subject, &serial));
    let mut text = format!("GET OPTION FROM: {}", serial.unwrap_or_default());
    let place = |name: &str| ORDER.iter().position(|known| *known == name);
    let mut options: Vec<(&String, &String)> = facts.options.iter().collect();
    options.sort_by_key(|(name, _)| (place(name).unwrap_or(ORDER.len()), *name));
    for (name, value) in options {
        // Writing to memory cannot fail.
        _ = write!(text, "\n{name}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::clock::Reading;
    use crate::event::Request;

    fn said(target: &str, body: &[u8], how: fn(&Facts<'_>) -> String) -> String {
        let request = Request {
            peer: ([10, 0, 0, 7], 1).into(),
            method: "POST".to_owned(),
            target: target.as_bytes().to_vec(),
            headers: Vec::new(),
            body: body.to_vec(),
            oversize: None,
        };
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let options = [
            option("Delay", "30"),
            option("Aaa", "1"),
            option("ATTLOGStamp", "None"),
        ];
        let facts = Facts {
            request: &request,
            received: Reading::default(),
            options: &BTreeMap::from(options),
        };
        how(&facts)
    }

    #[test]
    fn lines_are_counted_and_a_picture_is_none() {
        let rows: &[(&[u8], &str)] = &[
            (b"1\t2026\n2\t2026\n", "OK:2"),
            (b"1\t2026\r\n\r\n2\t2026", "OK:2"),
            (b"USER PIN=1\tName=\xd5\xc5\n", "OK:1"),
            (b"", "OK:0"),
            (
                b"PIN=1.jpg\nSN=1\nCMD=uploadphoto\0\xff\xd8\n\n\n\xff\xd9",
                "OK",
            ),
        ];
        for (body, expected) in rows {
            let found = said("/iclock/cdata?SN=T1", body, upload);
            assert_eq!(found, *expected, "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_handshake_names_the_terminal_and_then_the_options() {
        let found = said("/iclock/cdata?SN=T1&options=all", b"", handshake);
        let expected = "GET OPTION FROM: T1\nATTLOGStamp=None\nDelay=30\nAaa=1";
        assert_eq!(found, expected);
    }
}
