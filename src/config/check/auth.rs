//! Checks of who may send.

use std::ops::Range;

use toml::Spanned;

use super::Check;
use super::answers::among;
use crate::auth::{
    Algorithm, Auth, Basic, Encoding, KeyForm, Layout, Net, Place, Scheme, Signature, Signed, Token,
};
use crate::config::file::{BasicTable, RouteTable, SignatureTable, TokenTable};
use crate::route::Route;
use crate::select::Selector;

impl Check<'_> {
    /// What a table says of who may send, on top of what its profile does.
    pub(super) fn auth(&mut self, whose: &str, mut auth: Auth, table: &RouteTable) -> Auth {
        if let Some(written) = &table.allow {
            auth.allow = self.allow(whose, written);
        }
        if let Some(written) = &table.token {
            auth.token = self.token(&format!("{whose} token"), written);
        }
        if let Some(written) = &table.basic {
            auth.basic = Some(self.basic(&format!("{whose} basic"), written));
        }
        if let Some(written) = &table.signature {
            let whose = format!("{whose} signature");
            auth.signature = self.signature(&whose, auth.signature, written);
        }
        auth
    }

    fn allow(&mut self, whose: &str, written: &Spanned<Vec<Spanned<String>>>) -> Vec<Net> {
        if written.get_ref().is_empty() {
            let text =
                format!("{whose} allow: the list is empty; leave it out to let in everybody");
            self.wrong(written.span(), text);
        }
        let mut nets = Vec::new();
        for entry in written.get_ref() {
            match Net::parse(entry.get_ref()) {
                Ok(net) => nets.push(net),
                Err(why) => self.wrong(entry.span(), format!("{whose} allow: {why}")),
            }
        }
        nets
    }

    fn token(&mut self, whose: &str, written: &Spanned<TokenTable>) -> Option<Token> {
        let table = written.get_ref();
        let text =
            |place: &Option<Spanned<String>>| place.as_ref().map(|one| one.get_ref().clone());
        let places = [
            text(&table.header).map(Place::Header),
            text(&table.query).map(Place::Query),
            text(&table.path).map(Place::Path),
        ];
        let mut places = places.into_iter().flatten();
        let token = match (places.next(), places.next()) {
            (Some(place), None) => Token::new(place),
            _ => Err(
                "write one place where it is: header = \"X-Token\", query = \"token\" or \
                      path = \"token\""
                    .to_owned(),
            ),
        };
        let token = match token {
            Ok(token) => token,
            Err(why) => {
                self.wrong(written.span(), format!("{whose}: {why}"));
                return None;
            }
        };
        let Some(file) = &table.file else {
            let text = format!("{whose}: file is missing; it holds the tokens, one a line");
            self.wrong(written.span(), text);
            return None;
        };
        let plain = token.clone();
        let read = |bytes: &[u8]| token.with_file(bytes);
        Some(
            self.with_secrets(whose, "file", file, read)
                .unwrap_or(plain),
        )
    }

    fn basic(&mut self, whose: &str, written: &Spanned<BasicTable>) -> Basic {
        let Some(file) = &written.get_ref().file else {
            let text = format!("{whose}: file is missing; it holds lines of user:password");
            self.wrong(written.span(), text);
            return Basic::nobody();
        };
        let read = self.with_secrets(whose, "file", file, Basic::of_file);
        read.unwrap_or_else(Basic::nobody)
    }

    fn signature(
        &mut self,
        whose: &str,
        of_profile: Option<Signature>,
        written: &Spanned<SignatureTable>,
    ) -> Option<Signature> {
        let table = written.get_ref();
        let known = of_profile.map(|signature| (signature.scheme, signature.tolerance));
        let (mut scheme, inherited) = match (&table.scheme, known) {
            (Some(name), _) => match named(name.get_ref()) {
                Ok(scheme) => (scheme, None),
                Err(why) => {
                    self.wrong(name.span(), format!("{whose} scheme: {why}"));
                    return None;
                }
            },
            (None, Some((scheme, tolerance))) => (scheme, Some(tolerance)),
            (None, None) => {
                let names = Scheme::NAMES.join(", ");
                let text = format!("{whose}: scheme is missing; it is one of: {names}");
                self.wrong(written.span(), text);
                return None;
            }
        };
        let is_described = matches!(&scheme, Scheme::Hmac(layout) if layout.name == "hmac");
        if let Scheme::Hmac(layout) = &mut scheme
            && is_described
        {
            self.layout(whose, layout, written);
        }
        self.only_of_its_scheme(whose, &scheme, table, is_described);
        if let Scheme::Paypal(webhook) = &mut scheme {
            let id = table.webhook_id.as_ref().map(Spanned::get_ref);
            webhook.clone_from(id.unwrap_or(&String::new()));
        }
        let mut signature = Signature::unchecked(scheme);
        signature.tolerance = inherited.unwrap_or(signature.tolerance);
        let has_time = signature.scheme.has_time();
        let tolerance = table.tolerance.as_ref();
        let default = signature.tolerance;
        signature.tolerance = self.value(whose, "tolerance", tolerance, default, |figure| {
            let duration = figure.duration()?;
            if !has_time {
                Err("signatures of this scheme do not say when they were made".to_owned())
            } else if duration.as_secs() == 0 {
                Err(format!("{figure} is too short; clocks are not that good"))
            } else {
                Ok(Some(duration))
            }
        });
        if self.is_profile {
            return Some(signature);
        }
        Some(self.signed(whose, signature, written))
    }

    /// The signature with the secrets of its files.
    fn signed(
        &mut self,
        whose: &str,
        signature: Signature,
        written: &Spanned<SignatureTable>,
    ) -> Signature {
        let table = written.get_ref();
        let one = table.file.iter().map(|file| ("file", file));
        let files = one.chain(table.files.iter().map(|file| ("files", file)));
        let mut signature = signature.checked();
        let mut is_checked = false;
        for (key, file) in files {
            is_checked = true;
            let before = signature.clone();
            let read = |bytes: &[u8]| signature.with_file(bytes);
            signature = self.with_secrets(whose, key, file, read).unwrap_or(before);
        }
        if !is_checked {
            let text = format!("{whose}: file is missing; without a secret nothing can be checked");
            self.wrong(written.span(), text);
        }
        if matches!(&signature.scheme, Scheme::Paypal(webhook) if webhook.is_empty()) {
            let text = format!(
                "{whose}: webhook_id is missing; PayPal shows it beside the webhook's URL, and \
                 signs it"
            );
            self.wrong(written.span(), text);
        }
        signature
    }

    /// What an operator says of a signature that no scheme describes.
    fn layout(&mut self, whose: &str, layout: &mut Layout, written: &Spanned<SignatureTable>) {
        let table = written.get_ref();
        let header = |name: &String| {
            Selector::parse(&format!("header:{name}")).map_err(|_| {
                format!("\"{name}\" is no header; its name is letters, digits and hyphens")
            })?;
            Ok(name.clone())
        };
        let default = layout.header.clone();
        layout.header = self.value(whose, "header", table.header.as_ref(), default, header);
        if layout.header.is_empty() && table.header.is_none() {
            let text = format!("{whose}: header is missing; write the one that has the signature");
            self.wrong(written.span(), text);
        }
        if let Some(prefix) = &table.prefix {
            layout.prefix.clone_from(prefix.get_ref());
        }
        let written = table.algorithm.as_ref();
        layout.algorithm = self.value(whose, "algorithm", written, layout.algorithm, |name| {
            among(&Algorithm::ALL, name)
        });
        let written = table.encoding.as_ref();
        layout.encoding = self.value(whose, "encoding", written, layout.encoding, |name| {
            among(&Encoding::ALL, name)
        });
        let written = table.secret.as_ref();
        layout.key = self.value(whose, "secret", written, layout.key, |form| {
            among(&KeyForm::ALL, form)
        });
        let (written, default) = (table.timestamp.as_ref(), layout.timestamp.clone());
        layout.timestamp = self.value(whose, "timestamp", written, default, |name| {
            header(name).map(Some)
        });
        let has_time = layout.timestamp.is_some();
        if table.timestamp.is_some() {
            layout.signed = Signed::time_and_body();
        }
        let (written, default) = (table.signed.as_ref(), layout.signed.clone());
        layout.signed = self.value(whose, "signed", written, default, |text| {
            Signed::parse(text, has_time)
        });
    }

    fn only_of_its_scheme(
        &mut self,
        whose: &str,
        scheme: &Scheme,
        table: &SignatureTable,
        is_described: bool,
    ) {
        let of_hmac = [
            ("header", &table.header),
            ("prefix", &table.prefix),
            ("algorithm", &table.algorithm),
            ("encoding", &table.encoding),
            ("timestamp", &table.timestamp),
            ("signed", &table.signed),
            ("secret", &table.secret),
        ];
        let of_hmac = of_hmac.map(|(key, written)| (key, written, "hmac", is_described));
        let is_paypal = matches!(scheme, Scheme::Paypal(_));
        let of_paypal = ("webhook_id", &table.webhook_id, "paypal", is_paypal);
        for (key, written, of, is_right) in of_hmac.into_iter().chain([of_paypal]) {
            if let Some(written) = written.as_ref().filter(|_| !is_right) {
                let text = format!("{whose} {key}: it belongs to scheme \"{of}\", not to {scheme}");
                self.wrong(written.span(), text);
            }
        }
    }

    /// What `read` makes of a file with secrets; none if it is wrong, or the disk is not touched.
    fn with_secrets<T>(
        &mut self,
        whose: &str,
        key: &str,
        file: &Spanned<String>,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Option<T> {
        let path = self.path(file.get_ref());
        let found = path.and_then(|path| Ok((self.disk.secret)(&path)?.map(|file| (path, file))));
        let read = found.and_then(|found| match found {
            None => Ok(None),
            Some((path, secrets)) => {
                let shown = path.display();
                if secrets.is_open {
                    let line = self.line(file.span());
                    let text = format!(
                        "{whose} {key}: every user of this machine can read {shown}; \
                         chmod o= {shown}"
                    );
                    self.warnings.push(crate::config::Problem { line, text });
                }
                let read = read(&secrets.bytes);
                read.map(Some).map_err(|why| format!("{shown}: {why}"))
            }
        });
        read.unwrap_or_else(|why| {
            self.wrong(file.span(), format!("{whose} {key}: {why}"));
            None
        })
    }

    /// A token must be where the path says, and nothing that is shown may be read from there.
    pub(super) fn token_stays_unseen(
        &mut self,
        whose: &str,
        route: &Route,
        table: &RouteTable,
        path: Range<usize>,
    ) {
        let Some(token) = &route.auth.token else {
            return;
        };
        let at = table.token.as_ref().map_or(path, Spanned::span);
        if let Place::Path(hole) = token.place()
            && (hole == "*" || !route.path.hole_names().any(|name| name == hole))
        {
            let text = format!(
                "{whose} token: the path \"{}\" has no hole {{{hole}}} for it",
                route.path
            );
            self.wrong(at.clone(), text);
        }
        if let Place::Header(name) = token.place()
            && name.eq_ignore_ascii_case("authorization")
            && route.auth.basic.is_some()
        {
            let text = format!("{whose} token: basic wants the header Authorization too");
            self.wrong(at.clone(), text);
        }
        let place = token.selector().to_string();
        let lists = [
            ("event_id", &route.event_id),
            ("device", &route.device),
            ("event_time", &route.event_time),
        ];
        for (key, selectors) in lists {
            let shows = selectors.iter().any(|selector| {
                let all = selector.to_string();
                all.split(" + ").any(|one| one.eq_ignore_ascii_case(&place))
            });
            if shows {
                let text = format!("{whose} token: {key} is read from {place} too, and is shown");
                self.wrong(at.clone(), text);
            }
        }
    }
}

/// A scheme by its name, as far as that says it.
fn named(name: &str) -> Result<Scheme, String> {
    Ok(match name {
        "adyen" => Scheme::Adyen,
        "github" => Scheme::Hmac(Layout::github()),
        "hmac" => Scheme::Hmac(Layout::new("")),
        "line" => Scheme::Hmac(Layout::line()),
        "paypal" => Scheme::Paypal(String::new()),
        "shopify" => Scheme::Hmac(Layout::shopify()),
        "standard-webhooks" => Scheme::StandardWebhooks,
        "stripe" => Scheme::Stripe,
        _ => {
            let names = Scheme::NAMES.join(", ");
            return Err(format!("\"{name}\" is none of: {names}"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheme_has_a_name() {
        for name in Scheme::NAMES {
            let scheme = named(name).unwrap_or_else(|why| unreachable!("{why}"));
            assert!(scheme.to_string().starts_with(name), "{scheme}");
        }
        assert!(named("ed25519").is_err());
    }
}
