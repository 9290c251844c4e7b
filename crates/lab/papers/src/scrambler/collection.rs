//! An independent model of the layer and the drive, without shared code, whose drive collects
//! garbage in batches or in steps.
//!
//! Only page operations are counted, for random writes of a slot of 4 KiB, one at a time. The model
//! has no map log, and a replaced slot can be used at once.

use std::collections::BTreeSet;
use std::mem::replace;

use super::cases::{PLAIN, REFERENCE, Reference};
use super::{Job, Pair};
use crate::{Band, Options, Size};

/// Pages per block.
const PAGES: u32 = 256;
/// Slots per page.
const SLOTS: u32 = 4;
/// Free blocks below which the drive collects.
const FEW: usize = 3;
/// Time of a program of a partly used page, and of a copy: a read and a program, in us.
const PAGE_US: f64 = 85.0 + 1600.0;
const ERASE_US: f64 = 8500.0;
const NOWHERE: u32 = u32::MAX;

/// How the drive collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// A whole victim at once.
    Batches,
    /// A few copies with each write. The victim is empty when its gained pages are needed.
    Steps,
}

/// A drive that maps pages and collects the block with the fewest valid pages.
struct Drive {
    pace: Pace,
    /// Physical page of each logical page, and the reverse.
    place: Vec<u32>,
    back: Vec<u32>,
    valid: Vec<u32>,
    is_full: Vec<bool>,
    free: Vec<u32>,
    /// The next physical page to program.
    next: u32,
    victim: Option<Victim>,
    copies: u64,
    erases: u64,
    writes: u64,
}

/// A block that is collected in steps.
#[derive(Clone, Copy)]
struct Victim {
    block: u32,
    /// Valid pages at its choice.
    copies: u32,
    due: u32,
}

impl Drive {
    fn new(blocks: u32, logical: u32, pace: Pace) -> Self {
        Drive {
            pace,
            place: vec![NOWHERE; logical as usize],
            back: vec![NOWHERE; (blocks * PAGES) as usize],
            valid: vec![0; blocks as usize],
            is_full: vec![false; blocks as usize],
            free: (1..blocks).collect(),
            next: 0,
            victim: None,
            copies: 0,
            erases: 0,
            writes: 0,
        }
    }

    fn put(&mut self, page: u32) {
        let old = replace(&mut self.place[page as usize], self.next);
        if old != NOWHERE {
            self.back[old as usize] = NOWHERE;
            self.valid[(old / PAGES) as usize] -= 1;
        }
        self.back[self.next as usize] = page;
        let block = self.next / PAGES;
        self.valid[block as usize] += 1;
        self.next += 1;
        if self.next.is_multiple_of(PAGES) {
            self.is_full[block as usize] = true;
            self.next = self.free.pop().expect("a block is free") * PAGES;
        }
    }

    /// Returns the valid pages of a block, in physical order.
    fn pages(&self, block: u32) -> impl Iterator<Item = u32> + '_ {
        let physical = (block * PAGES) as usize..((block + 1) * PAGES) as usize;
        self.back[physical].iter().copied().filter(|page| *page != NOWHERE)
    }

    /// Returns the full block with the fewest valid pages, except the victim.
    fn emptiest(&self) -> Option<u32> {
        let victim = self.victim.map(|victim| victim.block);
        let blocks = (0..self.valid.len() as u32).filter(|block| Some(*block) != victim);
        let full = blocks.filter(|block| self.is_full[*block as usize]);
        full.min_by_key(|block| self.valid[*block as usize])
    }

    /// Copies up to `most` valid pages of a block, and erases it if none remains. Returns whether
    /// it was erased.
    fn collect(&mut self, block: u32, most: usize) -> bool {
        let pages: Vec<u32> = self.pages(block).take(most).collect();
        self.copies += pages.len() as u64;
        pages.into_iter().for_each(|page| self.put(page));
        let empty = self.valid[block as usize] == 0;
        if empty {
            self.is_full[block as usize] = false;
            self.free.insert(0, block);
            self.erases += 1;
        }
        empty
    }

    fn write(&mut self, page: u32) {
        self.writes += 1;
        match self.pace {
            Pace::Batches => {
                while self.free.len() < FEW {
                    let block = self.emptiest().expect("a block is full");
                    self.collect(block, PAGES as usize);
                }
            }
            Pace::Steps => self.step(),
        }
        self.put(page);
    }

    fn step(&mut self) {
        if self.victim.is_none() && self.free.len() < FEW {
            let block = self.emptiest().expect("a block is full");
            self.victim = Some(Victim { block, copies: self.valid[block as usize], due: 0 });
        }
        if let Some(victim) = &mut self.victim {
            victim.due += victim.copies;
            let gained = (PAGES - victim.copies).max(1);
            let (block, most) = (victim.block, victim.due / gained);
            victim.due %= gained;
            if self.collect(block, most as usize) {
                self.victim = None;
            }
        }
    }
}

/// The layer: the slots in use of each page, and the page of each slot of the host.
struct Scrambler {
    used: Vec<u32>,
    /// Pages by the number of their slots in use.
    by_use: BTreeSet<(u32, u32)>,
    page_of: Vec<u32>,
    /// Pages that were written before.
    begun: u32,
    /// Pages with room in the reported block.
    preferred: Vec<u32>,
    /// Writes between two queries, and since the last one.
    refresh: u32,
    since: u32,
}

