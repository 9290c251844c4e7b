//! What a look at a device would write: it stays in memory, and reads see it.

use std::collections::{BTreeMap, BTreeSet};

use hostftl_core::{BLOCK, DeviceError, Page, SECTOR};

use crate::device::Device;
use crate::transfer::{self, Call, Transfer};

/// See the module text.
#[derive(Debug, Default)]
pub struct Overlay {
    /// By the number of the sector on the whole device.
    written: BTreeMap<u64, Box<[u8; SECTOR]>>,
    /// Those that read zeros, and are not written.
    zeros: BTreeSet<u64>,
}

impl Overlay {
    /// Does a transfer, of which nothing is written to `device`.
    ///
    /// # Errors
    /// What the device says to a read.
    pub fn run(&mut self, transfer: &Transfer, device: &Device) -> Result<(), DeviceError> {
        let (offset, len) = transfer.range();
        let first = offset / SECTOR as u64;
        match transfer.call() {
            Call::Sync => {}
            Call::Allocate(_) => {
                let range = first..first + len / SECTOR as u64;
                range.for_each(|sector| {
                    self.written.remove(&sector);
                    self.zeros.insert(sector);
                });
            }
            Call::Write => {
                let mut bytes = vec![0; len as usize];
                transfer.copy_out(&mut bytes);
                for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
                    self.zeros.remove(&sector);
                    self.written.insert(sector, Box::new(bytes.try_into().expect("a sector")));
                }
            }
            Call::Read => {
                let mut pages = vec![Page::default(); (len as usize).div_ceil(BLOCK)];
                let mut below = Transfer::new(0, device.fd(), Call::Read, offset, len);
                below.push(pages.as_mut_ptr().cast(), len as usize);
                match device.as_remote() {
                    Some(remote) => remote.run(below).map_err(|_| DeviceError::Media)?,
                    None => transfer::run(&mut below)?,
                }
                let mut bytes = pages.iter().flat_map(|page| page.0).collect::<Vec<u8>>();
                bytes.truncate(len as usize);
                for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR)) {
                    match self.written.get(&sector) {
                        Some(written) => bytes.copy_from_slice(&written[..]),
                        None if self.zeros.contains(&sector) => bytes.fill(0),
                        None => {}
                    }
                }
                transfer.copy_in(&bytes);
            }
        }
        Ok(())
    }
}
