//! gatepost
pub mod audit;
pub mod clock;
pub mod commit;
pub mod config;
pub mod deliver;
pub mod delivery;
pub mod event;
pub mod logger;
pub mod health;
pub mod http;
pub mod lanes;
pub mod retry;
pub mod rng;
pub mod route;
pub mod select;
pub mod store;
pub mod upstream;
