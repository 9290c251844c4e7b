//! Operations of a zoned disk: programs at the write pointer, resets, and cuts that preserve the
//! order within segments.

use std::ops::Range;

use hostftl_core::{About, DeviceError, MetaBuf, SECTOR, Verdict};

use super::zones::Zone;
use super::{Disk, Kind, Losses, META, Refusal, Survival};
use crate::dice::Dice;

impl Disk {
    /// Returns the segment of a range, on a zoned disk.
    pub fn segment_at(&self, lba: u64) -> Option<u64> {
        self.zones.as_ref().map(|zones| lba / u64::from(zones.shape.size))
    }

    /// Returns the write pointers of its segments.
    pub fn pointers(&self) -> Vec<u32> {
        let list = self.zones.iter().flat_map(|zones| &zones.list);
        list.map(|zone| zone.pointer).collect()
    }

    /// Sets the write pointers of its segments.
    pub fn set_pointers(&mut self, pointers: &[u32]) {
        let list = self.zones.iter_mut().flat_map(|zones| &mut zones.list);
        for (zone, &pointer) in list.zip(pointers) {
            (zone.pointer, zone.durable, zone.reset) = (pointer, pointer, 0);
        }
    }

    /// Checks that the range can be read now; always true without segments.
    ///
    /// # Errors
    /// The reason for the refusal.
    pub fn may_read(&self, lba: u64, sectors: u64) -> Result<(), Refusal> {
        self.zones.as_ref().map_or(Ok(()), |zones| zones.may_read(lba, sectors))
    }

    /// Reports on the device.
    ///
    /// # Errors
    /// `Unsupported` without segments.
    pub fn report(&self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        let zones = self.zones.as_ref().ok_or(DeviceError::Unsupported)?;
        zones.report(about, into)
    }

    /// Writes at the write pointer of a segment, into the cache.
    ///
    /// # Errors
    /// The reason why the segment refuses the write.
    ///
    /// # Panics
    /// When the disk has no segments.
    pub fn append(
        &mut self,
        lba: u64,
        bytes: &[u8],
        kind: impl Fn(u32) -> Kind,
    ) -> Result<(), Refusal> {
        let count = bytes.len() / SECTOR;
        let zones = self.zones.as_ref().expect("a zoned disk");
        zones.may_write(lba, count as u64)?;
        let (index, at) = zones.place(lba, count as u64)?;
        if at == 0 && zones.is_tight() {
            (0..zones.list.len()).for_each(|index| self.settle_zone(index, u32::MAX));
        }
        self.clock += 1;
        let first = lba as usize;
        for sector in 0..count {
            self.mark(first + sector, kind(sector as u32));
        }
        self.stamp[first..first + count].fill(self.clock);
        self.current[first * SECTOR..][..bytes.len()].copy_from_slice(bytes);
        let clock = self.clock;
        let zone = self.zone(index);
        (zone.pointer, zone.last) = (at + count as u32, clock);
        if !self.volatile {
            self.settle_zone(index, u32::MAX);
        }
        Ok(())
    }

    /// Resets a segment in the cache. Some of its previous content may reach the medium first, and
    /// must if a flush in flight covers it.
    ///
    /// # Errors
    /// The reason why the segment refuses the reset.
    ///
    /// # Panics
    /// When the disk has no segments.
    pub fn wipe(&mut self, lba: u64, sectors: u64, dice: &mut Dice) -> Result<(), Refusal> {
        let zones = self.zones.as_ref().expect("a zoned disk");
        zones.may_reset(lba, sectors)?;
        let (index, _) = zones.place(lba, sectors)?;
        if zones.list[index].pointer == 0 {
            return Ok(());
        }
        self.settle_zone(index, self.covered);
        if dice.chance(self.destage) {
            let upto = dice.below(u64::from(self.clock) + 1) as u32;
            self.settle_zone(index, upto);
        }
        self.clock += 1;
        let clock = self.clock;
        let range = lba as usize..(lba + sectors) as usize;
        self.flags[range.clone()].fill(0);
        self.stamp[range].fill(0);
        let zone = self.zone(index);
        let on_medium = zone.durable > 0 || zone.reset > 0;
        zone.reset = if on_medium { clock } else { 0 };
        (zone.pointer, zone.last) = (0, clock);
        self.zones.as_mut().expect("a zoned disk").count_erase(index);
        if !self.volatile {
            self.settle_zone(index, u32::MAX);
        }
        Ok(())
    }

    /// Takes the segment at `lba` offline after a failed program or reset.
    ///
    /// # Panics
    /// When the disk has no segments.
    pub fn break_segment(&mut self, lba: u64, by_reset: bool) {
        let index = self.segment_at(lba).expect("a zoned disk") as usize;
        let zone = self.zone(index);
        zone.offline = true;
        if by_reset {
            (zone.pointer, zone.durable, zone.reset) = (0, 0, 0);
        }
    }

