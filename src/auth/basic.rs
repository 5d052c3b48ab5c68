//! A user and a password. Source: RFC 7617.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::secret::{Known, lines};
use super::token::conceal_header;
use crate::event::Request;

const AUTHORIZATION: &str = "Authorization";

const BASIC: &[u8] = b"basic ";

/// Who may send, with which password.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Basic {
    known: Known,
}

impl Basic {
    /// Nobody, until there is a file.
    #[must_use]
    pub fn nobody() -> Self {
        Self::default()
    }

    /// The users of a file: lines of `user:password`.
    ///
    /// # Errors
    ///
    /// Says in words why they can't be taken; never what they are.
    pub fn of_file(file: &[u8]) -> Result<Self, String> {
        let mut basic = Self::default();
        for (number, line) in lines(file) {
            if !line.contains(&b':') {
                return Err(format!(
                    "line {number} has no \":\"; lines of user:password are right"
                ));
            }
            basic.known.add(line);
        }
        if basic.known.is_empty() {
            return Err("it is empty; write lines of user:password into it".to_owned());
        }
        Ok(basic)
    }

    /// Whether a request has both right; else what is wrong, to be read after `password `.
    pub(super) fn check(&self, request: &Request) -> Result<(), String> {
        let missing = || format!("missing: no Basic in header {AUTHORIZATION}");
        let value = request.header(AUTHORIZATION).unwrap_or_default();
        let head = value.get(..BASIC.len()).unwrap_or_default();
        if !head.eq_ignore_ascii_case(BASIC) {
            return Err(missing());
        }
        let sent = BASE64_STANDARD.decode(value[BASIC.len()..].trim_ascii());
        if sent.is_ok_and(|sent| self.known.has(&sent)) {
            Ok(())
        } else {
            Err("or user wrong".to_owned())
        }
    }
}

/// Takes user and password out of a request that is to be kept.
pub(super) fn conceal(request: &mut Request) {
    conceal_header(request, AUTHORIZATION);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::CONCEALED;
    use crate::event::Header;

    fn request(value: &str) -> Request {
        let header = Header {
            name: "authorization".to_owned(),
            value: value.as_bytes().to_vec(),
        };
        Request {
            peer: ([10, 0, 0, 7], 1).into(),
            method: "POST".to_owned(),
            target: b"/".to_vec(),
            headers: vec![header],
            body: Vec::new(),
            oversize: None,
        }
    }

    #[test]
    fn user_and_password_must_both_be_right() {
        let file = b"Aladdin:open sesame\nuser:pass:word \r\n";
        let basic = Basic::of_file(file).unwrap_or_else(|why| unreachable!("{why}"));
        let wrong = Err("or user wrong".to_owned());
        let missing = Err("missing: no Basic in header Authorization".to_owned());
        let encoded = |text: &str| format!("Basic {}", BASE64_STANDARD.encode(text));
        let rows = [
            // Of RFC 7617, section 2.
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned(), Ok(())),
            ("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned(), Ok(())),
            (encoded("user:pass:word "), Ok(())),
            (encoded("user:pass:word"), wrong.clone()),
            (encoded("Aladdin:Open sesame"), wrong.clone()),
            (encoded("aladdin:open sesame"), wrong.clone()),
            (encoded("Aladdin:"), wrong.clone()),
            (encoded(""), wrong.clone()),
            ("Basic ???".to_owned(), wrong),
            (
                "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==".to_owned(),
                missing.clone(),
            ),
            (String::new(), missing),
        ];
        for (value, expected) in rows {
            assert_eq!(basic.check(&request(&value)), expected, "{value}");
        }
        let nobody = Basic::nobody().check(&request("Basic Og=="));
        assert_eq!(nobody, Err("or user wrong".to_owned()));
    }

    #[test]
    fn what_is_kept_of_a_request_does_not_have_its_password() {
        let mut request = request("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        conceal(&mut request);
        assert_eq!(request.header("Authorization"), Some(CONCEALED));
    }

    #[test]
    fn a_file_without_users_is_explained() {
        let rows: [(&[u8], &str); 2] = [
            (b"\n", "it is empty; write lines of user:password into it"),
            (
                b"a:b\nsecret",
                "line 2 has no \":\"; lines of user:password are right",
            ),
        ];
        for (file, expected) in rows {
            assert_eq!(Basic::of_file(file).expect_err(expected), expected);
        }
    }
}
