//! `PayPal`: RSA over `transmission id|time|webhook id|CRC32 of the body`.
//!
//! Source: `PayPal`, "Webhooks: integrate, verify the message". The certificate is named by a
//! header; it is never fetched, since whoever forges an event names one of its own. An operator
//! fetches it once and gives it by a file, and by a second one when `PayPal` changes it. It is
//! trusted for being there: neither its issuer nor its dates are looked at.
//!
//! A CRC32 is no hash: who has seen a true event can make other bytes with the same.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use webpki::ring::RSA_PKCS1_2048_8192_SHA256 as RSA_SHA256;
use webpki::{EndEntityCert, RawPublicKeyEntity};

use super::mac::base64;
use super::{header, wrong};
use crate::clock::Timestamp;
use crate::event::Request;

/// What it was signed for, from a certificate or bare.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum PublicKey {
    Certificate(CertificateDer<'static>),
    Bare(SubjectPublicKeyInfoDer<'static>),
}

impl PublicKey {
    /// The first certificate of a file, or else the first public key.
    pub(super) fn of_file(file: &[u8]) -> Result<Self, String> {
        let key = match CertificateDer::from_pem_slice(file) {
            Ok(certificate) => Ok(Self::Certificate(certificate)),
            Err(_) => SubjectPublicKeyInfoDer::from_pem_slice(file).map(Self::Bare),
        };
        let key = key.map_err(|_| {
            "it has neither a certificate nor a public key in PEM; \
             \"-----BEGIN CERTIFICATE-----\" begins one"
        })?;
        // With no signature of anything, it is only said whether it is a key for that.
        match key.verify(b"", b"") {
            Err(webpki::Error::InvalidSignatureForPublicKey) => Ok(key),
            _ => Err("its key is not one for RSA of 2048 to 8192 bits".to_owned()),
        }
    }

    fn verify(&self, signed: &[u8], signature: &[u8]) -> Result<(), webpki::Error> {
        match self {
            Self::Certificate(certificate) => {
                let certificate = EndEntityCert::try_from(certificate)?;
                certificate.verify_signature(RSA_SHA256, signed, signature)
            }
            Self::Bare(key) => {
                let key = RawPublicKeyEntity::try_from(key)?;
                key.verify_signature(RSA_SHA256, signed, signature)
            }
        }
    }
}

/// When an event was signed, in seconds since 1970, if it was signed right.
pub(super) fn verify(
    request: &Request,
    webhook: &str,
    keys: &[PublicKey],
) -> Result<Option<i64>, String> {
    let signature = header(request, "PayPal-Transmission-Sig")?;
    let algorithm = header(request, "PayPal-Auth-Algo")?;
    if !algorithm.eq_ignore_ascii_case(b"SHA256withRSA") {
        return Err("wrong: header PayPal-Auth-Algo is not SHA256withRSA".to_owned());
    }
    let id = header(request, "PayPal-Transmission-Id")?;
    let time = header(request, "PayPal-Transmission-Time")?;
    let sent = std::str::from_utf8(time).ok().and_then(Timestamp::parse);
    let sent = sent.ok_or("wrong: header PayPal-Transmission-Time is no time")?;
    let crc = crc32fast::hash(&request.body).to_string();
    let signed = [id, time, webhook.as_bytes(), crc.as_bytes()].join(&b'|');
    let signature = base64(signature).unwrap_or_default();
    if keys
        .iter()
        .any(|key| key.verify(&signed, &signature).is_ok())
    {
        Ok(Some(sent.as_ms().div_euclid(1000)))
    } else {
        Err(wrong())
    }
}
