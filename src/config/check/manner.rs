//! Checks of what a `[[destination]]` says of its answers, and of how fast it may be sent to.

use std::collections::BTreeMap;

use toml::Spanned;

use super::Check;
use super::destination::is_token;
use crate::config::file::{ProofTable, RateTable};
use crate::delivery::Answer;
use crate::pace::{Hours, Plan};
use crate::profile::Glob;
use crate::proof::Proof;
use crate::retry::Overrides;

impl Check<'_> {
    pub(super) fn overrides(
        &mut self,
        whose: &str,
        table: BTreeMap<Spanned<String>, Spanned<String>>,
    ) -> Overrides {
        let mut overrides = Overrides::default();
        for (key, word) in table {
            if let Err(why) = overrides.add(key.get_ref(), word.get_ref()) {
                let key_text = key.get_ref();
                self.wrong(
                    key.span(),
                    format!("{whose} classify: \"{key_text}\": {why}"),
                );
            }
        }
        overrides
    }

    pub(super) fn proof(
        &mut self,
        whose: &str,
        table: Option<Spanned<ProofTable>>,
    ) -> Option<Proof> {
        let table = table?;
        let span = table.span();
        let ProofTable {
            status,
            header,
            body,
        } = table.into_inner();
        let mut proof = Proof::default();
        for written in &status {
            let judged = self.value(whose, "proof.status", Some(written), None, |status| {
                let success = u16::try_from(*status).ok();
                let success = success.filter(|status| (200..=299).contains(status));
                success.map(Some).ok_or_else(|| {
                    format!(
                        "{status} is not between 200 and 299; what another status means is said \
                         in classify"
                    )
                })
            });
            proof.statuses.extend(judged);
        }
        if let Some(header) = header {
            let (name, value) = (header.name, header.value);
            if !is_token(name.get_ref()) {
                let text = "a header's name is letters, digits and hyphens";
                self.wrong(name.span(), format!("{whose} proof.header.name: {text}"));
            }
            if value.get_ref().is_empty() {
                let text = "it is empty; write what the value is, or \"*\" for any";
                self.wrong(value.span(), format!("{whose} proof.header.value: {text}"));
            }
            proof.header = Some((name.into_inner(), Glob::new(value.get_ref())));
        }
        if let Some(body) = body {
            if !(1..=Answer::LONGEST_HEAD).contains(&body.get_ref().len()) {
                let most = Answer::LONGEST_HEAD;
                let text = format!("{whose} proof.body: it is not 1 to {most} bytes long");
                self.wrong(body.span(), text);
            }
            proof.body = body.into_inner();
        }
        if proof == Proof::default() {
            let text = "it asks for nothing; write a status, a header or a body, or leave it out";
            self.wrong(span, format!("{whose} proof: {text}"));
        }
        Some(proof)
    }

    pub(super) fn pace(
        &mut self,
        whose: &str,
        rate: &RateTable,
        window: Option<&Spanned<String>>,
    ) -> Plan {
        let events = self.value(whose, "rate.events", rate.events.as_ref(), None, |figure| {
            figure.rate_of_events().map(Some)
        });
        let bytes = self.value(whose, "rate.bytes", rate.bytes.as_ref(), None, |figure| {
            figure.rate_of_bytes().map(Some)
        });
        let hours = self.value(whose, "window", window, None, |text| {
            Hours::parse(text).map(Some)
        });
        Plan {
            events,
            bytes,
            hours,
        }
    }
}
