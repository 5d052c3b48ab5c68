//! The addresses of the one host that a destination is reached by: its own, or its proxy's.
//!
//! # Guarantees
//!
//! - At most one look-up is under way for a destination, whatever the number of its workers and
//!   however long the name server is silent. ureq's own resolver begins one, in a thread of its
//!   own, for every request, even when a pooled connection is there to carry it.
//! - An address is used for [`FRESH`] and no longer than until something failed, so a destination
//!   that moves is found again. The system's resolver does not say how long it may be kept.
//! - An IP address is never looked up.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::{Error, Timeout};

use crate::clock::{Clock, Moment, SystemClock};

/// How long an address is used before it is looked up again.
const FRESH: Duration = Duration::from_secs(30);

/// What ureq has room for. Source: ureq 3.5, `MAX_ADDRS`.
const MOST_ADDRESSES: usize = 16;

/// Looks up the one host that connections of a destination are made to.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The proxy, if connections are made to that.
    proxy: Option<(String, u16)>,
    state: Mutex<State>,
    answered: Condvar,
    clock: SystemClock,
}

#[derive(Debug, Default)]
struct State {
    /// How many look-ups were begun; one more than have ended while one is under way.
    asked: u64,
    /// How many have ended.
    answers: u64,
    /// What the last one said, and until when that is believed.
    last: Option<(Result<Vec<SocketAddr>, String>, Moment)>,
}

impl Names {
    /// Of a destination that is reached by the proxy `host`, or directly.
    pub(super) fn by(proxy: Option<(String, u16)>) -> Self {
        Self(Arc::new(Shared {
            proxy,
            ..Shared::default()
        }))
    }

    /// Looks up anew the next time.
    pub(super) fn forget(&self) {
        if let Some((_, until)) = &mut self.0.state().last {
            *until = Moment::START;
        }
    }

    fn addresses(&self, host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, Error> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.look_up(host, port, limit),
        }
    }

    fn look_up(&self, host: &str, port: u16, limit: Duration) -> Result<Vec<SocketAddr>, Error> {
        let mut state = self.0.state();
        if let Some((Ok(addresses), until)) = &state.last
            && self.0.clock.moment() < *until
        {
            return Ok(addresses.clone());
        }
        if state.asked == state.answers {
            self.ask(host.to_owned(), port)?;
            state.asked += 1;
        }
        let before = state.answers;
        let (state, _) = self
            .0
            .answered
            .wait_timeout_while(state, limit, |state| state.answers == before)
            .expect("no thread survives a panic, so none can have left this lock behind");
        match &state.last {
            Some((said, _)) if state.answers != before => said
                .clone()
                .map_err(|reason| Error::Io(io::Error::other(reason))),
            _ => Err(Error::Timeout(Timeout::Resolve)),
        }
    }

    /// Begins a look-up. May be called with the state locked: its thread needs that lock to end.
    fn ask(&self, host: String, port: u16) -> Result<(), Error> {
        let shared = Arc::clone(&self.0);
        std::thread::Builder::new()
            .name("look-up".to_owned())
            .spawn(move || {
                let said = ask_the_system(&host, port);
                let mut state = shared.state();
                state.answers += 1;
                state.last = Some((said, shared.clock.moment() + FRESH));
                shared.answered.notify_all();
            })?;
        Ok(())
    }
}

impl Resolver for Names {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let limit = *timeout.after;
        let addresses = if let Some((host, port)) = &self.0.proxy {
            let failed = |why: &str| {
                Error::ConnectProxyFailed(format!("has a name that leads nowhere: {why}"))
            };
            let found = self.addresses(host, *port, limit);
            found.map_err(|error| match error {
                Error::Timeout(_) => failed("no name server answered in time"),
                other => failed(&other.into_io().to_string()),
            })?
        } else {
            let host = uri.host().ok_or(Error::HostNotFound)?;
            let is_tls = uri.scheme_str() == Some("https");
            let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
            self.addresses(host, port, limit)?
        };
        let mut resolved = self.empty();
        for address in addresses.into_iter().take(MOST_ADDRESSES) {
            resolved.push(address);
        }
        Ok(resolved)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread survives a panic, so none can have left this lock behind")
    }
}

fn ask_the_system(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    match (host, port).to_socket_addrs() {
        Ok(addresses) => {
            let addresses: Vec<_> = addresses.collect();
            if addresses.is_empty() {
                return Err(NO_SUCH_HOST.to_owned());
            }
            Ok(addresses)
        }
        Err(error) => Err(in_our_words(&error.to_string())),
    }
}

const NO_SUCH_HOST: &str = "no such host";

/// The system's resolver tells its reasons only as text.
///
/// Source: `gai_strerror` of glibc and musl.
fn in_our_words(text: &str) -> String {
    let reason = text
        .strip_prefix("failed to lookup address information: ")
        .unwrap_or(text);
    let no_such_host = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
    ];
    if no_such_host.contains(&reason) {
        NO_SUCH_HOST.to_owned()
    } else if ["Temporary failure in name resolution", "Try again"].contains(&reason) {
        "no name server answers".to_owned()
    } else {
        format!("name resolution failed: {reason}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn the_systems_reasons_are_told_in_our_words() {
        let rows = [
            (
                "failed to lookup address information: Name or service not known",
                "no such host",
            ),
            (
                "failed to lookup address information: Temporary failure in name resolution",
                "no name server answers",
            ),
            (
                "failed to lookup address information: Name does not resolve",
                "no such host",
            ),
            ("odd", "name resolution failed: odd"),
        ];
        for (text, words) in rows {
            assert_eq!(in_our_words(text), words);
        }
    }

    #[test]
    fn an_address_is_kept_until_something_fails() {
        let names = Names::default();
        let answers = || names.0.state().answers;
        let look_up = || names.look_up("localhost", 80, LIMIT).expect("it is known");
        assert!(look_up().iter().all(|address| address.ip().is_loopback()));
        look_up();
        assert_eq!(answers(), 1);
        names.forget();
        look_up();
        assert_eq!(answers(), 2);
    }

    #[test]
    fn a_silent_name_server_holds_one_thread_and_nobody_for_long() {
        let names = Names::default();
        names.0.state().asked = 1;
        for _ in 0..3 {
            let error = names.look_up("a.example", 80, Duration::ZERO).err();
            assert!(matches!(error, Some(Error::Timeout(Timeout::Resolve))));
        }
        assert_eq!(names.0.state().asked, 1);
    }
}
