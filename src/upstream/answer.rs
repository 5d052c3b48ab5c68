//! What is kept of an answer, and how much of it is read.

use std::io::{self, Read};

use ureq::Body;
use ureq::http::{HeaderName, Response, header};

use super::outcome::retry_after;
use crate::delivery::Answer;

/// The most that is read of an answer's body so that its connection can be used again, in bytes.
pub(super) const MOST_DRAINED: usize = 64 * 1024;

/// `proof`: the header that proves whose answer it is.
pub(super) fn answer(response: Response<Body>, proof: Option<&HeaderName>) -> Answer {
    let (parts, body) = response.into_parts();
    let proofs = proof.map(|name| {
        let values = parts.headers.get_all(name).iter();
        values.map(|value| (name.to_string(), value.as_bytes().to_vec()))
    });
    let retry_after = parts
        .headers
        .get(header::RETRY_AFTER)
        .and_then(|value| retry_after(value.as_bytes()));
    Answer {
        status: parts.status.as_u16(),
        retry_after,
        head: head_of(body.into_reader()),
        headers: proofs.into_iter().flatten().collect(),
    }
}

/// The first bytes of a body; reads a little further, so that the connection can be used again.
///
/// Whatever goes wrong here is not told: the status is the answer.
fn head_of(mut body: impl Read) -> Vec<u8> {
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    let mut total = 0;
    while total < MOST_DRAINED {
        match body.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => {
                total += count;
                let room = Answer::LONGEST_HEAD - head.len();
                head.extend_from_slice(&piece[..count.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_body_is_kept_and_little_more_is_read() {
        struct Endless(usize);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                buffer.fill(b'x');
                self.0 += buffer.len();
                Ok(buffer.len())
            }
        }
        let mut body = Endless(0);
        assert_eq!(head_of(&mut body), [b'x'; Answer::LONGEST_HEAD]);
        assert!(
            (MOST_DRAINED..=MOST_DRAINED + 2048).contains(&body.0),
            "{}",
            body.0
        );
        assert_eq!(head_of(&b"short"[..]), b"short");
    }
}
