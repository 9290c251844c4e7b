//! All lanes: the phase of each, and the order of their stripes in the victim.
//!
//! A round evaluates this several times and mostly finds no work. Sets of lanes by phase make that
//! evaluation independent of the number of lanes.
//!
//! Invariants
//! - A phase changes only through this module, and each lane is in the set of its kind of phase.
//! - Lanes with an accepted stripe are kept in the order of their stripes.

use alloc::vec::Vec;

use hostftl_core::{Command, MetaBuf};
use hostftl_format::log::Head;

use crate::kit::shell::Ended;
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::gc::lane::{Kind, Lane, Phase};
use crate::log::layout::{At, Layout, MAX_LANES};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;

/// Number of kinds of phases.
const KINDS: usize = Kind::Filling as usize + 1;

/// A set of lanes, as bits. It iterates over their numbers in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(u64);

impl Set {
    /// Returns the set of the first `count` lanes.
    fn first(count: usize) -> Set {
        Set(u64::MAX >> (MAX_LANES - count))
    }

    /// Returns the set with one more lane.
    #[must_use]
    pub(crate) fn with(self, lane: u8) -> Set {
        Set(self.0 | 1 << lane)
    }

    /// Returns whether a lane is in the set.
    #[inline]
    fn has(self, lane: u8) -> bool {
        self.0 >> lane & 1 == 1
    }

    fn without(self, lane: u8) -> Set {
        Set(self.0 & !(1 << lane))
    }
}

impl Iterator for Set {
    type Item = u8;

    #[inline]
    fn next(&mut self) -> Option<u8> {
        let first = self.0.trailing_zeros() as u8;
        self.0 &= self.0.checked_sub(1)?;
        Some(first)
    }
}

#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Vec<Lane>,
    /// The lanes in each kind of phase.
    kinds: [Set; KINDS],
    /// Lanes with accepted stripes, in the order of the stripes, and their number.
    order: [u8; MAX_LANES],
    count: usize,
}

impl Lanes {
    /// Creates lanes without stripes.
    pub(crate) fn new(layout: &Layout) -> Self {
        const { assert!(MAX_LANES == u64::BITS as usize, "the set has a bit per member") };
        let mut kinds = [Set::default(); KINDS];
        kinds[Kind::Idle as usize] = Set::first(layout.lanes());
        let lanes = (0..layout.lanes() as u8).map(|number| Lane::new(number, layout)).collect();
        Lanes { lanes, kinds, order: [0; MAX_LANES], count: 0 }
    }

    #[inline]
    fn get(&self, lane: u8) -> &Lane {
        &self.lanes[usize::from(lane)]
    }

    /// Returns the lane whose records are moved.
    #[inline]
    pub(crate) fn lane(&mut self, lane: u8) -> &mut Lane {
        &mut self.lanes[usize::from(lane)]
    }

    #[inline]
    fn are_in(&self, kind: Kind) -> Set {
        self.kinds[kind as usize]
    }

    /// Runs a function on a lane that may change its phase, and updates the sets.
    #[inline]
    fn change<T>(&mut self, lane: u8, act: impl FnOnce(&mut Lane) -> T) -> T {
        let it = &mut self.lanes[usize::from(lane)];
        let was = it.phase.kind();
        let result = act(it);
        self.changed(lane, was);
        result
    }

    /// Updates the sets for a lane whose phase was of kind `was`.
    #[inline]
    fn changed(&mut self, lane: u8, was: Kind) {
        let is = self.get(lane).phase.kind();
        if is != was {
            self.kinds[was as usize] = self.are_in(was).without(lane);
            self.kinds[is as usize] = self.are_in(is).with(lane);
        }
    }

    /// Returns the start of the stripe of a lane.
    pub(crate) fn at(&self, lane: u8) -> At {
        self.get(lane).at
    }

    /// Returns whether no lane has a stripe.
    #[inline]
    pub(crate) fn are_idle(&self) -> bool {
        self.are_in(Kind::Idle) == Set::first(self.lanes.len())
    }

    /// Returns the first lane without a stripe, and whether there are more.
    #[inline]
    pub(crate) fn idle(&self) -> Option<(u8, bool)> {
        let mut idle = self.are_in(Kind::Idle);
        let first = idle.next()?;
        Some((first, idle.next().is_some()))
    }

    /// Returns the lanes whose heads are complete and not accepted yet.
    pub(crate) fn heads(&self) -> impl Iterator<Item = u8> {
        self.are_in(Kind::Head).filter(|lane| self.head(*lane).is_some())
    }

    /// Returns the head of a lane if it is complete and not accepted yet, and whether it came
    /// without an error.
    #[inline]
    pub(crate) fn head(&self, lane: u8) -> Option<(&MetaBuf, bool)> {
        self.get(lane).head()
    }

    /// Returns the lanes whose records are being moved or wait for that.
    pub(crate) fn moving(&self) -> Set {
        self.are_in(Kind::Moving)
    }

