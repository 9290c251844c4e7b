//! Receiving side of a socket: reads headers through a small look-ahead buffer and payload directly
//! into its own buffer.
//!
//! Invariants
//! - `ahead[from..to]` holds the received bytes that are not consumed yet, in order.
//! - Payload that is not in the look-ahead yet is received directly into its buffer; the same
//!   system call reads the following bytes into the look-ahead.
//! - A source without data returns regularly, with an error that does not end the connection. A
//!   peer that sends nothing for [`PATIENCE`] within a request is disconnected.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::time::{Duration, Instant};

use crate::tls::is_slow;

/// Size of the look-ahead in bytes. More saves system calls for small requests, but more payload
/// passes through it and is copied.
const AHEAD: usize = 16 << 10;

/// Longest pause of a peer within a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Receiving buffer with a look-ahead.
#[derive(Debug)]
pub(crate) struct Inlet<R> {
    source: R,
    /// Start of the current pause within a request.
    still: Option<Instant>,
    patience: Duration,
    ahead: Box<[u8]>,
    from: usize,
    to: usize,
}

impl<R: Read> Inlet<R> {
    pub(crate) fn new(source: R) -> Self {
        let ahead = vec![0; AHEAD].into();
        Inlet { source, still: None, patience: PATIENCE, ahead, from: 0, to: 0 }
    }

    /// Continues with another source, keeping the received bytes.
    pub(crate) fn onto<S: Read>(self, source: S) -> Inlet<S> {
        let Inlet { still, patience, ahead, from, to, .. } = self;
        Inlet { source, still, patience, ahead, from, to }
    }

    /// Returns the source of the bytes.
    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// Returns the next `N` bytes, or `None` when the peer has closed the connection before them.
    pub(crate) fn head<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while self.to - self.from < N {
            match self.more() {
                Ok(0) if self.from == self.to => return Ok(None),
                Ok(0) => return Err(cut_short()),
                Ok(_) => {}
                // Between requests a peer may be idle without limit.
                Err(error) if is_slow(&error) && self.from == self.to => self.still = None,
                Err(error) => self.bear(error)?,
            }
        }
        let mut head = [0; N];
        head.copy_from_slice(&self.ahead[self.from..self.from + N]);
        self.from += N;
        Ok(Some(head))
    }

    /// Returns the bytes in the look-ahead.
    pub(crate) fn peek(&self) -> &[u8] {
        &self.ahead[self.from..self.to]
    }

    /// Consumes `bytes` bytes of those returned by [`Inlet::peek`].
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.to - self.from, "more is used than was received");
        self.from += bytes;
    }

    /// Receives more bytes into the look-ahead and returns their number; 0 at the end of the
    /// connection.
    pub(crate) fn more(&mut self) -> io::Result<usize> {
        self.ahead.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        if self.to == self.ahead.len() {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let got = retry(|| self.source.read(&mut self.ahead[self.to..]))?;
        self.still = None;
        self.to += got;
        Ok(got)
    }

    /// Converts a timeout into an error once the pause has lasted too long. Other errors pass
    /// through.
    fn bear(&mut self, error: io::Error) -> io::Result<()> {
        if !is_slow(&error) {
            return Err(error);
        }
        if self.still.get_or_insert_with(Instant::now).elapsed() < self.patience {
            return Ok(());
        }
        let seconds = self.patience.as_secs();
        let why = format!("the client stalled for {seconds} s within a request");
        Err(io::Error::new(ErrorKind::TimedOut, why))
    }

    /// Fills `into[*done..]` with the next bytes and adds their number to `done`. Returns false
    /// when the peer pauses; the caller then repeats the call, possibly with other memory that
    /// holds the same bytes.
    pub(crate) fn fill(&mut self, into: &mut [u8], done: &mut usize) -> io::Result<bool> {
        let known = (into.len() - *done).min(self.to - self.from);
        into[*done..*done + known].copy_from_slice(&self.ahead[self.from..self.from + known]);
        self.from += known;
        *done += known;
        while *done < into.len() {
            let (ahead, source, rest) = (&mut self.ahead, &mut self.source, &mut into[*done..]);
            let got = retry(|| {
                let mut both = [IoSliceMut::new(rest), IoSliceMut::new(ahead)];
                source.read_vectored(&mut both)
            });
            let got = match got {
                Err(error) => return self.bear(error).map(|()| false),
                Ok(0) => return Err(cut_short()),
                Ok(got) => got,
            };
            let here = got.min(rest.len());
            // The look-ahead was empty here, because its bytes were copied first.
            (self.from, self.to) = (0, got - here);
            self.still = None;
            *done += here;
        }
        Ok(true)
    }

    /// Discards the next `bytes` bytes.
    pub(crate) fn skip(&mut self, bytes: u32) -> io::Result<()> {
        let mut left = bytes as usize;
        loop {
            let known = left.min(self.to - self.from);
            self.from += known;
            left -= known;
            if left == 0 {
                return Ok(());
            }
            match self.more() {
                Ok(0) => return Err(cut_short()),
                Ok(_) => {}
                Err(error) => self.bear(error)?,
            }
        }
    }
}

