//! How much room homes leave on the device, and how much of it the hidden area takes (`hatl-auto`).
//!
//! Two collections need room: that of the drive, which finds pages dead that were written again at
//! home, and that of the hidden area. What one takes the other lacks. A log of which a share *u* is
//! valid programs 1 / (2 (1 − *u*)) times what is written to it, and never less than once. So with
//! room *R* beside homes that hold something, and *V* superpages of valid hidden sectors in *U*
//! superpages, what is put into the area goes by U / (U − V), and what the drive programs for a
//! home by 1 / (R − U). The drive copies nothing for the area, of which superpages die in the order
//! in which they were written. With φ, the share of the area in all that the layer programs, which
//! is measured, the product of both is the least where
//!
//! > φ V (R − U) = (1 − φ) U (U − V).
//!
//! Where half of the area is valid that is U = φ R: each takes as much of the room as is programmed
//! there. Of that at most the share φ may be valid: the more is programmed in the area, the less
//! does a move home pay, which programs a whole superpage. So that is φ² R, but no less than R / 4,
//! which φ is a half for: what may be hidden less goes home more often, and φ would sink by that
//! alone.
//!
//! A home that is not written again is no work for the drive: it lies in a block all of which is
//! valid. Where the homes that are written again and the hidden area are no more than half of the
//! room, the drive copies next to nothing, and there is nothing to save. A home is written again if
//! it was in this turn or in the one before: a turn is the time in which twice as much is
//! programmed as the device has. In that time the drive packs what is not written again. What is
//! put into homes that held nothing does not count, as when a volume is filled.
//!
//! A home may hold something unless the volume was made by this process and nothing was written
//! there since, or a trim forgot it. That is known by parts of the volume, of which there are so
//! few that the memory does not grow with the device; so is which homes are written again. After a
//! start all may be.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::vsp::layout::Layout;

/// How many parts there are, at the most.
const PARTS: u32 = 8192;
/// The share of the device that is programmed before what was programmed earlier counts half.
const WINDOW: u64 = 16;
/// The share of the device in a turn: what is programmed in one, and what the device has.
const TURN: u64 = 2;
/// Of so many parts a share is told.
const WHOLE: u64 = 1024;

/// The bit of a part.
fn bit(bits: &[u8], part: u32) -> bool {
    bits[part as usize / 8] >> (part % 8) & 1 == 1
}

/// Sets the bit of a part; whether that is new.
fn set_bit(bits: &mut [u8], part: u32, on: bool) -> bool {
    let byte = &mut bits[part as usize / 8];
    let before = *byte;
    *byte = before & !(1 << (part % 8)) | u8::from(on) << (part % 8);
    *byte != before
}

#[derive(Debug)]
pub(crate) struct Homes {
    lsps: u32,
    /// LSPs of a part; the last one may have fewer.
    part: u32,
    /// A bit for each part that holds nothing.
    empty: Vec<u8>,
    /// LSPs of the parts that may hold something.
    taken: u32,
    /// The LSP after those that were put into homes that held nothing last.
    front: u32,
    /// Bits for the parts that were written again, in this turn and in the one before.
    turns: [Vec<u8>; 2],
    /// LSPs of the parts that were written again in either.
    again: u32,
    /// Sectors that are programmed in this turn, and those that are still to be.
    turn: (u64, u64),
    /// Superpages that are homes, hidden area or both.
    all: u32,
    /// Sectors that were programmed in the hidden area and at home lately.
    programmed: [u64; 2],
    /// How many these are at the most, before older ones count half.
    window: u64,
}

impl Homes {
    /// All may hold something, and be written again.
    pub(crate) fn new(layout: &Layout) -> Self {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        let all = lsps + layout.count - layout.lent;
        let device = u64::from(all) * u64::from(layout.superpage);
        Homes::over((lsps, all), lsps.div_ceil(PARTS), device)
    }

