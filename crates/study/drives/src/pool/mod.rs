//! A pool of flash: pages in segments, a map and garbage collection, as a synchronous structure.
//!
//! Both clocks share it. A write takes effect at once, and its flash operations are passed in order
//! to a sink of the caller. An empty sink costs nothing; a sink that schedules each operation
//! models time with the same decisions.
//!
//! Invariants
//! - A mapped logical page has one physical page, which names it and is valid.
//! - A physical page becomes invalid when its content is overwritten, trimmed or moved, until its
//!   segment is erased. All other programmed pages are valid, and these are the mapped ones.
//! - A segment is free, open (at a write point), sealed, or a victim. Only sealed segments become
//!   victims. A segment that is full is sealed at once.
//! - Pages programmed = host writes + garbage collection copies + wear levelling copies.
//! - `room` is the number of erased pages after the present victims are done. It is at least
//!   [`PoolSpec::aside`] segments when a victim is chosen, and garbage collection gains a page for
//!   each later host write. A write point therefore never runs out of segments.

mod ahead;
mod check;
mod collect;
mod handles;
mod hint;
mod saved;
mod spec;
mod summed;
mod work;

use std::collections::VecDeque;

use collect::{COLD, Victim};
use handles::Handles;
use hostftl_layers::policy::Victims;
pub use hostftl_layers::policy::{Frontiers, GcPolicy, UnknownWord};
pub use saved::LoadError;
pub use spec::{EarlyGc, PoolError, PoolSpec};
pub(crate) use work::bits;
pub use work::{FlashOp, PoolWork, Sink};

/// Number of no page.
const NONE: u32 = u32::MAX;
/// Bits in a word of the table of invalid pages.
const BITS: u32 = u64::BITS;

/// Write point of a stream of writes. It has no open segment if `next` equals `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Frontier {
    /// Page that is programmed next.
    next: u32,
    /// End of the segment.
    end: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Open,
    Sealed,
    Victim,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Pages overwritten, trimmed or moved since the segment was opened.
    stale: u32,
    /// Number of erases.
    erased: u32,
    state: State,
    /// Placement with which it was opened.
    placement: u8,
}

/// A pool of segments with a map and garbage collection.
#[derive(Debug)]
pub struct Pool {
    spec: PoolSpec,
    /// Physical page of each logical page, or [`NONE`].
    map: Vec<u32>,
    /// Logical page that was programmed last to each physical page.
    back: Vec<u32>,
    /// Bit of each physical page, set if it is invalid. The segments start at word boundaries, and
    /// padding bits are set.
    stale: Vec<u64>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// Write points of host writes, one for each placement, then those of copies.
    frontiers: Vec<Frontier>,
    policy: Victims,
    /// Victim of garbage collection, and the cold segment that is being moved.
    victims_now: [Victim; 2],
    /// Start of the next search for cold segments.
    look: u32,
    /// Highest number of erases of a segment.
    worn: u32,
    room: u32,
    /// Pages kept out of circulation. Garbage collection must gain pages while `room` is not above
    /// this.
    aside: u32,
    /// Garbage collection runs while `room` is not above this. It exceeds `aside` by the segments
    /// of early collection.
    start: u32,
    /// Whether the victim was chosen by early collection, and has its pace.
    is_early: bool,
    /// Copies of the previous victim that early collection made ahead of its pace.
    ahead: u32,
    mapped: u64,
    work: PoolWork,
    /// Work for each placement id; `None` if the pool has only one.
    handles: Option<Box<Handles>>,
}

impl Pool {
    /// Makes a pool of erased segments.
    ///
    /// # Errors
    /// The errors of [`PoolSpec::check`].
    pub fn new(spec: PoolSpec) -> Result<Self, PoolError> {
        spec.check()?;
        let erased = Segment { stale: 0, erased: 0, state: State::Free, placement: 0 };
        let mut pool = Pool {
            map: vec![NONE; spec.logical as usize],
            back: vec![NONE; spec.physical() as usize],
            stale: vec![0; spec.segments as usize * spec.pages.div_ceil(BITS) as usize],
            segments: vec![erased; spec.segments as usize],
            free: (0..spec.segments).collect(),
            frontiers: vec![Frontier::default(); spec.open() as usize],
            policy: Victims::new(spec.gc, spec.segments, spec.pages, spec.seed),
            victims_now: [Victim::NO; 2],
            look: 0,
            worn: 0,
            room: spec.segments * spec.pages,
            aside: spec.aside() * spec.pages,
            start: spec.starts_at(),
            is_early: false,
            ahead: 0,
            mapped: 0,
            work: PoolWork::default(),
            handles: Handles::new(spec.logical, spec.placements),
            spec,
        };
        (0..spec.segments).for_each(|segment| pool.clear(segment));
        Ok(pool)
    }

    /// Returns the bytes of all tables of a pool with this spec.
    pub fn memory(spec: &PoolSpec) -> u64 {
        spec.memory()
    }

    /// Returns the spec.
    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Writes a logical page with placement 0 and passes the flash operations to `sink`.
    ///
    /// # Panics
    /// When there is no such page.
    #[inline]
    pub fn write(&mut self, logical: u32, sink: &mut impl Sink) {
        self.write_to(logical, 0, sink);
    }

