//! Segments: their states, and the amount of valid data in each.
//!
//! Invariants
//! - A segment is in `free` exactly if it is Free, in `empty` exactly if it is Empty, and offered
//!   as a victim exactly if it is Full, without map images, and not shunned.
//! - `valid` is the sum of the lengths of its records to which the map or the directory points,
//!   each rounded up to the grain.
//! - An empty segment becomes free only when the stripes that invalidate its data are durable and
//!   replay needs none of its own stripes. Until then it may contain the only durable version of a
//!   block. A segment of map images becomes free when a root is durable that was started after it
//!   became empty.

mod age;
mod counts;
mod found;
mod free;
mod reuse;
mod room;
#[cfg(test)]
mod tests;
mod victim;
mod worn;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_format::log::{GRAIN, Place};

use crate::policy::{GcPolicy, Separator, Victims};

use free::Free;

use crate::log::layout::{Layout, Reserves};
use crate::log::params::Params;
use crate::log::stripe::streams::MAP;
use crate::planted::{Bug, planted};
use reuse::Reuse;

/// Number of fill levels by which victims are distinguished.
pub(super) const LEVELS: u32 = 64;

/// Initial clock value, so that data of an earlier life counts as old.
const BEGIN: u64 = 1 << 40;

/// Stream of a segment that an earlier life filled.
const UNKNOWN: u8 = u8::MAX;

/// Empty segments that are searched for one that can be reclaimed.
const LOOK: usize = 16;

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It contains no needed data.
    Free,
    /// A stream fills it or will do so next, or stripes of it are being written.
    Open,
    /// It is completely written.
    Full,
    /// It is being collected.
    Victim,
    /// It has no valid data.
    Empty,
    /// It has no valid data, and a device cannot write it any more.
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    /// Valid grains.
    valid: u32,
    /// Reads in flight.
    reads: u32,
    /// Stripes that are not written yet.
    stripes: u16,
    /// Whether its stream has gone to another segment.
    left: bool,
    /// Whether it contains images of the map.
    of_map: bool,
    /// Stream that fills it, or [`UNKNOWN`].
    stream: u8,
    /// Whether it was collected, but still has valid data that cannot be recovered.
    shunned: bool,
    /// Flaws found in it, at most 255. Its valid data is to be moved.
    flaws: u8,
    level: u8,
    widths: Widths,
    /// Sequence number of its last stripe.
    last: u64,
    /// Mean time at which the host wrote its data, and the number of records.
    written: f64,
    records: u32,
    /// Value of [`Segments::count`] at the start of the last root, if it has changed since.
    counted: u32,
    /// Number of that root.
    counted_at: u32,
}

impl Segment {
    /// Changes the state.
    ///
    /// # Panics
    /// If the states do not follow each other, or the contents forbid it.
    fn go(&mut self, next: State) {
        let fits = match (self.state, next) {
            (State::Free, State::Open) => true,
            (State::Open, State::Full) => self.left && self.stripes == 0 && self.valid > 0,
            (State::Full, State::Victim) => self.may_be_victim(),
            // Data that cannot be moved stays, so the segment becomes Full again instead of Empty
            // when it is settled.
            (State::Victim, State::Open) => true,
            (State::Open | State::Full, State::Empty) => self.valid == 0 && self.stripes == 0,
            (State::Empty, State::Free | State::Retired) => self.valid == 0 && self.reads == 0,
            _ => false,
        };
        assert!(fits, "a segment can't go from {:?} to {next:?}: {self:?}", self.state);
        self.state = next;
    }

    /// Marks a segment as not needed by recovery, which may have claimed it.
    fn found_unused(&mut self, state: State) {
        let claimed = matches!(self.state, State::Free | State::Open);
        assert!(claimed && self.valid == 0 && self.stripes == 0, "the segment is unused: {self:?}");
        self.state = state;
    }

    /// Returns whether it can be collected.
    fn may_be_victim(&self) -> bool {
        self.state == State::Full && !self.of_map && !self.shunned
    }

