//! Segments: what state each is in, and how much of it is live.
//!
//! Invariants
//! - A segment is in `free` exactly when it is Free, in `empty` exactly when it is Empty, and
//!   offered as a victim exactly when it is Full, none of the map's, and not shunned.
//! - `live` is the sum of the lengths of the records in it to which the map or the directory
//!   points, each rounded up to the grain.
//! - An empty segment is free only when the rows that say so are durable, and none of its own is
//!   replayed: until then it may have the only durable version of something. One of the map's is
//!   free when a root that was begun after it became empty is durable.

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
use crate::log::row::streams::MAP;
use crate::planted::{Bug, planted};
use reuse::Reuse;

/// How finely victims are told apart.
pub(super) const LEVELS: u32 = 64;

/// When the clock begins: what an earlier life wrote is old.
const BEGIN: u64 = 1 << 40;

/// Of a segment that an earlier life filled: nobody knows with what.
const UNKNOWN: u8 = u8::MAX;

/// Empty segments that are looked at for one that is out of use.
const LOOK: usize = 16;

/// What a segment is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing in it counts.
    Free,
    /// A stream fills it, or will do so next, or rows of it are on their way to the devices.
    Open,
    /// Nothing more will be written to it.
    Full,
    /// It is being collected.
    Victim,
    /// Nothing in it is live.
    Empty,
    /// Nothing in it is live, and a device can't write it any more.
    Retired,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    state: State,
    /// In grains.
    live: u32,
    /// Reads under way.
    reads: u32,
    /// Rows that are not on the devices yet.
    rows: u16,
    /// Whether its stream has left it.
    left: bool,
    /// Whether it holds images of the map.
    of_map: bool,
    /// The stream that fills it, or [`UNKNOWN`].
    stream: u8,
    /// Whether it was gone through and has something live still, which nothing can bring back.
    shunned: bool,
    /// Flaws that were found in it, 255 at most: its valid data is to be moved.
    flaws: u8,
    level: u8,
    widths: Widths,
    /// The number of its last row.
    last: u64,
    /// When what it holds was written by the host, in the mean, and of how many records.
    written: f64,
    records: u32,
    /// What [`Segments::count`] was when the last root was begun, if something changed since.
    counted: u32,
    /// That root.
    counted_at: u32,
}

impl Segment {
    /// Goes on in its cycle.
    ///
    /// # Panics
    /// When that is not what comes next, or what is in it forbids it.
    fn go(&mut self, next: State) {
        let fits = match (self.state, next) {
            (State::Free, State::Open) => true,
            (State::Open, State::Full) => self.left && self.rows == 0 && self.live > 0,
            (State::Full, State::Victim) => self.may_be_victim(),
            // What can't be moved stays; a settled segment is Full again, or Empty.
            (State::Victim, State::Open) => true,
            (State::Open | State::Full, State::Empty) => self.live == 0 && self.rows == 0,
            (State::Empty, State::Free | State::Retired) => self.live == 0 && self.reads == 0,
            _ => false,
        };
        assert!(fits, "a segment that is {:?} can't be {next:?} next: {self:?}", self.state);
        self.state = next;
    }

    /// Recovery finds that nothing needs it, although it may have claimed it.
    fn found_unused(&mut self, state: State) {
        let claimed = matches!(self.state, State::Free | State::Open);
        assert!(claimed && self.live == 0 && self.rows == 0, "nothing needs it: {self:?}");
        self.state = state;
    }

    /// Whether collection may go through it.
    fn may_be_victim(&self) -> bool {
        self.state == State::Full && !self.of_map && !self.shunned
    }

    /// Live grains of the host's data.
    fn of_data(&self) -> u32 {
        if self.of_map { 0 } else { self.live }
    }
}

/// Data chunks that the rows of a segment have.
#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    /// Of the rows that are in it.
    rows: u8,
    /// If it were opened now; none where it can't be.
    opens: u8,
    /// How many devices have it.
    owners: u8,
}

impl Widths {
    /// Of a segment that is opened on the devices that stay, or was on all of them.
    fn new(layout: &Layout, segment: u32) -> Self {
        let opens = layout.width_on(layout.stay, segment) as u8;
        let owners = layout.lengths.owners(layout.devices, segment);
        Widths { rows: layout.full_width() as u8, opens, owners }
    }
}

/// A segment in which nothing is live.
#[derive(Clone, Copy, Debug)]
struct Empty {
    segment: u32,
    /// Roots that were begun before.
    roots: u64,
    /// Rows that were opened before: they say that it is empty.
    stamp: u64,
}

