//! Devices that replace members, and the handover from a member to its copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

use hostftl_format::superblock::Superblock;
use hostftl_io::Reserve;

use crate::metadata::superblocks;

/// A device that replaces a member.
#[derive(Debug)]
pub(crate) struct NewDevice {
    /// Member number.
    pub index: u8,
    /// Content of the device.
    pub content: DeviceContent,
    /// Handle for its superblocks.
    pub reserve: Reserve,
}

/// Content of a new device.
#[derive(Debug)]
pub(crate) enum DeviceContent {
    /// No data; with this length in sectors.
    Nothing(u64),
    /// All data of the member that it replaces; with this length in sectors.
    Everything(u64, Arc<Handover>),
    /// The data that it had when it was lost; with its superblock.
    AllUpTo(Box<Superblock>),
}

impl DeviceContent {
    /// Returns the length of the device in sectors, as recorded in its superblock.
    pub(crate) fn sectors(&self) -> u64 {
        match self {
            DeviceContent::Nothing(sectors) | DeviceContent::Everything(sectors, _) => *sectors,
            DeviceContent::AllUpTo(own) => own.device_sectors,
        }
    }

    /// Returns the new superblock of the device as member `index`. `newest` is that of the others.
    pub(super) fn superblock(&self, newest: &Superblock, index: u8) -> Superblock {
        match self {
            DeviceContent::Nothing(sectors) => superblocks::replacement(newest, index, *sectors),
            DeviceContent::Everything(sectors, _) => superblocks::copy(newest, index, *sectors),
            DeviceContent::AllUpTo(own) => superblocks::comeback(newest, own),
        }
    }
}

/// Progress of writing the superblock of a complete copy, which decides which of two devices is the
/// member. Threads share it.
#[derive(Debug, Default)]
pub(crate) struct Handover(AtomicU8);

const WITHDRAWN: u8 = 1;
const BEGUN: u8 = 2;
const DURABLE: u8 = 3;

impl Handover {
    /// Starts writing the superblock. Returns false when the copy was withdrawn.
    pub(crate) fn begin(&self) -> bool {
        // One atomic step, so that a timeout and the writer's thread cannot both decide.
        self.0.compare_exchange(0, BEGUN, SeqCst, SeqCst).is_ok()
    }

    /// Withdraws the copy. Returns false when its superblock may be written already.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.compare_exchange(0, WITHDRAWN, SeqCst, SeqCst).is_ok()
    }

    /// Records that both copies of the superblock are durable: the new device is the member.
    pub(crate) fn done(&self) {
        self.0.store(DURABLE, SeqCst);
    }

    /// Returns whether the new device is the member.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(SeqCst) == DURABLE
    }
}
