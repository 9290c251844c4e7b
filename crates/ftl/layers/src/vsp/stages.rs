//! The set of stages: the one being filled, and the order in which stages are listed.
//!
//! Invariants
//! - Stamps are assigned in the order of opening, and stages are listed in the order of stamps.
//! - The stage being filled is not listed yet, or it is dormant: all of its taken slots are listed.
//!   It gets a new stamp when the next slot is taken.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{ArrayVec, Payload};

use super::layout::STAGES;
use super::stage::{Part, Phase, Stage};

/// All stages.
#[derive(Debug)]
pub(crate) struct Stages {
    list: Vec<Stage>,
    /// Stages that are not listed yet, in the order of opening.
    order: VecDeque<u8>,
    filling: Option<u8>,
    /// Whether the filling stage is dormant.
    dormant: bool,
    opened: u64,
    host: u64,
    /// Stamp of the youngest stage with a sector that became invalid by going home.
    moved: u64,
    /// Sector after the last one from the host, and the length of the sequential run that ends
    /// there.
    stream: (u64, u64),
}

impl Stages {
    /// Creates idle stages.
    pub(crate) fn new(buffers: Vec<Payload>) -> Self {
        Stages {
            list: buffers.into_iter().map(Stage::new).collect(),
            order: VecDeque::with_capacity(STAGES as usize),
            filling: None,
            dormant: false,
            opened: 0,
            host: 0,
            moved: 0,
            stream: (0, 0),
        }
    }

    /// Returns a stage.
    pub(crate) fn get(&self, index: u8) -> &Stage {
        &self.list[usize::from(index)]
    }

    /// Returns a stage for modification.
    pub(crate) fn at(&mut self, index: u8) -> &mut Stage {
        &mut self.list[usize::from(index)]
    }

    /// Returns the buffer of a stage.
    pub(crate) fn buffer(&mut self, index: u8) -> &mut Payload {
        self.at(index).buffer()
    }

    /// Returns the number of stages opened so far, which is the stamp of the last one.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Returns the stamp of the youngest stage in which a sector of the host was published.
    pub(crate) fn host(&self) -> u64 {
        self.host
    }

    /// Notes that a sector of the host was published in the stage with `stamp`.
    pub(crate) fn host_published(&mut self, stamp: u64) {
        self.host = self.host.max(stamp);
    }

    /// Notes that a sector of a stage went home and is invalid in memory; the stage may still list
    /// it.
    pub(crate) fn moved_home(&mut self, index: u8) {
        self.moved = self.moved.max(self.get(index).stamp());
    }

    /// Returns whether a stage from `stamp` on may list a sector that the map no longer has.
    pub(crate) fn may_list_moved(&self, stamp: u64) -> bool {
        self.moved >= stamp
    }

    /// Returns an idle stage.
    pub(crate) fn idle(&self) -> Option<u8> {
        self.list.iter().position(|stage| stage.phase() == Phase::Idle).map(|index| index as u8)
    }

    /// Returns the number of idle stages.
    pub(crate) fn idle_count(&self) -> usize {
        self.list.iter().filter(|stage| stage.phase() == Phase::Idle).count()
    }

    /// Opens an idle stage for a superpage, with at most `limit` slots of data.
    pub(crate) fn open(&mut self, index: u8, vsp: u32, limit: u32) {
        self.opened += 1;
        let stamp = self.opened;
        self.at(index).open(vsp, stamp, limit);
        self.order.push_back(index);
    }

    /// Returns the stage being filled.
    pub(crate) fn filling(&self) -> Option<u8> {
        self.filling
    }

    /// Makes an opened stage the one being filled.
    pub(crate) fn fill(&mut self, index: u8) {
        assert!(self.filling.is_none(), "one stage fills at a time");
        self.filling = Some(index);
    }

    /// Returns whether a part of the filling stage is being listed.
    pub(crate) fn is_parting(&self) -> bool {
        self.filling.is_some_and(|index| self.get(index).part() != Part::None)
    }

    /// Returns whether all taken slots of the filling stage are listed.
    pub(crate) fn is_dormant(&self) -> bool {
        self.dormant
    }

    /// Gives a dormant filling stage a new stamp.
    pub(crate) fn wake(&mut self) {
        if let Some(index) = self.filling.filter(|_| self.dormant) {
            self.dormant = false;
            self.opened += 1;
            let stamp = self.opened;
            self.at(index).reopen(stamp);
            self.order.push_back(index);
        }
    }

    /// Notes that the filling stage, which is the oldest, was listed as far as it is filled.
    pub(crate) fn part_listed(&mut self) {
        let front = self.order.pop_front();
        assert!(front.is_some() && front == self.filling, "a part is of the filling stage");
        self.dormant = true;
    }

