//! Check of a pool's invariants. It reads every page, so it is for tests and for the end of a run.

use super::{BITS, NONE, Pool, State};

impl Pool {
    /// Checks every invariant. The cost is proportional to the number of pages.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        self.check_map()?;
        self.check_segments()?;
        let programmed: u64 = self.all().map(|index| u64::from(self.programmed(index))).sum();
        let erased: u64 = self.erased().map(u64::from).sum();
        if erased != self.work.erases {
            return Err("the erases of the segments differ from the total");
        }
        if programmed + erased * u64::from(self.spec.pages) != self.work.programs() {
            return Err("programmed pages differ from host writes and copies");
        }
        let moved: u32 = self.victims_now.iter().map(|victim| victim.moved).sum();
        if u64::from(self.room) + programmed != self.spec.physical() + u64::from(moved) {
            return Err("the free space differs from erased and reclaimable pages");
        }
        Ok(())
    }

    fn check_map(&self) -> Result<(), &'static str> {
        let mapped = self.map.iter().filter(|&&page| page != NONE).count() as u64;
        if mapped != self.mapped {
            return Err("the count of mapped pages is wrong");
        }
        for (logical, &page) in self.map.iter().enumerate().filter(|&(_, &page)| page != NONE) {
            if self.back[page as usize] as usize != logical {
                return Err("a mapped page does not name its logical page");
            }
            if self.is_stale(page) || page >= self.written(page / self.spec.pages) {
                return Err("a mapped page is not valid");
            }
        }
        Ok(())
    }

    fn check_segments(&self) -> Result<(), &'static str> {
        let mut live = 0;
        for index in self.all() {
            let segment = self.segments[index as usize];
            let (from, to) = (index * self.spec.pages, self.written(index));
            let stale = (from..to).filter(|&page| self.is_stale(page)).count() as u32;
            if stale != segment.stale {
                return Err("the count of invalid pages of a segment is wrong");
            }
            live += u64::from(to - from - stale);
            let victim = self.victims_now.iter().filter(|it| it.segment == index).count();
            if victim != usize::from(segment.state == State::Victim) {
                return Err("an idle segment is a victim");
            }
            if segment.state == State::Free && !self.free.contains(&index) {
                return Err("a free segment is missing from the free list");
            }
        }
        if live != self.mapped {
            return Err("the valid pages differ from the mapped pages");
        }
        if self.free.iter().any(|&index| self.segments[index as usize].state != State::Free) {
            return Err("a segment in use is on the free list");
        }
        Ok(())
    }

    fn all(&self) -> std::ops::Range<u32> {
        0..self.spec.segments
    }

    fn programmed(&self, index: u32) -> u32 {
        self.written(index) - index * self.spec.pages
    }

    /// Returns the end of the programmed pages of a segment.
    pub(super) fn written(&self, index: u32) -> u32 {
        let (begin, end) = (index * self.spec.pages, (index + 1) * self.spec.pages);
        match self.segments[index as usize].state {
            State::Free => begin,
            State::Sealed | State::Victim => end,
            State::Open => {
                let open = self.frontiers.iter().find(|frontier| frontier.end == end);
                open.expect("an open segment has a frontier").next
            }
        }
    }

    fn is_stale(&self, page: u32) -> bool {
        let (index, within) = (page / self.spec.pages, page % self.spec.pages);
        let word = index * self.spec.pages.div_ceil(BITS) + within / BITS;
        self.stale[word as usize] >> (within % BITS) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::super::{FlashOp, Frontiers, GcPolicy, PoolSpec};
    use super::*;

    const POLICIES: [GcPolicy; 6] = [
        GcPolicy::Greedy,
        GcPolicy::Fifo,
        GcPolicy::Random,
        GcPolicy::DChoices(3),
        GcPolicy::CostBenefit,
        GcPolicy::DecliningCost,
    ];

    /// Returns every combination of settings. Segments end within a word, at a word boundary, and
    /// after several words. Half of the pools export as much as possible.
    fn specs() -> impl Iterator<Item = PoolSpec> {
        let sizes = [(34, 7), (28, 64), (29, 150), (40, 2)];
        let frontiers = [Frontiers::Shared, Frontiers::Separate, Frontiers::Isolated];
        let extras = [(1, 0, 0), (1, 0, 3), (3, 0, 0), (3, 2, 1), (1, 5, 0)];
        let sized = sizes.into_iter().flat_map(|(segments, pages)| {
            POLICIES.map(|gc| PoolSpec { gc, seed: 7, ..PoolSpec::new(segments, pages, 1) })
        });
        let sized =
            sized.flat_map(move |spec| frontiers.map(|frontiers| PoolSpec { frontiers, ..spec }));
        sized.flat_map(move |spec| {
            extras.map(|(placements, level, spare)| {
                let spec = PoolSpec { placements, level, burst: 1 + 3 * spare, ..spec };
                let most = spec.segments - 2 * spec.aside() - spare;
                PoolSpec { logical: most * spec.pages, ..spec }
            })
        })
    }

    /// Flash that rejects impossible operations and records the content of each page.
    struct Flash {
        pages: u32,
        next: Vec<u32>,
        content: Vec<u32>,
    }

    impl Flash {
        fn program(&mut self, page: u32, content: u32) {
            let next = &mut self.next[(page / self.pages) as usize];
            assert_eq!(page % self.pages, *next, "a program that is not in order");
            *next += 1;
            self.content[page as usize] = content;
        }

        fn apply(&mut self, op: FlashOp, host: u32) {
            match op {
                FlashOp::Program { page } => self.program(page, host),
                FlashOp::Copy { from, to } => {
                    assert!(from % self.pages < self.next[(from / self.pages) as usize]);
                    self.program(to, self.content[from as usize]);
                }
                FlashOp::Erase { segment } => self.next[segment as usize] = 0,
            }
        }
    }

    /// The operations of the sink, applied to flash, leave each logical page with its last content.
    #[test]
    fn reported_moves_preserve_the_data() {
        for spec in specs() {
            let mut pool = Pool::new(spec).unwrap();
            let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
            let mut model = vec![None; spec.logical as usize];
            let mut flash = Flash {
                pages: spec.pages,
                next: vec![0; spec.segments as usize],
                content: vec![0; (spec.segments * spec.pages) as usize],
            };
            for version in 0..spec.logical * 20 {
                let logical = dice.random_range(0..spec.logical);
                if dice.random_range(0..8) == 0 {
                    pool.trim(logical);
                    model[logical as usize] = None;
                } else {
                    let placement = (logical % 4) as u8;
                    pool.write_to(logical, placement, &mut |op| flash.apply(op, version));
                    model[logical as usize] = Some(version);
                }
                if version % 977 == 0 {
                    assert_eq!(pool.check(), Ok(()), "{spec:?}");
                }
            }
            for (logical, &version) in model.iter().enumerate() {
                let found = pool.find(logical as u32).map(|page| flash.content[page as usize]);
                assert_eq!(found, version, "{spec:?}");
            }
            assert_eq!(pool.check(), Ok(()), "{spec:?}");
            assert!(pool.work().erases > 9, "{spec:?} never collected");
        }
    }

    #[test]
    fn the_check_finds_inconsistencies() {
        let spec = specs().next().unwrap();
        let broken = |harm: fn(&mut Pool)| {
            let mut pool = Pool::new(spec).unwrap();
            (0..1000).for_each(|i| pool.write(i * 11 % spec.logical, &mut |_| {}));
            harm(&mut pool);
            pool.check().is_err()
        };
        assert!(!broken(|_| ()));
        assert!(broken(|pool| pool.map.swap(0, 1)));
        assert!(broken(|pool| pool.map[3] = NONE));
        assert!(broken(|pool| pool.segments[1].stale += 1));
        assert!(broken(|pool| pool.stale[2] ^= 1));
        assert!(broken(|pool| pool.frontiers[0].next -= 1));
        assert!(broken(|pool| pool.room += 1));
        assert!(broken(|pool| pool.free.clear()));
        assert!(broken(|pool| pool.work.copies += 1));
        assert!(broken(|pool| pool.segments[0].erased += 1));
    }
}
