//! Copies of devices that are in use, chunk by chunk.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR};

use crate::device::{Device, Medium, no_head, system};
use crate::error::IoError;
use crate::nbd::Shared;
use crate::transfer::{self, Call, NO_FILE, Transfer};

/// Bytes of a chunk, the unit in which the driver records changes during a copy.
const CHUNK: u64 = 1 << 20;

impl Device {
    /// Reads `bytes` bytes, which must be whole sectors, from byte `at` of the whole device.
    ///
    /// # Errors
    /// Errors of the system or the server, with the range.
    ///
    /// # Panics
    /// When `into` is shorter.
    pub fn read_bytes(&self, at: u64, bytes: u64, into: &mut [Page]) -> Result<(), IoError> {
        assert!(bytes <= (into.len() * BLOCK) as u64, "the memory holds the transfer");
        self.move_part(Call::Read, at, bytes, into)
    }

    /// Reads or writes `bytes` bytes from byte `at` of the whole device.
    fn move_part(&self, call: Call, at: u64, bytes: u64, part: &mut [Page]) -> Result<(), IoError> {
        let transfer = Transfer::new(0, self.fd(), call, at, bytes);
        let moved = match self.medium() {
            Medium::File(_) => run_file(transfer, self.unit(), part),
            Medium::Remote(remote) => {
                let mut transfer = transfer;
                transfer.push(part.as_mut_ptr().cast(), bytes as usize);
                remote.run(transfer)
            }
            Medium::Memory(_) | Medium::Absent => return Err(no_head(self.name())),
        };
        let what = if call == Call::Read { "read it" } else { "write to it" };
        moved.map_err(|error| failed(self.name(), what, at..at + bytes, &error))
    }

    /// Returns a second access path to the window, for another thread than the driver's.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn source(&self) -> Result<Source, IoError> {
        let way = match self.medium() {
            Medium::File(file) => Way::File(
                file.try_clone().map_err(|error| system(self.name(), "open it again", error))?,
            ),
            Medium::Remote(remote) => Way::Remote(remote.share()),
            Medium::Memory(_) | Medium::Absent => return Err(no_head(self.name())),
        };
        Ok(Source { name: self.name().into(), way, window: self.window(), unit: self.unit() })
    }

    /// Writes chunk `chunk`, read by [`Source::read_chunk`], to its position in the window. Zeros
    /// are not written to a chunk that `is_clear`.
    ///
    /// # Errors
    /// Errors of the system or the server, with the range.
    pub fn write_chunk(
        &self,
        chunk: u64,
        pages: &mut [Page],
        is_clear: bool,
    ) -> Result<(), IoError> {
        if is_clear && is_zero(pages) {
            return Ok(());
        }
        let at = self.window_start() + chunk * CHUNK;
        // The last chunk may end within a page, and the new device beyond the window must not
        // change.
        let bytes = (self.window().end - at).min((pages.len() * BLOCK) as u64);
        self.move_part(Call::Write, at, bytes, pages)
    }
}

fn is_zero(pages: &[Page]) -> bool {
    pages.iter().all(|page| page.0 == [0; BLOCK])
}

fn run_file(mut transfer: Transfer, unit: usize, part: &mut [Page]) -> io::Result<()> {
    let bytes = transfer.range().1 as usize;
    assert!(bytes <= size_of_val(part), "the memory holds the transfer");
    transfer.push(part.as_mut_ptr().cast(), bytes);
    // Direct transfers need whole units in memory and on the device.
    transfer.align(unit);
    transfer::run(&mut transfer).map_err(|error: DeviceError| io::Error::other(error.to_string()))
}

fn failed(name: &str, what: &'static str, range: Range<u64>, error: &io::Error) -> IoError {
    let text = format!("bytes {} to {}: {error}", range.start, range.end);
    system(name, what, io::Error::other(text))
}

/// Second access path for reads of the window of a device in use.
#[derive(Debug)]
pub struct Source {
    name: String,
    way: Way,
    /// Window in bytes of the whole device.
    window: Range<u64>,
    /// Unit of direct transfers in bytes.
    unit: usize,
}

