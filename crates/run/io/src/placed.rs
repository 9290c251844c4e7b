//! Writes with a placement identifier, to NVMe drives with flexible data placement (FDP). They use
//! the kernel's passthrough, because its block layer has no such hint before 6.16.
//!
//! Invariant
//! - Only a whole namespace is written this way: passthrough counts blocks from the start of the
//!   namespace, even if the device is a partition.

use std::fs;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use hostftl_core::DeviceError;

use crate::device::Device;
use crate::transfer::{Call, Transfer};

/// `_IOWR('N', 0x49, struct nvme_passthru_cmd64)`: a command with vectored data.
const NVME_IOCTL_IO64_CMD_VEC: libc::c_ulong = 0xc050_4e49;
/// Opcode of the write command, and directive type of a placement.
const WRITE: u8 = 0x01;
const DATA_PLACEMENT: u32 = 2;
/// Timeout that the kernel applies to a command.
const PATIENCE_MS: u32 = 60_000;
/// Maximum number of blocks of a command.
const MOST_BLOCKS: u64 = 1 << 16;
/// Maximum number of pieces of a command.
const MOST_PIECES: usize = 64;
/// Environment variable that enables placement with the value `on`. The benefit is not measured
/// yet.
const SWITCH: &str = "HOSTFTL_PLACEMENT";

/// `struct nvme_passthru_cmd64` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct Passthru {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    pieces: u32,
    words: [u32; 6],
    timeout_ms: u32,
    reserved_2: u32,
    result: u64,
}

/// NVMe drive that takes placements.
#[derive(Debug)]
pub(crate) struct PlacedWrites {
    file: File,
    namespace: u32,
    /// Block size in bytes.
    block: u64,
    /// Maximum length of a command in bytes.
    most: u64,
    /// Placement identifiers of the drive.
    identifiers: Vec<u16>,
}

impl PlacedWrites {
    /// Returns the interface to a device that takes placements and bypasses the page cache.
    pub(crate) fn from_device(device: &Device) -> Option<Arc<Self>> {
        if std::env::var_os(SWITCH).is_none_or(|word| word != "on") || !device.direct().is_on() {
            return None;
        }
        let file = device.as_file()?;
        let queue = namespace_queue_folder(file)?;
        let facts = device.nvme()?.facts().ok()?;
        let (namespace, fdp) = (facts.namespace?, facts.fdp.filter(|fdp| fdp.on)?);
        let identifiers: Vec<_> = fdp.placements.iter().map(|it| it.identifier).collect();
        let most = fs::read_to_string(queue.join("max_hw_sectors_kb")).ok()?;
        let most = most.trim().parse::<u64>().ok()? << 10;
        let block = namespace.block_bytes;
        let most = most.min(MOST_BLOCKS * block) / block * block;
        let file = file.try_clone().ok()?;
        let namespace = namespace.number;
        // A single placement has no effect.
        let is_useful =
            identifiers.len() > 1 && most > 0 && (device.unit() as u64).is_multiple_of(block);
        is_useful.then(|| Arc::new(PlacedWrites { file, namespace, block, most, identifiers }))
    }

    /// Returns the number of placements that the drive distinguishes.
    pub(crate) fn count(&self) -> usize {
        self.identifiers.len()
    }

    /// Returns whether a transfer can carry a placement: a write of whole blocks.
    pub(crate) fn takes(&self, transfer: &Transfer) -> bool {
        let (offset, bytes) = transfer.range();
        let is_whole = |piece: &libc::iovec| (piece.iov_len as u64).is_multiple_of(self.block);
        transfer.call() == Call::Write
            && (offset | bytes).is_multiple_of(self.block)
            && transfer.pieces().iter().all(is_whole)
    }

    /// Executes a write in this thread.
    pub(crate) fn run(&self, transfer: &mut Transfer, placement: u8) -> Result<(), DeviceError> {
        loop {
            if let Some(result) = transfer.absorb(self.write_once(transfer, placement)) {
                return result;
            }
        }
    }

