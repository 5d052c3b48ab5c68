//! Signatures of real senders: the HMACs of `tests/samples`.

mod published;

use super::*;
use crate::clock::Timestamp;
use crate::event::Header;

/// When the samples say that they were sent.
const SENT: i64 = 1_772_590_561;

fn at(seconds: i64) -> Reading {
    Reading {
        wall: Timestamp::from_ms(seconds * 1000),
        certain: true,
        uptime_ms: 0,
    }
}

fn unsure(seconds: i64) -> Reading {
    Reading {
        certain: false,
        ..at(seconds)
    }
}

fn request(headers: &[(&str, &str)], body: &[u8]) -> Request {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: value.as_bytes().to_vec(),
    };
    Request {
        peer: ([10, 0, 0, 7], 1).into(),
        method: "POST".to_owned(),
        target: b"/".to_vec(),
        headers: headers.iter().map(header).collect(),
        body: body.to_vec(),
        oversize: None,
    }
}

/// A sample as a request: these are well-formed.
fn sample(sent: &[u8]) -> Request {
    let end = sent.windows(4).position(|end| end == b"\r\n\r\n");
    let end = end.expect("a head ends");
    let head = std::str::from_utf8(&sent[..end]).expect("it is text");
    let lines: Vec<&str> = head.split("\r\n").skip(1).collect();
    let headers = lines.iter().filter_map(|line| line.split_once(": "));
    request(&headers.collect::<Vec<_>>(), &sent[end + 4..])
}

macro_rules! sample {
    ($name:literal) => {
        sample(include_bytes!(concat!(
            "../../../tests/samples/",
            $name,
            ".http"
        )))
    };
}

fn signature(scheme: Scheme, files: &[&[u8]]) -> Signature {
    files
        .iter()
        .fold(Signature::unchecked(scheme), |one, file| {
            one.with_file(file)
                .unwrap_or_else(|why| unreachable!("{why}"))
        })
}

fn stripe() -> Signature {
    signature(Scheme::Stripe, &[b"whsec_testsecret\n"])
}

fn paypal(file: &[u8]) -> Signature {
    signature(Scheme::Paypal("WH-TEST-HOOK".to_owned()), &[file])
}

/// The key pair whose public half lies beside, and was thrown away since.
const PAYPAL: &str = "\
    LV8/UtPTf69WnYXW5qV8Wq/HbzJUeUhh4l+/7K1aVAh8WznLnJkeU9SWoJ9hTTPQaSwD+UNhVHCwrdu8EM0B+7cu\
    YCvLbSwp/VyiZW7XmVnpmi7AnC2maQrWkj6fEDn3YmTxMNox4XwOXDEJha03ZSfuHdXGBhbT2uAHsYnrMuKOIW3l\
    D1nvPx/Y2zdgyOAK8c86WNaupIGI8J83uWh/uPrSFWhRGdQ29nNsTbvwU2EIy/47sKsg2obQCWVI6h63IlFhE1ld\
    NZ8Lio+HFbR5dCQonTmCSz6PxAVfLgIIoyjLPoTje8QYEN1KLYLTq72KPqlmV6wKxiUY3VtG0WVacA==";

const CERTIFICATE: &[u8] = include_bytes!("../../../tests/certificates/paypal.pem");
const PUBLIC_KEY: &[u8] = include_bytes!("../../../tests/certificates/paypal-key.pem");
const ELLIPTIC: &[u8] = include_bytes!("../../../tests/certificates/elliptic.pem");

fn set(request: &mut Request, name: &str, value: &str) {
    let mut headers = request.headers.iter_mut();
    let header = headers.find(|header| header.name.eq_ignore_ascii_case(name));
    header.expect(name).value = value.as_bytes().to_vec();
}

/// Each kind of sender with a true event and what it is checked with.
fn true_events() -> Vec<(Signature, Request)> {
    let hex = [b'4'; 64];
    let mut paid = sample!("43-paypal-capture");
    set(&mut paid, "PAYPAL-TRANSMISSION-SIG", PAYPAL);
    vec![
        (stripe(), sample!("35-stripe-event")),
        (
            signature(Scheme::Adyen, &[&hex]),
            sample!("36-adyen-two-items"),
        ),
        (
            signature(Scheme::Hmac(Layout::github()), &[b"test-secret"]),
            sample!("40-github-webhook"),
        ),
        (
            signature(Scheme::Hmac(Layout::shopify()), &[b"test-secret"]),
            sample!("41-shopify-order"),
        ),
        (paypal(CERTIFICATE), paid.clone()),
        (paypal(PUBLIC_KEY), paid),
    ]
}

