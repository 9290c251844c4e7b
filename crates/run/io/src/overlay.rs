//! Writes of a read-only run: they stay in memory, and reads see them.
//!
//! Invariants
//! - The memory is limited to [`OVERLAY_MAX_BYTES`]. A write that exceeds it fails, and the failure
//!   is recorded.

use std::collections::BTreeMap;
use std::ops::Range;

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR};

use crate::device::Device;
use crate::transfer::{self, Call, Transfer};

/// Maximum memory for the writes to one device, in bytes.
pub const OVERLAY_MAX_BYTES: usize = 512 << 20;
/// Memory for a sector and for a range of zeros, in bytes: content, key, and a share of the tree.
const SECTOR_BYTES: usize = SECTOR + 48;
const RANGE_BYTES: usize = 48;

#[derive(Debug)]
pub(crate) struct Overlay {
    /// Written sectors, by their number on the whole device.
    written: BTreeMap<u64, Box<[u8; SECTOR]>>,
    /// Ranges that read as zeros unless they were written later: start to end. They neither overlap
    /// nor touch.
    zeros: BTreeMap<u64, u64>,
    most: usize,
    /// Whether a write exceeded the memory.
    is_full: bool,
}

impl Default for Overlay {
    fn default() -> Self {
        let (written, zeros) = (BTreeMap::new(), BTreeMap::new());
        Overlay { written, zeros, most: OVERLAY_MAX_BYTES, is_full: false }
    }
}

impl Overlay {
    /// Returns whether a write exceeded the memory.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether a transfer reads only from the device.
    pub(crate) fn leaves(&self, transfer: &Transfer) -> bool {
        let range = sectors(transfer);
        // Ranges of zeros do not overlap, so only the last one can reach into the range.
        let zeroed = self.zeros.range(..range.end).next_back();
        transfer.call() == Call::Read
            && self.written.range(range.clone()).next().is_none()
            && zeroed.is_none_or(|(_, end)| *end <= range.start)
    }

    /// Executes a transfer without writing to `device`.
    pub(crate) fn run(&mut self, transfer: &Transfer, device: &Device) -> Result<(), DeviceError> {
        let range = sectors(transfer);
        let new = match transfer.call() {
            Call::Write => (range.end - range.start) as usize * SECTOR_BYTES,
            Call::Allocate(_) => RANGE_BYTES,
            Call::Read | Call::Sync => 0,
        };
        let held = self.written.len() * SECTOR_BYTES + self.zeros.len() * RANGE_BYTES;
        // Reads and flushes must still succeed when the memory is full.
        if new > 0 && held + new > self.most {
            self.is_full = true;
            return Err(DeviceError::NoSpace);
        }
        match transfer.call() {
            Call::Sync => {}
            Call::Allocate(_) => self.zero(range),
            Call::Write => {
                let mut bytes = vec![0; transfer.range().1 as usize];
                transfer.copy_out(&mut bytes);
                for (sector, bytes) in range.zip(bytes.chunks_exact(SECTOR)) {
                    self.written.insert(sector, Box::new(bytes.try_into().expect("a sector")));
                }
            }
            Call::Read => {
                let mut bytes = read(transfer, device)?;
                for (sector, bytes) in range.zip(bytes.chunks_exact_mut(SECTOR)) {
                    match self.written.get(&sector) {
                        Some(written) => bytes.copy_from_slice(&written[..]),
                        // A write after the zeroing is in `written`, which is examined first.
                        None if self.is_zeroed(sector) => bytes.fill(0),
                        None => {}
                    }
                }
                transfer.copy_in(&bytes);
            }
        }
        Ok(())
    }

    fn is_zeroed(&self, sector: u64) -> bool {
        self.zeros.range(..=sector).next_back().is_some_and(|(_, end)| sector < *end)
    }

    fn zero(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        // The zeros replace earlier writes of the range.
        let mut rest = self.written.split_off(&range.start);
        self.written.append(&mut rest.split_off(&range.end));
        let (mut from, mut end) = (range.start, range.end);
        // Merges the range with all ranges that it overlaps or touches.
        while let Some((&other, &until)) = self.zeros.range(..=end).next_back()
            && until >= from
        {
            (from, end) = (from.min(other), end.max(until));
            self.zeros.remove(&other);
        }
        self.zeros.insert(from, end);
    }
}