    /// The same with parts of so many LSPs, where the device has so many sectors.
    fn over((lsps, all): (u32, u32), part: u32, device: u64) -> Self {
        let bytes = lsps.div_ceil(part).div_ceil(8) as usize;
        let mut homes = Homes {
            lsps,
            part,
            empty: vec![0; bytes],
            taken: lsps,
            front: 0,
            turns: [vec![0; bytes], vec![0; bytes]],
            again: lsps,
            turn: (0, TURN * device),
            all,
            programmed: [0; 2],
            window: device / WINDOW,
        };
        (0..homes.parts()).for_each(|part| _ = set_bit(&mut homes.turns[0], part, true));
        homes
    }

    fn parts(&self) -> u32 {
        self.lsps.div_ceil(self.part)
    }

    /// LSPs of a part.
    fn size(&self, part: u32) -> u32 {
        self.lsps.min((part + 1) * self.part) - part * self.part
    }

    /// Sectors are programmed in the hidden area.
    pub(crate) fn hide(&mut self, sectors: u64) {
        self.count([sectors, 0]);
    }

    /// Sectors that were counted as programmed in the hidden area go home instead.
    pub(crate) fn unhide(&mut self, sectors: u64) {
        self.programmed[0] = self.programmed[0].saturating_sub(sectors);
    }

    fn count(&mut self, [hidden, home]: [u64; 2]) {
        let [in_area, at_home] = self.programmed;
        self.programmed = [in_area + hidden, at_home + home];
        if self.programmed.iter().sum::<u64>() > self.window {
            self.programmed = self.programmed.map(|sectors| sectors / 2);
        }
        self.turn.0 += hidden + home;
        if self.turn.0 > self.turn.1 {
            self.turn.0 = 0;
            self.turns.swap(0, 1);
            self.turns[0].fill(0);
            let last = (0..self.parts()).filter(|part| bit(&self.turns[1], *part));
            self.again = last.map(|part| self.size(part)).sum();
        }
    }

    /// So many sectors are programmed at home, in these LSPs.
    pub(crate) fn fill(&mut self, lsps: Range<u32>, sectors: u64) {
        self.count([0, sectors]);
        for part in lsps.start / self.part..lsps.end.div_ceil(self.part) {
            let first = part * self.part;
            let goes_on = lsps.start > first && lsps.start == self.front;
            if self.set(part, false) || goes_on {
                self.front = lsps.end;
            } else {
                self.write_again(part);
            }
        }
    }

    fn write_again(&mut self, part: u32) {
        let before = bit(&self.turns[1], part);
        if set_bit(&mut self.turns[0], part, true) && !before {
            self.again += self.size(part);
        }
    }

    /// LSPs hold nothing: all of them were trimmed, or they never held anything.
    pub(crate) fn clear(&mut self, lsps: Range<u32>) {
        let last = lsps.end == self.lsps;
        let end = if last { lsps.end.div_ceil(self.part) } else { lsps.end / self.part };
        for part in lsps.start.div_ceil(self.part)..end {
            self.set(part, true);
            let [now, before] = &mut self.turns;
            if set_bit(now, part, false) | set_bit(before, part, false) {
                self.again -= self.size(part);
            }
        }
    }

    /// Notes whether a part holds nothing; whether that is new.
    fn set(&mut self, part: u32, empty: bool) -> bool {
        let new = set_bit(&mut self.empty, part, empty);
        let lsps = if new { self.size(part) } else { 0 };
        self.taken = if empty { self.taken - lsps } else { self.taken + lsps };
        new
    }

    /// Superpages that no home takes.
    fn room(&self) -> u32 {
        self.all - self.taken
    }

    /// Superpages that the drive does not need to copy nothing.
    fn needless(&self) -> u32 {
        (self.room() / 2).saturating_sub(self.again)
    }