/// What must be known of rows and roots before a segment is used again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Safe {
    /// All rows up to this stamp are durable.
    pub stamp: u64,
    /// The durable root replays no row before this one.
    pub replay_from: u64,
}

/// How many they are, the grains that they have room for, and the live ones in them.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    count: u64,
    room: u64,
    grains: u64,
}

/// The flawed segments, and the flaws in segments that could not be moved.
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
    /// Those that nothing needed when the volume was opened, and that have to be erased.
    dirty: VecDeque<u32>,
    victims: Victims,
    /// Grains that a segment has room for, by the data chunks of its rows.
    rooms: [u32; 17],
    /// Data chunks of the rows of the widest segments that are opened now.
    width: u8,
    /// Blocks that the host wrote: the clock of all policies.
    now: u64,
    separator: Separator,
    /// Live grains of all.
    total: u64,
    flaws: Flaws,
    /// A device on which something dies that was not live, by the counts on the devices.
    disproved: Option<u8>,
    /// Full segments with the host's data.
    full: Full,
    reuse: Reuse,
    /// Those of `free` that are kept from the host.
    reserves: Reserves,
    /// Rows that were opened so far.
    stamp: u64,
}

fn grains(len: u32) -> u32 {
    len.div_ceil(GRAIN)
}

impl Segments {
    /// All of them free.
    pub(super) fn new(layout: &Layout, params: &Params) -> Self {
        let count = layout.segments;
        let segment = Segment {
            state: State::Free,
            live: 0,
            reads: 0,
            rows: 0,
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
            separator: Separator::of_blocks(
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

    /// Bytes of what is known of segments.
    pub(super) fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        let each = size_of::<Segment>() + size_of::<u32>() + size_of::<Empty>();
        each as u64 * u64::from(layout.segments) + Victims::memory(gc, layout.segments, LEVELS)
    }

    fn at(&mut self, segment: u32) -> &mut Segment {
        &mut self.list[segment as usize]
    }

    /// When empty ones may be used again.
    pub(super) fn reuse(&self) -> &Reuse {
        &self.reuse
    }

    /// The same, to be changed.
    pub(super) fn reuse_mut(&mut self) -> &mut Reuse {
        &mut self.reuse
    }

    /// How many are free.
    pub(super) fn free(&self) -> u32 {
        self.free.count()
    }

    /// How many are empty, and free after the next root.
    pub(super) fn empty(&self) -> u32 {
        self.empty.len() as u32
    }

    /// Whether rows of it are not on the devices yet.
    #[inline]
    pub(super) fn has_rows(&self, segment: u32) -> bool {
        self.list[segment as usize].rows > 0
    }

    /// Takes a free one for a stream.
    pub(super) fn open(&mut self, stream: u8) -> u32 {
        self.reuse.change();
        let list = &self.list;
        let segment = self.free.take(|at| list[at as usize].widths).expect("a free segment");
        let it = self.at(segment);
        assert!(it.live == 0 && it.reads == 0 && it.rows == 0, "a free segment has nothing");
        it.go(State::Open);
        it.of_map = stream == MAP;
        (it.stream, it.widths.rows) = (stream, it.widths.opens);
        it.left = false;
        (it.written, it.records) = (0.0, 0);
        it.shunned = false;
        segment
    }

    /// The row with this stamp was opened, and is the youngest.
    pub(super) fn set_youngest(&mut self, stamp: u64) {
        assert!(stamp > self.stamp, "stamps go up from row to row");
        self.stamp = stamp;
    }

    /// A row in it was opened.
    pub(super) fn row_opened(&mut self, segment: u32) {
        self.at(segment).rows += 1;
    }

    /// Row `seq` in it is on the devices.
    pub(super) fn row_written(&mut self, segment: u32, seq: u64) {
        let it = self.at(segment);
        assert!(it.state == State::Open && it.rows > 0, "a row that is written had been opened");
        it.rows -= 1;
        it.last = it.last.max(seq);
        self.settle(segment);
    }

    /// Its stream has gone on to another.
    pub(super) fn leave(&mut self, segment: u32) {
        self.at(segment).left = true;
        self.settle(segment);
    }

    /// A segment that is full, or empty, is known as such.
    pub(super) fn settle(&mut self, segment: u32) {
        let now = self.now;
        let level = self.level(segment);
        let it = self.at(segment);
        if it.state != State::Open || !it.left || it.rows > 0 {
            return;
        }
        if it.live == 0 {
            return self.emptied(segment);
        }
        it.go(State::Full);
        it.level = level;
        let it = *it;
        if !it.of_map {
            self.full.count += 1;
            self.full.room += u64::from(self.room(segment));
            self.full.grains += u64::from(it.live);
        }
        if !it.of_map && !it.shunned {
            self.victims.sealed(segment, level.into(), now);
        }
    }

    fn emptied(&mut self, segment: u32) {
        let (stream, age) = (self.list[segment as usize].stream, self.age(segment));
        self.separator.emptied(stream, age);
        self.at(segment).go(State::Empty);
        self.mend(segment);
        self.reuse.change();
        self.empty.push_back(Empty { segment, roots: self.reuse.roots(), stamp: self.stamp });
    }

    /// A record in it is pointed at from now on.
    #[inline]
    pub(super) fn add(&mut self, segment: u32, place: Place) {
        self.freeze(segment);
        self.grow(segment, place);
    }

    /// A record in it is no longer pointed at.
    pub(super) fn kill(&mut self, segment: u32, place: Place) {
        self.freeze(segment);
        let grains = self.shrink(segment, place);
        let it = self.list[segment as usize];
        if it.state != State::Full {
            return;
        }
        self.full.grains -= if it.of_map { 0 } else { u64::from(grains) };
        if !it.of_map && it.live == 0 {
            self.full.count -= 1;
            self.full.room -= u64::from(self.room(segment));
        }
        let (live, offered, old) = (it.live, !it.of_map && !it.shunned, it.level);
        if live == 0 {
            if offered {
                self.victims.freed(segment);
            }
            return self.emptied(segment);
        }
        if self.is_below(segment, old) {
            let level = self.level(segment);
            self.at(segment).level = level;
            if offered {
                self.victims.live_changed(segment, level.into(), self.now);
            }
        }
    }

    /// A read of a segment begins.
    pub(super) fn pin(&mut self, segment: u32) {
        self.at(segment).reads += 1;
    }

    /// A read of a segment is over.
    pub(super) fn unpin(&mut self, segment: u32) {
        assert!(self.at(segment).reads > 0, "a read that ends had begun");
        self.at(segment).reads -= 1;
        self.rests(segment);
    }

    /// Nothing is on its way to a segment any more.
    pub(super) fn rests(&mut self, segment: u32) {
        if self.list[segment as usize].reads == 0 {
            self.reuse.change();
        }
    }

    /// Whether nothing needs the segment: neither a reader, nor replay, nor what is on media.
    fn is_needless(&self, empty: &Empty, safe: Safe, is_filled: impl Fn(u32) -> bool) -> bool {
        let it = &self.list[empty.segment as usize];
        let behind_root = self.reuse.is_behind_root(empty.roots);
        let known = empty.stamp <= safe.stamp && it.last < safe.replay_from;
        let early = planted(Bug::SegmentBeforeRoot);
        it.reads == 0 && !is_filled(empty.segment) && (behind_root || known && !it.of_map || early)
    }

    /// Takes the next segment that is now out of use, and to which no zeros are on their way.
    pub(super) fn reclaim(&mut self, safe: Safe, is_filled: impl Fn(u32) -> bool) -> Option<u32> {
        if let Some(segment) = self.dirty.pop_front() {
            return Some(segment);
        }
        let fits = |empty: &Empty| self.is_needless(empty, safe, &is_filled);
        let at = self.empty.iter().take(LOOK).position(fits)?;
        self.empty.remove(at).map(|empty| empty.segment)
    }

    /// The last of the rows that say of empty segments that they are, if those need nothing but
    /// that these rows become durable.
    pub(super) fn awaited(&self, safe: Safe, is_filled: impl Fn(u32) -> bool) -> Option<u64> {
        let all = Safe { stamp: u64::MAX, ..safe };
        let fits = |empty: &&Empty| self.is_needless(empty, all, &is_filled);
        let waits = self.empty.iter().take(LOOK).filter(fits);
        waits.map(|empty| empty.stamp).max()
    }

    /// A segment out of use may be opened.
    pub(super) fn release(&mut self, segment: u32) {
        let it = self.at(segment);
        it.go(State::Free);
        self.reuse.change();
        self.set_free(segment);
    }

    /// Whether a segment can't be collected because its device can't read it.
    pub(super) fn any_shunned(&self) -> bool {
        self.list.iter().any(|it| it.shunned && it.state == State::Full)
    }

    /// The live grains of a segment.
    pub(super) fn live(&self, segment: u32) -> u32 {
        self.list[segment as usize].live
    }
}