    /// Returns the slots of the stripes of all lanes.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().filter_map(Lane::slot)
    }

    /// Returns the lanes with accepted stripes, in the order of the stripes.
    #[inline]
    fn in_order(&self) -> impl Iterator<Item = u8> {
        self.order[..self.count].iter().copied()
    }

    /// Returns the first lane, in the order of stripes, whose entries are being looked up.
    #[inline]
    pub(crate) fn sifting(&self) -> Option<u8> {
        let sifting = self.are_in(Kind::Sifting);
        if sifting == Set::default() {
            return None;
        }
        self.in_order().find(|lane| sifting.has(*lane))
    }

    /// Returns the lane whose records are moved next. With `in_order`, this is the lane of the
    /// first stripe with unsent records; otherwise any lane with records that can move at once.
    #[inline]
    pub(crate) fn mover(&self, in_order: bool) -> Option<u8> {
        // In order, the first stripe with unsent records blocks the later ones even if it must
        // wait.
        let may = |lane: &&Lane| !lane.has_all_on_its_way() && (in_order || lane.may_move());
        let first = self.in_order().map(|lane| self.get(lane)).find(may)?;
        first.is_moving().then_some(first.number)
    }
}

impl Lanes {
    /// Takes the stripe at `at` for an idle lane and returns the buffer for its head.
    pub(in crate::log::gc) fn begin(&mut self, lane: u8, at: At) -> MetaBuf {
        self.change(lane, |it| it.begin(at))
    }

    /// Accepts the head of a lane and appends its stripe to the order.
    pub(in crate::log::gc) fn sift_from(
        &mut self,
        lane: u8,
        head: &Head,
        placement: ChunkPlacement,
    ) {
        let last = self.in_order().last();
        let follows = last.is_none_or(|last| self.get(last).seq < head.seq);
        assert!(follows, "stripes are counted in order");
        self.order[self.count] = lane;
        self.count += 1;
        self.change(lane, |it| it.sift_from(head, placement));
    }

    /// Starts to rebuild the chunk of a device before the head is known. Returns false if that is
    /// impossible.
    pub(in crate::log::gc) fn begin_ahead(
        &mut self,
        lane: u8,
        at: At,
        device: u8,
        media: &Media,
    ) -> bool {
        let Some(rebuild) = Lane::way_ahead(at, device, media) else { return false };
        self.change(lane, |it| it.begin_ahead(at, rebuild));
        true
    }

    /// Accepts the head of a lane whose stripe is resilvered. Such stripes have no order.
    pub(in crate::log::gc) fn fill_from(
        &mut self,
        lane: u8,
        head: &Head,
        device: u8,
        media: &Media,
    ) {
        self.change(lane, |it| it.fill_from(head, device, media));
    }

    /// Returns whether any lane has a stripe of a segment.
    pub(in crate::log::gc) fn have(&self, segment: u32) -> bool {
        self.lanes.iter().any(|lane| !lane.is_idle() && lane.at.segment == segment)
    }

    /// Returns a lane whose stripe has been resilvered, and whether that succeeded.
    pub(in crate::log::gc) fn filled(&self) -> Option<(u8, bool)> {
        let mut filling = self.are_in(Kind::Filling);
        filling.find_map(|lane| match self.get(lane).phase {
            Phase::Filling(fill) => fill.over().map(|well| (lane, well)),
            _ => None,
        })
    }

    /// Looks up entries of the stripe in the map, as far as the map pages are in memory.
    pub(in crate::log::gc) fn sift(
        &mut self,
        lane: u8,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        self.change(lane, |it| it.sift(media, mapping, cx))
    }

    /// Reads the chunks of a stripe, or performs the next step of a rebuild or a resilver.
    #[inline]
    pub(in crate::log::gc) fn pump(
        &mut self,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let to_read = self.are_in(Kind::ToRead);
        let made = self.are_in(Kind::Rebuilding).0 | self.are_in(Kind::Filling).0;
        let left = Set(to_read.0 | made);
        left != Set::default() && self.pump_some(left, media, mapping, cx)
    }

    fn pump_some(
        &mut self,
        mut left: Set,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        left.any(|lane| self.change(lane, |it| it.pump(media, mapping, cx)))
    }

    /// Ends the stripe of a lane and returns the bytes that it processed.
    pub(in crate::log::gc) fn end(&mut self, lane: u8, mapping: &mut Mapping) -> u64 {
        self.leave_order(lane);
        self.change(lane, |it| it.end(mapping))
    }

    /// Releases the map pages pinned by the lanes behind the mover, which may wait for a frame. The
    /// lane that looks up entries keeps its page, because it proceeds by itself. Returns whether
    /// any page was released.
    pub(crate) fn others_let_go(&mut self, mover: u8, mapping: &mut Mapping) -> bool {
        let sifting = self.are_in(Kind::Sifting).with(mover);
        let mut any = false;
        for lane in self.lanes.iter_mut().filter(|lane| !sifting.has(lane.number)) {
            any |= lane.held.is_some();
            lane.end_keep(mapping);
        }
        any
    }

