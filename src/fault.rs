//! Named points at which the process can be made to die, for the crash tests.
//!
//! Only builds with debug assertions have them: a release binary has none of this.
//! `GATEPOST_FAULT=name` makes the process kill itself the first time it passes the point of that
//! name, `GATEPOST_FAULT=name:3` the third time. SIGKILL can't be caught, so nothing is flushed or
//! closed, as in a power cut that spares the page cache.

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static CHOSEN: OnceLock<Option<(String, AtomicU64)>> = OnceLock::new();

    /// Reads what was asked for, once.
    fn chosen() -> Option<&'static (String, AtomicU64)> {
        let read = || {
            let text = std::env::var("GATEPOST_FAULT").ok()?;
            let (name, times) = match text.split_once(':') {
                Some((name, times)) => (name, times.parse().ok()?),
                None => (text.as_str(), 1),
            };
            Some((name.to_owned(), AtomicU64::new(times)))
        };
        CHOSEN.get_or_init(read).as_ref()
    }

    /// Ends the process here if that was asked for.
    pub(crate) fn point(name: &str) {
        if let Some((chosen, left)) = chosen()
            && chosen == name
            && left.fetch_sub(1, Ordering::SeqCst) == 1
        {
            // Can't fail: the signal exists, and a process may always kill itself.
            let _ = signal_hook::low_level::raise(signal_hook::consts::SIGKILL);
        }
    }
}

#[cfg(debug_assertions)]
pub(crate) use armed::point;

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
pub(crate) fn point(_name: &str) {}
