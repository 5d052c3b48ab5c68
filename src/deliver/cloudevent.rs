//! An event as a `CloudEvent` in binary mode: what its attributes are.
//!
//! | attribute | value |
//! |---|---|
//! | `specversion` | `1.0` |
//! | `id` | the idempotency key without its quotes |
//! | `source` | `<gateway>/<route>/<device>`, a relative URI reference; shorter without one |
//! | `type` | `gatepost.<route>` |
//! | `time` | when it was received, if the clock was known to be right then |
//! | `datacontenttype` | the `Content-Type` header, as it came |
//!
//! The sender's own id is no `id`: a device can send other bytes under the same id, and `source`
//! and `id` together must be another pair for each event. It is in `X-Gatepost-Event`.
//!
//! Source: `CloudEvents` 1.0.2 section 3.1; its HTTP binding sections 3.1.3.2 (values) and 3.1.1.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::delivery::GatewayId;
use crate::event::Event;

/// What a segment of a URI reference can't hold as it is. Source: RFC 3986 section 2.3.
const OF_A_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What a header's value can't hold as it is. Source: HTTP binding section 3.1.3.2: all but the
/// printable ASCII characters, and of these space, `"` and `%`.
const OF_A_VALUE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// The attributes of `event` as headers, their values encoded.
pub(super) fn attributes(
    event: &Event,
    key: &str,
    gateway: GatewayId,
) -> Vec<(&'static str, String)> {
    let mut source = gateway.to_string();
    for part in [&event.route, &event.device].into_iter().flatten() {
        source.push('/');
        source.extend(utf8_percent_encode(part, OF_A_SEGMENT));
    }
    let kind = match &event.route {
        Some(route) => format!("gatepost.{route}"),
        None => "gatepost".to_owned(),
    };
    let mut all = vec![
        ("ce-specversion", "1.0".to_owned()),
        ("ce-id", key.to_owned()),
        ("ce-source", source),
        ("ce-type", kind),
    ];
    if event.received.certain {
        all.push(("ce-time", event.received.wall.to_string()));
    }
    for (_, value) in &mut all {
        *value = utf8_percent_encode(value, OF_A_VALUE).to_string();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_binding_says() {
        // The first is the example of section 3.1.3.2.
        let rows = [
            ("Euro \u{20ac} \u{1f600}", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("a\"b%c\u{7f}\n", "a%22b%25c%7F%0A"),
            (
                "!#$&'()*+,/:;=?@[]~^`{|}\\<>",
                "!#$&'()*+,/:;=?@[]~^`{|}\\<>",
            ),
        ];
        for (value, expected) in rows {
            let encoded = utf8_percent_encode(value, OF_A_VALUE).to_string();
            assert_eq!(encoded, expected, "{value:?}");
        }
    }

    #[test]
    fn a_source_is_a_uri_reference_whatever_the_device_calls_itself() {
        let rows = [
            (Some("door"), Some("cam-7"), "2a/door/cam-7"),
            (Some("door"), None, "2a/door"),
            (None, None, "2a"),
            // Encoded for the reference, and its percent sign again for the header.
            (Some("door"), Some("cam 7/b"), "2a/door/cam%25207%252Fb"),
            (Some("door"), Some("caf\u{e9}"), "2a/door/caf%25C3%25A9"),
            (
                Some("door"),
                Some("//a?b#c"),
                "2a/door/%252F%252Fa%253Fb%2523c",
            ),
        ];
        for (route, device, expected) in rows {
            let mut event = super::super::tests::event(&[]);
            event.route = route.map(str::to_owned);
            event.device = device.map(str::to_owned);
            let all = attributes(&event, "2a-7", GatewayId(0x2a));
            let expected = format!("00000000000000{expected}");
            assert_eq!(all[2], ("ce-source", expected), "{device:?}");
        }
    }

    #[test]
    fn a_time_that_is_not_certain_is_left_out() {
        let mut event = super::super::tests::event(&[]);
        let has_time = |event: &Event| {
            let all = attributes(event, "2a-7", GatewayId(0x2a));
            all.iter().any(|(name, _)| *name == "ce-time")
        };
        assert!(has_time(&event));
        event.received.certain = false;
        assert!(!has_time(&event));
    }
}
