//! Costs of small writes at home and in the hidden area, in programmed sectors, and the decision to
//! step aside: to write home while hiding does not pay off (`hatl-auto`).
//!
//! At home a write costs all map units that it touches. This is an upper bound, because a drive may
//! merge parts in its buffer. In the hidden area a write costs the sectors that the layer programs
//! for it: the data itself, its share of pads and log, and the copies of GC. Both are means over
//! recent writes. If the drive's map unit is unknown, there is no price at home, and every small
//! write is hidden.
//!
//! Hidden superpages take room that the drive's own GC lacks, so a programmed sector costs the
//! drive more while they are in use: a quarter more while homes are lent, and twice as much if the
//! volume was written everywhere. Both factors are estimates from the copies of this project's
//! drive models in such states.

/// Length of a window, in superpages programmed in the hidden area.
const WINDOW: u64 = 64;
/// Divisor of a mean: this share is replaced by each new window.
const SHARE: u64 = 8;
/// Multiple of the hidden area's size that is written home before hiding is tried again.
const PATIENCE: u64 = 16;
/// Cost of a hidden sector in quarters, while homes are lent and while none is.
const WITH_LOANS: u64 = 5;
const WITHOUT: u64 = 8;

/// Sectors programmed and sectors written, both fading.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    programmed: u64,
    written: u64,
}

impl Mean {
    fn add(&mut self, programmed: u64, written: u64) {
        self.programmed += programmed;
        self.written += written;
    }

    fn fade(&mut self) {
        self.programmed -= self.programmed / SHARE;
        self.written -= self.written / SHARE;
    }
}

#[derive(Debug)]
pub(super) struct Price {
    /// Sectors of a map unit; 0 if unknown.
    unit: u64,
    window: u64,
    home: Mean,
    hidden: Mean,
    /// Sectors hidden in this window, and the layer's own programs when the window started.
    begun: (u64, u64),
    /// Sectors to write home before hiding is tried again; 0 while small writes are hidden.
    aside: u64,
    /// Initial value of `aside`.
    patience: u64,
}

impl Price {
    /// Creates an empty record: small writes are hidden. `unit` and `superpage` are in sectors; the
    /// hidden area has `count` superpages.
    pub(super) fn new(unit: u32, superpage: u32, count: u32) -> Self {
        let superpage = u64::from(superpage);
        Price {
            unit: unit.into(),
            window: WINDOW * superpage,
            home: Mean::default(),
            hidden: Mean::default(),
            begun: (0, 0),
            aside: 0,
            patience: PATIENCE * superpage * u64::from(count),
        }
    }

    /// Returns whether a write covers only whole map units, so that it costs no more than its own
    /// length at home.
    pub(super) fn is_whole(&self, lba: u64, sectors: u64) -> bool {
        self.unit > 0 && lba.is_multiple_of(self.unit) && sectors.is_multiple_of(self.unit)
    }

    /// Returns whether small writes go home.
    pub(super) fn is_aside(&self) -> bool {
        self.aside > 0
    }

    /// Counts a small write. `own` is the number of sectors that the layer has programmed besides
    /// host data; `lends` states whether homes are lent.
    pub(super) fn note(&mut self, (lba, sectors): (u64, u64), own: u64, lends: bool) {
        if self.unit == 0 {
            return;
        }
        let units = (lba + sectors - 1) / self.unit - lba / self.unit + 1;
        self.home.add(units * self.unit, sectors);
        // While small writes go home, the hidden cost is not measured; it starts afresh afterwards.
        if self.is_aside() {
            self.aside = self.aside.saturating_sub(sectors);
            if !self.is_aside() {
                (self.hidden, self.begun) = (Mean::default(), (0, own));
            }
            return;
        }
        let (hidden, before) = (self.begun.0 + sectors, self.begun.1);
        self.begun.0 = hidden;
        if hidden + own - before < self.window {
            return;
        }
        self.hidden.add(hidden + own - before, hidden);
        self.begun = (0, own);
        let factor = if lends { WITH_LOANS } else { WITHOUT };
        let there = u128::from(self.hidden.programmed * factor) * u128::from(self.home.written);
        let home = u128::from(self.home.programmed * 4) * u128::from(self.hidden.written);
        if there > home {
            self.aside = self.patience;
        }
        self.home.fade();
        self.hidden.fade();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issues small writes of `sectors` at random superpages, each with `own` further sectors
    /// programmed by the layer. Returns how many of 1000 are hidden.
    fn hidden(price: &mut Price, sectors: u64, own: u64, lends: bool) -> u32 {
        let mut count = 0;
        let mut sum = 0;
        for at in 0..1000 {
            count += u32::from(!price.is_aside());
            sum += if price.is_aside() { 0 } else { own };
            price.note((at * 128 + 3, sectors), sum, lends);
        }
        count
    }

    #[test]
    fn data_cheaper_in_the_area_remains_hidden() {
        assert_eq!(hidden(&mut Price::new(128, 128, 1000), 8, 16, true), 1000);
        assert_eq!(hidden(&mut Price::new(0, 128, 1000), 8, 1000, true), 1000, "it is unknown");
    }

    #[test]
    fn data_cheaper_at_home_moves_home() {
        assert!(hidden(&mut Price::new(8, 128, 1000), 2, 126, true) < 100, "pads of flushes");
        let half = |lends| hidden(&mut Price::new(128, 128, 1000), 32, 48, lends);
        assert_eq!(half(true), 1000);
        assert!(half(false) < 1000, "the drive lacks the room that the hidden area takes");
    }

    #[test]
    fn hiding_is_tried_again() {
        let mut price = Price::new(8, 128, 4);
        assert!(hidden(&mut price, 2, 126, true) < 100);
        let mut written = 0;
        while price.is_aside() {
            price.note((3, 2), 0, true);
            written += 2;
        }
        let held = 4 * 128;
        assert!(written <= PATIENCE * held && written > (PATIENCE - 4) * held, "{written}");
    }
}
