//! Superblocks of devices that replace a member, or return.

use hostftl_format::changes::{self, Coming};
use hostftl_format::superblock::{Superblock, data_window};
use hostftl_io::{Device, IoError};
use uuid::Uuid;

use crate::metadata::claims;
use crate::metadata::roster::{stamp, write_ends};

/// Returns the superblock of a new device of `device_sectors` sectors with index `index`. `newest`
/// is the newest superblock of the other members.
pub(crate) fn replacement(newest: &Superblock, index: u8, device_sectors: u64) -> Superblock {
    changes::replacement(newest, index, coming(newest, index, device_sectors), stamp())
}

/// Returns the superblock of a device of `device_sectors` sectors that holds a complete copy of
/// member `index`. `newest` is the newest superblock of the other members.
pub(crate) fn copy(newest: &Superblock, index: u8, device_sectors: u64) -> Superblock {
    changes::successor(newest, index, coming(newest, index, device_sectors), stamp())
}

fn coming(newest: &Superblock, index: u8, device_sectors: u64) -> Coming {
    let (data_start, data_len) =
        (data_window(device_sectors).0, newest.lengths[usize::from(index)]);
    Coming { uuid: *Uuid::new_v4().as_bytes(), data_start, data_len, device_sectors }
}

/// Returns the superblock of a returning device, which had `own`. `newest` is the newest superblock
/// of the other members.
pub(crate) fn comeback(newest: &Superblock, own: &Superblock) -> Superblock {
    changes::comeback(newest, own, stamp())
}

/// Writes the superblock and the claim of a device, durably.
pub(crate) fn describe(one: &Device, superblock: &Superblock) -> Result<(), IoError> {
    // The claim comes first, so that no other volume takes the part meanwhile.
    claims::make(one, superblock)?;
    write_ends(one, superblock.device_sectors, |at| superblock.emit(at))
}
