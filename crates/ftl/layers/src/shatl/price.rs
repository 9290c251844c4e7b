//! What small writes cost at home and in the hidden area, in sectors that the drive programs, and
//! whether to step aside: to write home while hiding does not pay (`hatl-auto`).
//!
//! At home a write costs all map units that it touches. That is an upper bound: a drive may join
//! parts in its buffer, and does not tell. In the hidden area it costs what the layer programs for
//! it: the write, its share of pads and of the log, and what collection copies. Both are means over
//! what was programmed lately. A drive of which nobody knows the map unit has no price at home, and
//! everything small is hidden.
//!
//! Hidden superpages are room that the drive's own collection lacks, so a sector that is programmed
//! costs more of the drive's work while they are in use: by a quarter while homes are lent, and
//! twice as much where the volume was written everywhere. These two are estimates of ours, from
//! what the drive models of the project copied in such states.

/// Superpages that are programmed in the hidden area in one window.
const WINDOW: u64 = 64;
/// The share of a mean that a new window replaces.
const SHARE: u64 = 8;
/// So many times what the hidden area holds is written home before hiding is tried again.
const PATIENCE: u64 = 16;
/// Quarters that a hidden sector costs while homes are lent, and when none is.
const WITH_LOANS: u64 = 5;
const WITHOUT: u64 = 8;

/// What was programmed for what was written, both fading.
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
    /// Sectors of a map unit; 0 when nobody knows.
    unit: u64,
    window: u64,
    home: Mean,
    hidden: Mean,
    /// Sectors that were hidden since the window began, and what the layer had programmed then.
    begun: (u64, u64),
    /// Sectors to be written home before hiding is tried again; 0 while small writes are hidden.
    aside: u64,
    /// How many these are when it begins to step aside.
    patience: u64,
}

impl Price {
    /// Nothing is known, and small writes are hidden. `unit` and `superpage` are in sectors; the
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

    /// Whether a write has no unit in part: it costs no more than itself at home.
    pub(super) fn is_whole(&self, lba: u64, sectors: u64) -> bool {
        self.unit > 0 && lba.is_multiple_of(self.unit) && sectors.is_multiple_of(self.unit)
    }

    /// Whether small writes go home.
    pub(super) fn is_aside(&self) -> bool {
        self.aside > 0
    }

    /// A small write is on its way. `own` is what the layer programmed so far beside what hosts
    /// wrote, and `lends` whether homes are lent.
    pub(super) fn note(&mut self, (lba, sectors): (u64, u64), own: u64, lends: bool) {
        if self.unit == 0 {
            return;
        }
        let units = (lba + sectors - 1) / self.unit - lba / self.unit + 1;
        self.home.add(units * self.unit, sectors);
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

    /// Small writes of `sectors` at random places of whole superpages, for each of which the layer
    /// programs `own` more; how many of a thousand are hidden.
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
    fn what_costs_less_hidden_stays_hidden() {
        assert_eq!(hidden(&mut Price::new(128, 128, 1000), 8, 16, true), 1000);
        assert_eq!(hidden(&mut Price::new(0, 128, 1000), 8, 1000, true), 1000, "nobody knows");
    }

    #[test]
    fn what_costs_less_at_home_goes_there() {
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
