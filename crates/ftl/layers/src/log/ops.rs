//! Operations behind the commands of the engine, and the handling of failures.

use hostftl_core::{Cause, DeviceError, Event, MAX_TOUCH, SECTORS_PER_BLOCK, Tally};

use crate::kit::{self, Life};

/// Maximum number of commands in flight.
pub(super) const OPS: u16 = 1024;
/// Of these, reserved for everything except block operations.
pub(super) const OWN_OPS: usize = 512;

/// Maximum number of outputs of one round.
pub(super) const ROUND_OUTPUTS: usize = 24;

/// Operation behind a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Step of a block operation.
    Block { index: u8 },
    /// Read of adjacent records of several block operations.
    JointRead { joint: u8 },
    /// Step of sealing a stripe in memory.
    Seal { stripe: u8 },
    /// Program of a chunk of a stripe; `copy` is the number of the chunk, and of its copy of the
    /// head.
    Chunk { stripe: u8, copy: u8 },
    /// Flush of one device.
    Flush,
    /// Program of a chunk of images.
    Images { chunk: u8 },
    /// Read of the head of the stripe in a lane.
    GcHead { lane: u8 },
    /// Read of a chunk of the stripe in a lane.
    GcRead { lane: u8, chunk: u8 },
    /// Sum from which a chunk of a lane's stripe is rebuilt.
    GcSum { lane: u8 },
    /// Read of the second parity of a lane's stripe, or its comparison with a rebuilt chunk.
    GcSecond { lane: u8 },
    /// Verification of a record of a lane's stripe.
    GcCheck { lane: u8, entry: u16 },
    /// Program of a missing chunk of a lane's stripe.
    GcFill { lane: u8 },
    /// Copy of records of a lane to a stripe.
    GcMove { lane: u8 },
    /// Program of a root on one device.
    Root { device: u8 },
    /// Discard of a segment on one device, before it becomes free.
    Discard { segment: u32 },
    /// Program of zeros in a zone, in a gap or up to its end.
    Fill { segment: u32, device: u8 },
    /// Flush of one device that makes the closing of a segment durable.
    Settle { segment: u32 },
    /// Close of a root zone, or erase of the next one.
    Turn,
    /// Step of recovery.
    Recover { index: u16 },
    /// Read of an image.
    Load { index: u8 },
    /// Read of a chunk from which metadata is rebuilt; `part` is its place in the sum.
    RepairMetadata { part: u8 },
    /// Command of the journal.
    Journal(Part),
    /// Command of a scrub.
    Scrub(Checking),
}

/// Step of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checking {
    /// Read of the head of a stripe.
    Head,
    /// Read of a chunk.
    Chunk(u8),
    /// Verification of a record.
    Record(u16),
    /// Fold of chunks.
    Fold,
    /// Checksum of the computed or the stored parity.
    Sum(u8),
}

/// Step of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Copy of an item of a stripe into the record.
    Copy(u8),
    /// Program of the record.
    Write,
    /// Flush that makes the record durable.
    Flush,
    /// Read of the head of a record.
    Head,
    /// Read of the blocks of a record.
    Data,
    /// Verification of a block.
    Check,
    /// Copy of a block to a new stripe, as this item.
    Restore(u8, u16),
}

// One word, because each command carries one on its way out and back.
const _: () = assert!(size_of::<Op>() == 8, "an operation fits a word");

impl Op {
    /// Returns whether its failure makes further acknowledgements impossible.
    pub(crate) fn changes_media(&self) -> bool {
        matches!(self, Op::Chunk { .. } | Op::Flush | Op::Images { .. } | Op::Root { .. })
    }
}

/// Durability that a request waits for: the host stripes up to this stamp, or the journal up to
/// this moment.
pub(super) type Mark = (u64, u64);

/// Context of a step.
pub(super) type Cx<'a> = kit::Cx<'a, Op, Mark>;

/// Returns whether the step has room for the outputs of a round.
#[inline]
pub(super) fn has_room(cx: &Cx) -> bool {
    cx.outputs_left() >= ROUND_OUTPUTS && cx.touched() <= MAX_TOUCH / 2
}

/// Returns whether the volume is open or opening, and has lost no more devices than parity makes up
/// for.
#[inline]
pub(super) fn works(cx: &Cx) -> bool {
    cx.is_good() && cx.life() != Life::Over
}

/// Fails the volume because of a device that can no longer be trusted with writes.
pub(super) fn fail(device: u8, error: DeviceError, cx: &mut Cx) {
    cx.counters().device_errors += 1;
    if works(cx) {
        cx.fail_one(device, error);
    }
}

/// Counts the sectors of a program by cause.
pub(super) fn count_sent(tally: &Tally, cx: &mut Cx) {
    let counters = cx.counters();
    counters.gc_copied += u64::from(tally.get(Cause::Gc));
    counters.padded += u64::from(tally.get(Cause::Pad));
    counters.map_written += u64::from(tally.get(Cause::Map));
    counters.checkpoint_written += u64::from(tally.get(Cause::Checkpoint));
    counters.journal_written += u64::from(tally.get(Cause::Journal));
}

/// Refuses to open the volume. Only the first reason is reported.
pub(super) fn fail_volume(why: &'static str, cx: &mut Cx) {
    if cx.life() == Life::Starting {
        cx.fail_volume(why);
    }
}

/// Reports unrecoverable blocks.
pub(super) fn report_corrupt(first: u64, blocks: u32, cx: &mut Cx) {
    let lba = first * u64::from(SECTORS_PER_BLOCK);
    let sectors = blocks * SECTORS_PER_BLOCK;
    cx.report(Event::Corrupt { lba, sectors });
}
