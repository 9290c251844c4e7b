//! Writes that name a placement: to NVMe drives with flexible data placement, through the kernel's
//! passthrough, because its block layer has no way for the hint before 6.16.
//!
//! Invariant
//! - Only a whole namespace is written so: passthrough counts blocks from the namespace's
//!   beginning, whatever part of it a device is.

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

/// `_IOWR('N', 0x49, struct nvme_passthru_cmd64)`: a command whose data are in several places.
const NVME_IOCTL_IO64_CMD_VEC: libc::c_ulong = 0xc050_4e49;
/// The write command, and the directive of its placement.
const WRITE: u8 = 0x01;
const DATA_PLACEMENT: u32 = 2;
/// How long the kernel waits for the drive.
const PATIENCE_MS: u32 = 60_000;
/// Blocks of a command at the most.
const MOST_BLOCKS: u64 = 1 << 16;
/// Places of a command's data at the most.
const MOST_PIECES: usize = 64;
/// `on` switches it on: what it gains is not measured yet.
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

/// A drive that takes placements.
#[derive(Debug)]
pub(crate) struct Placed {
    file: File,
    namespace: u32,
    block: u64,
    /// Bytes of a command at the most.
    most: u64,
    /// What the drive calls the placements.
    identifiers: Vec<u16>,
}

impl Placed {
    /// The way to a device that takes placements and is written past the page cache.
    pub(crate) fn of(device: &Device) -> Option<Arc<Self>> {
        if std::env::var_os(SWITCH).is_none_or(|word| word != "on") || !device.direct().is_on() {
            return None;
        }
        let file = device.as_file()?;
        let queue = queue_of_namespace(file)?;
        let facts = device.nvme()?.facts().ok()?;
        let (namespace, fdp) = (facts.namespace?, facts.fdp.filter(|fdp| fdp.on)?);
        let identifiers: Vec<_> = fdp.placements.iter().map(|it| it.identifier).collect();
        let most = fs::read_to_string(queue.join("max_hw_sectors_kb")).ok()?;
        let most = most.trim().parse::<u64>().ok()? << 10;
        let block = namespace.block_bytes;
        let most = most.min(MOST_BLOCKS * block) / block * block;
        let file = file.try_clone().ok()?;
        let namespace = namespace.number;
        let is_of_use =
            identifiers.len() > 1 && most > 0 && (device.unit() as u64).is_multiple_of(block);
        is_of_use.then(|| Arc::new(Placed { file, namespace, block, most, identifiers }))
    }

    /// How many placements the drive tells apart.
    pub(crate) fn count(&self) -> usize {
        self.identifiers.len()
    }

    /// Whether a transfer can name its placement.
    pub(crate) fn takes(&self, transfer: &Transfer) -> bool {
        let (offset, bytes) = transfer.range();
        let is_whole = |piece: &libc::iovec| (piece.iov_len as u64).is_multiple_of(self.block);
        transfer.call() == Call::Write
            && (offset | bytes).is_multiple_of(self.block)
            && transfer.pieces().iter().all(is_whole)
    }

    /// Writes in this thread, until it is over.
    pub(crate) fn run(&self, transfer: &mut Transfer, placement: u8) -> Result<(), DeviceError> {
        loop {
            if let Some(result) = transfer.absorb(self.write_once(transfer, placement)) {
                return result;
            }
        }
    }

    /// One command: the bytes that were written, or a negative errno.
    fn write_once(&self, transfer: &Transfer, placement: u8) -> i32 {
        let identifier = self.identifiers[usize::from(placement) % self.identifiers.len()];
        let (pieces, bytes) = self.first_pieces(transfer.pieces());
        let (at, blocks) = (transfer.range().0 / self.block, bytes / self.block);
        let mut pass = Passthru {
            opcode: WRITE,
            namespace: self.namespace,
            address: pieces.as_ptr() as u64,
            pieces: pieces.len() as u32,
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
        // SAFETY: the structure is the one of the request; the pieces are valid and ours while the
        // transfer lasts, by its first invariant, and the kernel reads as many bytes as they have.
        let status = unsafe { libc::ioctl(fd, NVME_IOCTL_IO64_CMD_VEC as _, &mut pass) };
        match status {
            0 => i32::try_from(bytes).expect("a command has less than 2 GiB"),
            ..0 => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
            // A status of the drive.
            _ => -libc::EIO,
        }
    }

    /// What one command can take of `all`, and its bytes.
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

/// The queue of the namespace that a file is, whole: no part of it, and nothing that stands on it.
fn queue_of_namespace(file: &File) -> Option<PathBuf> {
    let number = file.metadata().ok()?.rdev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let name = folder.file_name()?.to_str()?.to_owned();
    (name.starts_with("nvme") && !folder.join("partition").exists()).then(|| folder.join("queue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(most: u64) -> Placed {
        let file = tempfile::tempfile().unwrap();
        Placed { file, namespace: 1, block: 512, most, identifiers: vec![0, 3] }
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
    fn a_file_that_is_no_drive_ends_with_an_error() {
        let result = placed(4096).run(&mut write(&[512], 0), 1);
        assert!(result.is_err(), "{result:?}");
        assert_eq!(queue_of_namespace(&tempfile::tempfile().unwrap()), None);
    }
}
