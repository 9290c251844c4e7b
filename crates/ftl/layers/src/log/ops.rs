//! What the commands of the engine are for, and how its parts fail.

use hostftl_core::{Cause, DeviceError, Event, MAX_TOUCH, SECTORS_PER_BLOCK, Tally};

use crate::kit::{self, Life};

/// Commands in flight at once.
pub(super) const OPS: u16 = 1024;
/// Of these, kept for everything that is not a block operation.
pub(super) const OWN_OPS: usize = 512;

/// The most outputs that one round of the pump makes.
pub(super) const ROUND_OUTPUTS: usize = 24;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// The step of a block operation.
    Block { index: u8 },
    /// A step of sealing a row in memory.
    Seal { row: u8 },
    /// The program of a chunk of a row; `copy` numbers the head that goes along.
    Chunk { row: u8, copy: u8 },
    /// A flush of one device.
    Flush,
    /// The program of a chunk of images.
    Images { chunk: u8 },
    /// The head of the row in a lane.
    GcHead { lane: u8 },
    /// A chunk of the row in a lane.
    GcRead { lane: u8, chunk: u8 },
    /// The sum from which a chunk of a lane's row is made.
    GcSum { lane: u8 },
    /// The second parity of a lane's row is read, beside the first, or must agree with a chunk.
    GcSecond { lane: u8 },
    /// A record of a lane's row is checked.
    GcCheck { lane: u8, entry: u16 },
    /// The program of a chunk that a device lacks of a lane's row.
    GcFill { lane: u8 },
    /// Records of a lane on their way to a row.
    GcMove { lane: u8 },
    /// The program of a root on one device.
    Root { device: u8 },
    /// One device forgets a segment that is about to be free.
    Discard { segment: u32 },
    /// Zeros in a zone, before what lies behind them or up to its end.
    Fill { segment: u32, device: u8 },
    /// A flush of one device that makes durable that a segment is closed.
    Settle { segment: u32 },
    /// A zone of roots is closed, or the next one is erased.
    Turn,
    /// A step of recovery.
    Recover { index: u16 },
    /// An image on its way into memory.
    Load { index: u8 },
    /// Metadata of another chunk, from which lost metadata is made: which it is of those.
    Salvage { part: u8 },
    /// A command of the journal.
    Journal(Part),
    /// A command of a scrub.
    Scrub(Checking),
}

/// What a command of a scrub was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checking {
    /// The head of a row comes.
    Head,
    /// A chunk of it comes.
    Chunk(u8),
    /// A record is checked.
    Record(u16),
    /// Its chunks are folded together.
    Fold,
    /// What parity should be is checked, and what it is.
    Sum(u8),
}

/// What a command of the journal was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// An item of a row is copied into the record.
    Copy(u8),
    /// The record is written.
    Write,
    /// The record becomes durable.
    Flush,
    /// The head of a record comes.
    Head,
    /// What a record holds comes.
    Data,
    /// A block's record is checked.
    Check,
    /// A block's record goes into a new row, as this item.
    Restore(u8, u16),
}

// One word, because each command has one on its way out and back.
const _: () = assert!(size_of::<Op>() == 8, "an operation is one word");

impl Op {
    /// Whether nothing can be promised any more when it fails.
    pub(crate) fn changes_media(&self) -> bool {
        matches!(self, Op::Chunk { .. } | Op::Flush | Op::Images { .. } | Op::Root { .. })
    }
}

/// What a request waits for that must be durable: the host's rows up to this stamp, or the journal
/// up to this moment.
pub(super) type Mark = (u64, u64);

/// What the parts take.
pub(super) type Cx<'a> = kit::Cx<'a, Op, Mark>;

/// Whether the step has room for what a round makes.
#[inline]
pub(super) fn has_room(cx: &Cx) -> bool {
    cx.room() >= ROUND_OUTPUTS && cx.touched() <= MAX_TOUCH / 2
}

/// Whether no device failed for which parity can't make up, and the volume could be opened.
#[inline]
pub(super) fn works(cx: &Cx) -> bool {
    cx.is_good() && cx.life() != Life::Over
}

/// A device can no longer be trusted with what is written.
pub(super) fn fail(device: u8, error: DeviceError, cx: &mut Cx) {
    cx.counters().device_errors += 1;
    if works(cx) {
        cx.fail_one(device, error);
    }
}

/// Counts why the sectors of a program are written.
pub(super) fn count_sent(tally: &Tally, cx: &mut Cx) {
    let counters = cx.counters();
    counters.gc_copied += u64::from(tally.get(Cause::Gc));
    counters.padded += u64::from(tally.get(Cause::Pad));
    counters.map_written += u64::from(tally.get(Cause::Map));
    counters.checkpoint_written += u64::from(tally.get(Cause::Checkpoint));
    counters.journal_written += u64::from(tally.get(Cause::Journal));
}

/// The volume can't be opened; what several reads find is told once.
pub(super) fn give_up(why: &'static str, cx: &mut Cx) {
    if cx.life() == Life::Starting {
        cx.give_up(why);
    }
}

/// Tells that nothing gives blocks back.
pub(super) fn tell_corrupt(first: u64, blocks: u32, cx: &mut Cx) {
    let lba = first * u64::from(SECTORS_PER_BLOCK);
    let sectors = blocks * SECTORS_PER_BLOCK;
    cx.tell(Event::Corrupt { lba, sectors });
}