    /// Marks the segment at `lba` bad or good, which is durable immediately.
    ///
    /// # Errors
    /// When no segment starts there.
    ///
    /// # Panics
    /// When the disk has no segments.
    pub fn mark_segment(&mut self, lba: u64, bad: bool) -> Result<(), Refusal> {
        let zones = self.zones.as_ref().expect("a zoned disk");
        let (index, at) = zones.place(lba, 1)?;
        if at != 0 {
            return Err(Refusal::Rule("a mark within a segment"));
        }
        let zone = self.zone(index);
        if zone.offline != bad {
            zone.offline = bad;
            if !bad {
                (zone.pointer, zone.durable, zone.reset) = (0, 0, 0);
            }
        }
        Ok(())
    }

    /// Returns the number of offline segments, and the number of all segments.
    pub fn offline(&self) -> (usize, usize) {
        self.offline_in(0..self.sectors())
    }

    /// Returns the same numbers for the segments that start in a range of sectors.
    pub fn offline_in(&self, sectors: Range<u64>) -> (usize, usize) {
        let Some(zones) = &self.zones else { return (0, 0) };
        let size = u64::from(zones.shape.size);
        let [first, end] = [sectors.start, sectors.end].map(|at| at.div_ceil(size) as usize);
        let zones = &zones.list[first..end.min(zones.list.len())];
        (zones.iter().filter(|zone| zone.offline).count(), zones.len())
    }

    /// After [`Disk::cut`], stores a prefix of a program in flight; `keep` decides unit by unit
    /// whether the prefix continues. Returns the sectors that reached the medium and those that did
    /// not.
    pub fn tear_append(
        &mut self,
        lba: u64,
        bytes: &[u8],
        kind: impl Fn(u32) -> Kind,
        mut keep: impl FnMut() -> bool,
    ) -> (u32, u32) {
        let unit = self.zones.as_ref().expect("a zoned disk").shape.write_unit as usize;
        let mut kept = 0;
        for part in bytes.chunks(unit * SECTOR) {
            let at = lba + u64::from(kept);
            if !keep() || self.append(at, part, |sector| kind(kept + sector)).is_err() {
                break;
            }
            kept += unit as u32;
        }
        if let Some(index) = self.segment_at(lba).filter(|_| kept > 0) {
            self.settle_zone(index as usize, u32::MAX);
        }
        (kept, (bytes.len() / SECTOR) as u32 - kept)
    }

    /// After [`Disk::cut`], applies a reset in flight that reached the medium.
    pub fn tear_wipe(&mut self, lba: u64, sectors: u64, dice: &mut Dice) {
        if self.wipe(lba, sectors, dice).is_ok() {
            let index = self.segment_at(lba).expect("a zoned disk");
            self.settle_zone(index as usize, u32::MAX);
        }
    }

    /// Returns whether a sector is written; always true without segments.
    pub(super) fn is_written(&self, sector: u64) -> bool {
        self.zones.as_ref().is_none_or(|zones| zones.is_written(sector))
    }

    /// Flushes a zoned disk; see [`Disk::flush`].
    pub(super) fn flush_zones(&mut self, stamp: u32) {
        let zones = self.zones.as_ref().expect("a zoned disk");
        for index in 0..zones.list.len() {
            if !self.zone(index).doomed {
                self.settle_zone(index, stamp);
            }
        }
    }

    /// Fails a flush of a zoned disk; see [`Disk::flush_fails`]. `doomed` in 1000 dirty segments
    /// lose their changes.
    pub(super) fn doom_zones(&mut self, stamp: u32, doomed: u32, dice: &mut Dice) {
        for index in 0..self.zones.as_ref().expect("a zoned disk").list.len() {
            let zone = self.zone(index);
            let dirty = zone.reset > 0 || zone.durable < zone.pointer;
            if dirty && dice.chance(doomed) {
                zone.doomed = true;
            } else if dirty && !zone.doomed && dice.chance(500) {
                self.settle_zone(index, stamp);
            }
        }
    }

    /// Reopens a zoned disk; see [`Disk::reopen`].
    pub(super) fn reopen_zones(&mut self, dice: &mut Dice) -> u32 {
        let mut losses = Losses::default();
        for index in 0..self.zones.as_ref().expect("a zoned disk").list.len() {
            if core::mem::take(&mut self.zone(index).doomed) {
                self.cut_zone(index, Survival::Nothing, 0, dice, &mut losses);
            }
        }
        losses.lost
    }

