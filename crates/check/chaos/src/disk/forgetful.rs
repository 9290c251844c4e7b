//! Failed flushes: some of the sectors that they cover are marked clean but not durable.

use hostftl_core::SECTOR;

use super::Disk;
use crate::dice::Dice;

impl Disk {
    /// Fails a flush that was submitted at `stamp`. Of the sectors that it covers, some are
    /// durable, some stay dirty, and some are lost when the device is reopened.
    pub fn flush_fails(&mut self, stamp: u32, dice: &mut Dice) {
        let doomed = dice.pick(&[200, 1000, 1000]);
        if self.zones.is_some() {
            return self.doom_zones(stamp, doomed, dice);
        }
        let mut dirty = core::mem::take(&mut self.dirty);
        dirty.retain(|&sector| {
            let at = sector as usize;
            if self.stamp[at] > stamp {
                return true;
            }
            if dice.chance(doomed) {
                self.doomed.push(sector);
            } else if dice.chance(500) {
                self.harden(at);
                self.settled[at] = self.epoch;
            } else {
                return true;
            }
            self.stamp[at] = 0;
            false
        });
        self.dirty = dirty;
    }

    /// Opens the device again, which discards the sectors that a failed flush marked clean. Returns
    /// the number of sectors that changed.
    pub fn reopen(&mut self, dice: &mut Dice) -> u32 {
        if self.zones.is_some() {
            return self.reopen_zones(dice);
        }
        let mut lost = 0;
        for sector in core::mem::take(&mut self.doomed) {
            let range = sector as usize * SECTOR..(sector as usize + 1) * SECTOR;
            // Sectors that were written again since are dirty or durable.
            if self.stamp[sector as usize] == 0 {
                lost += u32::from(self.current[range.clone()] != self.durable[range]);
                self.forget(sector as usize);
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Survival};
    use super::*;

    fn disk() -> Disk {
        let mut disk = Disk::default();
        disk.reset(64, true, 0, None);
        disk
    }

    fn byte(disk: &Disk, sector: u64) -> u8 {
        disk.read(sector, 1).expect("readable")[0]
    }

    #[test]
    fn a_failed_flush_loses_data_and_later_flushes_succeed() {
        let mut seen = [false; 2];
        for seed in 0..64 {
            let mut disk = disk();
            let mut dice = Dice::new(seed, 1);
            disk.write(3, &[1; SECTOR], |_| Kind::Data, &mut dice);
            let stamp = disk.begin_flush();
            disk.write(4, &[2; SECTOR], |_| Kind::Data, &mut dice);
            disk.flush_fails(stamp, &mut dice);
            let stamp = disk.begin_flush();
            disk.flush(stamp);
            assert_eq!((byte(&disk, 3), byte(&disk, 4)), (1, 2), "reads show it");
            let lost = disk.reopen(&mut dice);
            assert_eq!((byte(&disk, 3), byte(&disk, 4)), (u8::from(lost == 0), 2));
            seen[lost as usize] = true;
        }
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn data_rewritten_after_a_failed_flush_is_kept() {
        for seed in 0..16 {
            let mut disk = disk();
            let mut dice = Dice::new(seed, 1);
            disk.write(3, &[1; SECTOR], |_| Kind::Data, &mut dice);
            let stamp = disk.begin_flush();
            disk.flush_fails(stamp, &mut dice);
            disk.write(3, &[2; SECTOR], |_| Kind::Data, &mut dice);
            let stamp = disk.begin_flush();
            disk.flush(stamp);
            disk.cut(Survival::Nothing, &mut dice);
            disk.reopen(&mut dice);
            assert_eq!(byte(&disk, 3), 2);
        }
    }
}
