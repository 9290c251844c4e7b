//! Texts other than UTF-8 with newlines: UTF-16, and lines that end with a single carriage return.

use std::io::{self, Read};

use super::Stream;

/// Bytes decoded at once.
const CHUNK: usize = 1 << 15;

/// An encoding that must be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charset {
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// Lines that end with a carriage return.
    Returns,
}

impl Charset {
    /// Returns the encoding of a text that begins with `head`, or `None` if no conversion is
    /// necessary.
    pub(super) fn detect(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\xff\xfe\0\0") {
            return None;
        }
        match head {
            [0xff, 0xfe, ..] => return Some(Charset::Utf16Le),
            [0xfe, 0xff, ..] => return Some(Charset::Utf16Be),
            _ => {}
        }
        let is_text = |byte: &u8| (b' '..0x7f).contains(byte) || b"\t\r\n".contains(byte);
        let pairs = || head.chunks_exact(2).take(64);
        if head.len() >= 8 && pairs().all(|pair| is_text(&pair[0]) && pair[1] == 0) {
            return Some(Charset::Utf16Le);
        }
        if head.len() >= 8 && pairs().all(|pair| pair[0] == 0 && is_text(&pair[1])) {
            return Some(Charset::Utf16Be);
        }
        let has = |wanted: u8| head.contains(&wanted);
        let is_old = has(b'\r') && !has(b'\n') && head.iter().all(is_text);
        is_old.then_some(Charset::Returns)
    }

    /// Returns a warning about the results.
    pub(super) fn remark(self) -> Option<&'static str> {
        match self {
            Charset::Utf16Le | Charset::Utf16Be => Some("the text is read as UTF-16"),
            Charset::Returns => None,
        }
    }
}

/// Converts a text to UTF-8 with newlines.
pub(super) struct Decoder {
    inner: Stream,
    charset: Charset,
    /// Decoded bytes, and the number of them that were read.
    ready: Vec<u8>,
    at: usize,
    /// Incomplete unit or surrogate pair at the end of the last chunk.
    odd: Vec<u8>,
}

impl Decoder {
    /// Makes a decoder of `inner`.
    pub(super) fn new(inner: Stream, charset: Charset) -> Self {
        Decoder { inner, charset, ready: Vec::new(), at: 0, odd: Vec::new() }
    }

    /// Decodes the next bytes. Returns whether there are any.
    fn fill(&mut self) -> io::Result<bool> {
        let mut raw = std::mem::take(&mut self.odd);
        let kept = raw.len();
        raw.resize(kept + CHUNK, 0);
        let bytes = loop {
            match self.inner.read(&mut raw[kept..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        raw.truncate(kept + bytes);
        (self.ready, self.at) = (Vec::new(), 0);
        if self.charset == Charset::Returns {
            raw.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
            self.ready = raw;
            return Ok(bytes > 0);
        }
        let unit = |pair: &[u8]| match self.charset {
            Charset::Utf16Be => u16::from_be_bytes([pair[0], pair[1]]),
            _ => u16::from_le_bytes([pair[0], pair[1]]),
        };
        let mut units: Vec<u16> = raw.chunks_exact(2).map(unit).collect();
        let is_half = units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit));
        if bytes > 0 && is_half {
            units.pop();
        }
        if bytes > 0 {
            self.odd = raw[units.len() * 2..].to_vec();
        }
        let text = char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER));
        self.ready = text.filter(|letter| *letter != '\u{feff}').collect::<String>().into_bytes();
        Ok(bytes > 0)
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            if !self.fill()? {
                break;
            }
        }
        let length = buffer.len().min(self.ready.len() - self.at);
        buffer[..length].copy_from_slice(&self.ready[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}
