//! The account of small writes, and the decision to step aside: to write home while hiding does not
//! pay off (`hatl-auto`).
//!
//! The account is settled after each window of programs. It compares all that the layer programmed
//! with the price of the same writes at home, and the balance is the difference.
//!
//! At home a small write costs each map unit that it touches, except units that probably wait in
//! the drive's buffer for the rest of their sectors. The hidden area costs its data, copies, pads
//! and log, and the homes to which data was moved. Programs of homes count with the drive's copies,
//! which are more if hidden data takes the room that its GC needs ([`super::homes`]). If the map
//! unit is unknown there is no price at home, and every small write is hidden.
//!
//! - Below a balance of 0 the layer steps aside: a small write goes home, unless data of its
//!   logical superpage (LSP) is hidden. Such an LSP must be moved home in any case, and a write at
//!   home would kill hidden copies, each of which costs log.
//! - The balance is at most the device size divided by [`MOST`], or half more than the price of
//!   moving all hidden data home if that is more. Stepping aside causes these moves, so a smaller
//!   loss does not justify it.
//! - A share of the price at home is added as an allowance. When the balance has recovered, hiding
//!   is tried again.
//! - After stepping aside, writes that are still hidden may cost more than at home, and hidden data
//!   takes room. When this has cost as much as moving all hidden data home, it is moved.
//!
//! As far as the prices are right, the layer thus programs at most the price at home and the
//! allowance, plus the largest balance once, plus the debt beyond [`DEBT`] of each trial.

use super::homes::Course;

/// Length of a window, in superpages programmed by the layer.
const WINDOW: u64 = 64;
/// Divisor of the price at home: the share that trials may cost.
const ALLOWANCE: u64 = 64;
/// Divisor of the device size: the largest balance without hidden data.
const MOST: u64 = 256;
/// Divisor of the device size: the largest debt. With the allowance, the layer tries again at the
/// latest after the price at home was 16 times the size of the device.
const DEBT: u64 = 4;
/// Number of units that are assumed to wait in a buffer that merges: 4 MiB with units of 64 KiB.
const BUFFERED: usize = 64;
/// Denominator of the drive's copies.
pub(super) const WHOLE: u64 = 1024;

/// The writes of a window, in sectors.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// Price of all writes at home.
    price: u64,
    /// Price of those that went home, and their length.
    paid: u64,
    sent: u64,
}

#[derive(Debug)]
pub(super) struct Price {
    /// Sectors of a map unit; 0 if unknown.
    unit: u64,
    window: u64,
    /// Units of the last writes, a ring.
    buffered: [u64; BUFFERED],
    oldest: usize,
    writes: Writes,
    /// Sectors programmed in the hidden area and at home before the window.
    begun: [u64; 2],
    balance: i64,
    most: i64,
    debt: i64,
    course: Course,
    /// Sectors that hidden data has cost more than at home since the layer stepped aside.
    waste: i64,
}

impl Price {
    /// Creates an account on which small writes are hidden. `unit` and `superpage` are in sectors;
    /// the volume has `lsps` superpages.
    pub(super) fn new(unit: u32, superpage: u32, lsps: u32) -> Self {
        let (window, device) = (WINDOW * u64::from(superpage), u64::from(lsps) * superpage as u64);
        let most = (device / MOST).max(2 * window) as i64;
        Price {
            unit: unit.into(),
            window,
            buffered: [u64::MAX; BUFFERED],
            oldest: 0,
            writes: Writes::default(),
            begun: [0; 2],
            balance: most,
            most,
            debt: (device / DEBT) as i64,
            course: Course::Hide,
            waste: 0,
        }
    }

    /// Returns whether a write covers only whole map units, so that it costs no more than its own
    /// length at home.
    pub(super) fn is_whole(&self, lba: u64, sectors: u64) -> bool {
        self.unit > 0 && lba.is_multiple_of(self.unit) && sectors.is_multiple_of(self.unit)
    }

    /// Returns whether small writes go home.
    pub(super) fn is_aside(&self) -> bool {
        self.course != Course::Hide
    }

    /// Counts a write that costs its own length at home.
    pub(super) fn note_large(&mut self, sectors: u64) {
        self.writes.price += sectors;
        self.writes.paid += sectors;
        self.writes.sent += sectors;
    }

    /// Counts a small write. `merges` states whether the drive joins parts of a unit in its buffer,
    /// `direct` whether the write goes home.
    pub(super) fn note_small(&mut self, (lba, sectors): (u64, u64), merges: bool, direct: bool) {
        if self.unit == 0 {
            return;
        }
        let before = self.writes.price;
        for unit in lba / self.unit..=(lba + sectors - 1) / self.unit {
            if merges && self.buffered.contains(&unit) {
                continue;
            }
            self.writes.price += self.unit;
            self.buffered[self.oldest] = unit;
            self.oldest = (self.oldest + 1) % BUFFERED;
        }
        if direct {
            self.writes.paid += self.writes.price - before;
            self.writes.sent += sectors;
        }
    }

    /// Returns whether a window is over. `now` are the sectors programmed so far in the hidden
    /// area, with pads and log, and at home.
    pub(super) fn is_due(&self, now: [u64; 2]) -> bool {
        self.unit > 0 && self.since(now).iter().sum::<u64>() >= self.window
    }

