//! Backup of metadata: pages of a volume's devices in one file.
//!
//! The file begins with a head, followed by two pages for each saved page: an entry, and the saved
//! page, bit for bit. Head and entries have the common header with the volume's UUID; the address
//! in their checksum is their sector in the file.
//!
//! Head (kind `BKUP`; the sequence number is the number of saved pages):
//!
//! | bytes | field |
//! |---|---|
//! | 32..36 | version |
//! | 36..40 | zero |
//! | 40..48 | time of the backup, seconds since 1970 |
//!
//! Entry (kind `BKPG`; the sequence number counts entries from 0):
//!
//! | bytes | field |
//! |---|---|
//! | 32 | the device, by index in the stack |
//! | 33..36 | zero |
//! | 36..40 | CRC-32C of the page, seeded with its sector |
//! | 40..48 | its sector on the device |
//! | 48..56 | sectors of the device |

use alloc::boxed::Box;
use alloc::vec::Vec;

use hostftl_core::{BLOCK, Page, SECTORS_PER_BLOCK};

use crate::page::{self, Stamp, crc32c, put_u32, put_u64, u32_at, u64_at};

/// Version of the layout.
pub const VERSION: u32 = 1;
/// Limit that exceeds the number of pages of any backup.
const MOST_PAGES: u64 = 1 << 20;
const HEAD: [u8; 4] = *b"BKUP";
const ENTRY: [u8; 4] = *b"BKPG";

/// Saved metadata of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// UUID of the volume.
    pub volume: [u8; 16],
    /// Time of the backup, in seconds since 1970.
    pub made: u64,
    /// Saved pages.
    pub pages: Vec<Saved>,
}

/// Saved page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Device, by index in the stack.
    pub index: u8,
    /// Length of the device in sectors.
    pub device_sectors: u64,
    /// First sector of the page on the device.
    pub at: u64,
    /// Content of the page.
    pub page: Box<Page>,
}

/// Reason why a file is not a valid backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupFault {
    /// Not a backup.
    Foreign,
    /// Unknown version.
    Version(u32),
    /// Wrong length: the actual and the expected number of bytes.
    Length(u64, u64),
    /// Wrong checksum at this byte.
    Damaged(u64),
}

impl core::fmt::Display for BackupFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            BackupFault::Foreign => f.write_str("not a backup of `hostftl dump --backup`"),
            BackupFault::Version(version) => {
                write!(f, "a backup of version {version}; this build supports version {VERSION}")
            }
            BackupFault::Length(is, should) => {
                write!(f, "a truncated backup: {is} bytes instead of {should}")
            }
            BackupFault::Damaged(at) => write!(f, "a backup with damage at byte {at}"),
        }
    }
}

/// Returns whether a file with this first page is a backup, valid or not.
pub fn is_meant(first: &Page) -> bool {
    first.0[4..8] == HEAD
}

/// Returns the sector of page `index` in the file.
fn sector(index: usize) -> u64 {
    index as u64 * u64::from(SECTORS_PER_BLOCK)
}

