//! The reading side of a socket: headers from a small look-ahead, payload straight to its buffer.
//!
//! Invariants
//! - `ahead[from..to]` is what was received and not yet used, in order.
//! - Payload that is not in the look-ahead already is received into its own buffer; the same system
//!   call brings what follows it into the look-ahead.
//! - A source that has nothing for now says so from time to time, with an error that is no end; a
//!   peer that stands still within a request for [`PATIENCE`] is gone.

use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::time::{Duration, Instant};

use crate::tls::is_slow;

/// How far the look-ahead reaches, in bytes: more saves system calls for small requests, and costs
/// a copy of what is payload.
const AHEAD: usize = 16 << 10;

/// How long a peer may stand still within a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module text.
#[derive(Debug)]
pub(crate) struct Inlet<R> {
    source: R,
    /// Since when nothing came.
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

    /// The same, going on with another source.
    pub(crate) fn onto<S: Read>(self, source: S) -> Inlet<S> {
        let Inlet { still, patience, ahead, from, to, .. } = self;
        Inlet { source, still, patience, ahead, from, to }
    }

    /// Where the bytes come from.
    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// The next `N` bytes; `None` when the peer has closed the connection before them.
    ///
    /// # Errors
    /// When the connection ends within them or breaks.
    pub(crate) fn head<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while self.to - self.from < N {
            match self.more() {
                Ok(0) if self.from == self.to => return Ok(None),
                Ok(0) => return Err(cut_short()),
                Ok(_) => {}
                // Between requests a peer may be silent for as long as it likes.
                Err(error) if is_slow(&error) && self.from == self.to => self.still = None,
                Err(error) => self.bear(error)?,
            }
        }
        let mut head = [0; N];
        head.copy_from_slice(&self.ahead[self.from..self.from + N]);
        self.from += N;
        Ok(Some(head))
    }

    /// What is in the look-ahead.
    pub(crate) fn peek(&self) -> &[u8] {
        &self.ahead[self.from..self.to]
    }

    /// Uses up `bytes` of what [`Inlet::peek`] showed.
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.to - self.from, "more is used than was received");
        self.from += bytes;
    }

    /// Receives more into the look-ahead; returns how many bytes, 0 at the end of the connection.
    ///
    /// # Errors
    /// When the connection breaks, or the look-ahead is full.
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

    /// Bears with a peer that stands still.
    fn bear(&mut self, error: io::Error) -> io::Result<()> {
        if !is_slow(&error) {
            return Err(error);
        }
        if self.still.get_or_insert_with(Instant::now).elapsed() < self.patience {
            return Ok(());
        }
        let seconds = self.patience.as_secs();
        let why = format!("the client stood still for {seconds} s within a request");
        Err(io::Error::new(ErrorKind::TimedOut, why))
    }

    /// Fills `into[*done..]` with the next bytes and counts them in `done`. False when the peer
    /// stands still: then call it again, perhaps with other memory that has the same bytes.
    ///
    /// # Errors
    /// When the connection ends before or breaks, or the peer stands still for too long.
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
            // The look-ahead was empty, because its bytes come first.
            (self.from, self.to) = (0, got - here);
            self.still = None;
            *done += here;
        }
        Ok(true)
    }

    /// Throws away the next `bytes` bytes.
    ///
    /// # Errors
    /// When the connection ends before or breaks.
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
    io::Error::new(ErrorKind::UnexpectedEof, "the connection ended within a request")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives at most `grain` bytes at a time, spread over the buffers.
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
        fn the_stream_comes_out_in_order(
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

    /// Gives one byte, and then nothing.
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
    fn a_peer_that_stands_still_within_a_request_is_gone_in_the_end() {
        let patience = Duration::from_millis(20);
        let inlet = || Inlet { patience, ..Inlet::new(Stuck(false)) };
        let stood_still = |error: io::Error| assert!(error.to_string().contains("stood still"));
        stood_still(inlet().head::<28>().unwrap_err());
        stood_still(inlet().skip(28).unwrap_err());
        let (mut inlet, mut into, mut done) = (inlet(), [0; 28], 0);
        assert!(!inlet.fill(&mut into, &mut done).unwrap(), "the buffer may go to others now");
        assert_eq!((done, into[0]), (1, 7));
        stood_still(
            std::iter::repeat_with(|| inlet.fill(&mut into, &mut done))
                .find_map(Result::err)
                .unwrap(),
        );
    }
}
