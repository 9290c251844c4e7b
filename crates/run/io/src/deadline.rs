//! One deadline for a whole exchange with a peer.
//!
//! A socket timeout restarts with each byte, so a peer that sends very slowly never exceeds it. A
//! [`Deadline`] is a point in time: [`Timed`] lets a non-blocking socket wait until then, in any
//! number of steps.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::waker;

/// Interval at which a wait checks whether it should end early.
const STEP: Duration = Duration::from_millis(50);

/// Latest end of a wait.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    most: Duration,
    stop: Option<Arc<AtomicBool>>,
}

impl Deadline {
    /// Returns the deadline `most` from now.
    pub fn after(most: Duration) -> Self {
        Deadline { at: Instant::now() + most, most, stop: None }
    }

    /// Returns the same deadline, with waits that also end as soon as `stop` is set.
    #[must_use]
    pub fn or(self, stop: Arc<AtomicBool>) -> Self {
        Deadline { stop: Some(stop), ..self }
    }

    /// Returns an earlier deadline, at most `most` from now.
    #[must_use]
    pub fn sooner(&self, most: Duration) -> Self {
        let at = self.at.min(Instant::now() + most);
        Deadline { at, stop: self.stop.clone(), ..*self }
    }

    /// Returns the remaining time.
    ///
    /// # Errors
    /// When none is left, or the wait must end early.
    pub fn left(&self) -> io::Result<Duration> {
        if self.stop.as_ref().is_some_and(|stop| stop.load(SeqCst)) {
            return Err(io::Error::other("interrupted"));
        }
        match self.at.saturating_duration_since(Instant::now()) {
            Duration::ZERO => {
                let seconds = self.most.as_secs_f64();
                let why = format!("the peer did not finish within {seconds} s");
                Err(io::Error::new(ErrorKind::TimedOut, why))
            }
            left => Ok(left),
        }
    }

    /// Waits briefly for `fd` to become readable, or with `to_write` writable. The caller retries
    /// in either case.
    ///
    /// # Errors
    /// Those of [`Deadline::left`].
    pub fn wait(&self, fd: BorrowedFd<'_>, to_write: bool) -> io::Result<()> {
        // Short steps, so that `stop` is noticed.
        let most = self.left()?.min(STEP);
        if to_write {
            waker::wait_writable(fd.as_raw_fd(), most);
        } else {
            waker::wait_readable(fd.as_raw_fd(), Some(most));
        }
        Ok(())
    }

    /// Sleeps for `most`, but not beyond the deadline, and for at most 50 ms.
    ///
    /// # Errors
    /// Those of [`Deadline::left`].
    pub fn sleep(&self, most: Duration) -> io::Result<()> {
        thread::sleep(self.left()?.min(most).min(STEP));
        Ok(())
    }
}

/// Non-blocking socket whose operations wait until one deadline.
#[derive(Debug)]
pub struct Timed<'a, S> {
    socket: S,
    deadline: &'a Deadline,
}

impl<'a, S: AsFd> Timed<'a, S> {
    /// Makes the non-blocking `socket` wait until `deadline`.
    pub fn new(socket: S, deadline: &'a Deadline) -> Self {
        Timed { socket, deadline }
    }

    fn until<T>(
        &mut self,
        to_write: bool,
        mut act: impl FnMut(&mut S) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            // The deadline also applies to a peer that always has one more byte.
            self.deadline.left()?;
            match act(&mut self.socket) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.deadline.wait(self.socket.as_fd(), to_write)?;
                }
                // A signal handler may have set `stop`, which is checked in the next round.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl<S: Read + AsFd> Read for Timed<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.until(false, |socket| socket.read(into))
    }
}

impl<S: Write + AsFd> Write for Timed<'_, S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.until(true, |socket| socket.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.until(true, |socket| socket.flush())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        ours.set_nonblocking(true).expect("it is a socket");
        (ours, theirs)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no poll")]
    fn a_trickling_peer_misses_the_deadline() {
        let (ours, mut theirs) = pair();
        let deadline = Deadline::after(Duration::from_millis(100));
        let over = Arc::new(AtomicBool::new(false));
        let drips = over.clone();
        let dripping = thread::spawn(move || {
            while !drips.load(SeqCst) && theirs.write_all(&[0]).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut whole = vec![0; 1 << 20];
        let error = Timed::new(&ours, &deadline).read_exact(&mut whole).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        over.store(true, SeqCst);
        dripping.join().expect("it ends");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no poll")]
    fn a_stop_ends_a_wait_long_before_its_deadline() {
        let (ours, _theirs) = pair();
        let stop = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::after(Duration::from_secs(3600)).or(stop.clone());
        let waits = thread::spawn(move || Timed::new(&ours, &deadline).read(&mut [0]));
        stop.store(true, SeqCst);
        let error = waits.join().expect("it ends").unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no poll")]
    fn a_peer_that_does_not_read_misses_the_deadline() {
        let (ours, _theirs) = pair();
        let deadline = Deadline::after(Duration::from_millis(50));
        let error = Timed::new(&ours, &deadline).write_all(&vec![0; 8 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    }
}
