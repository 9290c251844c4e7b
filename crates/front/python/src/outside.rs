//! Long work without the interpreter's lock: it runs on a thread of its own, and the thread that
//! asked for it looks after signals, so that Ctrl-C ends it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Does `job`, which ends early when `stop` is set; `look` is called now and then with the lock,
/// and its error, like that of a signal, sets `stop`.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    mut look: impl FnMut(Python<'_>) -> PyResult<()> + Send,
    job: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (result, ended) = py.detach(|| {
        thread::scope(|scope| {
            let (done, wait) = channel::<()>();
            let work = scope.spawn(move || {
                // Dropped at the end, and by a panic too.
                let _done = done;
                job()
            });
            let mut ended = Ok(());
            while wait.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if ended.is_ok() {
                    ended = Python::attach(|py| py.check_signals().and_then(|()| look(py)));
                    stop.fetch_or(ended.is_err(), Ordering::Relaxed);
                }
            }
            (work.join(), ended)
        })
    });
    ended?;
    result.map_err(|_| errors::fault(py))
}