    fn leave_order(&mut self, lane: u8) {
        let at = self.in_order().position(|it| it == lane);
        let out = Set(self.are_in(Kind::Head).0 | self.are_in(Kind::Filling).0);
        // Lanes that only read a head or resilver were never in the order.
        assert!(at.is_none() == out.has(lane), "a moved stripe is valid as its head is");
        if let Some(at) = at {
            self.order[at..self.count].rotate_left(1);
            self.count -= 1;
        }
    }

    /// Starts to rebuild a bad chunk of a lane. Returns false if there is none or records are left
    /// to move.
    pub(crate) fn rebuild_next(&mut self, lane: u8, media: &mut Media) -> bool {
        self.change(lane, |it| it.rebuild_next(media))
    }

    /// Processes the completed read of a chunk.
    pub(crate) fn read_done(
        &mut self,
        (lane, chunk): (u8, u8),
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        // Does not use `change`: a closure would hold a second copy of the command.
        let was = self.get(lane).phase.kind();
        self.lane(lane).read_done(chunk, command, result, media);
        self.changed(lane, was);
    }

    /// Processes the completed check of a record.
    pub(crate) fn check_done(
        &mut self,
        (lane, entry): (u8, u16),
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.check_done(entry, command, result, media));
    }

    /// Processes the completed write of a device's chunk.
    pub(crate) fn fill_done(
        &mut self,
        lane: u8,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.fill_done(command, result, media));
    }

    /// Processes a completed command on the buffer of the second parity.
    pub(crate) fn second_done(
        &mut self,
        lane: u8,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.second_done(command, result, media));
    }

    /// Processes a completed command on the sum buffer.
    pub(crate) fn sum_done(
        &mut self,
        lane: u8,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.sum_done(command, result, media));
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceSet;

    use super::*;

    fn head(seq: u64) -> Head {
        Head {
            seq,
            durable: 0,
            journal: 0,
            epoch: 0,
            next: 0,
            entries: 0,
            first_sectors: 0,
            last_sectors: 0,
            chunks: 1,
            stream: 0,
            members: 0b11,
            next_members: 0b11,
            lacking: 0,
        }
    }

    /// Creates lanes of which the first `count` have complete heads.
    fn with_heads(count: u8) -> Lanes {
        let mut it = Lanes::new(&Layout::example(2));
        for lane in 0..count {
            let buf = it.begin(lane, At::default());
            it.lane(lane).has_head(buf, true);
        }
        it
    }

    fn sift(it: &mut Lanes, lane: u8, seq: u64) {
        it.sift_from(lane, &head(seq), ChunkPlacement::new(DeviceSet::first_n(2), 1));
    }

    fn go(it: &mut Lanes, lane: u8, phases: &[Phase]) {
        phases.iter().for_each(|phase| it.change(lane, |lane| lane.go(*phase)));
    }

    const READ: [Phase; 3] =
        [Phase::Reading { asked: false }, Phase::Reading { asked: true }, Phase::Moving];

    #[test]
    fn lanes_are_listed_by_phase() {
        let all = Layout::example(2).lanes();
        let last = all as u8 - 1;
        let mut it = with_heads(last);
        assert_eq!((it.idle(), it.are_idle()), (Some((last, false)), false));
        sift(&mut it, 4, 1);
        assert!(it.heads().eq((0..last).filter(|lane| *lane != 4)) && it.sifting() == Some(4));
        go(&mut it, 4, &READ);
        assert!(it.sifting().is_none() && it.moving().eq([4]) && it.slots().count() == all - 1);
        it.leave_order(4);
        go(&mut it, 4, &[Phase::Idle]);
        assert_eq!((it.idle(), it.moving().count()), (Some((4, true)), 0));
    }

    #[test]
    fn stripes_are_processed_in_stripe_order() {
        let mut it = with_heads(3);
        [(2, 7), (0, 8), (1, 9)].iter().for_each(|(lane, seq)| sift(&mut it, *lane, *seq));
        assert_eq!(it.sifting(), Some(2));
        go(&mut it, 0, &READ);
        assert_eq!((it.sifting(), it.mover(true), it.mover(false)), (Some(2), None, Some(0)));
        go(&mut it, 2, &READ);
        assert_eq!((it.sifting(), it.mover(true), it.mover(false)), (Some(1), Some(2), Some(2)));
        it.leave_order(2);
        go(&mut it, 2, &[Phase::Idle]);
        assert_eq!(it.mover(true), Some(0));
    }

    #[test]
    #[should_panic(expected = "counted in order")]
    fn a_stripe_before_the_last_does_not_count_any_more() {
        let mut it = with_heads(2);
        sift(&mut it, 0, 8);
        sift(&mut it, 1, 7);
    }
}
