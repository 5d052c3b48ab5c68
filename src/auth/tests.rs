//! What a route asks of its senders as a whole.

use super::*;
use crate::event::Header;

/// Each asks for one thing more than the one before it; what is wrong is the first of them.
type Row<'a> = (&'a [(&'a str, &'a str)], [u8; 4], &'a str);

fn auth() -> Auth {
    let token = Token::new(Place::Header("X-Token".to_owned()));
    let token = token.and_then(|token| token.with_file(b"t-1"));
    let signature = Signature::unchecked(Scheme::Hmac(Layout::github()));
    Auth {
        allow: vec![Net::parse("10.0.0.0/8").expect("a net")],
        token: token.ok(),
        basic: Basic::of_file(b"a:b").ok(),
        signature: signature.with_file(b"s3cr3t").ok(),
    }
}

fn request(headers: &[(&str, &str)], peer: [u8; 4]) -> Request {
    let header = |(name, value): &(&str, &str)| Header {
        name: (*name).to_owned(),
        value: value.as_bytes().to_vec(),
    };
    Request {
        peer: (peer, 1).into(),
        method: "POST".to_owned(),
        target: b"/".to_vec(),
        headers: headers.iter().map(header).collect(),
        body: b"{}".to_vec(),
        oversize: None,
    }
}

#[test]
fn a_route_asks_for_all_that_it_names_in_this_order() {
    let token = ("X-Token", "t-1");
    let basic = ("Authorization", "Basic YTpi");
    let near = [10, 0, 0, 7];
    let rows: [Row<'_>; 6] = [
        (
            &[token, basic],
            [192, 0, 2, 7],
            "address 192.0.2.7 not allowed",
        ),
        (&[basic], near, "token missing: no header X-Token"),
        (&[("X-Token", "t-2"), basic], near, "token wrong"),
        (
            &[token],
            near,
            "password missing: no Basic in header Authorization",
        ),
        (
            &[token, ("Authorization", "Basic YTpj")],
            near,
            "password or user wrong",
        ),
        (
            &[token, basic],
            near,
            "signature missing: no header X-Hub-Signature-256",
        ),
    ];
    for (headers, peer, expected) in rows {
        let request = request(headers, peer);
        let caller = auth().check_caller(&request, &Subject::new(&request, &[]));
        let judged = caller.and_then(|()| auth().check_signature(&request, Reading::default()));
        assert_eq!(
            judged.map_err(|why| why.to_string()),
            Err(expected.to_owned())
        );
    }
    let anybody = request(&[], near);
    let all = Auth::default();
    let caller = all.check_caller(&anybody, &Subject::new(&anybody, &[]));
    assert_eq!(caller, Ok(()));
    assert_eq!(all.check_signature(&anybody, Reading::default()), Ok(()));
}

#[test]
fn what_is_asked_for_is_said_without_secrets() {
    let shown = [
        "address in 10.0.0.0/8",
        "token in header X-Token",
        "user and password",
        "signature github",
    ];
    assert_eq!(auth().checks(), shown);
    let debug = format!("{:?}", auth());
    let bytes = format!("{:?}", b"s3cr3t");
    for secret in ["t-1", "a:b", "s3cr3t", &bytes[1..bytes.len() - 1]] {
        assert!(!debug.contains(secret), "{debug}");
    }
}