    /// Sends one command. Returns the number of bytes written, or a negative errno.
    fn write_once(&self, transfer: &Transfer, placement: u8) -> i32 {
        let identifier = self.identifiers[usize::from(placement) % self.identifiers.len()];
        let (pieces, bytes) = self.first_pieces(transfer.pieces());
        let (at, blocks) = (transfer.range().0 / self.block, bytes / self.block);
        let mut pass = Passthru {
            opcode: WRITE,
            namespace: self.namespace,
            address: pieces.as_ptr() as u64,
            pieces: pieces.len() as u32,
            // The number of blocks is zero-based in the command.
            words: [
                at as u32,
                (at >> 32) as u32,
                (blocks - 1) as u32 | DATA_PLACEMENT << 20,
                u32::from(identifier) << 16,
                0,
                0,
            ],
            timeout_ms: PATIENCE_MS,
            ..Passthru::default()
        };
        let fd = self.file.as_raw_fd();
        // SAFETY: the structure matches the request; the pieces are valid and ours for the duration
        // of the transfer, by its first invariant, and the kernel reads only their bytes.
        let status = unsafe { libc::ioctl(fd, NVME_IOCTL_IO64_CMD_VEC as _, &mut pass) };
        match status {
            0 => i32::try_from(bytes).expect("a command is shorter than 2 GiB"),
            ..0 => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
            // Status code of the drive.
            _ => -libc::EIO,
        }
    }

    /// Returns the pieces of `all` that fit into one command, and their length in bytes.
    fn first_pieces(&self, all: &[libc::iovec]) -> (Vec<libc::iovec>, u64) {
        let (mut some, mut bytes) = (Vec::new(), 0);
        for piece in all.iter().take(MOST_PIECES) {
            let len = (piece.iov_len as u64).min(self.most - bytes);
            if len == 0 {
                break;
            }
            some.push(libc::iovec { iov_len: len as usize, ..*piece });
            bytes += len;
        }
        (some, bytes)
    }
}

/// Returns the queue directory of a file that is a whole NVMe namespace, not a partition or a
/// stacked device.
fn namespace_queue_folder(file: &File) -> Option<PathBuf> {
    let number = file.metadata().ok()?.rdev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = folder.file_name()?.to_str()?.to_owned();
    (name.starts_with("nvme") && !folder.join("partition").exists()).then(|| folder.join("queue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(most: u64) -> PlacedWrites {
        let file = tempfile::tempfile().unwrap();
        PlacedWrites { file, namespace: 1, block: 512, most, identifiers: vec![0, 3] }
    }

    fn write(lens: &[usize], offset: u64) -> Transfer {
        let all = lens.iter().sum::<usize>() as u64;
        let mut transfer = Transfer::new(0, 0, Call::Write, offset, all);
        lens.iter().for_each(|len| transfer.push(std::ptr::dangling_mut(), *len));
        transfer
    }

    #[test]
    fn a_command_takes_no_more_than_the_drive_does() {
        assert_eq!(size_of::<Passthru>(), 80);
        let transfer = write(&[4096, 4096, 512], 0);
        let lens = |most| {
            let (pieces, bytes) = placed(most).first_pieces(transfer.pieces());
            (pieces.iter().map(|piece| piece.iov_len).collect::<Vec<_>>(), bytes)
        };
        assert_eq!(lens(1 << 20), (vec![4096, 4096, 512], 8704));
        assert_eq!(lens(6144), (vec![4096, 2048], 6144));
        assert_eq!(lens(4096), (vec![4096], 4096));
    }

    #[test]
    fn only_whole_blocks_name_a_placement() {
        let placed = placed(4096);
        assert!(placed.takes(&write(&[512, 4096], 1024)));
        assert!(!placed.takes(&write(&[512, 100], 1024)), "a piece that is no block");
        assert!(!placed.takes(&write(&[512], 100)), "it begins within a block");
        assert!(!placed.takes(&Transfer::new(0, 0, Call::Read, 0, 512)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no ioctl")]
    fn a_file_without_placement_support_is_an_error() {
        let result = placed(4096).run(&mut write(&[512], 0), 1);
        assert!(result.is_err(), "{result:?}");
        assert_eq!(namespace_queue_folder(&tempfile::tempfile().unwrap()), None);
    }
}
