//! Long work without the interpreter's lock. It runs on a separate thread while the calling thread
//! checks for signals, so that Ctrl-C cancels it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;

/// Interval between checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `job`, which ends early when `stop` is set. `look` is called regularly with the lock held.
/// Its errors, like those of signals, set `stop`.
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
                // Dropped at the end of the job, even if it panics.
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