impl Backup {
    /// Returns the bytes of the file.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((1 + 2 * self.pages.len()) * BLOCK);
        let stamp = |kind, at| Stamp { kind, uuid: self.volume, at };
        let mut head = Page::default();
        put_u32(&mut head, 32, VERSION);
        put_u64(&mut head, 40, self.made);
        page::seal(&mut head, stamp(HEAD, 0), self.pages.len() as u64);
        bytes.extend_from_slice(&head.0);
        for (index, saved) in self.pages.iter().enumerate() {
            let mut entry = Page::default();
            entry.0[32] = saved.index;
            put_u32(&mut entry, 36, crc32c(saved.at, &saved.page.0));
            put_u64(&mut entry, 40, saved.at);
            put_u64(&mut entry, 48, saved.device_sectors);
            page::seal(&mut entry, stamp(ENTRY, sector(1 + 2 * index)), index as u64);
            bytes.extend_from_slice(&entry.0);
            bytes.extend_from_slice(&saved.page.0);
        }
        bytes
    }

    /// Parses a file.
    ///
    /// # Errors
    /// [`BackupFault`]. Any fault invalidates the whole backup.
    pub fn parse(bytes: &[u8]) -> Result<Self, BackupFault> {
        let pages: Vec<Page> = bytes
            .chunks_exact(BLOCK)
            .map(|chunk| Page(chunk.try_into().expect("the length of a page")))
            .collect();
        let head = pages.first().filter(|head| is_meant(head)).ok_or(BackupFault::Foreign)?;
        let volume: [u8; 16] = head.0[8..24].try_into().expect("sixteen bytes");
        let sound = |kind, index: usize| {
            let stamp = Stamp { kind, uuid: volume, at: sector(index) };
            let damaged = BackupFault::Damaged((index * BLOCK) as u64);
            page::open(&pages[index], stamp).map_err(|_| damaged)
        };
        let count = sound(HEAD, 0)?;
        let version = u32_at(head, 32);
        if version != VERSION {
            return Err(BackupFault::Version(version));
        }
        let should = (1 + 2 * count.min(MOST_PAGES)) * BLOCK as u64;
        if count > MOST_PAGES || bytes.len() as u64 != should {
            return Err(BackupFault::Length(bytes.len() as u64, should));
        }
        let saved = |index: usize| {
            let at = 1 + 2 * index;
            let (entry, page) = (&pages[at], &pages[at + 1]);
            let damaged = |at: usize| BackupFault::Damaged((at * BLOCK) as u64);
            if sound(ENTRY, at)? != index as u64 {
                return Err(damaged(at));
            }
            let lies_at = u64_at(entry, 40);
            if crc32c(lies_at, &page.0) != u32_at(entry, 36) {
                return Err(damaged(at + 1));
            }
            let device_sectors = u64_at(entry, 48);
            let page = Box::new(page.clone());
            Ok(Saved { index: entry.0[32], device_sectors, at: lies_at, page })
        };
        let saved: Result<Vec<Saved>, _> = (0..count as usize).map(saved).collect();
        Ok(Backup { volume, made: u64_at(head, 40), pages: saved? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(byte: u8) -> Box<Page> {
        let mut page = Page::default();
        page.0[7] = byte;
        Box::new(page)
    }

    prop_compose! {
        fn any_backup()(
            volume: [u8; 16],
            made: u64,
            pages in proptest::collection::vec((0..16_u8, 0..1_u64 << 40, any::<u8>()), 0..6),
        ) -> Backup {
            let saved = |(index, at, byte)| {
                Saved { index, device_sectors: 1 << 41, at, page: page(byte) }
            };
            Backup { volume, made, pages: pages.into_iter().map(saved).collect() }
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(backup in any_backup()) {
            prop_assert_eq!(Backup::parse(&backup.emit()), Ok(backup));
        }

        #[test]
        fn a_flipped_bit_is_refused(backup in any_backup(), pick: prop::sample::Index) {
            let mut bytes = backup.emit();
            let bit = pick.index(8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Backup::parse(&bytes).is_err(), "bit {}", bit);
        }

        #[test]
        fn another_length_is_refused(backup in any_backup(), pick: prop::sample::Index) {
            let mut bytes = backup.emit();
            bytes.truncate(pick.index(bytes.len()));
            prop_assert!(Backup::parse(&bytes).is_err(), "{} bytes", bytes.len());
            let mut longer = backup.emit();
            longer.push(0);
            prop_assert!(Backup::parse(&longer).is_err());
        }
    }

    #[test]
    fn each_fault_is_named() {
        let pages = [0, 8].map(|at| Saved { index: 1, device_sectors: 99, at, page: page(3) });
        let backup = Backup { volume: [7; 16], made: 5, pages: pages.into() };
        let bytes = backup.emit();
        assert_eq!(Backup::parse(b"# a volume file"), Err(BackupFault::Foreign));
        let whole = bytes.len() as u64;
        let cut = &bytes[..bytes.len() - BLOCK];
        assert_eq!(
            Backup::parse(cut),
            Err(BackupFault::Length(whole - BLOCK as u64, whole)),
            "{}",
            Backup::parse(cut).unwrap_err()
        );
        let mut rotten = bytes.clone();
        rotten[2 * BLOCK + 100] ^= 1;
        assert_eq!(Backup::parse(&rotten), Err(BackupFault::Damaged(2 * BLOCK as u64)));
        let mut swapped = bytes.clone();
        swapped[BLOCK..].rotate_left(2 * BLOCK);
        assert_eq!(Backup::parse(&swapped), Err(BackupFault::Damaged(BLOCK as u64)));
        let mut newer = Page(bytes[..BLOCK].try_into().unwrap());
        put_u32(&mut newer, 32, VERSION + 1);
        page::seal(&mut newer, Stamp { kind: HEAD, uuid: [7; 16], at: 0 }, 2);
        let newer = [&newer.0[..], &bytes[BLOCK..]].concat();
        assert_eq!(Backup::parse(&newer), Err(BackupFault::Version(VERSION + 1)));
    }
}
