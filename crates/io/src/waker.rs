//! Wakes the one thread that sleeps on an eventfd, and costs nothing while it is awake.
//!
//! Invariant
//! - Whoever adds work calls `wake` afterwards; the sleeper looks for work after it said that it
//!   sleeps. So either it sees the work, or the waker sees that it sleeps.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// See the module text.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Waker {
    /// A waker for one thread.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd only makes a new descriptor.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Waker { event, asleep: AtomicBool::new(false) })
    }

    /// Tells the sleeper to look for work.
    pub fn wake(&self) {
        if self.asleep.swap(false, SeqCst) {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: writes eight bytes from a live array; a full counter is as good as a write.
            unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Sleeps until `wake` or for `most` at the longest, unless there is work.
    pub fn sleep(&self, most: Option<Duration>, has_work: impl FnOnce() -> bool) {
        self.fall_asleep();
        if !has_work() {
            let millis = most.map_or(-1, |most| most.as_millis().min(60_000) as i32 + 1);
            let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd; a poll that ends early is a wake-up like any other.
            unsafe { libc::poll(&mut poll, 1, millis) };
        }
        self.get_up();
    }

    /// Says that the thread will sleep now; it looks for work after this, not before.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(true, SeqCst);
    }

    /// Says that the thread is awake, and forgets the wakes so far.
    pub(crate) fn get_up(&self) {
        self.asleep.store(false, SeqCst);
        let mut count = [0_u8; 8];
        // SAFETY: reads at most eight bytes into a live array; an empty counter is no error here.
        unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// The eventfd.
    pub(crate) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn no_wake_is_lost() {
        let (waker, work) = (Arc::new(Waker::new().unwrap()), Arc::new(AtomicU32::new(0)));
        let (their_waker, their_work) = (waker.clone(), work.clone());
        let adder = std::thread::spawn(move || {
            for _ in 0..10_000 {
                their_work.fetch_add(1, SeqCst);
                their_waker.wake();
            }
        });
        let mut done = 0;
        while done < 10_000 {
            waker.sleep(None, || work.load(SeqCst) > 0);
            done += work.swap(0, SeqCst);
        }
        adder.join().unwrap();
    }

    #[test]
    fn a_sleep_ends_by_itself() {
        let begun = std::time::Instant::now();
        Waker::new().unwrap().sleep(Some(Duration::from_millis(20)), || false);
        assert!(begun.elapsed() >= Duration::from_millis(15));
    }
}