    /// Closes the stage being filled.
    pub(crate) fn close_filling(&mut self) {
        self.wake();
        let index = self.filling.take().expect("a stage is filling");
        // A stage closed early interrupts the run: later superpages are no longer aligned with it.
        if self.get(index).room() > 0 {
            self.stream.1 = 0;
        }
        self.at(index).close();
    }

    /// Returns whether `lsn` continues a sequential run of at least `sectors` sectors that filled
    /// their stages.
    pub(crate) fn streams(&self, lsn: u64, sectors: u32) -> bool {
        let (end, len) = self.stream;
        end == lsn && len >= sectors.into()
    }

    /// Notes that sectors `lsn..end` were put in.
    pub(crate) fn note_stream(&mut self, lsn: u64, end: u64) {
        // A write elsewhere starts a new run.
        let before = if self.stream.0 == lsn { self.stream.1 } else { 0 };
        self.stream = (end, before + end - lsn);
    }

    /// Iterates over the unlisted stages that expect no more data, oldest first, up to the first
    /// stage that does.
    pub(crate) fn settled(&self) -> impl Iterator<Item = u8> {
        let over = |index: &u8| {
            let stage = self.get(*index);
            stage.phase() != Phase::Filling && stage.placing() == 0
        };
        // Stages are listed in the order of opening, so one that still fills holds back the later
        // ones.
        self.order.iter().copied().take_while(over)
    }

    /// Returns whether any of the sectors `lsn..end` is in a stage that goes home and is not listed
    /// yet.
    pub(crate) fn is_homing(&self, lsn: u64, end: u64) -> bool {
        self.order.iter().any(|index| {
            // A homing stage is one logical superpage, so its first sector gives the range.
            let stage = self.get(*index);
            let homing = matches!(stage.phase(), Phase::Homing | Phase::Homed);
            let first = if homing { stage.sector(0) } else { None };
            first.is_some_and(|first| first < end && lsn < first + u64::from(stage.fill()))
        })
    }

    /// Returns the oldest stage that is not listed yet.
    pub(crate) fn front(&self) -> Option<u8> {
        self.order.front().copied()
    }

    /// Returns the number of stages that are not listed yet.
    pub(crate) fn waiting(&self) -> usize {
        self.order.len()
    }

    /// Notes that the oldest unlisted stage was listed.
    pub(crate) fn front_listed(&mut self) {
        let front = self.order.pop_front();
        assert!(front != self.filling, "a listed stage is closed");
    }

    /// Iterates over the superpages of the stages that are not listed completely.
    pub(crate) fn queued(&self) -> impl ExactSizeIterator<Item = u32> + Clone + use<> {
        let dormant = self.filling.filter(|_| self.dormant);
        let all = self.order.iter().copied().chain(dormant);
        all.map(|index| self.get(index).vsp())
            .collect::<ArrayVec<_, { STAGES as usize }>>()
            .into_iter()
    }

    /// Removes the sectors `lsn..end` from the listings of unlisted stages from `stamp` on. Returns
    /// the number of slots examined.
    pub(crate) fn forget(&mut self, stamp: u64, (lsn, end): (u64, u64)) -> usize {
        let mut looked = 0;
        for index in &self.order {
            let stage = &mut self.list[usize::from(*index)];
            // Older stages keep theirs: they are listed earlier, so the newer copy wins in replay.
            if stage.stamp() >= stamp {
                looked += stage.fill() as usize;
                stage.forget(lsn, end);
            }
        }
        looked
    }

    /// Returns the number of commands in flight that bring data.
    pub(crate) fn placing(&self) -> u32 {
        self.list.iter().map(Stage::placing).sum()
    }

    /// Discards the payloads at a power cut.
    pub(crate) fn void(&mut self) {
        self.list.iter_mut().for_each(Stage::void);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_listed_in_opening_order() {
        let buffers = (0..3).map(|key| Payload::issue(key, 16)).collect();
        let mut stages = Stages::new(buffers);
        stages.open(1, 40, 16);
        stages.fill(1);
        stages.open(0, 41, 16);
        assert_eq!((stages.opened(), stages.idle(), stages.idle_count()), (2, Some(2), 1));
        assert_eq!(stages.queued().collect::<Vec<_>>(), [40, 41]);
        stages.close_filling();
        assert_eq!((stages.front(), stages.filling()), (Some(1), None));
        stages.front_listed();
        assert_eq!((stages.front(), stages.waiting()), (Some(0), 1));
        stages.void();
    }

    #[test]
    #[should_panic(expected = "a listed stage is closed")]
    fn the_filling_stage_is_not_listed() {
        let mut stages = Stages::new((0..2).map(|key| Payload::issue(key, 16)).collect());
        stages.open(0, 40, 16);
        stages.fill(0);
        stages.front_listed();
    }
}
