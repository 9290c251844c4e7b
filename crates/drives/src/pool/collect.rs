//! Collection and wear levelling, a few copies with each host write.
//!
//! A victim with `L` live pages of `P` gains `P − L` pages. Its copies are spread evenly over as many
//! host writes, so that it is erased just when what it gains is needed: the host never waits for a
//! whole victim, and what is spread is counted in host writes, so every clock does the same.

use super::{BITS, FlashOp, Frontiers, Pool, State};

/// Host writes for each copy of levelling: it adds at most a fourth to write amplification.
const WRITES_PER_MOVE: u32 = 4;
/// Segments that are looked at for coldness whenever a victim is chosen.
const LOOK: u32 = 64;

/// A segment whose live pages are being moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    pub segment: u32,
    /// Pages before this word of the segment's stale bits are all stale.
    pub word: u32,
    /// So many copies are made ...
    pub copies: u32,
    /// ... for so many host writes.
    pub writes: u32,
    /// Copies that are due, in parts of `writes`.
    pub due: u32,
    /// Pages moved so far.
    pub moved: u32,
}

impl Victim {
    fn new(segment: u32, copies: u32, writes: u32) -> Self {
        Victim { segment, word: 0, copies, writes, due: 0, moved: 0 }
    }
}

impl Pool {
    /// Goes on with the victim, or chooses one.
    #[inline]
    pub(super) fn collect(&mut self, sink: &mut impl FnMut(FlashOp)) {
        let victim = match self.victim.take() {
            Some(victim) => victim,
            None => match self.choose(sink) {
                Some(victim) => victim,
                None => return,
            },
        };
        let (victim, moved) = self.advance(victim, sink);
        self.work.copies += u64::from(moved);
        self.victim = victim;
    }

    /// Goes on with the cold segment.
    pub(super) fn move_cold(&mut self, sink: &mut impl FnMut(FlashOp)) {
        let Some(cold) = self.cold.take() else { return };
        let (cold, moved) = self.advance(cold, sink);
        self.work.levelled += u64::from(moved);
        self.cold = cold;
    }

    /// The next victim that has both live and stale pages. One without live pages is erased, which
    /// is gain enough; one without stale pages is moved, which gains nothing.
    #[cold]
    fn choose(&mut self, sink: &mut impl FnMut(FlashOp)) -> Option<Victim> {
        let pages = self.spec.pages;
        self.look_for_cold();
        loop {
            let segments = &self.segments;
            let live = |index: u32| pages - segments[index as usize].stale;
            let segment = self.victims.pick(self.work.host, live).expect("stale pages are sealed");
            let (live, stale) = (live(segment), pages - live(segment));
            self.begin(segment);
            let victim = Victim::new(segment, live, stale);
            if live == 0 {
                self.erase(victim, sink);
                return None;
            }
            if stale > 0 {
                return Some(victim);
            }
            let all = Victim { due: pages, writes: 1, ..victim };
            let (rest, moved) = self.advance(all, sink);
            assert_eq!((rest, moved), (None, pages), "a full victim is moved at once");
            self.work.copies += u64::from(moved);
        }
    }

    fn begin(&mut self, segment: u32) {
        self.victims.freed(segment);
        self.segments[segment as usize].state = State::Victim;
    }

    /// Makes the copies that one more host write makes due, and erases what has no live page left.
    /// Gives the victim back unless it is erased, and how many pages were moved.
    #[inline]
    fn advance(
        &mut self,
        mut victim: Victim,
        sink: &mut impl FnMut(FlashOp),
    ) -> (Option<Victim>, u32) {
        let (pages, segment) = (self.spec.pages, victim.segment as usize);
        let before = victim.moved;
        victim.due += victim.copies;
        while victim.due >= victim.writes && self.segments[segment].stale < pages {
            victim.due -= victim.writes;
            self.move_page(&mut victim, sink);
        }
        let moved = victim.moved - before;
        if self.segments[segment].stale == pages {
            self.erase(victim, sink);
            return (None, moved);
        }
        (Some(victim), moved)
    }

    /// Moves the first live page of a victim that has one.
    #[inline]
    fn move_page(&mut self, victim: &mut Victim, sink: &mut impl FnMut(FlashOp)) {
        let (index, pages) = (victim.segment, self.spec.pages);
        let first = index * pages.div_ceil(BITS);
        let mut live = !self.stale[(first + victim.word) as usize];
        while live == 0 {
            victim.word += 1;
            live = !self.stale[(first + victim.word) as usize];
        }
        let within = victim.word * BITS + live.trailing_zeros();
        let from = index * pages + within;
        let placement = usize::from(self.segments[index as usize].placement);
        let frontier = match self.spec.frontiers {
            Frontiers::Shared => placement,
            Frontiers::Separate => usize::from(self.spec.placements),
            Frontiers::Isolated => usize::from(self.spec.placements) + placement,
        };
        let to = self.take(frontier);
        let logical = self.back[from as usize];
        self.back[to as usize] = logical;
        self.map[logical as usize] = to;
        self.mark_stale(index, within);
        victim.moved += 1;
        sink(FlashOp::Copy { from, to });
        self.seal_if_full(frontier);
    }

    #[cold]
    fn erase(&mut self, victim: Victim, sink: &mut impl FnMut(FlashOp)) {
        let index = victim.segment;
        self.clear(index);
        let segment = &mut self.segments[index as usize];
        segment.stale = 0;
        segment.erased += 1;
        segment.state = State::Free;
        self.worn = self.worn.max(segment.erased);
        self.room += self.spec.pages - victim.moved;
        self.work.erases += 1;
        self.free.push_back(index);
        sink(FlashOp::Erase { segment: index });
    }

    /// Finds a segment that was erased too seldom, unless one is being moved.
    fn look_for_cold(&mut self) {
        if self.spec.level == 0 || self.cold.is_some() {
            return;
        }
        for _ in 0..LOOK.min(self.spec.segments) {
            let index = self.look;
            self.look = (index + 1) % self.spec.segments;
            let segment = self.segments[index as usize];
            let lag = self.worn - segment.erased;
            if segment.state == State::Sealed && lag > self.spec.level {
                self.begin(index);
                self.cold = Some(Victim::new(index, 1, WRITES_PER_MOVE));
                return;
            }
        }
    }
}
