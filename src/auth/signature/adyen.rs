//! Adyen: each item of `notificationItems` has a signature of its own over eight of its fields.
//!
//! Source: Adyen, "Verify HMAC signatures", and its libraries (the fields, their order, nothing
//! escaped; a field that is missing is empty). What is there twice is refused: two readers could
//! read it in two ways.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::mac::{Algorithm, base64, is_same, sign};
use super::{Secret, wrong};

#[derive(Deserialize)]
struct Notification<'b> {
    #[serde(rename = "notificationItems", borrow)]
    items: Vec<Item<'b>>,
}

#[derive(Deserialize)]
struct Item<'b> {
    #[serde(rename = "NotificationRequestItem", borrow)]
    item: Fields<'b>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'b> {
    #[serde(borrow, default)]
    additional_data: Option<Additional<'b>>,
    #[serde(borrow, default)]
    psp_reference: Option<&'b RawValue>,
    #[serde(borrow, default)]
    original_reference: Option<&'b RawValue>,
    #[serde(borrow, default)]
    merchant_account_code: Option<&'b RawValue>,
    #[serde(borrow, default)]
    merchant_reference: Option<&'b RawValue>,
    #[serde(borrow, default)]
    amount: Option<Amount<'b>>,
    #[serde(borrow, default)]
    event_code: Option<&'b RawValue>,
    #[serde(borrow, default)]
    success: Option<&'b RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Additional<'b> {
    #[serde(borrow, default)]
    hmac_signature: Option<&'b RawValue>,
}

#[derive(Default, Deserialize)]
struct Amount<'b> {
    #[serde(borrow, default)]
    value: Option<&'b RawValue>,
    #[serde(borrow, default)]
    currency: Option<&'b RawValue>,
}

/// Whether all items of a body are signed right.
pub(super) fn verify(body: &[u8], secrets: &[Secret]) -> Result<(), String> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let read: Result<Notification<'_>, _> = serde_json::from_slice(body);
    let odd = || "missing: the body is no notification in JSON, or has a field twice".to_owned();
    let items = read.map_err(|_| odd())?.items;
    if items.is_empty() {
        return Err("missing: the body has no items".to_owned());
    }
    for (index, Item { item }) in items.iter().enumerate() {
        let signature = item.additional_data.as_ref();
        let signature = text(signature.and_then(|more| more.hmac_signature)).ok_or_else(odd)?;
        if signature.is_empty() {
            return Err(format!("missing: item {} has none", index + 1));
        }
        let signature = base64(signature.as_bytes()).unwrap_or_default();
        let signed = item.signed().ok_or_else(odd)?;
        let is_right = |secret| {
            let right = sign(Algorithm::Sha256, secret, &[signed.as_bytes()]);
            is_same(&signature, &right)
        };
        if !secrets.iter().any(is_right) {
            let of = format!(": item {} of {}", index + 1, items.len());
            return Err(wrong() + if items.len() == 1 { "" } else { &of });
        }
    }
    Ok(())
}

impl Fields<'_> {
    /// What its signature is made over; none if a field is neither text nor a number.
    fn signed(&self) -> Option<String> {
        let amount = self.amount.as_ref();
        let fields = [
            self.psp_reference,
            self.original_reference,
            self.merchant_account_code,
            self.merchant_reference,
            amount.and_then(|amount| amount.value),
            amount.and_then(|amount| amount.currency),
            self.event_code,
            self.success,
        ];
        let fields: Option<Vec<String>> = fields.into_iter().map(text).collect();
        fields.map(|fields| fields.join(":"))
    }
}

/// A field as text: decoded, or as a number stands there. What is missing is empty.
fn text(field: Option<&RawValue>) -> Option<String> {
    let raw = field.map_or("null", RawValue::get);
    match raw.as_bytes() {
        b"null" => Some(String::new()),
        [b'"', ..] => serde_json::from_str(raw).ok(),
        [b'{' | b'[', ..] => None,
        _ => Some(raw.to_owned()),
    }
}
