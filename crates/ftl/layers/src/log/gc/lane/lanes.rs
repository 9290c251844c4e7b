//! All lanes: which are in which phase, and in which order their rows lie in the victim.
//!
//! A round asks this several times and mostly finds nothing to be done, so it is known without a
//! look at each lane.
//!
//! Invariants
//! - A phase changes only through here, and each lane is in the set of its kind of phase.
//! - The lanes whose rows count, and whose records move, are in the order of their rows.

use alloc::vec::Vec;

use hostftl_core::{Command, MetaBuf};
use hostftl_format::log::Head;

use crate::kit::shell::Ended;
use crate::log::gc::lane::{Kind, Lane, Phase};
use crate::log::layout::{At, LANES, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::stripe::Stripe;

/// How many kinds of phases there are.
const KINDS: usize = Kind::Filling as usize + 1;

/// Some lanes, as a set of bits; it hands their numbers out in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set(u16);

impl Set {
    const ALL: Set = Set(u16::MAX);

    /// The set with one more.
    #[must_use]
    pub(crate) fn with(self, lane: u8) -> Set {
        Set(self.0 | 1 << lane)
    }

    /// Whether a lane is one of them.
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
    /// Those in each kind of phase.
    kinds: [Set; KINDS],
    /// Those whose rows count, in the order of their rows, and how many.
    order: [u8; LANES],
    count: usize,
}

impl Lanes {
    /// None has a row.
    pub(crate) fn new(layout: &Layout) -> Self {
        const { assert!(LANES == u16::BITS as usize, "a set has a bit for each") };
        let mut kinds = [Set::default(); KINDS];
        kinds[Kind::Idle as usize] = Set::ALL;
        let lanes = (0..LANES as u8).map(|number| Lane::new(number, layout)).collect();
        Lanes { lanes, kinds, order: [0; LANES], count: 0 }
    }

    #[inline]
    fn of(&self, lane: u8) -> &Lane {
        &self.lanes[usize::from(lane)]
    }

    /// A lane, of which records are moved.
    #[inline]
    pub(crate) fn lane(&mut self, lane: u8) -> &mut Lane {
        &mut self.lanes[usize::from(lane)]
    }

    #[inline]
    fn are_in(&self, kind: Kind) -> Set {
        self.kinds[kind as usize]
    }

    /// Does something with a lane that may change its phase.
    #[inline]
    fn change<T>(&mut self, lane: u8, act: impl FnOnce(&mut Lane) -> T) -> T {
        let it = &mut self.lanes[usize::from(lane)];
        let was = it.phase.kind();
        let result = act(it);
        self.changed(lane, was);
        result
    }

    /// The phase of a lane may be of another kind now than it `was`.
    #[inline]
    fn changed(&mut self, lane: u8, was: Kind) {
        let is = self.of(lane).phase.kind();
        if is != was {
            self.kinds[was as usize] = self.are_in(was).without(lane);
            self.kinds[is as usize] = self.are_in(is).with(lane);
        }
    }

    /// Where the row of a lane begins, or would.
    pub(crate) fn at(&self, lane: u8) -> At {
        self.of(lane).at
    }

    /// Whether none has a row.
    #[inline]
    pub(crate) fn are_idle(&self) -> bool {
        self.are_in(Kind::Idle) == Set::ALL
    }

    /// The first that has no row, and whether there are more.
    #[inline]
    pub(crate) fn idle(&self) -> Option<(u8, bool)> {
        let mut idle = self.are_in(Kind::Idle);
        let first = idle.next()?;
        Some((first, idle.next().is_some()))
    }

    /// Those whose heads have come, and do not count yet.
    pub(crate) fn heads(&self) -> impl Iterator<Item = u8> {
        self.are_in(Kind::Head).filter(|lane| self.head(*lane).is_some())
    }

    /// The head of a lane that has come, and does not count yet; whether it came without an error.
    #[inline]
    pub(crate) fn head(&self, lane: u8) -> Option<(&MetaBuf, bool)> {
        self.of(lane).head()
    }

    /// Those whose records are moved, or wait for that.
    pub(crate) fn moving(&self) -> Set {
        self.are_in(Kind::Moving)
    }

    /// The slots of the rows that lanes have.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> {
        self.lanes.iter().filter_map(Lane::slot)
    }

    /// Those whose rows count, in the order of their rows.
    #[inline]
    fn in_order(&self) -> impl Iterator<Item = u8> {
        self.order[..self.count].iter().copied()
    }

    /// The first in the order of rows of which it is found out what is live.
    #[inline]
    pub(crate) fn sifting(&self) -> Option<u8> {
        let sifting = self.are_in(Kind::Sifting);
        if sifting == Set::default() {
            return None;
        }
        self.in_order().find(|lane| sifting.has(*lane))
    }

    /// The lane whose records are moved next: of the first row of which not all is on its way, or,
    /// unless that is so `in_order`, of any that can be moved at once.
    #[inline]
    pub(crate) fn mover(&self, in_order: bool) -> Option<u8> {
        let may = |lane: &&Lane| !lane.has_all_on_its_way() && (in_order || lane.may_move());
        let first = self.in_order().map(|lane| self.of(lane)).find(may)?;
        first.is_moving().then_some(first.number)
    }
}

impl Lanes {
    /// As [`Lane::begin`].
    pub(in crate::log::gc) fn begin(&mut self, lane: u8, at: At) -> MetaBuf {
        self.change(lane, |it| it.begin(at))
    }

