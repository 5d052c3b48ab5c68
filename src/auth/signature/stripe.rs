//! Stripe: `Stripe-Signature: t=1492774577,v1=5257a8…,v1=…,v0=…`, made over `t.body`.
//!
//! Source: Stripe, "Receive Stripe events in your webhook endpoint", section on manual
//! verification: all but `v1` are ignored, any of those may be right, and a repeated event is
//! signed anew with the time of that attempt. The whole secret is the key, `whsec_` included.

use super::{Claim, Encoding, header, seconds};
use crate::event::Request;

const NAME: &str = "Stripe-Signature";

pub(super) fn claim(request: &Request) -> Result<Claim<'_>, String> {
    let mut time = None;
    let mut signatures = Vec::new();
    for item in header(request, NAME)?.split(|byte| *byte == b',') {
        let item = item.trim_ascii();
        if let Some(value) = item.strip_prefix(b"t=") {
            if time.replace(value).is_some() {
                return Err(format!("wrong: header {NAME} has several times"));
            }
        } else if let Some(value) = item.strip_prefix(b"v1=") {
            signatures.extend(Encoding::Hex.read(value));
        }
    }
    let time = time.ok_or_else(|| format!("missing: header {NAME} has no t="))?;
    let sent = seconds(time).ok_or_else(|| format!("wrong: t= of header {NAME} is no time"))?;
    if signatures.is_empty() {
        return Err(format!("missing: header {NAME} has no v1="));
    }
    Ok(Claim {
        signatures,
        signed: vec![time, b".", &request.body],
        sent: Some(sent),
    })
}