    /// Cuts the power of a zoned disk; see [`Disk::cut`].
    pub(super) fn cut_zones(&mut self, survival: Survival, dice: &mut Dice) -> Losses {
        let mut losses = Losses::default();
        let oldest = self.stamp.iter().copied().filter(|&stamp| stamp > 0).min();
        let oldest = oldest.unwrap_or(self.clock).min(self.clock);
        let moment = dice.between(oldest.into(), self.clock.into()) as u32;
        let zones = self.zones.as_ref().expect("a zoned disk");
        for index in 0..zones.list.len() {
            self.cut_zone(index, survival, moment, dice, &mut losses);
        }
        self.stamp.fill(0);
        (self.clock, self.covered) = (1, 0);
        losses
    }

    fn cut_zone(
        &mut self,
        index: usize,
        survival: Survival,
        moment: u32,
        dice: &mut Dice,
        losses: &mut Losses,
    ) {
        let zones = self.zones.as_ref().expect("a zoned disk");
        let size = zones.shape.size as usize;
        let Zone { pointer, reset, .. } = zones.list[index];
        let was = match reset {
            0 => zones.list[index].durable as usize,
            _ => 0,
        };
        let end = zones.surviving(index, survival, moment, &self.stamp, dice);
        let now = end.map_or(0, |end| end as usize);
        let first = index * size;
        let is_meta = |flag: &&u8| **flag & META != 0;
        let meta = |range: &[u8]| range.iter().filter(is_meta).count() as u32;
        losses.meta_kept += meta(&self.flags[first + was..first + now.max(was)]);
        losses.meta_lost += meta(&self.flags[first + now..first + (pointer as usize).max(now)]);
        losses.lost += (pointer as usize).saturating_sub(now) as u32;
        match end {
            Some(end) => self.harden_zone(index, end),
            None => self.restore(index),
        }
        let zone = self.zone(index);
        (zone.pointer, zone.reset, zone.last) = (zone.durable, 0, 0);
        zone.doomed = false;
    }

    /// Undoes a reset: reads return the content of the medium again.
    fn restore(&mut self, index: usize) {
        let zones = self.zones.as_ref().expect("a zoned disk");
        let first = index * zones.shape.size as usize;
        for sector in first..first + zones.list[index].durable as usize {
            self.forget(sector);
            (self.flags[sector], self.born[sector], self.settled[sector]) = self.kept[sector];
        }
    }

    /// Makes durable the changes of a segment up to stamp `upto`.
    fn settle_zone(&mut self, index: usize, upto: u32) {
        let zones = self.zones.as_ref().expect("a zoned disk");
        if let Some(end) = zones.reach(index, upto, &self.stamp) {
            self.harden_zone(index, end);
        }
    }

    /// Makes a segment durable up to `end`, including the reset before it.
    fn harden_zone(&mut self, index: usize, end: u32) {
        let first = index * self.zones.as_ref().expect("a zoned disk").shape.size as usize;
        let zone = self.zone(index);
        if zone.reset > 0 {
            (zone.durable, zone.reset) = (0, 0);
        }
        let from = zone.durable;
        zone.durable = end;
        for sector in first + from as usize..first + end as usize {
            self.harden(sector);
            (self.stamp[sector], self.settled[sector]) = (0, self.epoch);
            self.kept[sector] = (self.flags[sector], self.born[sector], self.settled[sector]);
        }
    }

