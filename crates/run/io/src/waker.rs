//! Wakes threads that sleep on an eventfd. Without a sleeper a wake costs one atomic load.
//!
//! Invariants
//! - A thread that adds work calls `wake` afterwards; a sleeper registers first and then checks for
//!   work. Therefore either the sleeper finds the work, or the waker finds the sleeper.
//! - Several threads may sleep at once. At least one of them is woken, and checks for work.
//! - While `rung` is set the eventfd is readable, or about to be.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::polling::Polling;

/// Wake-up of threads through an eventfd.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
    sleepers: AtomicU32,
    rung: AtomicBool,
}

impl Waker {
    /// Creates a waker without sleepers.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd only creates a new descriptor.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(event) };
        Ok(Waker { event, sleepers: AtomicU32::new(0), rung: AtomicBool::new(false) })
    }

    /// Wakes a sleeper to check for work.
    pub fn wake(&self) {
        if self.sleepers.load(SeqCst) > 0 {
            self.ring();
        }
    }

    /// Wakes a sleeper like [`Waker::wake`]; without a sleeper, the next sleep ends at once.
    pub fn ring(&self) {
        if !self.rung.swap(true, SeqCst) {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: writes eight bytes from a live array; if the counter is full the eventfd is
            // readable.
            unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
        }
    }

    /// Sleeps until `wake`, or at most for `most`, unless there is work.
    pub fn sleep(&self, most: Option<Duration>, has_work: impl FnOnce() -> bool) {
        self.fall_asleep();
        if !has_work() {
            // Rounded up, so that the sleep does not end before a timer.
            let millis = most.map_or(-1, |most| most.as_millis().min(60_000) as i32 + 1);
            let mut poll = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd; a poll that ends early is a wake-up like any other.
            unsafe { libc::poll(&mut poll, 1, millis) };
        }
        self.get_up();
    }

    /// Registers the thread as a sleeper. It must check for work after this call, not before.
    pub(crate) fn fall_asleep(&self) {
        self.sleepers.fetch_add(1, SeqCst);
    }

    /// Deregisters the thread and clears earlier wakes. It must check for work after this call.
    pub(crate) fn get_up(&self) {
        self.sleepers.fetch_sub(1, SeqCst);
        // Without a ring there is no count to read, which saves the system call.
        if self.rung.load(SeqCst) {
            let mut count = [0_u8; 8];
            let (start, len) = (count.as_mut_ptr().cast(), count.len());
            // SAFETY: reads at most eight bytes into a live array; an empty counter is not an
            // error.
            if unsafe { libc::read(self.fd(), start, len) } > 0 {
                self.rung.store(false, SeqCst);
            }
        }
    }

    /// Returns the eventfd.
    pub(crate) fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Sleeps until `wake`, until one of `fds` is readable, or at most for `most`, unless there is
    /// work. Returns which of `fds` are ready. Polls first if `polling` has learnt that this pays.
    pub fn sleep_on<const N: usize>(
        &self,
        fds: [Option<RawFd>; N],
        most: Option<Duration>,
        polling: Option<&Polling>,
        has_work: impl FnOnce() -> bool,
    ) -> [bool; N] {
        self.fall_asleep();
        // With work the descriptors are still checked, but without waiting.
        let most = if has_work() { Some(Duration::ZERO) } else { most };
        // The kernel ignores negative descriptors.
        let poll = |fd: Option<RawFd>| libc::pollfd {
            fd: fd.unwrap_or(-1),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut all = [poll(None); 4];
        all[0] = poll(Some(self.fd()));
        all[1..=N].copy_from_slice(&fds.map(poll));
        match polling {
            Some(polling) => polling.wait(&mut all[..=N], most),
            None => wait(&mut all[..=N], most),
        }
        self.get_up();
        std::array::from_fn(|at| all[at + 1].revents != 0)
    }
}

/// Waits until `fd` is readable, or at most for `most`. Returns whether it is.
pub fn wait_readable(fd: RawFd, most: Option<Duration>) -> bool {
    let mut all = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    wait(&mut all, most);
    all[0].revents != 0
}

/// Waits until `fd` is writable, or at most for `most`.
pub fn wait_writable(fd: RawFd, most: Duration) {
    wait(&mut [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }], Some(most));
}

/// Returns whether the peer of the socket `fd` has closed the connection or its sending half.
pub fn is_hung_up(fd: RawFd) -> bool {
    let mut all = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
    wait(&mut all, Some(Duration::ZERO));
    all[0].revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// Requests a send buffer of `bytes` bytes for a socket. The kernel grants it within its limits.
pub fn set_send_room(fd: RawFd, bytes: u32) {
    let bytes = bytes as libc::c_int;
    let len = size_of_val(&bytes) as libc::socklen_t;
    let start = std::ptr::from_ref(&bytes).cast();
    // SAFETY: reads one live integer; if it is refused, the socket keeps its buffer.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, start, len) };
}

/// Waits until one of `all` is ready, or at most for `most`.
pub(crate) fn wait(all: &mut [libc::pollfd], most: Option<Duration>) {
    let time = most.map(|most| libc::timespec {
        tv_sec: most.as_secs().min(3600) as libc::time_t,
        tv_nsec: most.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: valid pollfds and time; a poll that ends early is a wake-up like any other.
    unsafe { libc::ppoll(all.as_mut_ptr(), all.len() as libc::nfds_t, time, std::ptr::null()) };
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
