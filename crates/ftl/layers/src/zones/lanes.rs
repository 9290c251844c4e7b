//! The lanes of recovery: reads of strips and of their tails, side by side.
//!
//! Invariants
//! - A lane reads one strip at a time, and may know which it reads next.

use hostftl_core::{Cause, Command, MetaBuf, Page, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::{self, Tail};

use super::layout::Layout;
use super::ops::{Cx, Op};
use crate::kit::metabuf::MetaHome;

/// Reads under way at once.
pub(super) const LANES: usize = 16;
/// How often a read is tried.
const TRIES: u8 = 3;

#[derive(Debug)]
struct Lane {
    /// Of a strip.
    buf: MetaHome,
    /// What it reads, or has read: the segment and the strip.
    place: (u32, u32),
    /// What it reads next, in the segment that it goes through.
    next: Option<(u32, u32)>,
    tries: u8,
}

#[derive(Debug)]
pub(super) struct Lanes {
    layout: Layout,
    list: [Lane; LANES],
    /// Commands of recovery under way.
    pending: u32,
}

impl Lanes {
    /// All are idle.
    pub(super) fn new(layout: &Layout) -> Self {
        let pages = (layout.strip / SECTORS_PER_BLOCK) as usize;
        let lane = |_| Lane { buf: MetaHome::new(pages), place: (0, 0), next: None, tries: 0 };
        Lanes { layout: *layout, list: core::array::from_fn(lane), pending: 0 }
    }

    /// A lane that reads nothing and has nothing to go on with.
    pub(super) fn idle(&self) -> Option<usize> {
        self.list.iter().position(|it| it.buf.is_home() && it.next.is_none())
    }

    /// Commands of recovery under way.
    pub(super) fn pending(&self) -> u32 {
        self.pending
    }

    /// Whether no command is under way, and no lane has anything to go on with.
    pub(super) fn are_idle(&self) -> bool {
        self.pending == 0 && self.list.iter().all(|it| it.next.is_none())
    }

    /// Sends a command of recovery; of a lane, if it is about a strip.
    pub(super) fn submit(&mut self, lane: usize, command: Command, cx: &mut Cx) {
        self.pending += 1;
        cx.submit(Op::Recover { lane: lane as u8 }, command);
    }

    /// A command of recovery is over.
    pub(super) fn end(&mut self) {
        self.pending = self.pending.checked_sub(1).expect("a command of recovery was sent");
    }

    /// Lends the buffer of an idle lane.
    pub(super) fn lend(&mut self, lane: usize) -> MetaBuf {
        self.list[lane].buf.lend()
    }

    /// The buffer of a lane comes back.
    pub(super) fn take_back(&mut self, lane: usize, buf: MetaBuf) {
        self.list[lane].buf.take_back(buf);
    }

    /// Reads the tail of a strip, or the strip, into the buffer of a lane.
    pub(super) fn read(&mut self, lane: usize, place: (u32, u32), tail_only: bool, cx: &mut Cx) {
        let buf = self.lend(lane);
        self.list[lane].place = place;
        let (lba, pages) = if tail_only {
            (self.layout.tail_at(place.0, place.1), 1)
        } else {
            (self.layout.lba(place.0, place.1), self.layout.strip_blocks() + 1)
        };
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device: 0, lba, into, cause: Cause::Checkpoint };
        self.submit(lane, command, cx);
    }

    /// A read failed: reads again, unless it was tried often enough.
    pub(super) fn read_again(&mut self, lane: usize, tail_only: bool, cx: &mut Cx) -> bool {
        let it = &mut self.list[lane];
        it.tries += 1;
        if it.tries == TRIES {
            it.tries = 0;
            return false;
        }
        let place = it.place;
        self.read(lane, place, tail_only, cx);
        true
    }

    /// A read was well.
    pub(super) fn read_well(&mut self, lane: usize) {
        self.list[lane].tries = 0;
    }

    /// What a lane has read: the segment and the strip.
    pub(super) fn place(&self, lane: usize) -> (u32, u32) {
        self.list[lane].place
    }

    /// The pages that it has read.
    pub(super) fn pages(&self, lane: usize) -> &[Page] {
        self.list[lane].buf.pages()
    }

    /// The tail in one of these pages, if it is one of the place that was read.
    pub(super) fn tail(&self, lane: usize, page: usize) -> Option<Tail> {
        let (segment, strip) = self.place(lane);
        let at = self.layout.tail_at(segment, strip);
        let tail = zones::open(&self.pages(lane)[page], &self.layout.uuid, at)?;
        (tail.line == self.layout.line(segment)).then_some(tail)
    }

    /// A lane reads the strip before the one that it has read next, if there is one.
    pub(super) fn look_before(&mut self, lane: usize) {
        let (segment, strip) = self.place(lane);
        self.look_at(lane, strip.checked_sub(1).map(|strip| (segment, strip)));
    }

    /// What a lane reads next.
    pub(super) fn look_at(&mut self, lane: usize, next: Option<(u32, u32)>) {
        self.list[lane].next = next;
    }

    /// Goes on with the lanes that have something to read next; true when there was one. Whole
    /// strips are read where `is_part` of a list.
    pub(super) fn go_on(&mut self, is_part: impl Fn((u32, u32)) -> bool, cx: &mut Cx) -> bool {
        let mut moved = false;
        for lane in 0..LANES {
            if cx.room() < 4 {
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
    fn a_lane_goes_back_strip_by_strip_to_the_first() {
        let mut lanes = Lanes::new(&Layout::trial(LayerKind::Pblk, 16, 80, 2));
        trial(|cx| lanes.read(0, (3, 1), true, cx));
        assert_eq!((lanes.idle(), lanes.pending(), lanes.are_idle()), (Some(1), 1, false));
        lanes.end();
        lanes.take_back(0, MetaBuf::new(16));
        lanes.look_before(0);
        assert!(lanes.idle() == Some(1) && !lanes.are_idle(), "it has something to go on with");
        assert!(trial(|cx| lanes.go_on(|_| false, cx)));
        assert_eq!(lanes.place(0), (3, 0));
        lanes.end();
        lanes.take_back(0, MetaBuf::new(16));
        lanes.look_before(0);
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
