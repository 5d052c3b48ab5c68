//! What Uniview terminals (LAPI) must hear.
//!
//! Sources: public receivers, in `devices.md` sections 2 and 3.4 and sample 11.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Facts;
use crate::select::{self, Selector, Subject};

/// The option that says how far the terminals' clocks are ahead of UTC: `7`, `-3`, `+5:30`.
const TIME_ZONE: &str = "TimeZone";

/// Which record was taken, as the terminal numbered it: its `Seq`, whatever its digits. A terminal
/// that does not hear that sends the record again.
pub(super) fn record(facts: &Facts<'_>) -> String {
    let number = Selector::parse("json:/Seq").ok();
    let subject = Subject::new(facts.request, &[]);
    let number = number.and_then(|number| select::find(&subject, &number));
    let number = number.map(|number| format!("\"RecordID\":{}", as_json(&number)));
    let data: Vec<String> = number.into_iter().chain(time(facts)).collect();
    format!(
        "{{\"Response\":{{\"ResponseURL\":\"/LAPI/V1.0/PACS/Controller/Event/Notifications\",\
         \"StatusCode\":0,\"StatusString\":\"Succeed\",\"Data\":{{{}}}}}}}",
        data.join(",")
    )
}

/// What time it is.
pub(super) fn heartbeat(facts: &Facts<'_>) -> String {
    format!(
        "{{\"ResponseURL\":\"/LAPI/V1.0/PACS/Controller/HeartReportInfo\",\"Code\":0,\
         \"Data\":{{{}}}}}",
        time(facts).unwrap_or_default()
    )
}

/// Whether the options can be used; says in words why not.
pub(super) fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in options {
        if name != TIME_ZONE {
            return Err(format!("\"{name}\" is unknown; there is {TIME_ZONE}"));
        }
        if ahead(value).is_none() {
            return Err(format!(
                "{TIME_ZONE} is how many hours local time is ahead of UTC, as in 7 or \"-3:30\", \
                 not \"{value}\""
            ));
        }
    }
    Ok(())
}

/// A number as it was sent, anything else as a text: digits after a zero are no number in JSON.
fn as_json(number: &str) -> String {
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = digits && (number == "0" || !number.starts_with('0'));
    if is_number {
        return number.to_owned();
    }
    serde_json::to_string(number).unwrap_or_default()
}

/// The local time. None while the clock is not known to be right, or the zone is not: terminals
/// set theirs by it.
fn time(facts: &Facts<'_>) -> Option<String> {
    let ahead = ahead(facts.options.get(TIME_ZONE)?)?;
    let time = facts.received.wall.date_time(ahead.0, ahead.1);
    let certain = facts.received.certain;
    certain.then(|| format!("\"Time\":\"{time}\""))
}

/// Whether a zone is ahead of UTC, and how far it is from it.
fn ahead(zone: &str) -> Option<(bool, Duration)> {
    let (is_ahead, distance) = match zone.strip_prefix('-') {
        Some(distance) => (false, distance),
        None => (true, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = distance.split_once(':').unwrap_or((distance, "0"));
    let (hours, minutes): (u64, u64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let is_right = hours <= 14 && minutes < 60;
    is_right.then(|| (is_ahead, Duration::from_secs(hours * 3_600 + minutes * 60)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Reading, Timestamp};
    use crate::event::Request;

    fn said(body: &str, zone: &str, certain: bool, how: fn(&Facts<'_>) -> String) -> String {
        let request = Request {
            peer: ([10, 0, 0, 7], 1).into(),
            method: "POST".to_owned(),
            target: b"/LAPI".to_vec(),
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
            oversize: None,
        };
        let zone = (TIME_ZONE.to_owned(), zone.to_owned());
        let facts = Facts {
            request: &request,
            received: Reading {
                wall: Timestamp::from_ms(1_772_590_562_000),
                certain,
                uptime_ms: 0,
            },
            options: &BTreeMap::from([zone]),
        };
        how(&facts)
    }

    #[test]
    fn the_number_of_a_record_comes_back_as_it_was_sent() {
        let most = "123456789012345678901234567890";
        let rows = [
            (
                r#"{"Seq":318}"#.to_owned(),
                r#"{"RecordID":318}"#.to_owned(),
            ),
            (
                format!("{{\"Seq\":{most}}}"),
                format!("{{\"RecordID\":{most}}}"),
            ),
            (
                r#"{"Seq":"a\"1"}"#.to_owned(),
                r#"{"RecordID":"a\"1"}"#.to_owned(),
            ),
            (r#"{"Seq":0}"#.to_owned(), r#"{"RecordID":0}"#.to_owned()),
            (
                r#"{"Seq":"007"}"#.to_owned(),
                r#"{"RecordID":"007"}"#.to_owned(),
            ),
            (r#"{"Seq":"#.to_owned(), "{}".to_owned()),
            (String::new(), "{}".to_owned()),
        ];
        for (body, data) in rows {
            let expected = format!(
                "{{\"Response\":{{\"ResponseURL\":\
                 \"/LAPI/V1.0/PACS/Controller/Event/Notifications\",\"StatusCode\":0,\
                 \"StatusString\":\"Succeed\",\"Data\":{data}}}}}"
            );
            assert_eq!(said(&body, "7", false, record), expected, "{body}");
        }
    }

    #[test]
    fn a_terminal_is_told_the_time_only_by_a_clock_and_a_zone_that_are_right() {
        let rows = [
            ("7", true, "\"Time\":\"2026-03-04 09:16:02\""),
            ("-3", true, "\"Time\":\"2026-03-03 23:16:02\""),
            ("+5:30", true, "\"Time\":\"2026-03-04 07:46:02\""),
            ("0", true, "\"Time\":\"2026-03-04 02:16:02\""),
            ("7", false, ""),
            ("", true, ""),
            ("99", true, ""),
            ("Bangkok", true, ""),
        ];
        for (zone, certain, time) in rows {
            let expected = format!(
                "{{\"ResponseURL\":\"/LAPI/V1.0/PACS/Controller/HeartReportInfo\",\"Code\":0,\
                 \"Data\":{{{time}}}}}"
            );
            assert_eq!(
                said("", zone, certain, heartbeat),
                expected,
                "{zone} {certain}"
            );
        }
    }
}
