//! Polls for a short time before a thread sleeps. What comes soon is taken then without two context
//! switches, and no processor that halted has to be woken.
//!
//! Whether that pays is learnt, much as KVM does it before a virtual processor halts (Linux,
//! Documentation/virt/kvm/halt-polling.rst): a thread polls after many short sleeps in a row, and
//! until it polled in vain once. So a thread whose work comes rarely, or now soon and now late,
//! costs no more than one that only sleeps.

use std::num::NonZero;
use std::os::fd::RawFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::waker::wait;

/// How long a thread polls, and how long a short sleep is; QEMU polls for 32 µs, KVM for 200 µs.
/// Where both processors halt meanwhile, a thread hears of a client that answers at once about
/// 40 µs after the thread began to sleep.
const WINDOW: Duration = Duration::from_micros(50);
/// How many short sleeps in a row make polling worth while.
const SHORT: u32 = 16;

/// How many threads of the process poll now.
static POLLING: AtomicUsize = AtomicUsize::new(0);
/// How many may: half of the processors, so that there are some for what they wait for.
static ROOM: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(0, |cores| NonZero::get(cores) / 2));

/// What was learnt of one place where threads wait.
#[derive(Debug, Default)]
pub struct Polling {
    /// Short sleeps in a row, [`SHORT`] at most.
    short: AtomicU32,
}

/// One wait. When a wait that came to a sleep is dropped, its place learns how long all took.
#[derive(Debug)]
pub struct Wait<'a> {
    place: &'a Polling,
    began: Instant,
    /// Whether the thread still polls, and counts among those that do.
    polls: bool,
}

impl Polling {
    /// Begins to wait.
    pub fn begin(&self) -> Wait<'_> {
        let pays = self.short.load(Relaxed) == SHORT;
        let polls = pays && POLLING.fetch_update(Relaxed, Relaxed, one_more).is_ok();
        Wait { place: self, began: Instant::now(), polls }
    }

    /// Waits until one of `all` has something, or for `most` at the longest.
    pub(crate) fn wait(&self, all: &mut [libc::pollfd], most: Option<Duration>) {
        if most.is_some_and(|most| most.is_zero()) {
            return wait(all, most);
        }
        let mut now = self.begin();
        while now.goes_on() {
            wait(all, Some(Duration::ZERO));
            if all.iter().any(|poll| poll.revents != 0) {
                return;
            }
        }
        wait(all, most);
    }

    /// A wait took so long, and ended with a sleep.
    fn learn(&self, took: Duration) {
        let before = self.short.load(Relaxed);
        let short = if took > WINDOW { 0 } else { SHORT.min(before + 1) };
        self.short.store(short, Relaxed);
    }
}

/// As [`crate::wait_readable`], and polls before that by what `polling` learnt, if there is one.
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
    /// Whether to look once more; if not, the thread sleeps now.
    pub fn goes_on(&mut self) -> bool {
        if self.polls && self.began.elapsed() >= WINDOW {
            self.stop();
        }
        self.polls
    }

    fn stop(&mut self) {
        self.polls = false;
        let before = POLLING.fetch_sub(1, Relaxed);
        assert!(before > 0, "a thread that polls is counted");
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

    /// A place where polling pays. A test may be interrupted, so some sleeps are long.
    fn taught() -> Polling {
        let place = Polling::default();
        while place.short.load(Relaxed) < SHORT {
            assert!(!place.begin().goes_on(), "nothing was learnt yet");
        }
        place
    }

    // One test, because all threads of a process count together.
    #[test]
    fn a_thread_polls_after_short_sleeps_and_no_more_than_half_of_the_processors_do() {
        let goes_on = |place: Polling| (0..3).all(|_| place.begin().goes_on());
        let mut many = std::iter::repeat_with(taught).take(1000);
        assert_eq!(many.any(goes_on), *ROOM > 0, "what is found at once does not end it");

        let place = taught();
        let waits: Vec<_> = (0..*ROOM + 3).map(|_| place.begin()).collect();
        assert_eq!(waits.iter().filter(|wait| wait.polls).count(), *ROOM);
        drop(waits);
        assert_eq!(POLLING.load(Relaxed), 0);

        let mut wait = place.begin();
        while wait.goes_on() {}
        assert!(wait.began.elapsed() >= WINDOW || *ROOM == 0);
    }

    #[test]
    fn polling_in_vain_ends_it() {
        let place = taught();
        place.learn(WINDOW + Duration::from_nanos(1));
        assert!(!place.begin().goes_on());
    }
}
