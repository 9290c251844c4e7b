//! Lanes of recovery: concurrent reads of strips and of their tails.
//!
//! Invariants
//! - A lane reads one strip at a time, and may have the next one queued.

use hostftl_core::{Cause, Command, MetaBuf, Page, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::{self, Tail};

use super::layout::Layout;
use super::ops::{Cx, Op};
use crate::kit::metabuf::MetaHome;

/// Maximum number of reads in flight.
pub(super) const LANES: usize = 16;
/// Number of attempts for each read.
const TRIES: u8 = 3;

/// One lane.
#[derive(Debug)]
struct Lane {
    /// Buffer of one strip.
    buf: MetaHome,
    /// Segment and strip that it reads or has read.
    place: (u32, u32),
    /// Segment and strip that it reads next.
    next: Option<(u32, u32)>,
    tries: u8,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    layout: Layout,
    list: [Lane; LANES],
    /// Commands of recovery in flight.
    pending: u32,
}

impl Lanes {
    /// Creates idle lanes.
    pub(super) fn new(layout: &Layout) -> Self {
        let pages = (layout.strip / SECTORS_PER_BLOCK) as usize;
        let lane = |_| Lane { buf: MetaHome::new(pages), place: (0, 0), next: None, tries: 0 };
        Lanes { layout: *layout, list: core::array::from_fn(lane), pending: 0 }
    }

    /// Returns a lane that reads nothing and has nothing queued.
    pub(super) fn idle(&self) -> Option<usize> {
        self.list.iter().position(|it| it.buf.is_home() && it.next.is_none())
    }

    /// Returns the number of commands of recovery in flight.
    pub(super) fn pending(&self) -> u32 {
        self.pending
    }

    /// Returns whether no command is in flight and no lane has anything queued.
    pub(super) fn are_idle(&self) -> bool {
        self.pending == 0 && self.list.iter().all(|it| it.next.is_none())
    }

    /// Sends a command of recovery. `lane` matters only for a command about a strip.
    pub(super) fn submit(&mut self, lane: usize, command: Command, cx: &mut Cx) {
        self.pending += 1;
        cx.submit(Op::Recover { lane: lane as u8 }, command);
    }

    /// Completes a command of recovery.
    pub(super) fn end(&mut self) {
        self.pending = self.pending.checked_sub(1).expect("a command of recovery was sent");
    }

    /// Lends the buffer of an idle lane.
    pub(super) fn lend(&mut self, lane: usize) -> MetaBuf {
        self.list[lane].buf.lend()
    }

    /// Takes back the buffer of a lane.
    pub(super) fn take_back(&mut self, lane: usize, buf: MetaBuf) {
        self.list[lane].buf.take_back(buf);
    }

    /// Reads a strip, or only its tail, into the buffer of a lane.
    pub(super) fn read(&mut self, lane: usize, place: (u32, u32), tail_only: bool, cx: &mut Cx) {
        let buf = self.lend(lane);
        self.list[lane].place = place;
        // A tail is one page, so a scan reads little of each strip.
        let (lba, pages) = if tail_only {
            (self.layout.tail_at(place.0, place.1), 1)
        } else {
            (self.layout.lba(place.0, place.1), self.layout.strip_blocks() + 1)
        };
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device: 0, lba, into, cause: Cause::Checkpoint };
        self.submit(lane, command, cx);
    }

    /// Repeats a failed read. Returns false if all attempts have failed.
    pub(super) fn read_again(&mut self, lane: usize, tail_only: bool, cx: &mut Cx) -> bool {
        let it = &mut self.list[lane];
        it.tries += 1;
        // A read may fail temporarily, and without the page the volume may not open.
        if it.tries == TRIES {
            it.tries = 0;
            return false;
        }
        let place = it.place;
        self.read(lane, place, tail_only, cx);
        true
    }

    /// Resets the attempts after a successful read.
    pub(super) fn read_well(&mut self, lane: usize) {
        self.list[lane].tries = 0;
    }

    /// Returns the segment and strip that a lane has read.
    pub(super) fn place(&self, lane: usize) -> (u32, u32) {
        self.list[lane].place
    }

    /// Returns the pages that a lane has read.
    pub(super) fn pages(&self, lane: usize) -> &[Page] {
        self.list[lane].buf.pages()
    }

    /// Returns the tail in a page of a lane, if it belongs to the place that was read.
    pub(super) fn tail(&self, lane: usize, page: usize) -> Option<Tail> {
        let (segment, strip) = self.place(lane);
        let at = self.layout.tail_at(segment, strip);
        let tail = zones::open(&self.pages(lane)[page], &self.layout.uuid, at)?;
        // The address is part of the checksum; the line is compared as well.
        (tail.line == self.layout.line(segment)).then_some(tail)
    }

    /// Queues the strip before the one that was read, if there is one.
    pub(super) fn step_back(&mut self, lane: usize) {
        let (segment, strip) = self.place(lane);
        self.set_next(lane, strip.checked_sub(1).map(|strip| (segment, strip)));
    }

    /// Sets the strip that a lane reads next.
    pub(super) fn set_next(&mut self, lane: usize, next: Option<(u32, u32)>) {
        self.list[lane].next = next;
    }

    /// Starts the queued reads. Strips that satisfy `is_part` are parts of a list and are read
    /// whole. Returns whether any read was started.
    pub(super) fn read_queued(
        &mut self,
        is_part: impl Fn((u32, u32)) -> bool,
        cx: &mut Cx,
    ) -> bool {
        let mut moved = false;
        for lane in 0..LANES {
            if cx.outputs_left() < 4 {
                return moved;
            }
            if let Some(place) = self.list[lane].next.take() {
                self.read(lane, place, !is_part(place), cx);
                moved = true;
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;
    use crate::kit::cx::trial;

    #[test]
    fn a_lane_scans_backwards_to_the_first_strip() {
        let mut lanes = Lanes::new(&Layout::trial(LayerKind::Pblk, 16, 80, 2));
        trial(|cx| lanes.read(0, (3, 1), true, cx));
        assert_eq!((lanes.idle(), lanes.pending(), lanes.are_idle()), (Some(1), 1, false));
        lanes.end();
        lanes.take_back(0, MetaBuf::new(16));
        lanes.step_back(0);
        assert!(lanes.idle() == Some(1) && !lanes.are_idle(), "it has something to go on with");
        assert!(trial(|cx| lanes.read_queued(|_| false, cx)));
        assert_eq!(lanes.place(0), (3, 0));
        lanes.end();
        lanes.take_back(0, MetaBuf::new(16));
        lanes.step_back(0);
        assert!(lanes.are_idle());
    }

    #[test]
    fn a_read_is_tried_three_times() {
        let mut lanes = Lanes::new(&Layout::trial(LayerKind::Pblk, 16, 80, 2));
        trial(|cx| lanes.read(0, (3, 1), true, cx));
        let mut fails = || {
            lanes.end();
            lanes.take_back(0, MetaBuf::new(16));
            trial(|cx| lanes.read_again(0, true, cx))
        };
        assert_eq!([fails(), fails(), fails()], [true, true, false]);
    }
}
