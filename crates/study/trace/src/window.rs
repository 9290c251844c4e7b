//! A file's bytes through a buffer of constant size.

use std::io::{self, Read};

/// Bytes read at once.
const CHUNK: usize = 1 << 18;

/// The part of a file that is being looked at.
pub(crate) struct Window {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Whether the file has no more than the buffer holds.
    over: bool,
}

impl Window {
    /// The beginning of `input`.
    pub(crate) fn new(input: Box<dyn Read + Send>) -> io::Result<Self> {
        let buffer = vec![0; CHUNK];
        let mut window = Window { input, buffer, at: 0, end: 0, over: false };
        window.refill()?;
        Ok(window)
    }

    /// What is not yet consumed and lies in the buffer.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Steps over `bytes` of the bytes.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        assert!(self.at <= self.end);
    }

    /// Reads on unless `bytes`, at most 256 KiB, are in the buffer or the file is over; whether
    /// they are in the buffer.
    #[inline]
    pub(crate) fn has(&mut self, bytes: usize) -> io::Result<bool> {
        if self.end - self.at < bytes && !self.over {
            self.refill()?;
        }
        Ok(self.end - self.at >= bytes)
    }

    /// Moves what is left to the front and fills the buffer up.
    fn refill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while !self.over && self.end < CHUNK {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.over = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
