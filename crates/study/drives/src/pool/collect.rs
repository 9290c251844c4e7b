//! Garbage collection and wear levelling: a few copies with each host write.
//!
//! A victim with `L` valid pages of `P` gains `P − L` pages. Its copies are spread evenly over as
//! many host writes, so its erase ends just when the gained pages are needed. The host never waits
//! for a whole victim. The pace is measured in host writes, so every clock makes the same
//! decisions. Copies are made in bursts and ahead of need, as many as the flash executes in
//! parallel.
//!
//! Early collection starts before free space runs out, and makes at most a stated number of copies
//! for each host write. A victim with more valid pages then takes longer, and the free space
//! shrinks meanwhile. When it has run out, the rest of the victim is moved at the necessary pace.
//!
//! Wear levelling moves a segment with few erases, because its data is cold, to write points that
//! open the most worn segments. The cold data rests there, and the segment that it leaves wears
//! like others.

use super::{BITS, EarlyGc, FlashOp, Frontier, Frontiers, NONE, Pool, Sink, State, bits};

/// Host writes for each copy of wear levelling. The copies add at most a quarter to write
/// amplification.
const WRITES_PER_MOVE: u32 = 4;
/// Segments examined for cold data at each choice of a victim.
const LOOK: u32 = 64;

/// A segment whose valid pages are being moved. Fields are accessed one at a time and in place:
/// loading the whole struct just after a store to one field would stall on store forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    /// Segment, or [`NONE`] if there is no victim.
    pub segment: u32,
    /// First word of the segment's invalid bits that may have a valid page.
    pub word: u32,
    /// Copies to make during `writes` host writes.
    pub copies: u32,
    /// Host writes during which `copies` copies are made.
    pub writes: u32,
    /// Copies due, in units of 1/`writes`. Negative if copies were made early.
    pub due: i64,
    /// Pages moved so far.
    pub moved: u32,
}

impl Victim {
    /// Absent victim.
    pub(super) const NO: Victim = Victim::new(NONE, 0, 1);

    const fn new(segment: u32, copies: u32, writes: u32) -> Self {
        Victim { segment, word: 0, copies, writes, due: 0, moved: 0 }
    }
}

/// Index of the garbage collection victim.
pub(super) const GC: usize = 0;
/// Index of the cold segment that wear levelling moves.
pub(super) const COLD: usize = 1;

impl Pool {
    /// Continues with the victim, or chooses one.
    #[inline]
    pub(super) fn collect(&mut self, sink: &mut impl Sink) {
        if self.victims_now[GC].segment != NONE || self.choose(sink) {
            if self.is_early && self.room <= self.aside {
                self.hurry();
            }
            self.work.copies += u64::from(self.advance(GC, sink));
        }
    }

    /// Sets the pace of a victim that was chosen early, so that it is erased just when its free
    /// pages are needed.
    #[cold]
    fn hurry(&mut self) {
        let Victim { segment, moved, .. } = self.victims_now[GC];
        let stale = self.segments[segment as usize].stale;
        // Host writes since the free space ran out have used a part of the gain.
        let writes = (stale - moved + self.room).saturating_sub(self.aside).max(1);
        let victim = &mut self.victims_now[GC];
        (victim.copies, victim.writes, victim.due) = (self.spec.pages - stale, writes, 0);
        self.is_early = false;
    }

    /// Sets the pace of a victim that is chosen early. Copies that were made ahead of the pace of
    /// the previous victim delay it.
    fn limit(&mut self, early: EarlyGc) {
        let victim = &mut self.victims_now[GC];
        let limited = u64::from(early.percent) * u64::from(victim.writes);
        if u64::from(victim.copies) * 100 > limited {
            (victim.copies, victim.writes) = (early.percent, 100);
        }
        victim.due = -i64::from(self.ahead) * i64::from(victim.writes);
        (self.is_early, self.ahead) = (true, 0);
    }

    /// Continues with the cold segment.
    pub(super) fn move_cold(&mut self, sink: &mut impl Sink) {
        self.work.levelled += u64::from(self.advance(COLD, sink));
    }

    /// Chooses the next victim that has both valid and invalid pages. Returns false if no victim is
    /// in progress: the choice had no valid page and was erased at once, which gains enough, or
    /// early collection found no invalid page. Otherwise a choice without invalid pages is moved at
    /// once, without gain.
    #[cold]
    fn choose(&mut self, sink: &mut impl Sink) -> bool {
        let pages = self.spec.pages;
        self.look_for_cold();
        loop {
            let segments = &self.segments;
            let live = |index: u32| pages - segments[index as usize].stale;
            let early = self.spec.early.filter(|_| self.room > self.aside);
            let choice = self.policy.pick(self.work.host, live);
            let segment = match (choice, early) {
                (Some(segment), None) => segment,
                (Some(segment), Some(_)) if live(segment) < pages => segment,
                (_, Some(_)) => return false,
                (None, None) => panic!("invalid pages are sealed"),
            };
            let (live, stale) = (live(segment), pages - live(segment));
            self.begin(GC, Victim::new(segment, live, stale));
            self.is_early = false;
            if let Some(early) = early {
                self.limit(early);
            }
            if live == 0 {
                self.erase(GC, sink);
                return false;
            }
            if stale > 0 {
                return true;
            }
            self.victims_now[GC].writes = 1;
            let moved = self.advance(GC, sink);
            assert_eq!(moved, pages, "a fully valid victim is moved at once");
            self.work.copies += u64::from(moved);
        }
    }