    /// As [`Lane::sift_from`]; the row is the last of those that count.
    pub(in crate::log::gc) fn sift_from(&mut self, lane: u8, head: &Head, stripe: Stripe) {
        let last = self.in_order().last();
        let follows = last.is_none_or(|last| self.of(last).seq < head.seq);
        assert!(follows, "rows count in their order");
        self.order[self.count] = lane;
        self.count += 1;
        self.change(lane, |it| it.sift_from(head, stripe));
    }

    /// As [`Lane::begin_ahead`], for a device. False when its chunk can't be made without the head.
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

    /// As [`Lane::fill_from`]; its order does not matter.
    pub(in crate::log::gc) fn fill_from(
        &mut self,
        lane: u8,
        head: &Head,
        device: u8,
        media: &Media,
    ) {
        self.change(lane, |it| it.fill_from(head, device, media));
    }

    /// Whether any has a row of a segment.
    pub(in crate::log::gc) fn have(&self, segment: u32) -> bool {
        self.lanes.iter().any(|lane| !lane.is_idle() && lane.at.segment == segment)
    }

    /// A lane whose row was filled, and whether that went well.
    pub(in crate::log::gc) fn filled(&self) -> Option<(u8, bool)> {
        let mut filling = self.are_in(Kind::Filling);
        filling.find_map(|lane| match self.of(lane).phase {
            Phase::Filling(fill) => fill.over().map(|well| (lane, well)),
            _ => None,
        })
    }

    /// As [`Lane::sift`].
    pub(in crate::log::gc) fn sift(
        &mut self,
        lane: u8,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        self.change(lane, |it| it.sift(media, mapping, cx))
    }

    /// Reads the chunks of a row that have anything live, or makes one from the others.
    #[inline]
    pub(in crate::log::gc) fn pump(
        &mut self,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let to_read = self.are_in(Kind::ToRead);
        let made = self.are_in(Kind::Mending).0 | self.are_in(Kind::Filling).0;
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

    /// As [`Lane::end`].
    pub(in crate::log::gc) fn end(&mut self, lane: u8, mapping: &mut Mapping) -> u64 {
        self.leave_order(lane);
        self.change(lane, |it| it.end(mapping))
    }

    /// The map pages that the lanes behind the mover keep are let go when the mover can't go on: it
    /// may wait for a frame. The lane that is sifting goes on by itself. Whether there were any.
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
        assert!(at.is_none() == out.has(lane), "a row whose records move counts as its head does");
        if let Some(at) = at {
            self.order[at..self.count].rotate_left(1);
            self.count -= 1;
        }
    }

    /// As [`Lane::mend_next`].
    pub(crate) fn mend_next(&mut self, lane: u8, media: &mut Media) -> bool {
        self.change(lane, |it| it.mend_next(media))
    }

    /// As [`Lane::read_done`].
    pub(crate) fn read_done(
        &mut self,
        (lane, chunk): (u8, u8),
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        // Not by `change`: a closure would hold the command once more.
        let was = self.of(lane).phase.kind();
        self.lane(lane).read_done(chunk, command, result, media);
        self.changed(lane, was);
    }

    /// As [`Lane::check_done`].
    pub(crate) fn check_done(
        &mut self,
        (lane, entry): (u8, u16),
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.check_done(entry, command, result, media));
    }

    /// As [`Lane::fill_done`].
    pub(crate) fn fill_done(
        &mut self,
        lane: u8,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.fill_done(command, result, media));
    }

    /// As [`Lane::second_done`].
    pub(crate) fn second_done(
        &mut self,
        lane: u8,
        command: Command,
        result: Ended,
        media: &mut Media,
    ) {
        self.change(lane, |it| it.second_done(command, result, media));
    }

    /// As [`Lane::sum_done`].
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

    /// Lanes of which the first have rows whose heads have come.
    fn with_heads(count: u8) -> Lanes {
        let mut it = Lanes::new(&Layout::example(2));
        for lane in 0..count {
            let buf = it.begin(lane, At::default());
            it.lane(lane).has_head(buf, true);
        }
        it
    }

    fn sift(it: &mut Lanes, lane: u8, seq: u64) {
        it.sift_from(lane, &head(seq), Stripe::new(DeviceSet::first_n(2), 1));
    }

    fn go(it: &mut Lanes, lane: u8, phases: &[Phase]) {
        phases.iter().for_each(|phase| it.change(lane, |lane| lane.go(*phase)));
    }

    const READ: [Phase; 3] =
        [Phase::Reading { asked: false }, Phase::Reading { asked: true }, Phase::Moving];

    #[test]
    fn each_lane_is_where_its_phase_says() {
        let last = LANES as u8 - 1;
        let mut it = with_heads(last);
        assert_eq!((it.idle(), it.are_idle()), (Some((last, false)), false));
        sift(&mut it, 4, 1);
        assert!(it.heads().eq((0..last).filter(|lane| *lane != 4)) && it.sifting() == Some(4));
        go(&mut it, 4, &READ);
        assert!(it.sifting().is_none() && it.moving().eq([4]) && it.slots().count() == LANES - 1);
        it.leave_order(4);
        go(&mut it, 4, &[Phase::Idle]);
        assert_eq!((it.idle(), it.moving().count()), (Some((4, true)), 0));
    }

    #[test]
    fn rows_are_sifted_and_moved_in_their_order_not_that_of_their_lanes() {
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
    #[should_panic(expected = "in their order")]
    fn a_row_before_the_last_does_not_count_any_more() {
        let mut it = with_heads(2);
        sift(&mut it, 0, 8);
        sift(&mut it, 1, 7);
    }
}