    fn zone(&mut self, index: usize) -> &mut Zone {
        &mut self.zones.as_mut().expect("a zoned disk").list[index]
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::Segments;

    use super::*;

    const SHAPE: Segments = Segments {
        size: 64,
        write_unit: 8,
        write_best: 8,
        unreadable: 0,
        max_open: 2,
        count: 4,
        units: 1,
    };

    fn disk() -> (Disk, Dice) {
        let mut disk = Disk::default();
        disk.reset(256, true, 0, Some(SHAPE));
        (disk, Dice::new(1, 1))
    }

    fn put(disk: &mut Disk, lba: u64, sectors: usize, byte: u8) -> Result<(), Refusal> {
        disk.append(lba, &vec![byte; sectors * SECTOR], |_| Kind::Data)
    }

    fn flush(disk: &mut Disk) {
        let stamp = disk.begin_flush();
        disk.flush(stamp);
    }

    fn byte(disk: &Disk, sector: u64) -> Option<u8> {
        disk.may_read(sector, 1).ok()?;
        disk.read(sector, 1).map(|bytes| bytes[0])
    }

    #[test]
    fn a_cut_undoes_a_reset_or_keeps_a_prefix_of_later_writes() {
        let mut seen = [0; 5];
        for seed in 0..200 {
            let (mut disk, _) = disk();
            let mut dice = Dice::new(seed, 2);
            put(&mut disk, 64, 16, 1).unwrap();
            flush(&mut disk);
            disk.wipe(64, 64, &mut dice).unwrap();
            assert_eq!(byte(&disk, 64), None, "it reads nothing at once");
            put(&mut disk, 64, 8, 2).unwrap();
            put(&mut disk, 72, 16, 3).unwrap();
            disk.cut(Survival::Each(500), &mut dice);
            let found = [64, 72, 80, 88].map(|at| byte(&disk, at));
            let outcomes = [
                [Some(1), Some(1), None, None],
                [None; 4],
                [Some(2), None, None, None],
                [Some(2), Some(3), None, None],
                [Some(2), Some(3), Some(3), None],
            ];
            let which = outcomes.iter().position(|it| *it == found);
            seen[which.unwrap_or_else(|| panic!("{found:?}"))] += 1;
        }
        assert!(seen.iter().all(|&times| times > 5), "{seen:?}");
    }

    #[test]
    fn flushed_data_survives_an_undone_reset() {
        let (mut disk, mut dice) = disk();
        put(&mut disk, 0, 8, 1).unwrap();
        let stamp = disk.begin_flush();
        disk.wipe(0, 64, &mut dice).unwrap();
        disk.flush(stamp);
        disk.cut(Survival::Nothing, &mut dice);
        assert_eq!((byte(&disk, 7), byte(&disk, 8)), (Some(1), None));
        assert_eq!(put(&mut disk, 8, 8, 2), Ok(()), "it goes on at the pointer");
    }

    #[test]
    fn a_failed_flush_loses_segments_and_later_flushes_succeed() {
        let mut seen = [false; 2];
        for seed in 0..64 {
            let (mut disk, _) = disk();
            let mut dice = Dice::new(seed, 3);
            put(&mut disk, 0, 8, 1).unwrap();
            flush(&mut disk);
            put(&mut disk, 8, 8, 2).unwrap();
            let stamp = disk.begin_flush();
            disk.flush_fails(stamp, &mut dice);
            flush(&mut disk);
            assert_eq!((byte(&disk, 7), byte(&disk, 15)), (Some(1), Some(2)), "reads show it");
            let lost = disk.reopen(&mut dice) > 0;
            assert_eq!((byte(&disk, 7), byte(&disk, 15).is_none()), (Some(1), lost));
            let at = if lost { 8 } else { 16 };
            assert_eq!(put(&mut disk, at, 8, 3), Ok(()), "it goes on at the pointer");
            seen[usize::from(lost)] = true;
        }
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn a_cut_respects_the_limit_of_open_segments() {
        let (mut disk, mut dice) = disk();
        put(&mut disk, 0, 8, 1).unwrap();
        put(&mut disk, 64, 8, 1).unwrap();
        flush(&mut disk);
        put(&mut disk, 8, 56, 1).unwrap();
        put(&mut disk, 128, 8, 1).unwrap();
        disk.cut(Survival::Nothing, &mut dice);
        assert!(byte(&disk, 63).is_some(), "the full one is full, or three would be open");
        assert!(matches!(put(&mut disk, 192, 8, 1), Ok(())));
        assert!(matches!(put(&mut disk, 128, 8, 1), Err(Refusal::Rule(_))));
    }

    #[test]
    fn a_broken_segment_keeps_its_data_unless_a_reset_failed() {
        let (mut disk, mut dice) = disk();
        for first in [0, 64] {
            put(&mut disk, first, 8, 1).unwrap();
            disk.break_segment(first, first == 64);
            assert_eq!(put(&mut disk, first + 8, 8, 1), Err(Refusal::Offline));
            assert_eq!(disk.wipe(first, 64, &mut dice), Err(Refusal::Offline));
        }
        flush(&mut disk);
        disk.cut(Survival::Nothing, &mut dice);
        assert_eq!((byte(&disk, 7), byte(&disk, 64)), (Some(1), None));
        assert_eq!(disk.offline(), (2, 4));
    }

    #[test]
    fn a_program_in_flight_at_a_cut_is_written_from_its_beginning() {
        let (mut disk, mut dice) = disk();
        put(&mut disk, 0, 8, 1).unwrap();
        flush(&mut disk);
        disk.cut(Survival::Nothing, &mut dice);
        let mut units = 0;
        let keep = || {
            units += 1;
            units <= 2
        };
        assert_eq!(disk.tear_append(8, &[2; 32 * SECTOR], |_| Kind::Data, keep), (16, 16));
        assert_eq!((byte(&disk, 23), byte(&disk, 24)), (Some(2), None));
        let behind = disk.tear_append(40, &[3; 8 * SECTOR], |_| Kind::Data, || true);
        assert_eq!(behind, (0, 8), "a write not at the pointer never arrived");
    }
}
