//! Limit on the share of the device that the hidden area occupies (`hatl-auto`).
//!
//! Two garbage collections compete for the space besides valid homes: that of the drive, in which
//! pages become invalid when homes are overwritten, and that of the hidden area. A log with a share
//! *u* of valid data programs 1 / (2 (1 − *u*)) sectors for each sector written to it, and never
//! less than one. Let *R* be the space besides homes that hold data, and *V* superpages of valid
//! hidden sectors be stored in *U* superpages. Then the cost of a write to the area is proportional
//! to U / (U − V), and the drive's cost of a write to a home to 1 / (R − U). The drive copies
//! nothing for the area itself, because its superpages become invalid in the order in which they
//! were written. With φ, the measured share of the area in all programmed sectors, the product of
//! both is least where
//!
//! > φ V (R − U) = (1 − φ) U (U − V).
//!
//! If half of the area is valid, the solution is U = φ R: each side takes a share of the room equal
//! to its share of the programs. Of these superpages at most the share φ may be valid. The more is
//! programmed in the area, the less a move home pays off, because it programs a whole superpage.
//! The limit of valid data is therefore φ² R, but at least R / 4, the value for φ = 1/2. A lower
//! limit would send data home more often, and φ would shrink by that alone.
//!
//! A home that is not overwritten causes no work for the drive, because its erase block stays
//! completely valid. While the homes that are written repeatedly and the hidden area take at most
//! half of the room, the drive copies almost nothing, and the area is not limited. A home counts as
//! written repeatedly if it was overwritten in this turn or in the previous one. A turn lasts until
//! twice the device's capacity was programmed; in that time the drive packs data that is not
//! overwritten. Writes to homes that held no data do not count, as when a volume is filled.
//!
//! The drive programs 1 / (2 (1 − *u*)) sectors for each sector written to a home, where *u* is the
//! share of its flash that homes and the area take, and never less than one. This is exact for
//! uniform writes only. In aged states of the drive models the factor grew faster with the area, so
//! [`Homes::copies`] returns its power of 9/8.
//!
//! A home may hold data unless this process created the volume and never wrote there, or the home
//! was trimmed. This is tracked for parts of the volume, a fixed number of them, so that the memory
//! does not grow with the device. The same parts track homes that are written repeatedly. After a
//! start every part counts as holding data and as written repeatedly.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::vsp::layout::Layout;

use super::price::WHOLE as ONE;

/// Maximum number of parts.
const PARTS: u32 = 8192;
/// Divisor of the device size: after this share was programmed, older programs count half.
const WINDOW: u64 = 16;
/// Length of a turn in programmed sectors, as a multiple of the device size.
const TURN: u64 = 2;
/// Denominator of the shares of hidden area and homes.
const WHOLE: u64 = 1024;

/// Divisor of the device size: the spare that a drive is assumed to have beside it, 7 %.
const SPARE: u32 = 14;
/// Divisor of the room: the least that the drive's copies are computed for.
const LEAST_ROOM: u64 = 16;

/// Treatment of small writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// They are hidden.
    Hide,
    /// They go home, unless data of their LSP is hidden.
    Aside,
    /// The same, and all hidden data is moved home.
    Drain,
}

/// Returns the bit of a part.
fn bit(bits: &[u8], part: u32) -> bool {
    bits[part as usize / 8] >> (part % 8) & 1 == 1
}

/// Sets the bit of a part. Returns whether it changed.
fn set_bit(bits: &mut [u8], part: u32, on: bool) -> bool {
    let byte = &mut bits[part as usize / 8];
    let before = *byte;
    *byte = before & !(1 << (part % 8)) | u8::from(on) << (part % 8);
    *byte != before
}

/// Occupied homes, repeatedly written homes, and the recent split of programs.
#[derive(Debug)]
pub(crate) struct Homes {
    lsps: u32,
    /// Number of LSPs in a part; the last part may have fewer.
    part: u32,
    /// A bit for each part that holds no data.
    empty: Vec<u8>,
    /// Number of LSPs in the parts that may hold data.
    taken: u32,
    /// The LSP after the last ones that were written to homes without data.
    front: u32,
    /// Bits of the parts that were overwritten, in this turn and in the previous one.
    turns: [Vec<u8>; 2],
    /// Number of LSPs in the parts that were overwritten in either turn.
    again: u32,
    /// Sectors programmed in this turn, and the length of a turn.
    turn: (u64, u64),
    /// Number of superpages that are homes, hidden area or both.
    all: u32,
    /// Sectors programmed recently in the hidden area and at home.
    programmed: [u64; 2],
    /// Sum of `programmed` beyond which both are halved.
    window: u64,
    /// Sectors programmed so far in the hidden area and at home.
    total: [u64; 2],
    course: Course,
}

impl Homes {
    /// Creates the state after a start: every home may hold data and be written repeatedly.
    pub(crate) fn new(layout: &Layout) -> Self {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        let all = lsps + layout.count - layout.lent;
        let device = u64::from(all) * u64::from(layout.superpage);
        Homes::over((lsps, all), lsps.div_ceil(PARTS), device)
    }

