//! Side region behind a drive's content: a head page, a record for each page of flash, and, after a
//! clean close, the saved pools.
//!
//! | head, bytes | field |
//! |---|---|
//! | 0..8 | `HFTLSIDE` |
//! | 8..12 | CRC-32C of the rest of the page |
//! | 12..16 | 1 when the pools are saved, else 0 |
//! | 16..24 | the next sequence number |
//! | 24..28 | bytes of the drive's name |
//! | 32.. | the name |
//!
//! A record has 16 bytes: 0..8 sequence number, 0 = nothing was programmed since the erase · 8..12
//! logical page in its pool. It is within a sector, so that a power cut never tears it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use hostftl_core::{BLOCK, SECTOR};
use hostftl_drives::DriveSpec;
use hostftl_format::page::crc32c;

const MAGIC: [u8; 8] = *b"HFTLSIDE";
/// Bytes of a record.
const RECORD: u64 = 16;
const NAME: usize = 32;

/// Content of the head page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Whether the pools are saved.
    pub clean: bool,
    /// Next sequence number.
    pub seq: u64,
    /// Name of the drive.
    pub drive: String,
}

/// The open region.
#[derive(Debug)]
pub(super) struct Side {
    file: File,
    at: u64,
    pages: u64,
}

fn pages(spec: &DriveSpec) -> u64 {
    (0..spec.pool_count()).map(|index| spec.pool(index).physical()).sum()
}

impl Side {
    /// Returns the minimum length of a drive's file in bytes.
    pub(super) fn end(spec: &DriveSpec) -> u64 {
        let head = spec.exported * SECTOR as u64 + BLOCK as u64;
        (head + pages(spec) * RECORD).next_multiple_of(BLOCK as u64)
    }

    /// Opens the region in the file `path`.
    pub(super) fn open(spec: &DriveSpec, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Side { file, at: spec.exported * SECTOR as u64, pages: pages(spec) })
    }

    /// Reads the head; `None` for a new region.
    pub(super) fn head(&self) -> io::Result<Option<Head>> {
        let mut page = [0; BLOCK];
        self.file.read_exact_at(&mut page, self.at)?;
        if page.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
        let name = NAME + word(24) as usize;
        // A damaged head is not treated as new: that would discard the state of the drive silently.
        if page[..8] != MAGIC || word(8) != crc32c(0, &page[12..]) || name > BLOCK {
            return Err(io::Error::other("the header of its side region is damaged"));
        }
        let drive = String::from_utf8_lossy(&page[NAME..name]).into_owned();
        let seq = u64::from_le_bytes(page[16..24].try_into().expect("eight bytes"));
        Ok(Some(Head { clean: word(12) == 1, seq, drive }))
    }

    /// Writes the head, durably.
    pub(super) fn set_head(&self, head: &Head) -> io::Result<()> {
        let mut page = [0; BLOCK];
        let name = head.drive.as_bytes();
        if name.len() > BLOCK - NAME {
            return Err(io::Error::other("the name of the drive is too long"));
        }
        page[..8].copy_from_slice(&MAGIC);
        page[12..16].copy_from_slice(&u32::from(head.clean).to_le_bytes());
        page[16..24].copy_from_slice(&head.seq.to_le_bytes());
        page[24..28].copy_from_slice(&(name.len() as u32).to_le_bytes());
        page[NAME..NAME + name.len()].copy_from_slice(name);
        let crc = crc32c(0, &page[12..]);
        page[8..12].copy_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&page, self.at)?;
        self.file.sync_data()
    }

    fn record_at(&self, page: u64) -> u64 {
        assert!(page < self.pages, "a record for each page of flash");
        self.at + BLOCK as u64 + page * RECORD
    }

    /// Records that a page of flash was programmed.
    pub(super) fn programmed(&self, page: u64, logical: u32, seq: u64) -> io::Result<()> {
        let mut record = [0; RECORD as usize];
        record[..8].copy_from_slice(&seq.to_le_bytes());
        record[8..12].copy_from_slice(&logical.to_le_bytes());
        self.file.write_all_at(&record, self.record_at(page))
    }

    /// Records that `count` pages of flash starting at `page` were erased.
    pub(super) fn erased(&self, page: u64, count: u64) -> io::Result<()> {
        let zeros = vec![0; (count * RECORD) as usize];
        self.file.write_all_at(&zeros, self.record_at(page))
    }

    /// Returns the sequence number and logical page of the programmed ones among `count` pages of
    /// flash starting at `page`.
    pub(super) fn records(&self, page: u64, count: u64) -> io::Result<Vec<(u64, u32)>> {
        let mut bytes = vec![0; (count * RECORD) as usize];
        self.file.read_exact_at(&mut bytes, self.record_at(page))?;
        let record = |bytes: &[u8]| {
            let seq = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            (seq, u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes")))
        };
        let records = bytes.chunks_exact(RECORD as usize).map(record);
        Ok(records.filter(|(seq, _)| *seq > 0).collect())
    }

    /// Returns the file, positioned at the saved pools.
    pub(super) fn saved(&mut self) -> io::Result<&mut File> {
        let at = self.at + BLOCK as u64 + (self.pages * RECORD).next_multiple_of(BLOCK as u64);
        self.file.seek(SeekFrom::Start(at))?;
        Ok(&mut self.file)
    }
}