    /// Writes a logical page with a placement and passes the flash operations to `sink`. A
    /// placement beyond the pool's number of placements counts as the last one.
    ///
    /// The victim of garbage collection advances by at most `⌈L / (P − L)⌉ + burst − 1` copies,
    /// where it had `L` valid pages of `P`, and wear levelling by at most `burst`. Only a policy
    /// that picks a victim without invalid pages makes a write wait for `P` copies.
    ///
    /// # Panics
    /// When there is no such page.
    #[inline]
    pub fn write_to(&mut self, logical: u32, placement: u8, sink: &mut impl Sink) {
        if self.room <= self.start {
            self.collect(sink);
        }
        if self.victims_now[COLD].segment != NONE {
            self.move_cold(sink);
        }
        let placement = placement.min(self.spec.placements - 1);
        if let Some(handles) = &mut self.handles {
            handles.wrote(logical, placement);
        }
        let placement = usize::from(placement);
        let page = self.open_frontier(placement).next;
        self.frontiers[placement].next += 1;
        self.work.host += 1;
        self.room -= 1;
        let old = std::mem::replace(&mut self.map[logical as usize], page);
        self.back[page as usize] = logical;
        if old == NONE {
            self.mapped += 1;
        } else {
            self.forget(old);
        }
        sink.take(FlashOp::Program { page });
        self.seal_if_full(placement);
    }

    /// Unmaps a logical page.
    ///
    /// # Panics
    /// When there is no such page.
    pub fn trim(&mut self, logical: u32) {
        let old = std::mem::replace(&mut self.map[logical as usize], NONE);
        if old != NONE {
            self.mapped -= 1;
            self.forget(old);
        }
    }

    /// Returns the physical page of a logical page.
    #[inline]
    pub fn find(&self, logical: u32) -> Option<u32> {
        Some(self.map[logical as usize]).filter(|&page| page != NONE)
    }

    /// Returns the index of a page's word among the invalid bits, its segment, and its bit in the
    /// word.
    #[inline]
    fn bit(&self, page: u32) -> (usize, u32, u32) {
        let index = page / self.spec.pages;
        let within = page - index * self.spec.pages;
        let word = index as usize * self.spec.pages.div_ceil(BITS) as usize;
        (word + (within / BITS) as usize, index, within % BITS)
    }

    /// Returns the work done so far.
    pub fn work(&self) -> PoolWork {
        self.work
    }

    /// Returns the pages programmed for each placement id so far, copies included. The list is
    /// empty if the pool has only one id.
    pub fn programmed_by_placement(&self) -> &[u64] {
        self.handles.as_ref().map_or(&[], |handles| handles.programmed())
    }

    /// Returns the number of logical pages that hold data.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Returns the number of erases of each segment.
    pub fn erased(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|segment| segment.erased)
    }

    /// Returns α: physical pages in circulation divided by mapped pages. Pages set aside are not in
    /// circulation.
    pub fn alpha(&self) -> f64 {
        let circulating = self.spec.physical() - u64::from(self.aside);
        circulating as f64 / self.mapped as f64
    }

    /// Returns the bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let words = self.map.len() + self.back.len() + self.free.capacity();
        let tables = words * size_of::<u32>()
            + self.stale.len() * size_of::<u64>()
            + self.segments.len() * size_of::<Segment>()
            + self.frontiers.len() * size_of::<Frontier>();
        let owners = self.handles.as_ref().map_or(0, |handles| handles.owners.len());
        (tables + owners) as u64 + self.policy.bytes()
    }

    /// Marks a physical page invalid.
    #[inline]
    fn forget(&mut self, page: u32) {
        let (word, index, bit) = self.bit(page);
        self.stale[word] |= 1 << bit;
        let segment = &mut self.segments[index as usize];
        segment.stale += 1;
        if segment.state == State::Sealed {
            self.policy.valid_changed(index, self.spec.pages - segment.stale, self.work.host);
        }
    }

    /// Returns a frontier with at least one page left, after opening a free segment if
    /// necessary.
    #[inline]
    fn open_frontier(&mut self, frontier: usize) -> Frontier {
        if self.frontiers[frontier].next == self.frontiers[frontier].end {
            self.open(frontier);
        }
        self.frontiers[frontier]
    }

    #[cold]
    fn open(&mut self, frontier: usize) {
        let is_cold = frontier >= self.spec.first_cold();
        let free = if is_cold { self.take_worn() } else { self.free.pop_front() };
        let index = free.expect("garbage collection keeps a segment free");
        let placements = usize::from(self.spec.placements);
        let segment = &mut self.segments[index as usize];
        segment.state = State::Open;
        segment.placement = match self.spec.frontiers {
            Frontiers::Separate if frontier >= placements => 0,
            _ => (frontier % placements) as u8,
        };
        let next = index * self.spec.pages;
        self.frontiers[frontier] = Frontier { next, end: next + self.spec.pages };
    }

    #[inline]
    fn seal_if_full(&mut self, frontier: usize) {
        if self.frontiers[frontier].next == self.frontiers[frontier].end {
            self.seal(frontier);
        }
    }

    #[cold]
    fn seal(&mut self, frontier: usize) {
        let Frontier { end, .. } = std::mem::take(&mut self.frontiers[frontier]);
        let index = end / self.spec.pages - 1;
        let segment = &mut self.segments[index as usize];
        segment.state = State::Sealed;
        self.policy.sealed(index, self.spec.pages - segment.stale, self.work.host);
    }

    /// Clears the invalid bits of an erased segment and sets its padding bits.
    fn clear(&mut self, segment: u32) {
        let words = self.spec.pages.div_ceil(BITS);
        let (begin, end) = (segment * words, (segment + 1) * words);
        self.stale[begin as usize..end as usize].fill(0);
        let pad = words * BITS - self.spec.pages;
        if pad > 0 {
            self.stale[end as usize - 1] = u64::MAX << (BITS - pad);
        }
    }
}
