//! Checks of what senders hear.

use toml::Spanned;

use super::Check;
use crate::config::file::{AnswerTable, CaseTable, CaseWord, RouteTable};
use crate::config::units::Figure;
use crate::profile::{Body, Case, Computed, Glob, Kind, Retries, Wording};
use crate::route::Route;
use crate::select::{Items, Selector};

impl Check<'_> {
    /// What a table says of answers, on top of what its profile does.
    pub(super) fn answers(&mut self, whose: &str, mut route: Route, table: &RouteTable) -> Route {
        let written = table.retries.as_ref();
        route.retries = self.value(whose, "retries", written, route.retries, |word| {
            among(&Retries::ALL, word)
        });
        let answers = &mut route.answers;
        if let Some(written) = &table.answer {
            answers.accepted = self.wording(&format!("{whose} answer"), written);
        }
        if let Some(written) = &table.rejected {
            answers.rejected = self.wording(&format!("{whose} rejected"), written);
        }
        if let Some(written) = &table.case {
            let case = |written| self.case(&format!("{whose} case"), written);
            answers.cases = written.iter().filter_map(case).collect();
        }
        for (name, value) in &table.options {
            let value = match value {
                Figure::Text(text) => text.clone(),
                Figure::Number(number) => number.to_string(),
            };
            let is_line = |text: &str| !text.contains(['\n', '\r', '\0']);
            let key = name.get_ref();
            if key.is_empty() || key.contains('=') || !is_line(key) || !is_line(&value) {
                let text = format!("{whose} options: \"{key}\" and its value must be on one line");
                self.wrong(name.span(), text);
            }
            answers.options.insert(key.clone(), value);
        }
        if let Some((name, _)) = table.options.first_key_value()
            && let Err(why) = answers.check_options()
        {
            self.wrong(name.span(), format!("{whose} options: {why}"));
        }
        route
    }

    fn wording(&mut self, whose: &str, written: &Spanned<AnswerTable>) -> Option<Wording> {
        let table = written.get_ref();
        let status = table.status.as_ref();
        let status = self.value(whose, "status", status, 200, |status| match *status {
            204 | 205 => Err(format!(
                "{status} has no body, and some senders hang on it; write 200"
            )),
            200..=299 => Ok(u16::try_from(*status).unwrap_or(200)),
            _ => Err(format!(
                "{status} is not between 200 and 299; senders take anything else for \"again\""
            )),
        });
        let body = match (&table.body, &table.computed) {
            (Some(body), Some(_)) => {
                let text = format!("{whose}: it has body and computed; leave one of them out");
                self.wrong(body.span(), text);
                return None;
            }
            (Some(body), None) if body.get_ref().is_empty() => {
                let text = format!(
                    "{whose} body: it is empty, and some senders crash on that; write \"OK\""
                );
                self.wrong(body.span(), text);
                return None;
            }
            (Some(body), None) => Some(Body::Fixed(body.get_ref().clone())),
            (None, Some(computed)) => match among(&Computed::ALL, computed.get_ref()) {
                Ok(computed) => Some(Body::Computed(computed)),
                Err(why) => {
                    self.wrong(computed.span(), format!("{whose} computed: {why}"));
                    return None;
                }
            },
            (None, None) => None,
        };
        let usual = "text/plain".to_owned();
        let content_type = table.content_type.as_ref();
        let content_type = self.value(whose, "content_type", content_type, usual, |text| {
            let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
            if body.is_none() {
                Err("there is no body that it could be of".to_owned())
            } else if text.contains('/') && text.bytes().all(is_plain) {
                Ok(text.clone())
            } else {
                Err(format!("\"{text}\" is no media type, as \"text/plain\" is"))
            }
        });
        let text = body.map(|body| (content_type, body));
        Some(Wording { status, text })
    }

    fn case(&mut self, whose: &str, written: &Spanned<CaseTable>) -> Option<Case> {
        let table = written.get_ref();
        let is = match table.is {
            CaseWord::Event => Kind::Event,
            CaseWord::Heartbeat => Kind::Heartbeat,
            CaseWord::Poll => Kind::Poll,
            CaseWord::Handshake => Kind::Handshake,
        };
        if table.conditions.is_empty() && table.empty.is_none() && !table.bare {
            let text = format!(
                "{whose}: it takes every request; say where = {{ … }} what is found, or bare = true"
            );
            self.wrong(written.span(), text);
        }
        let empty = self.value(whose, "empty", table.empty.as_ref(), None, |text| {
            Items::parse(text).map(Some)
        });
        let mut conditions = Vec::new();
        for (selector, glob) in &table.conditions {
            match Selector::parse(selector.get_ref()) {
                Ok(selector) => conditions.push((selector, Glob::new(glob))),
                Err(why) => self.wrong(selector.span(), format!("{whose} where: {why}")),
            }
        }
        conditions.sort_by_key(|(selector, _)| selector.looks_into_body());
        let answer = match &table.answer {
            Some(written) => Some(self.wording(&format!("{whose} answer"), written)?),
            None => None,
        };
        Some(Case {
            is,
            method: table.method.clone(),
            bare: table.bare,
            empty,
            conditions,
            answer,
        })
    }
}

/// What has that name.
pub(super) fn among<T: Copy>(all: &[(&str, T)], word: &str) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("\"{word}\" is none of: {}", names.join(", "))
    })
}
