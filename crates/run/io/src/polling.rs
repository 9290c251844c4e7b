//! Short busy polling before a thread sleeps. An event that arrives during the poll is handled
//! without two context switches and without waking a halted processor.
//!
//! Each waiting place learns whether polling pays, much as KVM does before a virtual processor
//! halts (Linux, Documentation/virt/kvm/halt-polling.rst). A thread polls after many short sleeps
//! in a row, until one poll ends without an event. A place with rare or irregular events therefore
//! costs no more than one that only sleeps.

use std::num::NonZero;
use std::os::fd::RawFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::waker::wait;

/// Duration of a poll, and longest sleep that counts as short. QEMU polls for 32 µs, KVM for 200
/// µs. When both processors halt in between, the reply of a client that answers at once arrives
/// about 40 µs after the thread began to sleep.
const WINDOW: Duration = Duration::from_micros(50);
/// Number of consecutive short sleeps after which polling pays.
const SHORT: u32 = 16;

/// Threads of the process that are polling now.
static POLLING: AtomicUsize = AtomicUsize::new(0);
/// Limit of polling threads: half of the processors, so that the threads they wait for can run.
static ROOM: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(0, |cores| NonZero::get(cores) / 2));

/// Polling history of one place where threads wait.
#[derive(Debug, Default)]
pub struct Polling {
    /// Short sleeps in a row, [`SHORT`] at most.
    short: AtomicU32,
}

/// One wait. A wait that ended with a sleep adds its duration to the history when it is dropped.
#[derive(Debug)]
pub struct Wait<'a> {
    place: &'a Polling,
    began: Instant,
    /// Whether the thread is still polling and counted in [`POLLING`].
    polls: bool,
}

impl Polling {
    /// Starts a wait.
    pub fn begin(&self) -> Wait<'_> {
        let pays = self.short.load(Relaxed) == SHORT;
        let polls = pays && POLLING.fetch_update(Relaxed, Relaxed, one_more).is_ok();
        Wait { place: self, began: Instant::now(), polls }
    }

    /// Waits until one of `all` is ready, or at most for `most`.
    pub(crate) fn wait(&self, all: &mut [libc::pollfd], most: Option<Duration>) {
        if most.is_some_and(|most| most.is_zero()) {
            return wait(all, most);
        }
        // A zero timeout only checks the descriptors: it is not a wait from which to learn.
        let mut now = self.begin();
        while now.keeps_polling() {
            wait(all, Some(Duration::ZERO));
            if all.iter().any(|poll| poll.revents != 0) {
                return;
            }
        }
        wait(all, most);
    }

    /// Records a wait that took `took` and ended with a sleep.
    fn learn(&self, took: Duration) {
        let before = self.short.load(Relaxed);
        let short = if took > WINDOW { 0 } else { SHORT.min(before + 1) };
        self.short.store(short, Relaxed);
    }
}

/// Waits like [`crate::wait_readable`], and first polls if `polling` has learnt that this pays.
pub fn wait_readable(fd: RawFd, most: Option<Duration>, polling: Option<&Polling>) -> bool {
    let Some(polling) = polling else { return crate::wait_readable(fd, most) };
    let mut all = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    polling.wait(&mut all, most);
    all[0].revents != 0
}

fn one_more(polling: usize) -> Option<usize> {
    (polling < *ROOM).then_some(polling + 1)
}

impl Wait<'_> {
    /// Returns whether the caller should check once more. If not, the thread sleeps next.
    pub fn keeps_polling(&mut self) -> bool {
        if self.polls && self.began.elapsed() >= WINDOW {
            self.stop();
        }
        self.polls
    }

    fn stop(&mut self) {
        self.polls = false;
        let before = POLLING.fetch_sub(1, Relaxed);
        assert!(before > 0, "a polling thread is counted");
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.polls { self.stop() } else { self.place.learn(self.began.elapsed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a place where polling pays. Sleeps may be long when the test is preempted, so it
    /// repeats.
    fn taught() -> Polling {
        let place = Polling::default();
        while place.short.load(Relaxed) < SHORT {
            assert!(!place.begin().keeps_polling(), "nothing was learnt yet");
        }
        place
    }

    // One test, because the count of polling threads is global to the process.
    #[test]
    fn a_thread_polls_after_short_sleeps_and_no_more_than_half_of_the_processors_do() {
        let keeps_polling = |place: Polling| (0..3).all(|_| place.begin().keeps_polling());
        let mut many = std::iter::repeat_with(taught).take(1000);
        assert_eq!(many.any(keeps_polling), *ROOM > 0, "immediate results do not end it");

        let place = taught();
        let waits: Vec<_> = (0..*ROOM + 3).map(|_| place.begin()).collect();
        assert_eq!(waits.iter().filter(|wait| wait.polls).count(), *ROOM);
        drop(waits);
        assert_eq!(POLLING.load(Relaxed), 0);

        let mut wait = place.begin();
        while wait.keeps_polling() {}
        assert!(wait.began.elapsed() >= WINDOW || *ROOM == 0);
    }

    #[test]
    fn a_long_sleep_ends_polling() {
        let place = taught();
        place.learn(WINDOW + Duration::from_nanos(1));
        assert!(!place.begin().keeps_polling());
    }
}