    /// Returns the sectors programmed in this window. A whole stage that goes home no longer counts
    /// as hidden, so the sum for the area may have become less.
    fn since(&self, [area, home]: [u64; 2]) -> [u64; 2] {
        [area.saturating_sub(self.begun[0]), home - self.begun[1]]
    }

    /// Settles a window and returns how to continue. `without` and `with` are the drive's programs,
    /// in 1024ths, for each sector programmed at home, without hidden data and with that of now.
    /// `leaving` is the number of sectors to program if all hidden data were moved home.
    pub(super) fn settle(
        &mut self,
        now: [u64; 2],
        [without, with]: [u64; 2],
        leaving: u64,
    ) -> Course {
        let [area, home] = self.since(now);
        let Writes { price, paid, sent } = core::mem::take(&mut self.writes);
        self.begun = now;
        let cost = price * without / WHOLE;
        let moved = home.saturating_sub(sent) * with / WHOLE;
        // Aside, hidden data of earlier windows is no reason to stay there.
        let each = if self.is_aside() { without } else { with };
        let spent = area + moved + paid * each / WHOLE;
        let leaving = (leaving * with / WHOLE) as i64;
        let most = self.most.max(leaving + leaving / 2);
        let balance = self.balance + (cost + cost / ALLOWANCE) as i64 - spent as i64;
        self.balance = balance.clamp(-self.debt, most);
        // Hidden data also takes room, for which every program at home pays.
        let room = paid * (with - without) / WHOLE;
        self.waste = (self.waste + (area + room) as i64 - (price - paid) as i64).max(0);
        self.course = match self.course {
            Course::Hide if self.balance < 0 => {
                self.waste = 0;
                Course::Aside
            }
            Course::Aside | Course::Drain if self.balance >= self.most => Course::Hide,
            Course::Aside if self.waste > leaving => Course::Drain,
            course => course,
        };
        self.course
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUPERPAGE: u64 = 128;
    const EQUAL: [u64; 2] = [WHOLE; 2];

    /// Writes 32 sectors to each of `units` units, all of which are hidden unless the layer stepped
    /// aside. A hidden write costs `hidden` sectors. Returns the sectors programmed, and the price
    /// at home.
    fn write(price: &mut Price, now: &mut [u64; 2], units: u64, hidden: u64) -> (u64, u64) {
        let (mut spent, mut cost) = (0, 0);
        for unit in 0..units {
            let aside = price.is_aside();
            price.note_small((unit * SUPERPAGE * 97, 32), true, aside);
            let each = if aside { SUPERPAGE } else { hidden };
            now[1] += if aside { 32 } else { 0 };
            now[0] += if aside { 0 } else { hidden };
            (spent, cost) = (spent + each, cost + SUPERPAGE);
            if price.is_due(*now) {
                price.settle(*now, EQUAL, 0);
            }
        }
        (spent, cost)
    }

    #[test]
    fn data_cheaper_in_the_area_remains_hidden() {
        for (unit, hidden) in [(128, 127), (0, 1000)] {
            let mut price = Price::new(unit, 128, 1 << 16);
            write(&mut price, &mut [0; 2], 100_000, hidden);
            assert!(!price.is_aside(), "{unit}: an unknown unit has no price");
        }
    }

    #[test]
    fn the_loss_has_a_bound_and_hiding_is_tried_again() {
        for hidden in [140, 200, 1000] {
            let mut price = Price::new(128, 128, 1 << 16);
            let (mut now, most) = ([0; 2], price.most as u64 + price.window + 1000);
            let (mut spent, mut cost) = (0, 0);
            for _ in 0..100 {
                let (more, home) = write(&mut price, &mut now, 10_000, hidden);
                (spent, cost) = (spent + more, cost + home);
                assert!(spent <= cost + cost / ALLOWANCE + most, "{hidden}: {spent} for {cost}");
            }
            let before = now[0];
            for _ in 0..4 {
                write(&mut price, &mut now, 100_000, 8);
            }
            assert!(!price.is_aside() && now[0] > before, "{hidden}: it pays now");
        }
    }

    #[test]
    fn a_unit_in_the_buffer_has_no_price() {
        for (merges, units) in [(true, 1), (false, 3)] {
            let mut price = Price::new(128, 128, 1 << 16);
            (0..3).for_each(|at| price.note_small((at * 8, 8), merges, false));
            assert_eq!(price.writes.price, units * SUPERPAGE);
        }
    }

    #[test]
    fn hidden_data_that_must_be_moved_home_delays_the_decision() {
        let mut price = Price::new(128, 128, 1 << 16);
        let mut loss = |leaving: u64| {
            price.balance = i64::MAX / 2;
            let mut now = price.begun;
            price.settle(now, EQUAL, leaving);
            while !price.is_aside() {
                now[0] += 1000;
                price.settle(now, EQUAL, leaving);
            }
            price.course = Course::Hide;
            now[0]
        };
        let (without, with) = (loss(0), loss(1 << 20));
        assert!(with - without > 3 << 19, "{without}, {with}");
    }

    #[test]
    fn hidden_data_that_wastes_programs_goes_home() {
        let mut price = Price::new(128, 128, 1 << 16);
        price.balance = -1;
        let mut now = [0; 2];
        assert_eq!(price.settle(now, EQUAL, 5000), Course::Aside);
        for _ in 0..5 {
            now[0] += 1000;
            assert_eq!(price.settle(now, EQUAL, 5000), Course::Aside);
        }
        now[0] += 1000;
        assert_eq!(price.settle(now, EQUAL, 5000), Course::Drain);
    }
}
