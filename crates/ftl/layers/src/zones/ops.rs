//! What the commands of the engine are for, and how its parts fail.

use hostftl_core::DeviceError;

use crate::kit::{self, Life};

/// Commands in flight at once.
pub(super) const OPS: u16 = 1024;

/// Blocks of the victim that are read together: `count` items of a lane, from `first` on, into the
/// pages of a row from `slot` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub lane: u8,
    pub first: u8,
    pub count: u8,
    pub row: u16,
    pub slot: u8,
}

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Part of a read, from a segment of this line or a row in memory, or zeros.
    Read { req: u16, line: Option<u32> },
    /// A step of a write.
    Write { index: u8 },
    /// The program of a row.
    Row { row: u16 },
    /// A flush of the device for the host.
    Flush,
    /// The erase of a segment.
    Reset { segment: u32 },
    /// A strip of images, or of a root.
    Images { segment: u32, strip: u32 },
    /// A flush for the checkpoint.
    Settle,
    /// A part of the list of a line.
    List { segment: u32, strip: u32 },
    /// A flush for that list.
    ListFlush,
    /// A part of the list of the victim.
    GcPart,
    /// The tail of a strip of the victim.
    GcTail { lane: u8 },
    /// Blocks of the victim that go into a row.
    GcRead(Moved),
    /// A step of recovery.
    Recover { lane: u8 },
}

/// What the parts take: requests wait for a row to be durable.
pub(super) type Cx<'a> = kit::Cx<'a, Op, u64>;

/// The device can no longer be trusted with what is written.
pub(super) fn fail(error: DeviceError, cx: &mut Cx) {
    cx.counters().device_errors += 1;
    cx.fail(0, error, false);
}

/// The volume can't be opened; what several reads find is told once.
pub(super) fn give_up(why: &'static str, cx: &mut Cx) {
    if cx.life() == Life::Starting {
        cx.give_up(why);
    }
}