    /// Creates the same with `part` LSPs in a part and `device` sectors of device.
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
            total: [0; 2],
            course: Course::Hide,
        };
        (0..homes.parts()).for_each(|part| _ = set_bit(&mut homes.turns[0], part, true));
        homes
    }

    fn parts(&self) -> u32 {
        self.lsps.div_ceil(self.part)
    }

    /// Returns the number of LSPs in a part.
    fn size(&self, part: u32) -> u32 {
        self.lsps.min((part + 1) * self.part) - part * self.part
    }

    /// Counts sectors that are programmed in the hidden area.
    pub(crate) fn hide(&mut self, sectors: u64) {
        self.count([sectors, 0]);
    }

    /// Takes back sectors counted by [`Homes::hide`] that are written home instead.
    pub(crate) fn unhide(&mut self, sectors: u64) {
        self.programmed[0] = self.programmed[0].saturating_sub(sectors);
        self.total[0] = self.total[0].saturating_sub(sectors);
    }

    fn count(&mut self, [hidden, home]: [u64; 2]) {
        let [in_area, at_home] = self.programmed;
        self.programmed = [in_area + hidden, at_home + home];
        self.total = [self.total[0] + hidden, self.total[1] + home];
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

    /// Counts sectors that are programmed at the homes of `lsps`.
    pub(crate) fn fill(&mut self, lsps: Range<u32>, sectors: u64) {
        self.count([0, sectors]);
        for part in lsps.start / self.part..lsps.end.div_ceil(self.part) {
            let first = part * self.part;
            // A sequential fill that continues inside a part overwrites nothing.
            let continues = lsps.start > first && lsps.start == self.front;
            if self.set(part, false) || continues {
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

    /// Marks homes as holding no data, because they were trimmed or never written.
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

    /// Notes whether a part holds no data. Returns whether that changed.
    fn set(&mut self, part: u32, empty: bool) -> bool {
        let new = set_bit(&mut self.empty, part, empty);
        let lsps = if new { self.size(part) } else { 0 };
        self.taken = if empty { self.taken - lsps } else { self.taken + lsps };
        new
    }

    /// Returns the number of superpages that no home occupies.
    fn room(&self) -> u32 {
        self.all - self.taken
    }

    /// Returns the number of superpages that the area can take without copies in the drive.
    fn needless(&self) -> u32 {
        (self.room() / 2).saturating_sub(self.again)
    }

    /// Returns the shares of the hidden area and of homes in recent programs, in 1024ths and never
    /// 0.
    fn shares(&self) -> [u64; 2] {
        let [area, home] = self.programmed;
        let area = (area * WHOLE / (area + home).max(1)).clamp(1, WHOLE - 1);
        [area, WHOLE - area]
    }

    /// Returns the sectors programmed so far in the hidden area and at home.
    pub(super) fn total(&self) -> [u64; 2] {
        self.total
    }

    /// Sets how small writes are treated.
    pub(super) fn steer(&mut self, course: Course) {
        self.course = course;
    }

    /// Returns whether small writes go home.
    pub(super) fn is_aside(&self) -> bool {
        self.course != Course::Hide
    }

    /// Returns the drive's programs for each sector that is programmed at home, in 1024ths: with an
    /// empty area, and while it occupies `used` superpages.
    pub(super) fn copies(&self, used: u32) -> [u64; 2] {
        if self.again + used <= self.room() / 2 {
            return [ONE; 2];
        }
        let spare = u64::from(self.all / SPARE);
        let (all, room) = (u64::from(self.all) + spare, u64::from(self.room()) + spare);
        let with = |used: u64| {
            let left = room.saturating_sub(used).max(room / LEAST_ROOM).max(1);
            let simple = (all * ONE / (2 * left)).max(ONE);
            // The eighth root, in three steps.
            let root = ((simple * ONE.pow(3)).isqrt().isqrt() * ONE).isqrt();
            simple * root / ONE
        };
        [with(0), with(used.into())]
    }

    /// Returns the number of superpages that valid hidden data may fill.
    pub(crate) fn most(&self) -> u32 {
        match self.course {
            Course::Hide => {}
            Course::Aside => return self.needless(),
            Course::Drain => return 0,
        }
        let [area, _] = self.shares();
        let area = area.max(WHOLE / 2);
        let share = u64::from(self.room()) * area * area / (WHOLE * WHOLE);
        self.needless().max(share as u32)
    }

    /// Returns the number of superpages that the hidden area should occupy when its data fills
    /// `valid` of them.
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

    /// Returns 1000 homes, and 50 superpages that belong only to the hidden area, of 8 sectors
    /// each.
    fn homes() -> Homes {
        Homes { window: 8400, ..Homes::over((1000, 1050), 3, 8400) }
    }

    #[test]
    fn trims_and_writes_are_counted_in_parts() {
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
    fn a_new_drive_makes_no_copies_and_keeps_the_area() {
        let mut homes = homes();
        homes.clear(0..1000);
        assert_eq!((homes.most(), homes.spread(1)), (525, 525));
    }

    #[test]
    fn homes_written_once_cause_no_drive_copies() {
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
    fn the_area_size_minimises_both_collections() {
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