#[test]
fn what_real_senders_sign_is_right_and_one_altered_byte_is_not() {
    for (signature, request) in true_events() {
        assert_eq!(
            signature.check(&request, at(SENT + 1)),
            Ok(()),
            "{signature}"
        );
        let mut altered = request.clone();
        let digit = altered.body.iter().rposition(u8::is_ascii_digit);
        altered.body[digit.expect("a figure")] ^= 1;
        let judged = signature
            .check(&altered, at(SENT + 1))
            .expect_err("altered");
        assert!(judged.starts_with("wrong"), "{signature}: {judged}");
        let nobody = Signature::unchecked(signature.scheme.clone()).checked();
        let judged = nobody
            .check(&request, at(SENT + 1))
            .expect_err("no secrets");
        assert!(judged.starts_with("wrong"), "{signature}: {judged}");
    }
}

#[test]
fn a_signature_is_judged_by_the_time_of_arrival_unless_nobody_knows_it() {
    let request = sample!("35-stripe-event");
    let rows = [
        (at(SENT), None),
        (at(SENT + 300), None),
        (at(SENT - 300), None),
        (at(SENT + 412), Some("is 412 s old, more than 300 s")),
        (at(SENT + 301), Some("is 301 s old, more than 300 s")),
        (
            at(SENT - 301),
            Some("is 301 s ahead of our clock, more than 300 s"),
        ),
        (
            at(0),
            Some("is 1772590561 s ahead of our clock, more than 300 s"),
        ),
        (unsure(SENT + 412), None),
        (unsure(0), None),
    ];
    for (received, expected) in rows {
        let judged = stripe().check(&request, received).err();
        assert_eq!(judged.as_deref(), expected, "{received:?}");
    }
    let patient = Signature {
        tolerance: Some(Duration::from_secs(500)),
        ..stripe()
    };
    assert_eq!(patient.check(&request, at(SENT + 412)), Ok(()));
    // The time is part of what is signed.
    let mut renewed = request.clone();
    let value = renewed
        .header("Stripe-Signature")
        .expect("it has one")
        .to_vec();
    let value = String::from_utf8_lossy(&value).replace("t=1772590561", "t=1772599999");
    set(&mut renewed, "Stripe-Signature", &value);
    for received in [at(1_772_599_999), unsure(0)] {
        assert_eq!(stripe().check(&renewed, received), Err("wrong".to_owned()));
    }
    let mut paid = sample!("43-paypal-capture");
    set(&mut paid, "PAYPAL-TRANSMISSION-SIG", PAYPAL);
    assert_eq!(paypal(CERTIFICATE).check(&paid, at(SENT + 86_400)), Ok(()));
    let strict = Signature {
        tolerance: Some(Duration::from_secs(300)),
        ..paypal(CERTIFICATE)
    };
    let judged = strict.check(&paid, at(SENT + 86_400));
    assert_eq!(judged, Err("is 86400 s old, more than 300 s".to_owned()));
}

#[test]
fn any_of_several_secrets_may_be_the_right_one() {
    let request = sample!("40-github-webhook");
    let github = || Scheme::Hmac(Layout::github());
    let rows: [(&[&[u8]], bool); 5] = [
        (&[b"old\r\ntest-secret\r\n"], true),
        (&[b"old\n", b"\n test-secret \n"], true),
        (&[b"test-secret\nnew"], true),
        (&[b"old\nnew"], false),
        (&[b"test-secret2"], false),
    ];
    for (files, expected) in rows {
        let judged = signature(github(), files).check(&request, at(SENT));
        assert_eq!(judged.is_ok(), expected, "{files:?} {judged:?}");
    }
}

/// A signature, the headers of an event, and what is wrong with it.
type Row<'a> = (Signature, &'a [(&'a str, &'a str)], &'a str);

