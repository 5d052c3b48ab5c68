//! The ids of what real senders put on the wire: requests of `tests/samples`.

use super::*;
use crate::event::Header;

/// A sample as a request: the heads of those that are used here are well-formed.
fn request(sample: &[u8]) -> Request {
    let end = memchr::memmem::find(sample, b"\r\n\r\n").expect("a head ends");
    let head = String::from_utf8_lossy(&sample[..end]);
    let mut lines = head.split("\r\n");
    let first: Vec<&str> = lines.next().expect("a first line").split(' ').collect();
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| Header {
        name: name.to_owned(),
        value: value.trim().as_bytes().to_vec(),
    });
    Request {
        peer: ([10, 0, 0, 7], 1).into(),
        method: first[0].to_owned(),
        target: first[1].as_bytes().to_vec(),
        headers: headers.collect(),
        body: sample[end + 4..].to_vec(),
        oversize: None,
    }
}

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/samples/", $name, ".http"))
    };
}

#[test]
fn ids_are_found_in_what_real_senders_send() {
    let rows: [(&[u8], &str, &str); 8] = [
        (
            sample!("03-hikvision-formdata-xml-plus-jpeg"),
            "part:*/xml:EventNotificationAlert/macAddress",
            "02:00:5e:10:00:31",
        ),
        (
            sample!("04-hikvision-acs-face-multipart"),
            "part:event_log/json:/AccessControllerEvent/serialNo",
            "25731",
        ),
        (
            sample!("04-hikvision-acs-face-multipart"),
            "part:event_log/json:/macAddress + part:event_log/json:/dateTime",
            "02:00:5e:10:00:41/2026-03-04T09:16:01+07:00",
        ),
        (
            sample!("11-uniview-personverification"),
            "json:/DeviceCode + json:/Seq",
            "210235TEST0000000318/318",
        ),
        (sample!("13-zkteco-handshake"), "query:SN", "TST7240100001"),
        (
            sample!("14-zkteco-attlog-batch"),
            "query:SN + query:table",
            "TST7240100001/ATTLOG",
        ),
        (
            sample!("18-httpv2-face-record-gzip-part"),
            "part:RecordDetail/json:/RecordID",
            "120",
        ),
        (
            sample!("18-httpv2-face-record-gzip-part"),
            "part:SN",
            "FC-8200H00000001",
        ),
    ];
    assert_found(&rows);
}

#[test]
fn ids_are_found_in_what_payment_services_and_recorders_send() {
    let rows: [(&[u8], &str, &str); 4] = [
        (
            sample!("36-adyen-two-items"),
            "json:/notificationItems/0/NotificationRequestItem/pspReference",
            "TESTPSP000000001",
        ),
        (
            sample!("21-viewtron-nvr-absolute-uri"),
            "xml:config/deviceInfo/mac + xml:config/eventInfo/*/eventId",
            "02:00:5E:30:00:0D/41",
        ),
        (
            sample!("20-uface-identify-form-base64"),
            "form:deviceKey",
            "84E0F4TEST0000A1",
        ),
        (
            sample!("39-gbprimepay-background-form"),
            "form:gbpReferenceNo",
            "gbp000000000001",
        ),
    ];
    assert_found(&rows);
}

fn assert_found(rows: &[(&[u8], &str, &str)]) {
    for (sample, text, expected) in rows {
        let request = request(sample);
        let selector = Selector::parse(text).expect(text);
        let found = find(&Subject::new(&request, &[]), &selector);
        assert_eq!(found.as_deref(), Some(*expected), "{text}");
    }
}