    /// Returns the valid grains of host data.
    fn for_data(&self) -> u32 {
        if self.of_map { 0 } else { self.valid }
    }
}

/// Numbers of data chunks of a segment's stripes.
#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    /// In its current stripes.
    stripes: u8,
    /// If it were opened now; 0 if it cannot be.
    opens: u8,
    /// Number of devices that have the segment.
    owners: u8,
}

impl Widths {
    /// Returns the widths of a segment on the devices that are not being removed.
    fn new(layout: &Layout, segment: u32) -> Self {
        let opens = layout.width_on(layout.stay, segment) as u8;
        let owners = layout.lengths.owners(layout.devices, segment);
        Widths { stripes: layout.full_width() as u8, opens, owners }
    }
}

/// Segment without valid data.
#[derive(Clone, Copy, Debug)]
struct Empty {
    segment: u32,
    /// Number of roots started before it became empty.
    roots: u64,
    /// Stamp of the last stripe opened before it became empty. The stripes up to it invalidate its
    /// data.
    stamp: u64,
}

/// Durability of stripes and roots that decides whether a segment can be reused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Safe {
    /// All stripes up to this stamp are durable.
    pub stamp: u64,
    /// First stripe that the durable root replays.
    pub replay_from: u64,
}

/// Full segments: their number, the grains that they have space for, and their valid grains.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    count: u64,
    room: u64,
    grains: u64,
}

/// Number of flawed segments, and of flaws in segments that could not be moved.
#[derive(Clone, Copy, Debug, Default)]
struct Flaws {
    segments: u32,
    unrepaired: u64,
}

#[derive(Debug)]
pub(super) struct Segments {
    list: Vec<Segment>,
    free: Free,
    empty: VecDeque<Empty>,
    /// Segments that were not needed when the volume was opened, and must be erased.
    dirty: VecDeque<u32>,
    victims: Victims,
    /// Grains of a segment by the number of data chunks of its stripes.
    rooms: [u32; 17],
    /// Data chunks of the stripes of the widest segments that are opened now.
    width: u8,
    /// Blocks written by the host: the clock of all policies.
    now: u64,
    separator: Separator,
    /// Valid grains of all segments.
    total: u64,
    flaws: Flaws,
    /// Device on which a record was invalidated that its counts did not include.
    disproved: Option<u8>,
    /// Full segments with host data.
    full: Full,
    reuse: Reuse,
    /// Free segments reserved from the host.
    reserves: Reserves,
    /// Stamp of the last stripe opened.
    stamp: u64,
}

fn grains(len: u32) -> u32 {
    len.div_ceil(GRAIN)
}

impl Segments {
    /// Returns segments that are all free.
    pub(super) fn new(layout: &Layout, params: &Params) -> Self {
        let count = layout.segments;
        let segment = Segment {
            state: State::Free,
            valid: 0,
            reads: 0,
            stripes: 0,
            left: false,
            of_map: false,
            stream: UNKNOWN,
            shunned: false,
            flaws: 0,
            level: 0,
            widths: Widths::default(),
            last: 0,
            written: 0.0,
            records: 0,
            counted: 0,
            counted_at: 0,
        };
        let list = (0..count).map(|at| Segment { widths: Widths::new(layout, at), ..segment });
        Segments {
            list: list.collect(),
            free: Free::new(params.order(count), !layout.lengths.are_equal()),
            empty: VecDeque::with_capacity(count as usize),
            dirty: VecDeque::with_capacity(if layout.zoned { count as usize } else { 0 }),
            victims: Victims::new(params.gc, count, LEVELS, 1),
            rooms: core::array::from_fn(|width| match width as u32 {
                width @ 1.. if width <= layout.width() => layout.segment_grains(width),
                _ => 0,
            }),
            width: layout.full_width() as u8,
            now: BEGIN,
            reserves: layout.reserves,
            separator: Separator::with_blocks(
                params.separation,
                layout.reserves.classes,
                layout.blocks,
            ),
            total: 0,
            flaws: Flaws::default(),
            disproved: None,
            full: Full::default(),
            reuse: Reuse::default(),
            stamp: 0,
        }
    }