    fn begin(&mut self, which: usize, victim: Victim) {
        self.policy.freed(victim.segment);
        self.segments[victim.segment as usize].state = State::Victim;
        self.victims_now[which] = victim;
        self.ask_for_back(victim.segment);
    }

    /// Makes the copies that one more host write makes due, and erases a victim without valid
    /// pages. Returns the number of pages moved.
    #[inline]
    fn advance(&mut self, which: usize, sink: &mut impl Sink) -> u32 {
        let Victim { segment, copies, writes, .. } = self.victims_now[which];
        let due = self.victims_now[which].due + i64::from(copies);
        let mut moved = 0;
        if due >= i64::from(writes) {
            let most = (due / i64::from(writes)) as u32 + (self.spec.burst - 1);
            moved = self.move_pages(which, segment, most, sink);
            self.victims_now[which].moved += moved;
        }
        self.victims_now[which].due = due - i64::from(moved) * i64::from(writes);
        if self.segments[segment as usize].stale == self.spec.pages {
            self.erase(which, sink);
        }
        moved
    }

    /// Moves the first valid pages of a victim, at most `most`. Returns the number of pages moved.
    fn move_pages(&mut self, which: usize, segment: u32, most: u32, sink: &mut impl Sink) -> u32 {
        let (pages, words) = (self.spec.pages, self.spec.pages.div_ceil(BITS));
        let placement = match self.spec.frontiers {
            Frontiers::Separate => 0,
            Frontiers::Shared | Frontiers::Isolated => self.segments[segment as usize].placement,
        };
        let first = if which == COLD { self.spec.first_cold() } else { self.spec.first_copy() };
        let frontier = first + usize::from(placement);
        let (mut word, mut moved) = (self.victims_now[which].word, 0);
        while moved < most && word < words {
            let at = (segment * words + word) as usize;
            let live = !self.stale[at];
            if live != 0 {
                let Frontier { next, end } = self.open_frontier(frontier);
                let now = lowest(live, (most - moved).min(end - next));
                self.copy(segment * pages + word * BITS, now, frontier, sink);
                self.stale[at] |= now;
                moved += now.count_ones();
            }
            if self.stale[at] == u64::MAX {
                word += 1;
            }
        }
        self.ask_for_moved(segment, word, most);
        self.victims_now[which].word = word;
        self.segments[segment as usize].stale += moved;
        moved
    }

    /// Moves the page `from + bit` for each bit of `live` to a write point with enough space.
    #[inline]
    fn copy(&mut self, from: u32, live: u64, frontier: usize, sink: &mut impl Sink) {
        let count = live.count_ones();
        let (to, mut apart) = (self.frontiers[frontier].next, 0);
        for (bit, to) in bits(live).zip(to..) {
            let logical = self.back[(from + bit) as usize];
            self.back[to as usize] = logical;
            let was = std::mem::replace(&mut self.map[logical as usize], to);
            // Mismatches are accumulated and asserted once, which keeps the loop free of branches.
            apart |= was ^ (from + bit);
        }
        assert_eq!(apart, 0, "a valid page is mapped");
        if let Some(handles) = &mut self.handles {
            handles.copied(&self.back[to as usize..(to + count) as usize]);
        }
        self.frontiers[frontier].next += count;
        sink.copies(from, live, to);
        self.seal_if_full(frontier);
    }

    #[cold]
    fn erase(&mut self, which: usize, sink: &mut impl Sink) {
        let victim = std::mem::replace(&mut self.victims_now[which], Victim::NO);
        if which == GC && self.is_early {
            self.ahead = (-victim.due / i64::from(victim.writes)).max(0) as u32;
        }
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
        sink.take(FlashOp::Erase { segment: index });
    }

    /// Takes the most worn free segment, which will hold cold data.
    pub(super) fn take_worn(&mut self) -> Option<u32> {
        let erased = |&at: &usize| self.segments[self.free[at] as usize].erased;
        let most = (0..self.free.len()).max_by_key(erased)?;
        self.free.remove(most)
    }

    /// Finds a segment with too few erases, unless one is being moved.
    fn look_for_cold(&mut self) {
        if self.spec.level == 0 || self.victims_now[COLD].segment != NONE {
            return;
        }
        for _ in 0..LOOK.min(self.spec.segments) {
            let index = self.look;
            self.look = (index + 1) % self.spec.segments;
            let segment = self.segments[index as usize];
            let lag = self.worn - segment.erased;
            if segment.state == State::Sealed && lag > self.spec.level {
                self.begin(COLD, Victim::new(index, 1, WRITES_PER_MOVE));
                return;
            }
        }
    }
}

/// Returns the lowest set bits of `word`, at most `most`.
#[inline]
pub(super) fn lowest(word: u64, most: u32) -> u64 {
    if word.count_ones() <= most {
        return word;
    }
    word ^ (0..most).fold(word, |rest, _| rest & (rest - 1))
}
