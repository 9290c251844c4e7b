//! A pool of flash: pages in segments, a map, and collection, as a plain synchronous structure.
//!
//! Both clocks share it. A write happens at once; what the flash would do for it is told, in order,
//! to a sink that the caller supplies. A sink that does nothing costs nothing (counts only), one
//! that schedules each operation makes the same decisions take time.
//!
//! Invariants
//! - A logical page that is mapped lies at one physical page, which names it and is live.
//! - A physical page is stale from when its content was rewritten, trimmed or moved until the erase
//!   of its segment; live is what was programmed and is not stale. Live pages are the mapped ones.
//! - A segment is free, open (a frontier), sealed, or a victim; only sealed ones can become
//!   victims. A frontier that is full is sealed at once.
//! - Pages programmed = host writes + copies of collection + copies of levelling.
//! - `room` is the number of erased pages once the victims under way are done. It is at least
//!   [`PoolSpec::aside`] segments' worth when a victim is chosen, and collection gains a page for
//!   each that the host then writes, so that no frontier ever runs dry.

mod ahead;
mod check;
mod collect;
mod hint;
mod saved;
mod spec;
mod summed;
mod work;

use std::collections::VecDeque;

use collect::{COLD, Victim};
use hostftl_layers::policy::Victims;
pub use hostftl_layers::policy::{Frontiers, GcPolicy, UnknownWord};
pub use saved::LoadError;
pub use spec::{PoolError, PoolSpec};
pub(crate) use work::bits;
pub use work::{FlashOp, PoolWork, Sink};

/// No page.
const NONE: u32 = u32::MAX;
/// Bits in a word of the table of stale pages.
const BITS: u32 = u64::BITS;

/// The open segment of a stream of writes, or none when `next` is `end`.
#[derive(Clone, Copy, Debug, Default)]
struct Frontier {
    /// The page that is programmed next.
    next: u32,
    /// One past the last page of the segment.
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
    /// Pages that were rewritten, trimmed or moved since the segment was opened.
    stale: u32,
    /// How often it was erased.
    erased: u32,
    state: State,
    /// With which placement it was opened.
    placement: u8,
}

/// See the module text.
#[derive(Debug)]
pub struct Pool {
    spec: PoolSpec,
    /// For each logical page the physical one, or [`NONE`].
    map: Vec<u32>,
    /// For each physical page the logical one that was programmed there last.
    back: Vec<u32>,
    /// A bit for each physical page, set in the pad; every segment begins a word.
    stale: Vec<u64>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// Those of host writes, one for each placement, then those of copies.
    frontiers: Vec<Frontier>,
    policy: Victims,
    /// What is being collected, and the cold segment that is being moved.
    victims_now: [Victim; 2],
    /// Where the search for cold segments goes on.
    look: u32,
    /// The most erases of a segment.
    worn: u32,
    room: u32,
    /// Pages kept out of circulation: collection begins when `room` is no more than this.
    aside: u32,
    mapped: u64,
    work: PoolWork,
}

impl Pool {
    /// A pool of erased segments.
    ///
    /// # Errors
    /// As [`PoolSpec::check`].
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
            mapped: 0,
            work: PoolWork::default(),
            spec,
        };
        (0..spec.segments).for_each(|segment| pool.clear(segment));
        Ok(pool)
    }

    /// Bytes of all tables of a pool, known before it is made.
    pub fn memory(spec: &PoolSpec) -> u64 {
        spec.memory()
    }

    /// What it was made from.
    pub fn spec(&self) -> &PoolSpec {
        &self.spec
    }

    /// Writes a logical page, with placement 0; `sink` is told what the flash does for it.
    ///
    /// # Panics
    /// When there is no such page.
    #[inline]
    pub fn write(&mut self, logical: u32, sink: &mut impl Sink) {
        self.write_to(logical, 0, sink);
    }

    /// Writes a logical page with a placement; `sink` is told what the flash does for it. One that
    /// the pool doesn't tell apart counts as the last that it does.
    ///
    /// Collection of a victim with `L` live pages of `P` goes on by at most
    /// `⌈L / (P − L)⌉ + burst − 1` copies, and levelling by at most `burst`. Only a policy that
    /// picks a victim without a stale page makes a write wait for all of its `P` copies.
    ///
    /// # Panics
    /// When there is no such page.
    #[inline]
    pub fn write_to(&mut self, logical: u32, placement: u8, sink: &mut impl Sink) {
        if self.room <= self.aside {
            self.collect(sink);
        }
        if self.victims_now[COLD].segment != NONE {
            self.move_cold(sink);
        }
        let placement = usize::from(placement.min(self.spec.placements - 1));
        let page = self.room_of(placement).next;
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

    /// Forgets a logical page.
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

    /// Where a logical page lies.
    #[inline]
    pub fn find(&self, logical: u32) -> Option<u32> {
        Some(self.map[logical as usize]).filter(|&page| page != NONE)
    }

    /// The word of a page among the stale bits, its segment, and its bit in the word.
    #[inline]
    fn bit(&self, page: u32) -> (usize, u32, u32) {
        let index = page / self.spec.pages;
        let within = page - index * self.spec.pages;
        let word = index as usize * self.spec.pages.div_ceil(BITS) as usize;
        (word + (within / BITS) as usize, index, within % BITS)
    }

    /// What it did so far.
    pub fn work(&self) -> PoolWork {
        self.work
    }

    /// Logical pages that hold data.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// How often each segment was erased.
    pub fn erased(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|segment| segment.erased)
    }

    /// α, physical pages in circulation to mapped ones: without those set aside.
    pub fn alpha(&self) -> f64 {
        let circulating = self.spec.physical() - u64::from(self.aside);
        circulating as f64 / self.mapped as f64
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let words = self.map.len() + self.back.len() + self.free.capacity();
        let tables = words * size_of::<u32>()
            + self.stale.len() * size_of::<u64>()
            + self.segments.len() * size_of::<Segment>()
            + self.frontiers.len() * size_of::<Frontier>();
        tables as u64 + self.policy.bytes()
    }

    /// The content of `page` is not needed any more.
    #[inline]
    fn forget(&mut self, page: u32) {
        let (word, index, bit) = self.bit(page);
        self.stale[word] |= 1 << bit;
        let segment = &mut self.segments[index as usize];
        segment.stale += 1;
        if segment.state == State::Sealed {
            self.policy.live_changed(index, self.spec.pages - segment.stale, self.work.host);
        }
    }

    /// The pages of a frontier that come next, of a free segment when it had none.
    #[inline]
    fn room_of(&mut self, frontier: usize) -> Frontier {
        if self.frontiers[frontier].next == self.frontiers[frontier].end {
            self.open(frontier);
        }
        self.frontiers[frontier]
    }

    #[cold]
    fn open(&mut self, frontier: usize) {
        let is_cold = frontier >= self.spec.first_cold();
        let free = if is_cold { self.take_worn() } else { self.free.pop_front() };
        let index = free.expect("collection keeps a segment free");
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

    /// All pages of an erased segment, but not the pad, can be programmed.
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
