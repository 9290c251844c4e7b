//! Joint reads: records that are next to each other in a chunk are read with one command.
//!
//! The blocks of a request were often written together. If each record were read alone, a request
//! would cost many commands, and a flash drive would read the same page several times.
//!
//! Invariants
//! - The buffer of a joint read is lent to its command, then to the commands that expand its
//!   records, or it is idle.
//! - If the command fails, each operation reads its own record, so faults are handled in one place.

use hostftl_core::{ArrayVec, Cause, Command, SECTOR, SECTORS_PER_BLOCK, Target, View};
use hostftl_format::log::Place;

use crate::kit::shell::Ended;
use crate::log::array::Array;
use crate::log::buffers::Buffer;
use crate::log::host::requests::part;
use crate::log::host::{Blocks, Holder, KEPT, Step};
use crate::log::layout::JOINTS;
use crate::log::ops::{Cx, OWN_OPS, Op};
use crate::planted::{Bug, planted};

/// Maximum number of records of a joint read.
const MOST: usize = 16;

/// Progress of a joint read.
#[derive(Debug, Default)]
enum Progress {
    #[default]
    Idle,
    /// The command is in flight.
    Reading,
    /// The command is complete; `well` is whether it succeeded.
    Read { well: bool },
    /// The operations continue without the command, which has not returned.
    Abandoned,
}

#[derive(Debug, Default)]
struct JointRead {
    progress: Progress,
    /// Byte of the device at which the buffer begins.
    from: u64,
    /// Operations that have not continued yet.
    ops: ArrayVec<u8, MOST>,
    /// Number of views of the buffer that are lent to expanding operations.
    lent: u8,
}

/// All joint reads.
#[derive(Debug)]
pub(super) struct JointReads {
    list: [JointRead; JOINTS],
    /// Number of joint reads whose operations may continue.
    read: u8,
}

impl JointReads {
    pub(super) fn new() -> Self {
        JointReads { list: Default::default(), read: 0 }
    }

    /// Returns whether operations may continue.
    #[inline]
    pub(super) fn any_read(&self) -> bool {
        self.read > 0
    }

    fn idle(&self) -> Option<u8> {
        let at = self.list.iter().position(|it| matches!(it.progress, Progress::Idle))?;
        Some(at as u8)
    }

    /// Takes back a view of the buffer of a joint read.
    pub(super) fn repay(&mut self, joint: u8, view: View, array: &mut Array) {
        array.media.buffers.at(Buffer::Joint(joint)).repay(view);
        let it = &mut self.list[usize::from(joint)];
        it.lent -= 1;
        self.end_if_over(joint);
    }

    fn end_if_over(&mut self, joint: u8) {
        let it = &mut self.list[usize::from(joint)];
        if it.ops.is_empty() && it.lent == 0 && matches!(it.progress, Progress::Read { .. }) {
            it.progress = Progress::Idle;
        }
    }
}

impl Blocks {
    /// Reads the records of the next blocks of a request with one command. Returns false if the
    /// next block is read alone.
    pub(super) fn begin_joint(&mut self, req: u16, array: &mut Array, cx: &mut Cx) -> bool {
        let active = cx.requests().at(req);
        let (first, end) = (active.lba + active.cursor, active.lba + active.sectors);
        let kept = KEPT * usize::from(array.layout().parity);
        if end - first <= u64::from(SECTORS_PER_BLOCK)
            || self.free.len() <= kept + MOST
            || cx.commands_left() <= OWN_OPS
        {
            return false;
        }
        let Some(joint) = self.joint.idle() else { return false };
        let block = |sector: u64| sector / u64::from(SECTORS_PER_BLOCK);
        let blocks = block(first)..end.div_ceil(u64::from(SECTORS_PER_BLOCK));
        let records = self.adjacent(blocks, array);
        let [(first, _), .., (last, _)] = records[..] else { return false };
        let sector = SECTOR as u64;
        let from = first.byte() / sector * sector;
        let bytes = (last.byte() + u64::from(last.len())).next_multiple_of(sector) - from;
        let mut ops = ArrayVec::new();
        for (place, crc) in records {
            let (at, sectors) = part(cx.requests().at(req));
            let index = self.begin(req, block(at), (at, sectors), (false, true), array, cx);
            array.media.segments.pin(array.layout().segment_at(place.byte()));
            let it = self.op(index);
            (it.place, it.crc, it.holds) = (place, crc, true);
            (it.holder, it.step) = (Holder::Joint(joint), Step::Reading);
            ops.push(index);
        }
        let into = array.media.buffers.at(Buffer::Joint(joint)).view_mut(0, bytes as u32);
        self.joint.list[usize::from(joint)] =
            JointRead { progress: Progress::Reading, from, ops, lent: 0 };
        let (device, lba, into) = (first.device(), from / sector, Target::Data(into));
        let command = Command::Read { device, lba, into, cause: Cause::Host };
        array.media.devices.submit(Op::JointRead { joint }, command, cx);
        true
    }

