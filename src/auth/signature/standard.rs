//! Standard Webhooks: `webhook-signature: v1,<base64> v1,<base64>`, made over `id.timestamp.body`.
//!
//! Source: the Standard Webhooks specification. `v1a`, a signature with a key pair, is ignored.
//! Svix has the same in headers that begin with `svix-`; those are looked at only where there is
//! no `webhook-id`, since that is the event's id then.

use super::{Claim, Encoding, header, seconds};
use crate::event::Request;

pub(super) fn claim(request: &Request) -> Result<Claim<'_>, String> {
    let is_svix = request.header("webhook-id").is_none() && request.header("svix-id").is_some();
    let [id, time, signature] = if is_svix {
        ["svix-id", "svix-timestamp", "svix-signature"]
    } else {
        ["webhook-id", "webhook-timestamp", "webhook-signature"]
    };
    let signatures = header(request, signature)?.split(|byte| *byte == b' ');
    let signatures = signatures.filter_map(|one| one.strip_prefix(b"v1,"));
    let signatures: Vec<_> = signatures
        .filter_map(|one| Encoding::Base64.read(one))
        .collect();
    if signatures.is_empty() {
        return Err(format!("missing: header {signature} has no v1"));
    }
    let time_text = header(request, time)?;
    let sent = seconds(time_text).ok_or_else(|| format!("wrong: header {time} is no time"))?;
    Ok(Claim {
        signatures,
        signed: vec![header(request, id)?, b".", time_text, b".", &request.body],
        sent: Some(sent),
    })
}
