//! A file's bytes through a buffer of constant size.

use std::io::{self, Read};

/// Bytes read at once.
const CHUNK: usize = 1 << 18;

/// Buffered part of a file.
pub(crate) struct Window {
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Whether the end of the file is in the buffer.
    over: bool,
}

impl Window {
    /// Makes a window at the start of `input`.
    pub(crate) fn new(input: Box<dyn Read + Send>) -> io::Result<Self> {
        let buffer = vec![0; CHUNK];
        let mut window = Window { input, buffer, at: 0, end: 0, over: false };
        window.refill()?;
        Ok(window)
    }

    /// Returns the bytes in the buffer that are not consumed yet.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Consumes `bytes` bytes.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        assert!(self.at <= self.end);
    }

    /// Fills the buffer until it has `bytes` bytes, at most 256 KiB, or the file ends. Returns
    /// whether the bytes are in the buffer.
    #[inline]
    pub(crate) fn has(&mut self, bytes: usize) -> io::Result<bool> {
        if self.end - self.at < bytes && !self.over {
            self.refill()?;
        }
        Ok(self.end - self.at >= bytes)
    }

    /// Moves the remaining bytes to the front and fills the buffer.
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
