//! Trouble with the disk, on a real one: full, read-only, forbidden, damaged.
//!
//! - A refusal is a 503, and nothing that was acknowledged is lost.
//! - Deliveries go on while new events are refused, and taking goes on by itself.
//! - A start is never kept from happening by a damaged file, which is kept.
//!
//! The tests that need a small disk mount one in a folder of their own, if this user may. With
//! `GATEPOST_MUST_MOUNT` in the environment, as `tests/run` sets it for root, they must.

#[path = "disk/damage.rs"]
mod damage;
#[path = "disk/full.rs"]
mod full;
#[path = "disk/gateway.rs"]
mod gateway;
#[path = "disk/place.rs"]
mod place;
