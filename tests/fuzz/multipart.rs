//! The forgiving scanner of multipart bodies: parts lie in the body one after the other, are not
//! too many, and inflate to no more than a bound, all of them together too.

#![no_main]

mod growth;
mod memory;

use gatepost::event::{Header, Request};
use gatepost::select::{Selector, Subject, find, fuzz};
use libfuzzer_sys::fuzz_target;

/// The most that a look into all parts may hold: what is inflated, and the vector around it.
const MOST_HELD: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    let request = gatepost::http::fuzz::request(data).unwrap_or_else(|| plain(data));
    fuzz::multipart(&request);
    let texts = [
        "part:*/json:/id",
        "part:a",
        "part:*/xml:a/b",
        "part:*/header:X-Y",
    ];
    for text in texts {
        let selector = Selector::parse(text).expect("it is right");
        let held = memory::most(|| _ = find(&Subject::new(&request, &[]), &selector));
        assert!(held <= MOST_HELD, "{text} holds {held} bytes");
    }
    growth::is_linear(&request.body, growth::chance(data), |body| {
        let request = Request {
            body: body.to_vec(),
            ..request.clone()
        };
        fuzz::multipart(&request);
    });
});

/// What is no request is a body.
fn plain(data: &[u8]) -> Request {
    Request {
        peer: ([127, 0, 0, 1], 1).into(),
        method: "POST".to_owned(),
        target: b"/".to_vec(),
        headers: vec![Header {
            name: "Content-Type".to_owned(),
            value: b"multipart/form-data; boundary=b".to_vec(),
        }],
        body: data.to_vec(),
        oversize: None,
    }
}
