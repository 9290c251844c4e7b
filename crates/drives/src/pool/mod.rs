//! A pool of flash: pages in segments, a map, and collection, as a plain synchronous structure.
//!
//! Both clocks share it. A write happens at once; what the flash would do for it is told, in order,
//! to a sink that the caller supplies. A sink that does nothing costs nothing (counts only), one
//! that schedules each operation makes the same decisions take time.
//!
//! Invariants
//! - A logical page that is mapped lies at one physical page, which names it and is live.
//! - A physical page is stale from when its content was rewritten or trimmed until the erase of its
//!   segment; live is what was programmed and is not stale. Live pages are the mapped ones.
//! - A segment is free, open (a frontier), or sealed; only sealed ones are victims.
//! - Pages programmed = host writes + copies.
//! - A segment stays in reserve whenever no write is under way, so that a victim, which has no more
//!   live pages than a segment has pages, always fits.

mod check;

use std::collections::VecDeque;

use hostftl_layers::policy::Victims;
pub use hostftl_layers::policy::{Frontiers, GcPolicy, UnknownWord};

/// No page, no segment.
const NONE: u32 = u32::MAX;
/// Segments that only collection may open.
const RESERVE: usize = 1;
/// The frontier of host writes.
const HOST: usize = 0;
/// Bits in a word of the table of stale pages.
const BITS: u32 = u64::BITS;

/// What a pool is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Segments, the unit of erasing.
    pub segments: u32,
    /// Pages of a segment.
    pub pages: u32,
    /// Pages that the host can map.
    pub logical: u32,
    /// Which segment is collected.
    pub gc: GcPolicy,
    /// Where copies go.
    pub frontiers: Frontiers,
    /// From this follows every draw of the policy.
    pub seed: u64,
}

/// One thing that the flash does. Pages are numbered through all segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashOp {
    /// A page of the host is programmed.
    Program {
        /// Where.
        page: u32,
    },
    /// Collection moves a page: a read and a program.
    Copy {
        /// What is read.
        from: u32,
        /// What is programmed.
        to: u32,
    },
    /// A segment is erased.
    Erase {
        /// Which.
        segment: u32,
    },
}

/// What a pool did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolWork {
    /// Pages programmed for the host.
    pub host: u64,
    /// Pages that collection copied.
    pub copies: u64,
    /// Segments erased.
    pub erases: u64,
}

impl PoolWork {
    /// What was done since `before`.
    #[must_use]
    pub fn since(&self, before: &PoolWork) -> PoolWork {
        PoolWork {
            host: self.host - before.host,
            copies: self.copies - before.copies,
            erases: self.erases - before.erases,
        }
    }

    /// Pages programmed.
    pub fn programs(&self) -> u64 {
        self.host + self.copies
    }

    /// Pages programmed for each page that the host wrote.
    pub fn waf(&self) -> f64 {
        self.programs() as f64 / self.host as f64
    }
}

#[derive(Clone, Copy, Debug)]
struct Frontier {
    /// The page that is programmed next.
    next: u32,
    /// One past the last page of the segment; 0 when no segment is open.
    end: u32,
}

impl Frontier {
    #[inline]
    fn is_full(&self) -> bool {
        self.next == self.end
    }

    #[inline]
    fn take(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Pages that were rewritten or trimmed since the segment was opened.
    stale: u32,
    /// How often it was erased.
    erased: u32,
    sealed: bool,
}

/// See the module text.
#[derive(Debug)]
pub struct Pool {
    spec: PoolSpec,
    /// For each logical page the physical one, or [`NONE`].
    map: Vec<u32>,
    /// For each physical page the logical one that was programmed there last.
    back: Vec<u32>,
    /// A bit for each physical page; every segment begins a word.
    stale: Vec<u64>,
    segments: Vec<Segment>,
    free: VecDeque<u32>,
    /// The host's, then that of copies, which stays closed when they share.
    frontiers: [Frontier; 2],
    victims: Victims,
    mapped: u64,
    work: PoolWork,
}

impl Pool {
    /// A pool of erased segments.
    ///
    /// # Panics
    /// When the spare pages can't hold the frontiers and the reserve, a segment has less than two
    /// pages, or there are more pages than 32 bits can name.
    pub fn new(spec: PoolSpec) -> Self {
        let physical = u64::from(spec.segments) * u64::from(spec.pages);
        let aside = u64::from(spec.pages) * (Self::aside(&spec) + 1);
        assert!(spec.pages >= 2, "a segment has at least two pages");
        assert!(physical < u64::from(NONE), "{physical} pages are more than a map can name");
        assert!(spec.logical > 0, "a pool exports something");
        assert!(
            u64::from(spec.logical) + aside <= physical,
            "{physical} pages are too few to export {} with {aside} set aside",
            spec.logical
        );
        let words = spec.segments as usize * spec.pages.div_ceil(BITS) as usize;
        Pool {
            map: vec![NONE; spec.logical as usize],
            back: vec![NONE; physical as usize],
            stale: vec![0; words],
            segments: vec![Segment { stale: 0, erased: 0, sealed: false }; spec.segments as usize],
            free: (0..spec.segments).collect(),
            frontiers: [Frontier { next: 0, end: 0 }; 2],
            victims: Victims::new(spec.gc, spec.segments, spec.pages, spec.seed),
            mapped: 0,
            work: PoolWork::default(),
            spec,
        }
    }