fn retry(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn cut_short() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection closed within a request")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns at most `grain` bytes per call, spread over the buffers.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.read_vectored(&mut [IoSliceMut::new(into)])
        }

        fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let (mut now, rest) = self.0.split_at(self.1.min(self.0.len()));
            let mut got = 0;
            for buf in bufs {
                let len = now.read(buf)?;
                got += len;
            }
            self.0 = if now.is_empty() { rest } else { &self.0[got..] };
            Ok(got)
        }
    }

    proptest! {
        #[test]
        fn the_stream_is_delivered_in_order(
            grain in 1usize..40_000,
            lengths in proptest::collection::vec((0u8..3, 1usize..30_000), 1..12),
        ) {
            let total: usize = lengths.iter().map(|(kind, len)| piece(*kind, *len)).sum();
            let bytes: Vec<u8> = (0..total).map(|at| (at % 251) as u8).collect();
            let mut inlet = Inlet::new(Drip(&bytes, grain));
            let mut at = 0;
            for (kind, len) in lengths {
                let len = piece(kind, len);
                match kind {
                    0 => {
                        let head = inlet.head::<28>().unwrap().unwrap();
                        prop_assert_eq!(&head, &bytes[at..at + 28]);
                    }
                    1 => {
                        let mut into = vec![0; len];
                        assert!(inlet.fill(&mut into, &mut 0).unwrap());
                        prop_assert_eq!(&into, &bytes[at..at + len]);
                    }
                    _ => inlet.skip(len as u32).unwrap(),
                }
                at += len;
            }
            prop_assert_eq!(inlet.head::<28>().unwrap(), None);
        }
    }

    fn piece(kind: u8, len: usize) -> usize {
        if kind == 0 { 28 } else { len }
    }

    #[test]
    fn an_end_within_a_request_is_an_error() {
        assert!(Inlet::new(&[1u8; 27][..]).head::<28>().is_err());
        assert!(Inlet::new(&[1u8; 27][..]).fill(&mut [0; 28], &mut 0).is_err());
        assert!(Inlet::new(&[1u8; 27][..]).skip(28).is_err());
    }

    /// Returns one byte and then only timeouts.
    struct Stuck(bool);

    impl Read for Stuck {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(5));
            if std::mem::replace(&mut self.0, true) {
                return Err(ErrorKind::WouldBlock.into());
            }
            into[0] = 7;
            Ok(1)
        }
    }

    #[test]
    fn a_peer_stalled_within_a_request_is_disconnected() {
        let patience = Duration::from_millis(20);
        let inlet = || Inlet { patience, ..Inlet::new(Stuck(false)) };
        let stalled = |error: io::Error| assert!(error.to_string().contains("stalled"));
        stalled(inlet().head::<28>().unwrap_err());
        stalled(inlet().skip(28).unwrap_err());
        let (mut inlet, mut into, mut done) = (inlet(), [0; 28], 0);
        assert!(!inlet.fill(&mut into, &mut done).unwrap(), "the buffer may go to others now");
        assert_eq!((done, into[0]), (1, 7));
        stalled(
            std::iter::repeat_with(|| inlet.fill(&mut into, &mut done))
                .find_map(Result::err)
                .unwrap(),
        );
    }
}
