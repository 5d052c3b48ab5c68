//! What vendors publish as examples of their signatures.

use super::*;

/// What is signed right is, and with one bit of it altered it is not.
fn assert_right(signature: &Signature, request: &Request, sent: i64) {
    assert_eq!(signature.check(request, at(sent)), Ok(()), "{signature}");
    let mut altered = request.clone();
    let last = altered.body.iter().rposition(u8::is_ascii_alphanumeric);
    altered.body[last.expect("one")] ^= 1;
    let judged = signature.check(&altered, at(sent));
    assert!(judged.is_err(), "{signature}");
}

/// Source: GitHub, "Testing the webhook payload validation".
#[test]
fn the_example_of_github_is_right() {
    let secret: &[u8] = b"It's a Secret to Everybody";
    let sent = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let request = request(&[("X-Hub-Signature-256", sent)], b"Hello, World!");
    assert_right(
        &signature(Scheme::Hmac(Layout::github()), &[secret]),
        &request,
        0,
    );
}

/// Source: Svix, "Verifying webhooks manually", and the libraries of Standard Webhooks.
#[test]
fn the_example_of_standard_webhooks_is_right_in_either_headers() {
    let secret: &[u8] = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
    let sent = "v1,bm90IGl0 v1a,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let body = br#"{"test": 2432232314}"#;
    for prefix in ["webhook", "svix"] {
        let name = |what: &str| format!("{prefix}-{what}");
        let (id, time, signed) = (name("id"), name("timestamp"), name("signature"));
        let headers = [
            (&*id, "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            (&*time, "1614265330"),
            (&*signed, sent),
        ];
        let request = request(&headers, body);
        for files in [&[b"whsec_MDEyMzQ1", secret][..], &[&secret[6..]]] {
            let signature = signature(Scheme::StandardWebhooks, files);
            assert_right(&signature, &request, 1_614_265_330);
            let judged = signature.check(&request, at(1_614_265_631));
            assert_eq!(judged, Err("is 301 s old, more than 300 s".to_owned()));
        }
        let other = [(&*id, "msg_2"), headers[1], headers[2]];
        let signature = signature(Scheme::StandardWebhooks, &[secret]);
        let judged = signature.check(&super::request(&other, body), at(1_614_265_330));
        assert_eq!(judged, Err("wrong".to_owned()), "its id is signed too");
    }
}

/// Source: Slack, "Verifying requests from Slack".
#[test]
fn the_example_of_slack_is_right_as_an_operator_describes_it() {
    let slack = Layout {
        prefix: "v0=".to_owned(),
        timestamp: Some("X-Slack-Request-Timestamp".to_owned()),
        signed: Signed::parse("v0:{timestamp}:{body}", true).expect("a right one"),
        ..Layout::new("X-Slack-Signature")
    };
    let body: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=\
        testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=\
        roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F\
        commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=\
        398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    let sent = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    let headers = [
        ("X-Slack-Request-Timestamp", "1531420618"),
        ("X-Slack-Signature", sent),
    ];
    let signature = signature(Scheme::Hmac(slack), &[b"8f742231b10e8888abcd99yyyzzz85a5"]);
    assert_right(&signature, &request(&headers, body), 1_531_420_618);
}

/// Source: the libraries of Adyen.
#[test]
fn the_example_of_adyen_is_right() {
    let body = br#"{"notificationItems":[{"NotificationRequestItem":{"additionalData":{
        "hmacSignature":"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},"amount":{"value":1130,
        "currency":"EUR"},"pspReference":"7914073381342284","eventCode":"AUTHORISATION",
        "merchantAccountCode":"TestMerchant","merchantReference":"TestPayment-1407325143704",
        "success":"true"}}]}"#;
    let key: &[u8] = b"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056";
    assert_right(&signature(Scheme::Adyen, &[key]), &request(&[], body), 0);
}

/// LINE publishes no example: this one was made with the hmac of Python, as its documentation has
/// it.
#[test]
fn what_is_made_as_line_says_is_right() {
    let sent = "QGN9Dv86gtKuERuxcm0jCWu+kjGssgmlztObr5UvL4o=";
    let body = br#"{"destination":"U0","events":[{}]}"#;
    let request = request(&[("x-line-signature", sent)], body);
    let signature = signature(Scheme::Hmac(Layout::line()), &[b"channel-secret"]);
    assert_right(&signature, &request, 0);
}
