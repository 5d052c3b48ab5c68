//! The door of the fuzz target `multipart` in `tests/fuzz/`: what it asks of private functions.
//! Compiled by cargo-fuzz only.
//!
//! A broken promise is a panic.

use std::borrow::Cow;

use super::multipart::{MOST_INFLATED, MOST_PARTS, parts};
use crate::event::Request;

/// The parts of a request: they follow each other in its body, and are not too many.
pub fn multipart(request: &Request) {
    let within = request.body.as_ptr_range();
    let (mut end, mut count) = (within.start, 0);
    let (mut left, mut inflated) = (MOST_INFLATED, 0);
    for part in parts(request) {
        count += 1;
        _ = (part.name(), part.header("content-type"));
        let content = part.raw().as_ptr_range();
        assert!(end <= content.start && content.start <= content.end);
        assert!(content.end <= within.end);
        end = content.end;
        if let Cow::Owned(content) = part.content(&mut left) {
            inflated += content.len();
        }
    }
    assert!(inflated <= MOST_INFLATED, "{inflated} bytes are inflated");
    assert!(count <= MOST_PARTS, "{count} parts");
}