impl Scrambler {
    fn write(&mut self, slot: u32, drive: &mut Drive) {
        self.since += 1;
        if self.since >= self.refresh {
            self.since = 0;
            let pages = drive.emptiest().into_iter().flat_map(|block| drive.pages(block));
            self.preferred = pages.filter(|page| self.used[*page as usize] < SLOTS).collect();
        }
        let page = self.choose();
        let old = replace(&mut self.page_of[slot as usize], page);
        self.set_used(page, self.used[page as usize] + 1);
        if old != NOWHERE {
            self.set_used(old, self.used[old as usize] - 1);
        }
        drive.write(page);
    }

    fn set_used(&mut self, page: u32, used: u32) {
        let before = replace(&mut self.used[page as usize], used);
        self.by_use.remove(&(before, page));
        self.by_use.insert((used, page));
    }

    /// Applies rules 1 to 3.
    fn choose(&mut self) -> u32 {
        if (self.begun as usize) < self.used.len() {
            self.begun += 1;
            return self.begun - 1;
        }
        let used = |page: u32| self.used[page as usize];
        let preferred = self.preferred.iter().enumerate().filter(|it| used(*it.1) < SLOTS);
        if let Some((at, _)) = preferred.min_by_key(|it| used(*it.1)) {
            return self.preferred.swap_remove(at);
        }
        self.since = self.refresh;
        self.by_use.first().expect("there are pages").1
    }
}

/// Xorshift, so that the model shares no random numbers with the experiment.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % u64::from(end)) as u32
    }
}

/// Returns the time of a random write in us over `data` blocks of data, after all slots were
/// written once and overwritten twice. `refresh` is the number of writes between two queries of the
/// layer, or `None` without a layer.
fn time((data, free): (u32, f64), pace: Pace, refresh: Option<u32>) -> f64 {
    let blocks = (f64::from(data) / (1.0 - free)).ceil() as u32;
    let (logical, slots) = (blocks * PAGES / 100 * 95, data * PAGES * SLOTS);
    let mut drive = Drive::new(blocks, logical, pace);
    let mut layer = refresh.map(|refresh| Scrambler {
        used: vec![0; logical as usize],
        by_use: (0..logical).map(|page| (0, page)).collect(),
        page_of: vec![NOWHERE; slots as usize],
        begun: 0,
        preferred: Vec::new(),
        refresh,
        since: 0,
    });
    let mut write = |slot: u32, drive: &mut Drive| match &mut layer {
        Some(layer) => layer.write(slot, drive),
        None => drive.write(slot / SLOTS),
    };
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    (0..slots).for_each(|slot| write(slot, &mut drive));
    (0..2 * slots).for_each(|_| write(dice.below(slots), &mut drive));
    let before = [drive.copies, drive.erases, drive.writes];
    (0..slots / 2).for_each(|_| write(dice.below(slots), &mut drive));
    let [copies, erases, writes] =
        [drive.copies - before[0], drive.erases - before[1], drive.writes - before[2]];
    PAGE_US + (copies as f64 * PAGE_US + erases as f64 * ERASE_US) / writes as f64
}

/// Returns the gains over 128 blocks of data with some numbers of writes between two queries.
fn gains<const N: usize>(free: f64, pace: Pace, refresh: [u32; N]) -> [f64; N] {
    let none = time((128, free), pace, None);
    refresh.map(|refresh| none / time((128, free), pace, Some(refresh)))
}

/// Returns whether the first is within `percent` per cent of the second.
fn is_near(one: f64, other: f64, percent: f64) -> bool {
    Band::around(other, percent).holds(one)
}

#[test]
fn without_a_layer_the_pace_has_no_effect() {
    for case in [&REFERENCE[0], &REFERENCE[5]] {
        let known = case.times[0].expect("the reference states it");
        for pace in [Pace::Batches, Pace::Steps] {
            let time = time((128, f64::from(case.free) / 100.0), pace, None);
            assert!(is_near(time, known, 2.0), "{}, {pace:?}: {time}", case.name);
        }
    }
}

/// The hint names the block that is collected next. In batches that block is collected at once, and
/// the pages that remain in the list of the layer are then anywhere. In steps the list is of use
/// while the block before is collected. A gain of 1.43 at 30 % free, which an earlier model gave,
/// lies between a hint that is 20 writes old (1.49) and one that is 24 writes old (1.18).
#[test]
fn an_old_hint_costs_a_drive_that_collects_in_batches_its_gain() {
    let [batches, steps] =
        [Pace::Batches, Pace::Steps].map(|pace| gains(0.3, pace, [1, 20, 24, 32]));
    assert!(is_near(batches[0], steps[0], 1.0), "{batches:?}, {steps:?}");
    assert!(steps.iter().all(|gain| is_near(*gain, steps[0], 1.0)), "{steps:?}");
    let [fresh, .., old, oldest] = batches;
    assert!(old < 0.95 * fresh && oldest < 1.0, "{batches:?}");
}

/// The page has no case of 30 or 50 % free.
#[test]
fn the_layer_gains_as_in_the_model_that_collects_in_steps() {
    let options =
        Options { size: Size::Usual, sweep: false, traces: None, threads: 1, seed: 3, commit: "" };
    for free in [30, 50] {
        let case = Reference { free, ..REFERENCE[0] };
        let [none, scrambled] =
            ["none", PLAIN].map(|layer| Job::Case(&case, layer).run(&options).unwrap());
        let ours = Pair { none, scrambled }.gain();
        let [model] = gains(f64::from(free) / 100.0, Pace::Steps, [32]);
        assert!(is_near(ours, model, 4.0), "{free} %: {ours}, model {model}");
    }
}