    /// Frontiers and reserve, in segments.
    fn aside(spec: &PoolSpec) -> u64 {
        RESERVE as u64 + if spec.frontiers == Frontiers::Separate { 2 } else { 1 }
    }

    /// Writes a logical page; `sink` is told what the flash does for it.
    ///
    /// # Panics
    /// When there is no such page.
    #[inline]
    pub fn write(&mut self, logical: u32, sink: &mut impl FnMut(FlashOp)) {
        if self.frontiers[HOST].is_full() {
            self.make_room(sink);
        }
        let page = self.frontiers[HOST].take();
        self.work.host += 1;
        let old = std::mem::replace(&mut self.map[logical as usize], page);
        self.back[page as usize] = logical;
        if old == NONE {
            self.mapped += 1;
        } else {
            self.forget(old);
        }
        sink(FlashOp::Program { page });
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
    pub fn find(&self, logical: u32) -> Option<u32> {
        Some(self.map[logical as usize]).filter(|&page| page != NONE)
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

    /// α, physical pages in circulation to mapped ones: without the frontiers and the reserve.
    pub fn alpha(&self) -> f64 {
        let circulating = u64::from(self.spec.segments) - Self::aside(&self.spec);
        (circulating * u64::from(self.spec.pages)) as f64 / self.mapped as f64
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        (self.map.len() + self.back.len() + self.free.capacity()) * size_of::<u32>()
            + self.stale.len() * size_of::<u64>()
            + self.segments.len() * size_of::<Segment>()
            + self.victims.bytes()
    }

    /// The content of `page` is not needed any more.
    #[inline]
    fn forget(&mut self, page: u32) {
        let index = page / self.spec.pages;
        let within = page - index * self.spec.pages;
        let word = index * self.spec.pages.div_ceil(BITS) + within / BITS;
        self.stale[word as usize] |= 1 << (within % BITS);
        let segment = &mut self.segments[index as usize];
        segment.stale += 1;
        if segment.sealed {
            self.victims.live_changed(index, self.spec.pages - segment.stale, self.work.host);
        }
    }

    /// Gives the host a page to program: opens a segment, after collection where it must.
    #[cold]
    fn make_room(&mut self, sink: &mut impl FnMut(FlashOp)) {
        while self.frontiers[HOST].is_full() {
            if self.free.len() > RESERVE {
                self.open(HOST);
            } else {
                self.collect(sink);
            }
        }
    }

    /// Seals the segment of a full frontier and opens a free one.
    fn open(&mut self, frontier: usize) {
        let pages = self.spec.pages;
        let Frontier { next, end } = self.frontiers[frontier];
        assert_eq!(next, end, "a frontier moves on when it is full");
        if end > 0 {
            let index = end / pages - 1;
            let segment = &mut self.segments[index as usize];
            segment.sealed = true;
            self.victims.sealed(index, pages - segment.stale, self.work.host);
        }
        let segment = self.free.pop_front().expect("a segment is in reserve");
        let next = segment * pages;
        self.frontiers[frontier] = Frontier { next, end: next + pages };
    }

    /// Copies what is live in a victim, and erases it.
    fn collect(&mut self, sink: &mut impl FnMut(FlashOp)) {
        let (pages, segments) = (self.spec.pages, &self.segments);
        let live = |index: u32| pages - segments[index as usize].stale;
        let victim = self.victims.pick(self.work.host, live).expect("spare pages fill segments");
        let live = live(victim);
        self.victims.freed(victim);
        self.segments[victim as usize].sealed = false;
        let frontier = if self.spec.frontiers == Frontiers::Separate { HOST + 1 } else { HOST };
        let words = pages.div_ceil(BITS);
        let mut copied = 0;
        for word in 0..words {
            let begin = word * BITS;
            let stale = std::mem::take(&mut self.stale[(victim * words + word) as usize]);
            let mut left = !stale & (u64::MAX >> (BITS - BITS.min(pages - begin)));
            copied += left.count_ones();
            while left != 0 {
                let from = victim * pages + begin + left.trailing_zeros();
                left &= left - 1;
                self.copy(from, frontier, sink);
            }
        }
        assert_eq!(copied, live, "collection copies what is live");
        let segment = &mut self.segments[victim as usize];
        segment.stale = 0;
        segment.erased += 1;
        self.work.copies += u64::from(live);
        self.work.erases += 1;
        self.free.push_back(victim);
        sink(FlashOp::Erase { segment: victim });
    }

    /// Moves a live page to a frontier.
    #[inline]
    fn copy(&mut self, from: u32, frontier: usize, sink: &mut impl FnMut(FlashOp)) {
        if self.frontiers[frontier].is_full() {
            self.open(frontier);
        }
        let to = self.frontiers[frontier].take();
        let logical = self.back[from as usize];
        self.back[to as usize] = logical;
        self.map[logical as usize] = to;
        sink(FlashOp::Copy { from, to });
    }
}
