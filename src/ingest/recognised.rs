//! By what an event is recognised when it comes again.

use std::time::Duration;

use crate::commit::DedupKey;
use crate::event::{Event, Quarantine};
use crate::route::{Route, sender};

/// The key of an event, and how long it holds; none for as long as it is remembered.
///
/// - By its sender's id for it, if there is one.
/// - By its bytes, if its route says so and there are some: a door that opens twice by GET has
///   opened twice.
/// - In quarantine by its bytes, its sender's address and the kind of reason, so that a storm of it
///   is one event. A stranger never shares a key with a device: it could make a true event be taken
///   for a duplicate, or learn that there is one.
pub(super) fn recognised(
    event: &Event,
    route: Option<&Route>,
) -> (Option<DedupKey>, Option<Duration>) {
    let of_content = |place: &str, sender: &str| {
        let (method, target) = (&event.method, &event.target);
        Some(DedupKey::of_content(
            place,
            sender,
            method,
            target,
            &event.digest,
        ))
    };
    let (Some(route), None) = (route, &event.quarantine) else {
        let kind = event.quarantine.as_ref().map_or("", Quarantine::kind);
        return (of_content(kind, &event.peer.ip().to_string()), None);
    };
    let sender = sender(event.device.as_deref(), event.peer.ip());
    match (&event.event_id, route.same_content) {
        (Some(id), _) => (Some(DedupKey::new(&route.name, &sender, id)), None),
        (None, Some(window)) if event.length != 0 => {
            (of_content(&route.name, &sender), Some(window))
        }
        (None, _) => (None, None),
    }
}
