//! Checks of how a destination is signed for and reached: secrets, certificates, proxies.
//!
//! Looks into the files as far as that needs no TLS; whether a key is that of its certificate is
//! found by [`crate::upstream`], at the same time as far as an operator can see.

use std::path::{Path, PathBuf};

use toml::Spanned;

use super::Check;
use crate::config::file::{DestinationTable, SignTable};
use crate::config::{ClientFiles, Proxy, Sign, Way};
use crate::sign::Secrets;

impl Check<'_> {
    pub(super) fn sign(
        &mut self,
        whose: &str,
        written: Option<&Spanned<SignTable>>,
    ) -> Option<Sign> {
        let table = written?.get_ref();
        let file = self.content(whose, "sign.file", Some(&table.file), |text| {
            Secrets::parse(text).map(drop)
        })?;
        Some(Sign {
            file,
            wait_for_clock: table.wait_for_clock.unwrap_or(true),
        })
    }

    pub(super) fn way(&mut self, whose: &str, table: &DestinationTable) -> Way {
        let is_tls = table.url.as_ref().is_none_or(|url| {
            let url = url.get_ref().as_bytes();
            !url.get(..7)
                .is_some_and(|start| start.eq_ignore_ascii_case(b"http://"))
        });
        let written = [
            ("ca_file", &table.ca_file),
            ("client_cert", &table.client_cert),
            ("client_key", &table.client_key),
        ];
        for (key, written) in written {
            if let Some(written) = written
                && !is_tls
            {
                let text = format!("{whose} {key}: the url is not https://, so it is never used");
                self.wrong(written.span(), text);
            }
        }
        let ca_file = self.content(whose, "ca_file", table.ca_file.as_ref(), certificate);
        let client = self.client(whose, table);
        let proxy = self.proxy(whose, table);
        Way {
            ca_file,
            client,
            proxy,
        }
    }

    fn client(&mut self, whose: &str, table: &DestinationTable) -> Option<ClientFiles> {
        let (cert, key) = (table.client_cert.as_ref(), table.client_key.as_ref());
        let alone = match (cert, key) {
            (Some(cert), None) => Some((cert, "client_cert", "client_key")),
            (None, Some(key)) => Some((key, "client_key", "client_cert")),
            _ => None,
        };
        if let Some((written, is, missing)) = alone {
            let text = format!("{whose} {is}: {missing} is missing; they go together");
            self.wrong(written.span(), text);
        }
        let cert = self.content(whose, "client_cert", cert, certificate);
        let key = self.content(whose, "client_key", key, private_key);
        cert.zip(key).map(|(cert, key)| ClientFiles { cert, key })
    }

    fn proxy(&mut self, whose: &str, table: &DestinationTable) -> Option<Proxy> {
        let login = table.proxy_login_file.as_ref();
        let login_file = self.content(whose, "proxy_login_file", login, login_line);
        let Some(written) = &table.proxy else {
            if let Some(login) = login {
                let text = format!("{whose} proxy_login_file: there is no proxy to log in to");
                self.wrong(login.span(), text);
            }
            return None;
        };
        match Proxy::parse(written.get_ref()) {
            Ok(proxy) => Some(Proxy {
                login_file,
                ..proxy
            }),
            Err(why) => {
                self.wrong(written.span(), format!("{whose} proxy: {why}"));
                None
            }
        }
    }

    /// The path of a file whose content `judge` accepts.
    fn content(
        &mut self,
        whose: &str,
        key: &str,
        written: Option<&Spanned<String>>,
        judge: fn(&[u8]) -> Result<(), String>,
    ) -> Option<PathBuf> {
        let written = written?;
        let read = |path: PathBuf| match (self.disk.secret)(&path)? {
            Some(file) => judge(&file.bytes)
                .map(|()| path.clone())
                .map_err(|why| format!("{}: {why}", shown(&path))),
            None => Ok(path),
        };
        match self.path(written.get_ref()).and_then(read) {
            Ok(path) => Some(path),
            Err(why) => {
                self.wrong(written.span(), format!("{whose} {key}: {why}"));
                None
            }
        }
    }
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

fn certificate(text: &[u8]) -> Result<(), String> {
    if holds(text, "-----BEGIN CERTIFICATE-----") {
        return Ok(());
    }
    Err("there is no PEM certificate in it, which begins with -----BEGIN CERTIFICATE-----".into())
}

fn private_key(text: &[u8]) -> Result<(), String> {
    if holds(text, "-----BEGIN ENCRYPTED PRIVATE KEY-----") || holds(text, "Proc-Type: 4,ENCRYPTED")
    {
        return Err("the key in it is encrypted; decrypt it with `openssl pkey`".to_owned());
    }
    if holds(text, "PRIVATE KEY-----") {
        return Ok(());
    }
    Err("there is no PEM key in it, which begins with -----BEGIN PRIVATE KEY-----".to_owned())
}

fn login_line(text: &[u8]) -> Result<(), String> {
    let is_line = std::str::from_utf8(text.trim_ascii())
        .is_ok_and(|line| line.contains(':') && !line.contains(['\n', '\r']));
    if is_line {
        return Ok(());
    }
    Err("user:password in one line is right".to_owned())
}

fn holds(text: &[u8], needle: &str) -> bool {
    let needle = needle.as_bytes();
    text.windows(needle.len()).any(|window| window == needle)
}
