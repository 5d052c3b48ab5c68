//! Checks of a `[[destination]]`.

use std::time::Duration;

use toml::Spanned;

use super::Check;
use crate::config::file::{DestinationTable, FormatWord, RetryTable};
use crate::config::units::Figure;
use crate::config::{Destination, Format};
use crate::retry::RetryPolicy;

/// Headers that describe the message or the connection, or that gatepost gives a meaning.
///
/// Source: RFC 9110 sections 7.6.1 and 8, RFC 9112; DESIGN section 7.
const OURS: &[&str] = &[
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks that events can be sent to `url`. Never repeats a password.
pub(in crate::config) fn url(url: &str) -> Result<(), String> {
    let scheme = ["http://", "https://"].into_iter().find(|scheme| {
        let start = url.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let Some(scheme) = scheme else {
        return Err("the url begins with neither http:// nor https://".to_owned());
    };
    let rest = &url[scheme.len()..];
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "the url has a user or a password in it; put a token into a file \
                    and name that in token_file"
                .to_owned(),
        );
    }
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "\"{}\" has blanks or letters that are not ASCII; write them percent-encoded",
            url.escape_debug()
        ));
    }
    if rest.contains('#') {
        return Err(format!(
            "\"{url}\" has a \"#\"; what follows it is never sent, leave it out"
        ));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']').unwrap_or_default(),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() {
        return Err(format!("\"{url}\" has no host"));
    }
    let number = port.strip_prefix(':').unwrap_or("80");
    let is_port = number.parse::<u16>().is_ok_and(|port| port != 0);
    if !is_port || !(port.is_empty() || port.starts_with(':')) {
        return Err(format!("\"{url}\" has no valid port, 1 to 65535"));
    }
    Ok(())
}

/// Checks that HTTP can carry that header and that it is not ours to set.
fn header(name: &str, value: &str, table: &DestinationTable) -> Result<(), String> {
    if !is_token(name) {
        return Err("a header's name is letters, digits and hyphens".to_owned());
    }
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) || lower.starts_with("x-gatepost-") {
        return Err("gatepost sets this header itself".to_owned());
    }
    let setter = match lower.as_str() {
        "authorization" => table.token_file.is_some().then_some("token_file"),
        other if other.starts_with("ce-") => {
            matches!(table.format, FormatWord::CloudEvents).then_some("format")
        }
        other if other.starts_with("webhook-") => table.sign.is_some().then_some("sign"),
        _ => None,
    };
    if let Some(key) = setter {
        return Err(format!("{key} sets this header; leave one of them out"));
    }
    let is_plain = |byte: u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t');
    if value.trim() != value || !value.bytes().all(is_plain) {
        return Err("a header's value is ASCII in one line, without blanks around it".to_owned());
    }
    Ok(())
}

/// Whether HTTP allows that as the name of a header. Source: RFC 9110 section 5.6.2.
pub(super) fn is_token(name: &str) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(may)
}

impl Check<'_> {
    pub(super) fn destinations(
        &mut self,
        tables: Vec<Spanned<DestinationTable>>,
    ) -> Vec<Destination> {
        let mut names = Vec::new();
        let mut read = |table: Spanned<DestinationTable>| {
            let span = table.span();
            let mut table = table.into_inner();
            let name = table.name.take();
            let (name, whose) = self.name("destination", name, span.clone(), &mut names);
            self.destination(&whose, name, table, span)
        };
        tables.into_iter().map(&mut read).collect()
    }

    fn destination(
        &mut self,
        whose: &str,
        name: String,
        table: DestinationTable,
        span: std::ops::Range<usize>,
    ) -> Destination {
        let mut destination = Destination::new(name, String::new());
        match &table.url {
            Some(written) => {
                if let Err(why) = url(written.get_ref()) {
                    self.wrong(written.span(), format!("{whose} url: {why}"));
                }
                destination.url.clone_from(written.get_ref());
            }
            None => self.wrong(
                span,
                format!("{whose}: url is missing; write where its events are sent to"),
            ),
        }
        let workers = table.workers.as_ref();
        destination.workers =
            self.value(whose, "workers", workers, destination.workers, |workers| {
                let within = usize::try_from(*workers).ok();
                within
                    .filter(|workers| (1..=256).contains(workers))
                    .ok_or_else(|| format!("{workers} is not between 1 and 256"))
            });
        let timeout = table.timeout.as_ref();
        destination.timeout = self.value(whose, "timeout", timeout, destination.timeout, positive);
        destination.headers = self.headers(whose, &table);
        destination.format = match table.format {
            FormatWord::Raw => Format::Raw,
            FormatWord::CloudEvents => Format::CloudEvents,
        };
        destination.sign = self.sign(whose, table.sign.as_ref());
        destination.way = self.way(whose, &table);
        if let Some(written) = table.token_file {
            let token = self.path(written.get_ref());
            let judged = token.and_then(|path| (self.disk.token)(&path).map(|()| path));
            match judged {
                Ok(path) => destination.token_file = Some(path),
                Err(why) => self.wrong(written.span(), format!("{whose} token_file: {why}")),
            }
        }
        destination.retry = self.retry(whose, &table.retry);
        destination.classify = self.overrides(whose, table.classify);
        destination.proof = self.proof(whose, table.proof);
        destination.pace = self.pace(whose, &table.rate, table.window.as_ref());
        destination
    }

    fn headers(&mut self, whose: &str, table: &DestinationTable) -> Vec<(String, String)> {
        let mut seen: Vec<String> = Vec::new();
        let mut headers = Vec::new();
        for (name, value) in &table.headers {
            let key = name.get_ref();
            let lower = key.to_ascii_lowercase();
            let judged = if seen.contains(&lower) {
                Err("it is there twice; case makes no difference".to_owned())
            } else {
                header(key, value.get_ref(), table)
            };
            if let Err(why) = judged {
                self.wrong(name.span(), format!("{whose} headers: \"{key}\": {why}"));
            }
            seen.push(lower);
            headers.push((key.clone(), value.get_ref().clone()));
        }
        headers
    }

    fn retry(&mut self, whose: &str, table: &RetryTable) -> RetryPolicy {
        let mut policy = RetryPolicy::DEFAULT;
        let first = table.first.as_ref();
        policy.first = self.value(whose, "retry.first", first, policy.first, positive);
        let max = table.max.as_ref();
        policy.max = self.value(whose, "retry.max", max, policy.max, positive);
        if policy.max < policy.first
            && let Some(at) = table.max.as_ref().or(table.first.as_ref())
        {
            let text = format!(
                "{whose} retry: max, {:?}, is shorter than first, {:?}",
                policy.max, policy.first
            );
            self.wrong(at.span(), text);
        }
        let jitter = table.jitter.as_ref();
        policy.jitter = self.value(whose, "retry.jitter", jitter, policy.jitter, |share| {
            if (0.0..=1.0).contains(share) {
                Ok(*share)
            } else {
                Err(format!("{share} is not between 0 and 1"))
            }
        });
        let most = table.max_attempts.as_ref();
        let default = policy.max_attempts;
        policy.max_attempts = self.value(whose, "retry.max_attempts", most, default, |attempts| {
            let within = u32::try_from(*attempts).ok();
            within
                .filter(|attempts| *attempts != 0)
                .ok_or_else(|| format!("{attempts} is not between 1 and {}", u32::MAX))
        });
        policy
    }
}

fn positive(figure: &Figure) -> Result<Duration, String> {
    match figure.duration()? {
        Duration::ZERO => Err(format!(
            "{figure} is no time at all; write at least \"1ms\""
        )),
        duration => Ok(duration),
    }
}