    /// The shares of the hidden area and of homes in what was programmed, none of which is nothing.
    fn shares(&self) -> [u64; 2] {
        let [area, home] = self.programmed;
        let area = (area * WHOLE / (area + home).max(1)).clamp(1, WHOLE - 1);
        [area, WHOLE - area]
    }

    /// Superpages that what is valid in the hidden area may take at the most.
    pub(crate) fn most(&self) -> u32 {
        let [area, _] = self.shares();
        let area = area.max(WHOLE / 2);
        let share = u64::from(self.room()) * area * area / (WHOLE * WHOLE);
        self.needless().max(share as u32)
    }

    /// Superpages that the hidden area should take while `valid` of them would be enough for what
    /// it holds.
    pub(crate) fn spread(&self, valid: u32) -> u32 {
        let [area, home] = self.shares().map(i128::from);
        let (valid, room) = (i128::from(valid), i128::from(self.room()));
        let half = valid * (home - area);
        let best = (half + (half * half + 4 * home * area * valid * room).isqrt()) / (2 * home);
        self.needless().max(best as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 homes, and 50 superpages that are hidden area only, of 8 sectors each.
    fn homes() -> Homes {
        Homes { window: 8400, ..Homes::over((1000, 1050), 3, 8400) }
    }

    #[test]
    fn what_is_trimmed_and_what_is_written_is_counted_by_parts() {
        let mut homes = homes();
        assert_eq!(homes.room(), 50);
        homes.clear(1..9);
        assert_eq!(homes.room(), 56, "of the first part two LSPs are left");
        homes.clear(998..1000);
        assert_eq!(homes.room(), 57, "the last part has one LSP");
        homes.clear(0..1000);
        assert_eq!((homes.room(), homes.taken), (1050, 0));
        homes.fill(5..7, 8);
        homes.fill(5..6, 8);
        assert_eq!(homes.taken, 6);
    }

    #[test]
    fn a_new_drive_copies_nothing_and_leaves_the_area_its_room() {
        let mut homes = homes();
        homes.clear(0..1000);
        assert_eq!((homes.most(), homes.spread(1)), (525, 525));
    }

    #[test]
    fn homes_that_are_not_written_again_are_no_work_for_the_drive() {
        let mut homes = homes();
        assert_eq!((homes.needless(), homes.again), (0, 1000), "all may be, after a start");
        homes.clear(0..1000);
        (0..300).for_each(|at| homes.fill(2 * at..2 * at + 2, 16));
        assert_eq!((homes.room(), homes.again, homes.needless()), (450, 0, 225));
        (0..100).for_each(|at| homes.fill(at..at + 1, 8));
        assert_eq!((homes.again, homes.needless()), (102, 123), "34 parts");
        homes.fill(0..1, TURN * 8400);
        assert_eq!(homes.again, 102, "a turn is over, and these are of the one before");
        homes.clear(3..6);
        assert_eq!((homes.again, homes.room()), (99, 453));
        homes.hide(TURN * 8400 + 1);
        assert_eq!((homes.again, homes.needless()), (3, 223), "only the first was written since");
    }

    #[test]
    fn the_area_takes_what_costs_both_collections_the_least() {
        for (area, at_home) in [(2000, 200), (2000, 2000), (800, 6000)] {
            let mut homes = homes();
            homes.clear(0..1000);
            homes.fill(0..800, 0);
            homes.fill(0..800, at_home);
            homes.hide(area);
            let room = f64::from(homes.room());
            let share = area as f64 / (area + at_home) as f64;
            let cost = |used: &u32| {
                let used = f64::from(*used);
                share * (used / (used - 40.0)).ln() - (1.0 - share) * (room - used).ln()
            };
            let best = (41..homes.room()).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap();
            let found = homes.spread(40);
            assert!(found.abs_diff(best) <= 1, "{area} and {at_home}: {found} and {best}");
            let most = (room * share.max(0.5).powi(2)) as u32;
            assert!(homes.most().abs_diff(most) <= 1, "{} and {most}", homes.most());
        }
    }
}
