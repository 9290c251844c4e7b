//! Big-endian fields in a slice of bytes.

use crate::error::Malformed;
use crate::option::MAX_NAME;

/// Reader of fields at the front of a message.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Cursor(bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a string of `len` bytes.
    pub(crate) fn text(&mut self, len: usize) -> Result<&'a str, Malformed> {
        text(self.bytes(len)?)
    }

    /// Reads a string preceded by its length.
    pub(crate) fn counted(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()?;
        self.text(len as usize)
    }

    /// Returns the rest of the message.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    /// Returns the rest of the message as a string.
    pub(crate) fn rest_text(&mut self) -> Result<&'a str, Malformed> {
        text(self.rest())
    }

    /// Checks that the message ends here.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing) }
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    if bytes.len() > MAX_NAME {
        return Err(Malformed::NameTooLong);
    }
    core::str::from_utf8(bytes).map_err(|_| Malformed::Utf8)
}

/// Writer of fields at the end of a message.
pub(crate) trait Emit {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// Appends the length as a u32, then the string.
    fn put_counted(&mut self, text: &str);
}

impl Emit for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_counted(&mut self, text: &str) {
        self.put_u32(text.len() as u32);
        self.extend_from_slice(text.as_bytes());
    }
}
