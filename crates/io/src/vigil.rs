//! Looks again for a while before a thread sleeps. What comes soon is taken then without two
//! switches of the processor, and no processor that halted has to be started again.
//!
//! Whether that pays is learnt, much as KVM does it before a virtual processor halts (Linux,
//! Documentation/virt/kvm/halt-polling.rst): a vigil is kept after many short sleeps in a row, and
//! until one was in vain. So a thread whose work comes rarely, or now soon and now late, costs no
//! more than one that only sleeps.

use std::num::NonZero;
use std::os::fd::RawFd;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use crate::waker::wait;

/// How long a vigil lasts, and how long a short sleep; QEMU's lasts 32 µs, KVM's 200 µs. Of a
/// client that answers at once a thread hears about 40 µs after it began to sleep, where both
/// processors halt meanwhile.
const WINDOW: Duration = Duration::from_micros(50);
/// How many short sleeps in a row make a vigil worth while.
const SHORT: u32 = 16;

/// How many threads of the process keep a vigil now.
static AWAKE: AtomicUsize = AtomicUsize::new(0);
/// How many may: half of the processors, so that those they wait for have one.
static ROOM: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(0, |cores| NonZero::get(cores) / 2));

/// What was learnt of one place where threads wait.
#[derive(Debug, Default)]
pub struct Vigil {
    /// Short sleeps in a row, [`SHORT`] at most.
    short: AtomicU32,
}

/// One wait. When it is dropped after a sleep, the vigil learns how long all of it took.
#[derive(Debug)]
pub struct Watch<'a> {
    vigil: &'a Vigil,
    began: Instant,
    /// Whether it counts among those that are awake.
    awake: bool,
}

impl Vigil {
    /// Begins to wait.
    pub fn begin(&self) -> Watch<'_> {
        let pays = self.short.load(Relaxed) == SHORT;
        let awake = pays && AWAKE.fetch_update(Relaxed, Relaxed, one_more).is_ok();
        Watch { vigil: self, began: Instant::now(), awake }
    }

    /// Waits until one of `all` has something, or for `most` at the longest.
    pub(crate) fn wait(&self, all: &mut [libc::pollfd], most: Option<Duration>) {
        if most.is_some_and(|most| most.is_zero()) {
            return wait(all, most);
        }
        let mut watch = self.begin();
        while watch.goes_on() {
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

/// As [`crate::wait_readable`], after a vigil if there is one.
pub fn wait_readable(fd: RawFd, most: Option<Duration>, vigil: Option<&Vigil>) -> bool {
    let Some(vigil) = vigil else { return crate::wait_readable(fd, most) };
    let mut all = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    vigil.wait(&mut all, most);
    all[0].revents != 0
}

fn one_more(awake: usize) -> Option<usize> {
    (awake < *ROOM).then_some(awake + 1)
}

impl Watch<'_> {
    /// Whether to look once more; if not, the thread sleeps now.
    pub fn goes_on(&mut self) -> bool {
        if self.awake && self.began.elapsed() >= WINDOW {
            self.doze();
        }
        self.awake
    }

    fn doze(&mut self) {
        self.awake = false;
        let before = AWAKE.fetch_sub(1, Relaxed);
        assert!(before > 0, "who was awake was counted");
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        match self.awake {
            true => self.doze(),
            false => self.vigil.learn(self.began.elapsed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vigil that pays by what it learnt. A test may be interrupted, so some sleeps are long.
    fn taught() -> Vigil {
        let vigil = Vigil::default();
        while vigil.short.load(Relaxed) < SHORT {
            assert!(!vigil.begin().goes_on(), "nothing was learnt yet");
        }
        vigil
    }

    // One test, because all vigils of a process count together.
    #[test]
    fn a_vigil_is_kept_after_short_sleeps_and_until_one_was_in_vain() {
        let is_kept = |vigil: Vigil| (0..3).all(|_| vigil.begin().goes_on());
        let mut many = std::iter::repeat_with(taught).take(1000);
        assert_eq!(many.any(is_kept), *ROOM > 0, "what is found at once keeps it");

        let vigil = taught();
        let watches: Vec<_> = (0..*ROOM + 3).map(|_| vigil.begin()).collect();
        assert_eq!(watches.iter().filter(|watch| watch.awake).count(), *ROOM);
        drop(watches);
        assert_eq!(AWAKE.load(Relaxed), 0);

        let mut watch = vigil.begin();
        while watch.goes_on() {}
        assert!(watch.began.elapsed() >= WINDOW || *ROOM == 0);
    }

    #[test]
    fn a_vigil_in_vain_is_the_last() {
        let vigil = taught();
        vigil.learn(WINDOW + Duration::from_nanos(1));
        assert!(!vigil.begin().goes_on());
    }
}
