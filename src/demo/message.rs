//! What the devices of the demo send.
//!
//! The terminal's body is built after what Hikvision's face terminals push to their
//! `httpHosts`: JSON in a part `event_log`, the picture in a part of its own.
//! Source: `devices.md` section 2.

use std::net::SocketAddr;

use crate::event::Digest;
use crate::rng::Rng;

/// A badge that the upstream does not know until it is mended.
pub(super) const UNKNOWN_BADGE: &str = "4711";

/// How many bytes of noise are in the picture: as much as one of a door has.
const NOISE_BYTES: u16 = 40_000;

/// One event as its device sends it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Who sends it; what is printed in front of its lines.
    pub(super) device: &'static str,
    /// What it is called in the story.
    pub(super) name: String,
    path: &'static str,
    headers: String,
    body: Vec<u8>,
}

impl Message {
    /// A camera saw something.
    pub(super) fn camera(number: u32) -> Self {
        let body = format!(
            "{{\"deviceId\":\"cam-7\",\"eventId\":\"e-{number}\",\"type\":\"motion\",\"zone\":2}}"
        );
        Self::json("cam-7", format!("e-{number}"), "/ingest/camera", body)
    }

    /// A camera's event that ends too early: not JSON.
    pub(super) fn broken() -> Self {
        let body = "{\"deviceId\":\"cam-8\",\"eventId\":\"e-".to_owned();
        Self::json("cam-8", "broken JSON".to_owned(), "/ingest/camera", body)
    }

    /// Somebody held a badge to a door.
    pub(super) fn door(number: u32, badge: &str) -> Self {
        let body =
            format!("{{\"deviceId\":\"door-1\",\"eventId\":\"d-{number}\",\"badge\":\"{badge}\"}}");
        Self::json("door-1", format!("d-{number}"), "/ingest/door", body)
    }

    /// A payment provider's webhook, signed.
    pub(super) fn payment() -> Self {
        let body = "{\"id\":\"evt-1\",\"type\":\"charge.succeeded\",\"amount\":1250}".to_owned();
        let mut message = Self::json("payments", "evt-1".to_owned(), "/webhook/payments", body);
        message.headers = format!(
            "{}Webhook-Signature: {}\r\n",
            message.headers,
            Self::SIGNATURE
        );
        message
    }

    /// The signature of [`Message::payment`]. Nobody checks it here; it must arrive as it is.
    pub(super) const SIGNATURE: &str = "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=";

    /// A meter whose path is in no route.
    pub(super) fn stray() -> Self {
        let body = "{\"meter\":2,\"kWh\":3712}".to_owned();
        Self::json("meter-2", "a reading".to_owned(), "/meters", body)
    }

    /// A face terminal recognised somebody, and sends the picture.
    pub(super) fn face(serial: u32) -> Self {
        let log = format!(
            "{{\"macAddress\":\"02:00:5e:10:00:41\",\"eventType\":\"AccessControllerEvent\",\
             \"AccessControllerEvent\":{{\"employeeNoString\":\"1007\",\"serialNo\":{serial}}}}}"
        );
        let picture = picture(u64::from(serial));
        let parts = [
            &*format!(
                "--{BOUNDARY}\r\nContent-Type: application/json; charset=\"UTF-8\"\r\n\
                 Content-Disposition: form-data; name=\"event_log\"\r\n\
                 Content-Length: {}\r\n\r\n{log}\r\n--{BOUNDARY}\r\n\
                 Content-Disposition: form-data; name=\"Picture\"; filename=\"Picture.jpg\"\r\n\
                 Content-Type: image/jpeg\r\nContent-Length: {}\r\n\
                 Content-ID: pictureImage\r\n\r\n",
                log.len(),
                picture.len()
            )
            .into_bytes(),
            &picture,
            &format!("\r\n--{BOUNDARY}--\r\n").into_bytes(),
        ];
        Self {
            device: "terminal",
            name: format!("face {serial}"),
            path: "/hik/acs",
            headers: format!("Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n"),
            body: parts.concat(),
        }
    }

    fn json(device: &'static str, name: String, path: &'static str, body: String) -> Self {
        Self {
            device,
            name,
            path,
            headers: "Content-Type: application/json\r\n".to_owned(),
            body: body.into_bytes(),
        }
    }

    /// The whole request to `host`.
    pub(super) fn request(&self, host: SocketAddr) -> Vec<u8> {
        let Self { path, headers, .. } = self;
        let length = self.body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        [head.as_bytes(), &self.body].concat()
    }

    /// By which it is found again.
    pub(super) fn digest(&self) -> Digest {
        Digest::of(&self.body)
    }
}

const BOUNDARY: &str = "MIME_boundary";

/// A grey square of 8 × 8 pixels that any decoder shows, with a comment of noise in it: every
/// byte there is must come through.
///
/// Source: ITU-T T.81 annex B; baseline, one component, all quantisers 1, two codes of one bit.
fn picture(seed: u64) -> Vec<u8> {
    let mut rng = Rng::from_seed(seed);
    let noise = (0..NOISE_BYTES).map(|_| u8::try_from(rng.below(256)).unwrap_or_default());
    let comment_length = (NOISE_BYTES + 2).to_be_bytes();
    let one_code: [&[u8]; 2] = [&[1], &[0; 16]];
    [
        &[0xff, 0xd8][..],
        &[0xff, 0xe0, 0, 16],
        b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0",
        &[0xff, 0xfe],
        &comment_length,
        &noise.collect::<Vec<u8>>(),
        &[0xff, 0xdb, 0, 67, 0],
        &[1; 64],
        &[0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0],
        &[0xff, 0xc4, 0, 20, 0x00],
        &one_code.concat(),
        &[0xff, 0xc4, 0, 20, 0x10],
        &one_code.concat(),
        &[0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0],
        &[0b0011_1111, 0xff, 0xd9],
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the segments as a decoder does: each says how long it is.
    #[test]
    fn the_picture_is_a_jpeg() {
        let picture = picture(1);
        let mut markers = Vec::new();
        let mut at = 2;
        while picture[at + 1] != 0xda {
            assert_eq!(picture[at], 0xff, "{at}");
            markers.push(picture[at + 1]);
            at += 2 + usize::from(u16::from_be_bytes([picture[at + 2], picture[at + 3]]));
        }
        assert_eq!(picture[..2], [0xff, 0xd8]);
        assert_eq!(markers, [0xe0, 0xfe, 0xdb, 0xc0, 0xc4, 0xc4]);
        assert_eq!(picture[at + 10..], [0b0011_1111, 0xff, 0xd9]);
    }

    #[test]
    fn no_two_events_have_the_same_body() {
        let messages = [
            Message::camera(1),
            Message::camera(2),
            Message::broken(),
            Message::door(1, "1"),
            Message::door(2, "1"),
            Message::payment(),
            Message::stray(),
            Message::face(1),
            Message::face(2),
        ];
        let digests: std::collections::HashSet<_> = messages.iter().map(Message::digest).collect();
        assert_eq!(digests.len(), messages.len());
    }
}