    /// Returns the memory for segment states, in bytes.
    pub(super) fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        let each = size_of::<Segment>() + size_of::<u32>() + size_of::<Empty>();
        each as u64 * u64::from(layout.segments) + Victims::memory(gc, layout.segments, LEVELS)
    }

    fn at(&mut self, segment: u32) -> &mut Segment {
        &mut self.list[segment as usize]
    }

    /// Returns the state of reuse of empty segments.
    pub(super) fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    /// Returns the state of reuse of empty segments for modification.
    pub(super) fn reuse_mut(&mut self) -> &mut Reuse {
        &mut self.reuse
    }

    /// Returns the number of free segments that can be opened.
    pub(super) fn free(&self) -> u32 {
        self.free.count()
    }

    /// Returns the number of empty segments, which the next root frees.
    pub(super) fn empty(&self) -> u32 {
        self.empty.len() as u32
    }

    /// Returns whether a segment has stripes that are not written yet.
    #[inline]
    pub(super) fn has_stripes(&self, segment: u32) -> bool {
        self.list[segment as usize].stripes > 0
    }

    /// Opens a free segment for a stream.
    pub(super) fn open(&mut self, stream: u8) -> u32 {
        self.reuse.note_opened(stream != MAP);
        let list = &self.list;
        let segment = self.free.take(|at| list[at as usize].widths).expect("a free segment");
        let it = self.at(segment);
        assert!(it.valid == 0 && it.reads == 0 && it.stripes == 0, "a free segment is empty");
        it.go(State::Open);
        it.of_map = stream == MAP;
        (it.stream, it.widths.stripes) = (stream, it.widths.opens);
        it.left = false;
        (it.written, it.records) = (0.0, 0);
        it.shunned = false;
        segment
    }

    /// Notes the stamp of the youngest stripe.
    pub(super) fn set_youngest(&mut self, stamp: u64) {
        assert!(stamp > self.stamp, "stamps ascend from stripe to stripe");
        self.stamp = stamp;
    }

    /// Counts a stripe that was opened in a segment.
    pub(super) fn stripe_opened(&mut self, segment: u32) {
        self.at(segment).stripes += 1;
    }

    /// Counts stripe `seq` of a segment as written.
    pub(super) fn stripe_written(&mut self, segment: u32, seq: u64) {
        let it = self.at(segment);
        assert!(it.state == State::Open && it.stripes > 0, "a written stripe was opened");
        it.stripes -= 1;
        it.last = it.last.max(seq);
        self.settle(segment);
    }

    /// Notes that the stream has left a segment.
    pub(super) fn leave(&mut self, segment: u32) {
        self.at(segment).left = true;
        self.settle(segment);
    }

    /// Makes a segment full or empty once it is completely written.
    pub(super) fn settle(&mut self, segment: u32) {
        let now = self.now;
        let level = self.level(segment);
        let it = self.at(segment);
        if it.state != State::Open || !it.left || it.stripes > 0 {
            return;
        }
        if it.valid == 0 {
            return self.emptied(segment);
        }
        it.go(State::Full);
        it.level = level;
        let it = *it;
        if !it.of_map {
            self.full.count += 1;
            self.full.room += u64::from(self.room(segment));
            self.full.grains += u64::from(it.valid);
        }
        if !it.of_map && !it.shunned {
            self.victims.sealed(segment, level.into(), now);
        }
    }

    fn emptied(&mut self, segment: u32) {
        let (stream, age) = (self.list[segment as usize].stream, self.age(segment));
        self.separator.emptied(stream, age);
        self.at(segment).go(State::Empty);
        self.clear_flaws(segment);
        self.reuse.change();
        // The stripes opened so far invalidate its data, so reuse waits until they are durable.
        self.empty.push_back(Empty { segment, roots: self.reuse.roots(), stamp: self.stamp });
    }

    /// Counts a record to which the map points now.
    #[inline]
    pub(super) fn add(&mut self, segment: u32, place: Place) {
        self.freeze(segment);
        self.grow(segment, place);
    }

    /// Counts a record to which the map does not point any more.
    pub(super) fn kill(&mut self, segment: u32, place: Place) {
        self.freeze(segment);
        let grains = self.shrink(segment, place);
        let it = self.list[segment as usize];
        if it.state != State::Full {
            return;
        }
        self.full.grains -= if it.of_map { 0 } else { u64::from(grains) };
        if !it.of_map && it.valid == 0 {
            self.full.count -= 1;
            self.full.room -= u64::from(self.room(segment));
        }
        let (valid, offered, old) = (it.valid, !it.of_map && !it.shunned, it.level);
        if valid == 0 {
            if offered {
                self.victims.freed(segment);
            }
            return self.emptied(segment);
        }
        if self.is_below(segment, old) {
            let level = self.level(segment);
            self.at(segment).level = level;
            if offered {
                self.victims.valid_changed(segment, level.into(), self.now);
            }
        }
    }

    /// Pins a segment for a read.
    pub(super) fn pin(&mut self, segment: u32) {
        self.at(segment).reads += 1;
    }

    /// Unpins a segment after a read.
    pub(super) fn unpin(&mut self, segment: u32) {
        assert!(self.at(segment).reads > 0, "a finished read was started");
        self.at(segment).reads -= 1;
        self.rests(segment);
    }

    /// Notes that no command to a segment is in flight.
    pub(super) fn rests(&mut self, segment: u32) {
        if self.list[segment as usize].reads == 0 {
            self.reuse.change();
        }
    }

    /// Returns whether an empty segment is not needed by reads, by replay, or for the durable
    /// version of its blocks.
    fn is_needless(&self, empty: &Empty, safe: Safe, is_filled: impl Fn(u32) -> bool) -> bool {
        let it = &self.list[empty.segment as usize];
        let behind_root = self.reuse.is_behind_root(empty.roots);
        // Without a later root, durable stripes must invalidate its data, and replay must not need
        // its own.
        let known = empty.stamp <= safe.stamp && it.last < safe.replay_from;
        let early = planted(Bug::SegmentBeforeRoot);
        it.reads == 0 && !is_filled(empty.segment) && (behind_root || known && !it.of_map || early)
    }

    /// Takes the next segment that is not needed and to which no zeros are being written.
    pub(super) fn reclaim(&mut self, safe: Safe, is_filled: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(segment) = self.dirty.pop_front() {
            return Some(segment);
        }
        let fits = |empty: &Empty| self.is_needless(empty, safe, &is_filled);
        let at = self.empty.iter().take(LOOK).position(fits)?;
        self.empty.remove(at).map(|empty| empty.segment)
    }

    /// Returns the stamp of the last stripe whose durability would free empty segments, if any wait
    /// only for that.
    pub(super) fn awaited(&self, safe: Safe, is_filled: impl Fn(u32) -> bool) -> Option<u64> {
        let all = Safe { stamp: u64::MAX, ..safe };
        let fits = |empty: &&Empty| self.is_needless(empty, all, &is_filled);
        let waits = self.empty.iter().take(LOOK).filter(fits);
        waits.map(|empty| empty.stamp).max()
    }

    /// Makes a reclaimed segment available.
    pub(super) fn release(&mut self, segment: u32) {
        let it = self.at(segment);
        it.go(State::Free);
        self.reuse.change();
        self.set_free(segment);
    }

    /// Returns whether a full segment cannot be collected, because its data is unrecoverable.
    pub(super) fn any_shunned(&self) -> bool {
        self.list.iter().any(|it| it.shunned && it.state == State::Full)
    }

    /// Returns the valid grains of a segment.
    pub(super) fn valid(&self, segment: u32) -> u32 {
        self.list[segment as usize].valid
    }
}