/// Returns the sectors of a transfer, numbered on the whole device.
fn sectors(transfer: &Transfer) -> Range<u64> {
    let (offset, len) = transfer.range();
    let first = offset / SECTOR as u64;
    first..first + len / SECTOR as u64
}

/// Reads the range from the device.
fn read(transfer: &Transfer, device: &Device) -> Result<Vec<u8>, DeviceError> {
    let (offset, len) = transfer.range();
    let mut pages = vec![Page::default(); (len as usize).div_ceil(BLOCK)];
    let mut below = Transfer::new(0, device.fd(), Call::Read, offset, len);
    below.push(pages.as_mut_ptr().cast(), len as usize);
    match device.as_remote() {
        Some(remote) => remote.run(below).map_err(|_| DeviceError::Media)?,
        None => transfer::run(&mut below)?,
    }
    let mut bytes = pages.iter().flat_map(|page| page.0).collect::<Vec<u8>>();
    bytes.truncate(len as usize);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(overlay: &mut Overlay, device: &Device, sector: u64, byte: u8) -> bool {
        let mut page = Page::default();
        page.0.fill(byte);
        let (offset, len) = (sector * SECTOR as u64, SECTOR);
        let mut transfer = Transfer::new(0, device.fd(), Call::Write, offset, len as u64);
        transfer.push(page.0.as_mut_ptr(), len);
        overlay.run(&transfer, device).is_ok()
    }

    fn reset(overlay: &mut Overlay, device: &Device, from: u64, to: u64) {
        let sector = SECTOR as u64;
        let transfer = Transfer::reset(0, device.fd(), from * sector, (to - from) * sector);
        overlay.run(&transfer, device).unwrap();
    }

    /// Reads a sector and returns its first byte.
    fn byte(overlay: &mut Overlay, device: &Device, sector: u64) -> u8 {
        let mut page = Page::default();
        let (offset, len) = (sector * SECTOR as u64, SECTOR);
        let mut transfer = Transfer::new(0, device.fd(), Call::Read, offset, len as u64);
        transfer.push(page.0.as_mut_ptr(), len);
        overlay.run(&transfer, device).unwrap();
        page.0[0]
    }

    fn device(folder: &tempfile::TempDir) -> Device {
        let path = folder.path().join("d");
        std::fs::write(&path, [9; 64 * SECTOR]).unwrap();
        Device::open_as(path.to_str().unwrap(), Access::ReadOnly).unwrap()
    }

    use crate::exclusive_open::Access;

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no devices")]
    fn reads_see_overlaid_writes_and_the_device_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let device = device(&folder);
        let mut overlay = Overlay::default();
        assert!(write(&mut overlay, &device, 10, 1));
        reset(&mut overlay, &device, 8, 12);
        reset(&mut overlay, &device, 20, 24);
        reset(&mut overlay, &device, 12, 20);
        assert!(write(&mut overlay, &device, 11, 2));
        assert_eq!(overlay.zeros.iter().collect::<Vec<_>>(), [(&8, &24)]);
        let seen = [7, 8, 10, 11, 23, 24].map(|sector| byte(&mut overlay, &device, sector));
        assert_eq!(seen, [9, 0, 0, 2, 0, 9]);
        assert_eq!(std::fs::read(folder.path().join("d")).unwrap(), [9; 64 * SECTOR]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri opens no devices")]
    fn the_memory_is_bounded_and_existing_data_kept() {
        let folder = tempfile::tempdir().unwrap();
        let device = device(&folder);
        let mut overlay = Overlay { most: 3 * SECTOR_BYTES, ..Overlay::default() };
        assert!((0..3).all(|sector| write(&mut overlay, &device, sector, 1)));
        assert!(!overlay.is_full());
        assert!(!write(&mut overlay, &device, 3, 1) && overlay.is_full());
        assert_eq!([2, 3].map(|sector| byte(&mut overlay, &device, sector)), [1, 9]);
    }
}
