//! Selectors: where a value is found in a request.

/// One selector, as `json:/eventId` or `header:X-Id`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Selector(String);