    /// Returns the records of the first of these blocks as long as they follow each other in a
    /// chunk that can be read, and as they fit into a buffer.
    fn adjacent(
        &self,
        blocks: core::ops::Range<u64>,
        array: &mut Array,
    ) -> ArrayVec<(Place, u32), MOST> {
        let mut records = ArrayVec::<(Place, u32), MOST>::new();
        for block in blocks.take(MOST) {
            let Some((place, crc)) = array.mapping.pages.pair(block) else { break };
            if place.is_nowhere() || !may_follow(&records, place, array) {
                break;
            }
            let segment = array.layout().segment_at(place.byte());
            if array.output.stripes.holding(place, segment, &array.media.segments).is_some() {
                break;
            }
            records.push((place, crc));
        }
        records
    }

    /// Handles the end of the command of a joint read.
    pub(in crate::log) fn joint_done(
        &mut self,
        joint: u8,
        command: Command,
        ended: Ended,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Data(view), .. } = command else {
            unreachable!("a joint read reads data")
        };
        array.media.buffers.at(Buffer::Joint(joint)).repay_mut(view);
        self.joint.list[usize::from(joint)].progress = Progress::Read { well: ended.is_ok() };
        self.joint.read += 1;
        cx.wake();
    }

    /// Lets the operations of a joint read continue without its command, which is abandoned.
    pub(in crate::log) fn abandon_joint(
        &mut self,
        joint: u8,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        if cx.outputs_left() <= MOST {
            return false;
        }
        let it = &mut self.joint.list[usize::from(joint)];
        let is_free = planted(Bug::JointReused);
        it.progress = if is_free { Progress::Idle } else { Progress::Abandoned };
        for index in core::mem::take(&mut it.ops) {
            self.read_alone(index, array, cx);
        }
        true
    }

    /// Frees the buffer of an abandoned command that is back.
    pub(in crate::log) fn joint_is_back(&mut self, joint: u8) {
        let it = &mut self.joint.list[usize::from(joint)];
        assert!(matches!(it.progress, Progress::Abandoned), "an abandoned read comes back once");
        it.progress = Progress::Idle;
    }

    /// Continues one operation of a joint read that is complete.
    #[inline]
    pub(super) fn pump_joint(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        self.joint.any_read() && self.continue_joint(array, cx)
    }

    fn continue_joint(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let is_read =
            |it: &JointRead| matches!(it.progress, Progress::Read { .. }) && !it.ops.is_empty();
        let joint = self.joint.list.iter().position(is_read).expect("a complete read was counted");
        let it = &mut self.joint.list[joint];
        let Progress::Read { well } = it.progress else { unreachable!("it was found as read") };
        let index = it.ops.pop_at(0).expect("an operation is left");
        let (from, is_last) = (it.from, it.ops.is_empty());
        self.joint.read -= u8::from(is_last);
        if let Some(error) = self.stopped(false, cx) {
            self.op(index).holder = Holder::Scratch;
            self.end_block(index, Some(error), array, cx);
        } else if well {
            self.joint.list[joint].lent += 1;
            let place = self.op(index).place;
            let buffer = array.media.buffers.at(Buffer::Joint(joint as u8));
            let view = buffer.view((place.byte() - from) as u32, place.len());
            self.expand(index, view, array, cx);
        } else {
            self.read_alone(index, array, cx);
        }
        self.joint.end_if_over(joint as u8);
        true
    }

    fn read_alone(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = self.op(index);
        it.holder = Holder::Scratch;
        let device = it.place.device();
        self.read_range(index, (device, 0), Step::Reading, array, cx);
    }
}

/// Returns whether a record can be read together with those before it.
fn may_follow(records: &[(Place, u32)], place: Place, array: &Array) -> bool {
    let sector = SECTOR as u64;
    let lba = |place: Place| place.byte() / sector;
    let [(first, _), ..] = records else {
        return array.media.devices.has_chunk(place.device(), lba(place));
    };
    let (last, _) = records[records.len() - 1];
    let chunk = |place: Place| (place.device(), array.layout().slot_at(lba(place)));
    let end = (place.byte() + u64::from(place.len())).next_multiple_of(sector);
    place.byte() == last.byte() + u64::from(last.len())
        && chunk(place) == chunk(last)
        && end - lba(*first) * sector <= u64::from(array.media.buffers.bytes())
}
