//! The reading side of a socket: headers from a small look-ahead, payload straight to its buffer.
//!
//! Invariants
//! - `ahead[from..to]` is what was received and not yet used, in order.
//! - Payload that is not in the look-ahead already is received into its own buffer; the same system
//!   call brings what follows it into the look-ahead.

use std::io::{self, ErrorKind, IoSliceMut, Read};

/// How far the look-ahead reaches, in bytes: more saves system calls for small requests, and costs
/// a copy of what is payload.
const AHEAD: usize = 16 << 10;

/// See the module text.
#[derive(Debug)]
pub(crate) struct Inlet<R> {
    source: R,
    ahead: Box<[u8]>,
    from: usize,
    to: usize,
}

impl<R: Read> Inlet<R> {
    pub(crate) fn new(source: R) -> Self {
        Inlet { source, ahead: vec![0; AHEAD].into(), from: 0, to: 0 }
    }

    /// The next `N` bytes; `None` when the peer has closed the connection before them.
    ///
    /// # Errors
    /// When the connection ends within them or breaks.
    pub(crate) fn head<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        while self.to - self.from < N {
            if self.more()? == 0 {
                return if self.from == self.to { Ok(None) } else { Err(cut_short()) };
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
        self.to += got;
        Ok(got)
    }

    /// Fills `into` with the next bytes.
    ///
    /// # Errors
    /// When the connection ends before or breaks.
    pub(crate) fn fill(&mut self, into: &mut [u8]) -> io::Result<()> {
        let known = into.len().min(self.to - self.from);
        into[..known].copy_from_slice(&self.ahead[self.from..self.from + known]);
        self.from += known;
        let mut rest = &mut into[known..];
        while !rest.is_empty() {
            let ahead = &mut self.ahead;
            let source = &mut self.source;
            let got = retry(|| {
                let mut both = [IoSliceMut::new(rest), IoSliceMut::new(ahead)];
                source.read_vectored(&mut both)
            })?;
            if got == 0 {
                return Err(cut_short());
            }
            let here = got.min(rest.len());
            // The look-ahead was empty, because its bytes come first.
            (self.from, self.to) = (0, got - here);
            rest = &mut rest[here..];
        }
        Ok(())
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
            if self.more()? == 0 {
                return Err(cut_short());
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
                        inlet.fill(&mut into).unwrap();
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
        assert!(Inlet::new(&[1u8; 27][..]).fill(&mut [0; 28]).is_err());
        assert!(Inlet::new(&[1u8; 27][..]).skip(28).is_err());
    }
}
