//! The file as written. Keys are spelt as in TOML; nothing unknown is ignored.
//!
//! Whatever needs a judgement is read as it stands, with its place in the file, and judged in
//! [`super::check`]: so one run reports all mistakes. What is left out is `None` here; the
//! defaults are beside what they mean, in [`super`].

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::units::Figure;

/// The whole file. An empty one is right.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) ingest: IngestTable,
    pub(super) store: StoreTable,
    pub(super) admin: AdminTable,
    pub(super) destination: Vec<Spanned<DestinationTable>>,
    pub(super) route: Vec<Spanned<RouteTable>>,
}

/// `[ingest]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct IngestTable {
    pub(super) listen: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) max_body: Option<Spanned<Figure>>,
}

/// `[store]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StoreTable {
    pub(super) path: Option<Spanned<String>>,
    pub(super) max_size: Option<Spanned<Figure>>,
    pub(super) keep_delivered: Option<Spanned<Figure>>,
    pub(super) keep_audit: Option<Spanned<Figure>>,
    pub(super) when_full: WhenFullWord,
}

/// `when_full = "…"`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WhenFullWord {
    #[default]
    Refuse,
    ShedLowestPriority,
}

/// `[admin]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AdminTable {
    pub(super) listen: Option<Spanned<String>>,
}

/// `[[destination]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DestinationTable {
    pub(super) name: Option<Spanned<String>>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) workers: Option<Spanned<i64>>,
    pub(super) timeout: Option<Spanned<Figure>>,
    pub(super) headers: BTreeMap<Spanned<String>, Spanned<String>>,
    pub(super) token_file: Option<Spanned<String>>,
    pub(super) format: FormatWord,
    pub(super) sign: Option<Spanned<SignTable>>,
    pub(super) ca_file: Option<Spanned<String>>,
    pub(super) client_cert: Option<Spanned<String>>,
    pub(super) client_key: Option<Spanned<String>>,
    pub(super) proxy: Option<Spanned<String>>,
    pub(super) proxy_login_file: Option<Spanned<String>>,
    pub(super) retry: RetryTable,
    pub(super) classify: BTreeMap<Spanned<String>, Spanned<String>>,
    pub(super) proof: Option<Spanned<ProofTable>>,
    pub(super) rate: RateTable,
    pub(super) window: Option<Spanned<String>>,
}

/// `format = "…"`
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FormatWord {
    #[default]
    Raw,
    CloudEvents,
}

/// `sign = { … }`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignTable {
    pub(super) file: Spanned<String>,
    #[serde(default)]
    pub(super) wait_for_clock: Option<bool>,
}

/// `retry = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetryTable {
    pub(super) first: Option<Spanned<Figure>>,
    pub(super) max: Option<Spanned<Figure>>,
    pub(super) jitter: Option<Spanned<f64>>,
    pub(super) max_attempts: Option<Spanned<i64>>,
}

/// `proof = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProofTable {
    pub(super) status: Vec<Spanned<i64>>,
    pub(super) header: Option<ProofHeaderTable>,
    pub(super) body: Option<Spanned<String>>,
}

/// `header = { … }` in a proof.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofHeaderTable {
    pub(super) name: Spanned<String>,
    pub(super) value: Spanned<String>,
}

/// `rate = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RateTable {
    pub(super) events: Option<Spanned<Figure>>,
    pub(super) bytes: Option<Spanned<Figure>>,
}

/// `[[route]]`, and `[route]` in a profile.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RouteTable {
    pub(super) name: Option<Spanned<String>>,
    pub(super) profile: Option<Spanned<String>>,
    pub(super) path: Option<Spanned<String>>,
    pub(super) event_id: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) device: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) event_time: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) items: Option<Spanned<String>>,
    pub(super) allow: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) token: Option<Spanned<TokenTable>>,
    pub(super) basic: Option<Spanned<BasicTable>>,
    pub(super) signature: Option<Spanned<SignatureTable>>,
    pub(super) require: Option<Spanned<Vec<Required>>>,
    pub(super) order: Option<OrderWord>,
    pub(super) priority: Option<Spanned<i64>>,
    pub(super) status: Option<StatusWord>,
    pub(super) retries: Option<Spanned<String>>,
    pub(super) answer: Option<Spanned<AnswerTable>>,
    pub(super) rejected: Option<Spanned<AnswerTable>>,
    pub(super) case: Option<Vec<Spanned<CaseTable>>>,
    pub(super) options: BTreeMap<Spanned<String>, Figure>,
    pub(super) dedup: Option<DedupWord>,
    pub(super) dedup_window: Option<Spanned<Figure>>,
    pub(super) expect_every: Option<Spanned<Figure>>,
    pub(super) schema: Option<Spanned<String>>,
    pub(super) to: Vec<Spanned<String>>,
}

/// `token = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TokenTable {
    pub(super) header: Option<Spanned<String>>,
    pub(super) query: Option<Spanned<String>>,
    pub(super) path: Option<Spanned<String>>,
    pub(super) file: Option<Spanned<String>>,
}

/// `basic = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BasicTable {
    pub(super) file: Option<Spanned<String>>,
}

/// `signature = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SignatureTable {
    pub(super) scheme: Option<Spanned<String>>,
    pub(super) file: Option<Spanned<String>>,
    pub(super) files: Vec<Spanned<String>>,
    pub(super) tolerance: Option<Spanned<Figure>>,
    pub(super) webhook_id: Option<Spanned<String>>,
    pub(super) header: Option<Spanned<String>>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) algorithm: Option<Spanned<String>>,
    pub(super) encoding: Option<Spanned<String>>,
    pub(super) timestamp: Option<Spanned<String>>,
    pub(super) signed: Option<Spanned<String>>,
    pub(super) secret: Option<Spanned<String>>,
}

/// `answer = { … }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AnswerTable {
    pub(super) status: Option<Spanned<i64>>,
    pub(super) content_type: Option<Spanned<String>>,
    pub(super) body: Option<Spanned<String>>,
    pub(super) computed: Option<Spanned<String>>,
}

/// `[[route.case]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CaseTable {
    pub(super) is: CaseWord,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default)]
    pub(super) bare: bool,
    #[serde(default)]
    pub(super) empty: Option<Spanned<String>>,
    #[serde(default, rename = "where")]
    pub(super) conditions: BTreeMap<Spanned<String>, String>,
    #[serde(default)]
    pub(super) answer: Option<Spanned<AnswerTable>>,
}

/// `is = "…"`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CaseWord {
    Event,
    Heartbeat,
    Poll,
    Handshake,
}

/// A profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileFile {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) paths: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    pub(super) retries_note: String,
    #[serde(default)]
    pub(super) route: RouteTable,
}

/// `dedup = "…"`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DedupWord {
    Content,
    Off,
}

/// What can stand in `require`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Required {
    EventId,
    Device,
}

/// `order = "…"`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OrderWord {
    Device,
    Route,
    None,
}

/// `status = "…"`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StatusWord {
    Received,
    Verdict,
}
