//! Why the process ends: a signal, a thread that ended, a panic.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::panic;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, never};
use log::{error, warn};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::Error;
use crate::http::Answers;

/// The exit code after a panic. Source: sysexits(3), `EX_SOFTWARE`.
pub const EXIT_INTERNAL: i32 = 70;

/// How long senders who wait have to hear that nothing was stored, before a panic ends the
/// process.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Something that the main thread must act on.
#[derive(Debug)]
pub(super) enum Happened {
    /// The init system or an operator wants us to stop.
    Signal,
    /// A thread has ended.
    Ended(&'static str, Result<(), Error>),
}

/// Sends what `word` gives for each SIGTERM and SIGINT from now on; neither ends the process then.
pub fn watch_signals<T: Send + 'static>(to: Sender<T>, word: fn() -> T) -> Result<(), Error> {
    let system = |error| Error::System("cannot watch for signals", error);
    let (mut reader, writer) = UnixStream::pair().map_err(system)?;
    for signal in [SIGTERM, SIGINT] {
        let writer = writer.try_clone().map_err(system)?;
        signal_hook::low_level::pipe::register(signal, writer).map_err(system)?;
    }
    let watch = move || {
        let mut byte = [0];
        while reader.read_exact(&mut byte).is_ok() && to.send(word()).is_ok() {}
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(watch)
        .map_err(system)?;
    Ok(())
}

/// Makes a panic in any thread of ours the end of the process: it is logged, everybody who waits
/// hears that nothing was stored, and the init system starts it again.
///
/// Going on would mean that some part of the way of an event stands still while the process looks
/// healthy. Threads without a name are spared: ours have one, and `tiny_http`'s, which have none,
/// panic when whoever looks hangs up in the wrong moment. The admin server looks after itself.
pub(super) fn end_on_panic(answers: Answers) {
    panic::set_hook(Box::new(move |why| {
        let thread = thread::current();
        let Some(name) = thread.name() else {
            warn!("[config] a connection to the admin server ended in a panic: {why}");
            return;
        };
        error!("thread {name} panicked, the process ends: {why}");
        answers.refuse_all();
        let _ = never::<()>().recv_timeout(LAST_WORDS);
        std::process::exit(EXIT_INTERNAL);
    }));
}
