//! Purposes of the commands in flight, and failures.

use hostftl_core::DeviceError;

use crate::kit::{self, Life};

/// Maximum number of commands in flight.
pub(super) const OPS: u16 = 1024;

/// Valid blocks of the victim that one command reads: `count` items of a lane from `first` on, into
/// the pages of a row from `slot` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub lane: u8,
    pub first: u8,
    pub count: u8,
    pub row: u16,
    pub slot: u8,
}

/// Purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Executes a part of a read, from a segment of this line, or (`None`) from a row or as zeros.
    Read { req: u16, line: Option<u32> },
    /// Executes a step of a write.
    Write { index: u8 },
    /// Programs a row.
    Row { row: u16 },
    /// Flushes the device for the host.
    Flush,
    /// Erases a segment.
    Reset { segment: u32 },
    /// Programs a strip of map images, or a root.
    Images { segment: u32, strip: u32 },
    /// Flushes the device for a checkpoint.
    Settle,
    /// Programs a part of the list of a line.
    List { segment: u32, strip: u32 },
    /// Flushes the device before the list of a line.
    ListFlush,
    /// Reads a part of the victim's list.
    GcPart,
    /// Reads the tail of a strip of the victim.
    GcTail { lane: u8 },
    /// Reads blocks of the victim into a row.
    GcRead(Moved),
    /// Executes a step of recovery.
    Recover { lane: u8 },
}

/// Context of the parts of this engine. Requests wait for a row number to be durable.
pub(super) type Cx<'a> = kit::Cx<'a, Op, u64>;

/// Ends all writing after a device error.
pub(super) fn fail(error: DeviceError, cx: &mut Cx) {
    cx.counters().device_errors += 1;
    cx.fail(0, error, false);
}

/// Ends recovery with an error. Further errors of reads in flight are not reported.
pub(super) fn fail_volume(why: &'static str, cx: &mut Cx) {
    if cx.life() == Life::Starting {
        cx.fail_volume(why);
    }
}