/// What was sent has `XYZ` in it, which must not be repeated.
fn assert_wrong(rows: &[Row<'_>]) {
    for (signature, headers, expected) in rows {
        let judged = signature.check(&request(headers, b"{}"), at(SENT));
        assert_eq!(
            judged,
            Err((*expected).to_owned()),
            "{signature} {headers:?}"
        );
        assert!(!expected.contains("XYZ"));
    }
}

#[test]
fn what_is_missing_in_a_header_is_named_and_never_what_was_sent() {
    let github = || signature(Scheme::Hmac(Layout::github()), &[b"s"]);
    let timed = Layout {
        timestamp: Some("X-Time".to_owned()),
        signed: Signed::time_and_body(),
        ..Layout::new("X-Sig")
    };
    let timed = || signature(Scheme::Hmac(timed.clone()), &[b"s"]);
    assert_wrong(&[
        (github(), &[], "missing: no header X-Hub-Signature-256"),
        (
            github(),
            &[("X-Hub-Signature-256", "")],
            "missing: no header X-Hub-Signature-256",
        ),
        (
            github(),
            &[("X-Hub-Signature-256", "sha1=XYZ")],
            "missing: header X-Hub-Signature-256 does not begin with \"sha256=\"",
        ),
        (
            github(),
            &[("X-Hub-Signature-256", "sha256=XYZ")],
            "wrong: header X-Hub-Signature-256 is odd",
        ),
        (github(), &[("X-Hub-Signature-256", "sha256=")], "wrong"),
        (timed(), &[("X-Sig", "00")], "missing: no header X-Time"),
        (
            timed(),
            &[("X-Sig", "00"), ("X-Time", "XYZ")],
            "wrong: header X-Time is no time",
        ),
    ]);
}

#[test]
fn what_is_missing_in_several_headers_is_named_and_never_what_was_sent() {
    let standard = || signature(Scheme::StandardWebhooks, &[b"whsec_AAAA"]);
    let rows: [(&[(&str, &str)], &str); 5] = [
        (&[], "missing: no header Stripe-Signature"),
        (
            &[("Stripe-Signature", "v1=00")],
            "missing: header Stripe-Signature has no t=",
        ),
        (
            &[("Stripe-Signature", "t=XYZ,v1=00")],
            "wrong: t= of header Stripe-Signature is no time",
        ),
        (
            &[("Stripe-Signature", "t=1,t=2,v1=00")],
            "wrong: header Stripe-Signature has several times",
        ),
        (
            &[("Stripe-Signature", "t=1,v0=00,v1=XYZ")],
            "missing: header Stripe-Signature has no v1=",
        ),
    ];
    assert_wrong(&rows.map(|(headers, expected)| (stripe(), headers, expected)));
    assert_wrong(&[
        (standard(), &[], "missing: no header webhook-signature"),
        (
            standard(),
            &[("webhook-signature", "v1a,XYZ")],
            "missing: header webhook-signature has no v1",
        ),
        (
            standard(),
            &[("svix-id", "1"), ("svix-signature", "v1,AAAA")],
            "missing: no header svix-timestamp",
        ),
        // Where there is a webhook-id, that is the event's id, so it must be what is signed.
        (
            standard(),
            &[
                ("webhook-id", "2"),
                ("svix-id", "1"),
                ("svix-signature", "v1,AAAA"),
            ],
            "missing: no header webhook-signature",
        ),
        (
            paypal(CERTIFICATE),
            &[
                ("PayPal-Transmission-Sig", "XYZ"),
                ("PayPal-Auth-Algo", "XYZ"),
            ],
            "wrong: header PayPal-Auth-Algo is not SHA256withRSA",
        ),
    ]);
}

#[test]
fn of_adyens_items_each_must_be_right() {
    let adyen = signature(Scheme::Adyen, &[&[b'4'; 64]]);
    let request = sample!("36-adyen-two-items");
    let body = String::from_utf8(request.body.clone()).expect("it is text");
    let second = "\"pspReference\":\"TESTPSP000000002\"";
    let duplicate = format!("{second},{}", second.replace('2', "3"));
    let rows = [
        (body.clone(), None),
        (
            body.replace("CAPTURE", "CHARGED"),
            Some("wrong: item 2 of 2"),
        ),
        (
            body.replace("AUTHORISATION", "CAPTURE"),
            Some("wrong: item 1 of 2"),
        ),
        (
            body.replacen("hmacSignature", "other", 1),
            Some("missing: item 1 has none"),
        ),
        (
            body.replace(second, &duplicate),
            Some("missing: the body is no notification in JSON, or has a field twice"),
        ),
        (
            body.replace("\"success\":\"true\"", "\"success\":{}"),
            Some("missing: the body is no notification in JSON, or has a field twice"),
        ),
        (
            "{\"notificationItems\":[]}".to_owned(),
            Some("missing: the body has no items"),
        ),
        (
            body[..body.len() - 1].to_owned(),
            Some("missing: the body is no notification in JSON, or has a field twice"),
        ),
        // Fields that are not signed.
        (body.replace("\"reason\":\"\"", "\"reason\":\"x\""), None),
    ];
    for (body, expected) in rows {
        let request = Request {
            body: body.into_bytes(),
            ..request.clone()
        };
        let judged = adyen.check(&request, at(SENT)).err();
        let shown = String::from_utf8_lossy(&request.body);
        assert_eq!(judged.as_deref(), expected, "{shown}");
    }
}

#[test]
fn paypal_signs_for_one_webhook() {
    let mut paid = sample!("43-paypal-capture");
    set(&mut paid, "PAYPAL-TRANSMISSION-SIG", PAYPAL);
    let other = signature(Scheme::Paypal("OTHER".to_owned()), &[CERTIFICATE]);
    assert_eq!(other.check(&paid, at(SENT)), Err("wrong".to_owned()));
    let both = paypal(CERTIFICATE).with_file(PUBLIC_KEY);
    assert!(both.is_ok_and(|both| both.check(&paid, at(SENT)).is_ok()));
    let rows: [(&[u8], &str); 3] = [
        (ELLIPTIC, "its key is not one for RSA of 2048 to 8192 bits"),
        (b"", "it has neither a certificate nor a public key in PEM"),
        (
            b"secret",
            "it has neither a certificate nor a public key in PEM",
        ),
    ];
    for (file, expected) in rows {
        let why = Signature::unchecked(Scheme::Paypal(String::new())).with_file(file);
        let why = why.expect_err(expected);
        assert!(why.starts_with(expected), "{why}");
    }
}

#[test]
fn what_a_signature_is_made_over_is_written_with_holes() {
    for (text, has_time) in [
        ("{body}", false),
        ("v1:{body}", false),
        ("{timestamp}.{body}", true),
        ("v0:{timestamp}:{body}", true),
        ("{body}{timestamp}", true),
    ] {
        assert!(Signed::parse(text, has_time).is_ok(), "{text}");
    }
    for (text, has_time, expected) in [
        ("", false, "does not have {body} once"),
        ("{timestamp}", true, "does not have {body} once"),
        ("{body}{body}", false, "does not have {body} once"),
        ("{body}", true, "does not have {timestamp} once"),
        (
            "{timestamp}.{body}",
            false,
            "has {timestamp}, but timestamp does not say",
        ),
        ("{time}.{body}", true, "has something in braces"),
        ("{body", false, "has something in braces"),
    ] {
        let why = Signed::parse(text, has_time).expect_err(expected);
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn a_file_that_holds_no_secrets_is_explained() {
    let rows: [(Scheme, &[u8], &str); 5] = [
        (
            Scheme::Stripe,
            b"",
            "it is empty; write the secret into it, one a line",
        ),
        (
            Scheme::Stripe,
            b" \r\n\n",
            "it is empty; write the secret into it, one a line",
        ),
        (
            Scheme::Adyen,
            b"00ff\nnot hex",
            "line 2 is no secret in hexadecimal digits",
        ),
        (
            Scheme::StandardWebhooks,
            b"whsec_",
            "line 1 is no secret in Base64, as \"whsec_…\" is",
        ),
        (
            Scheme::StandardWebhooks,
            b"s3cret!",
            "line 1 is no secret in Base64, as \"whsec_…\" is",
        ),
    ];
    for (scheme, file, expected) in rows {
        let why = Signature::unchecked(scheme).with_file(file);
        assert_eq!(why.expect_err(expected), expected);
    }
}