#[derive(Debug)]
enum Way {
    File(File),
    Remote(Arc<Shared>),
}

impl Source {
    /// Reads a chunk; the last one may be shorter.
    ///
    /// # Errors
    /// Errors of the system or the server, with the range.
    pub fn read_chunk(&self, chunk: u64) -> Result<Vec<Page>, IoError> {
        let at = self.window.start + chunk * CHUNK;
        let bytes = (self.window.end - at).min(CHUNK);
        let mut pages = vec![Page::default(); (bytes as usize).div_ceil(BLOCK)];
        let read = match &self.way {
            Way::File(file) => {
                let transfer = Transfer::new(0, file.as_raw_fd(), Call::Read, at, bytes);
                run_file(transfer, self.unit, &mut pages)
            }
            Way::Remote(remote) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Read, at, bytes);
                transfer.push(pages.as_mut_ptr().cast(), bytes as usize);
                remote.run(transfer)
            }
        };
        read.map_err(|error| failed(&self.name, "read it", at..at + bytes, &error))?;
        Ok(pages)
    }
}

/// Chunks of a device's window that a copy is missing: initially all, later those that changed
/// after they were taken.
///
/// A chunk is marked when a command that changes it ends. Therefore a chunk that is read while such
/// a command is in flight is marked afterwards and read again.
#[derive(Debug)]
pub struct Uncopied {
    words: Box<[AtomicU64]>,
    /// Number of marked chunks.
    left: AtomicU64,
}

impl Uncopied {
    /// Marks all chunks of a window of `bytes` bytes.
    pub(crate) fn all(bytes: u64) -> Self {
        let chunks = bytes.div_ceil(CHUNK);
        let words = (0..chunks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let all = Uncopied { words, left: AtomicU64::new(0) };
        (0..chunks).for_each(|chunk| all.mark_chunk(chunk));
        all
    }

    /// Marks the chunks of a range of sectors.
    pub(crate) fn mark(&self, sectors: Range<u64>) {
        let (first, end) = (sectors.start * SECTOR as u64, sectors.end * SECTOR as u64);
        (first / CHUNK..end.div_ceil(CHUNK)).for_each(|chunk| self.mark_chunk(chunk));
    }

    fn mark_chunk(&self, chunk: u64) {
        let bit = 1 << (chunk % 64);
        // A chunk that is already marked is not counted again.
        if self.words[(chunk / 64) as usize].fetch_or(bit, SeqCst) & bit == 0 {
            self.left.fetch_add(1, SeqCst);
        }
    }

    /// Takes the first marked chunk from number `from` on.
    pub fn take(&self, from: u64) -> Option<u64> {
        // Only the first word has bits below `from`.
        let mut above = u64::MAX << (from % 64);
        for (at, word) in self.words.iter().enumerate().skip((from / 64) as usize) {
            let found = word.load(SeqCst) & above;
            if found != 0 {
                let bit = found & found.wrapping_neg();
                // Only one thread takes chunks, so the bit is still set.
                word.fetch_and(!bit, SeqCst);
                self.left.fetch_sub(1, SeqCst);
                return Some(at as u64 * 64 + u64::from(bit.trailing_zeros()));
            }
            above = u64::MAX;
        }
        None
    }

    /// Returns the size of the marked chunks in bytes.
    pub fn bytes(&self) -> u64 {
        self.left.load(SeqCst) * CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_taken_once_and_again_after_a_change() {
        let left = Uncopied::all(130 * CHUNK - 1);
        assert_eq!(left.bytes(), 130 * CHUNK);
        let mut from = 0;
        while let Some(chunk) = left.take(from) {
            assert_eq!(chunk, from);
            from = chunk + 1;
        }
        assert_eq!((from, left.bytes()), (130, 0));
        let sectors = CHUNK / SECTOR as u64;
        left.mark(70 * sectors - 1..70 * sectors + 1);
        left.mark(70 * sectors..71 * sectors);
        assert_eq!(left.bytes(), 2 * CHUNK);
        assert_eq!((left.take(70), left.take(0), left.take(0)), (Some(70), Some(69), None));
    }
}
