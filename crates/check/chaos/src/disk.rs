//! Memory device with a volatile cache that preserves as little at a power cut as it is allowed to.
//!
//! Invariants
//! - `current` is the content that reads return, `durable` that of the medium; only dirty sectors
//!   differ.
//! - A sector is in `dirty` exactly once if its `stamp` is not 0, and not at all otherwise.
//! - A flush makes durable the writes that completed before its submission, and guarantees nothing
//!   else.

#[cfg(test)]
mod conform;
mod forgetful;
mod zoned;
mod zones;

use hostftl_core::{SECTOR, Segments};

use crate::dice::Dice;
pub(crate) use zones::{Refusal, Zones};

/// The sector is unreadable until it is written again.
const BAD: u8 = 1;
/// The sector contains metadata of the layer.
const META: u8 = 2;

/// Purpose of a written sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Payload or padding.
    Data,
    /// Metadata at a fixed address.
    Meta,
    /// Part of a log, submitted at this [`Disk::epoch`].
    Log(u32),
}

/// Part of the cache that survives a cut; drawn for each cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Only flushed writes.
    Nothing,
    /// All completed writes, and half of the rest.
    Everything,
    /// Each sector independently, with this probability in 1000.
    Each(u32),
    /// Writes after a random moment: the newest survive and older ones are lost.
    Newest,
    /// Writes before a random moment.
    Oldest,
}

/// Effect of a cut on sectors that were not durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Metadata sectors that survived.
    pub meta_kept: u32,
    /// Metadata sectors that were lost.
    pub meta_lost: u32,
    /// Sectors of any kind that were lost.
    pub lost: u32,
}

/// Memory device.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    current: Vec<u8>,
    durable: Vec<u8>,
    stamp: Vec<u32>,
    flags: Vec<u8>,
    dirty: Vec<u32>,
    clock: u32,
    covered: u32,
    destage: u32,
    volatile: bool,
    old: Option<(Vec<u8>, Option<Zones>)>,
    /// Segments, if the device is zoned.
    zones: Option<Zones>,
    /// For a zoned disk, flags, `born` and `settled` of the durable content.
    kept: Vec<(u8, u32, u32)>,
    /// Sectors that a failed flush marked clean, although they are not on the medium.
    doomed: Vec<u32>,
    /// Number of flushes so far.
    epoch: u32,
    /// For log sectors, the epoch of submission; else 0.
    born: Vec<u32>,
    /// For log sectors, the first epoch whose submissions can know that the sector is durable; else
    /// 0.
    settled: Vec<u32>,
}

impl Disk {
    /// Resets the device to blank with `sectors` sectors. With `volatile`, completed writes may be
    /// lost until a flush; `destage` in 1000 overwritten sectors reach the medium before they are
    /// overwritten. With `segments` the device is zoned.
    pub fn reset(
        &mut self,
        sectors: u64,
        volatile: bool,
        destage: u32,
        segments: Option<Segments>,
    ) {
        let sectors = sectors as usize;
        for image in [&mut self.current, &mut self.durable] {
            image.clear();
            image.resize(sectors * SECTOR, 0);
        }
        self.stamp.clear();
        self.stamp.resize(sectors, 0);
        self.flags.clear();
        self.flags.resize(sectors, 0);
        for marks in [&mut self.born, &mut self.settled] {
            marks.clear();
            marks.resize(sectors, 0);
        }
        self.dirty.clear();
        self.doomed.clear();
        (self.clock, self.covered, self.epoch) = (1, 0, 1);
        (self.destage, self.volatile, self.old) = (destage, volatile, None);
        self.zones = segments.map(Zones::new);
        self.kept.clear();
        self.kept.resize(if segments.is_some() { sectors } else { 0 }, (0, 0, 0));
    }

    /// Returns the length in sectors.
    pub fn sectors(&self) -> u64 {
        self.stamp.len() as u64
    }

    /// Returns the content, or `None` if a sector of the range is unreadable.
    pub fn read(&self, lba: u64, sectors: u32) -> Option<&[u8]> {
        let range = lba as usize..lba as usize + sectors as usize;
        if self.flags[range].iter().any(|flag| flag & BAD != 0) {
            return None;
        }
        Some(&self.current[lba as usize * SECTOR..][..sectors as usize * SECTOR])
    }

    /// Writes into the cache; `kind` returns the purpose of each sector.
    pub fn write(&mut self, lba: u64, bytes: &[u8], kind: impl Fn(u32) -> Kind, dice: &mut Dice) {
        let first = lba as usize;
        let count = bytes.len() / SECTOR;
        self.touch(first, count, dice);
        for index in 0..count {
            self.mark(first + index, kind(index as u32));
        }
        self.current[first * SECTOR..][..bytes.len()].copy_from_slice(bytes);
        self.settle(first, count);
    }

    /// Trims a range, which then reads zeros.
    pub fn trim(&mut self, lba: u64, sectors: u64, dice: &mut Dice) {
        let (first, count) = (lba as usize, sectors as usize);
        self.touch(first, count, dice);
        for sector in first..first + count {
            self.mark(sector, Kind::Data);
        }
        self.current[first * SECTOR..][..count * SECTOR].fill(0);
        self.settle(first, count);
    }

    fn mark(&mut self, sector: usize, kind: Kind) {
        self.flags[sector] = if kind == Kind::Data { 0 } else { META };
        self.born[sector] = if let Kind::Log(epoch) = kind { epoch } else { 0 };
        self.settled[sector] = 0;
    }

    /// Marks sectors dirty. Their previous cached content may reach the medium, and must if a flush
    /// in flight covers it.
    fn touch(&mut self, first: usize, count: usize, dice: &mut Dice) {
        self.clock += 1;
        for sector in first..first + count {
            match self.stamp[sector] {
                0 => self.dirty.push(sector as u32),
                old if old <= self.covered || dice.chance(self.destage) => self.harden(sector),
                _ => {}
            }
            self.stamp[sector] = self.clock;
        }
    }

    /// Makes the sectors durable immediately on a device without a volatile cache.
    fn settle(&mut self, first: usize, count: usize) {
        if !self.volatile {
            (first..first + count).for_each(|sector| self.harden(sector));
            self.stamp[first..first + count].fill(0);
            self.dirty.clear();
        }
    }

    fn harden(&mut self, sector: usize) {
        let range = sector * SECTOR..(sector + 1) * SECTOR;
        self.durable[range.clone()].copy_from_slice(&self.current[range]);
    }

    /// Records the submission of a flush; returns its stamp for [`Disk::flush`].
    pub fn begin_flush(&mut self) -> u32 {
        self.covered = self.clock;
        self.clock
    }

    /// Returns the number of completed flushes, which stamps log pages at submission.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Completes a flush that was submitted at `stamp`.
    pub fn flush(&mut self, stamp: u32) {
        self.epoch += 1;
        if self.zones.is_some() {
            return self.flush_zones(stamp);
        }
        let mut dirty = core::mem::take(&mut self.dirty);
        dirty.retain(|&sector| {
            let sector = sector as usize;
            let keep = self.stamp[sector] > stamp;
            if !keep {
                self.harden(sector);
                self.stamp[sector] = 0;
                self.settled[sector] = self.epoch;
            }
            keep
        });
        self.dirty = dirty;
    }

    /// After [`Disk::cut`], stores a sector of a write in flight that reached the medium.
    pub fn survive_in_flight(&mut self, sector: u64, bytes: &[u8], kind: Kind) {
        let at = sector as usize;
        self.durable[at * SECTOR..][..SECTOR].copy_from_slice(bytes);
        self.current[at * SECTOR..][..SECTOR].copy_from_slice(bytes);
        self.mark(at, kind);
    }

    /// Cuts the power: the part of the cache chosen by `survival` survives.
    pub fn cut(&mut self, survival: Survival, dice: &mut Dice) -> Losses {
        let mut losses = Losses::default();
        if self.zones.is_some() {
            return self.cut_zones(survival, dice);
        }
        let oldest = self.dirty.iter().map(|&s| self.stamp[s as usize]).min().unwrap_or(self.clock);
        let moment = dice.between(oldest.into(), self.clock.into()) as u32;
        for sector in core::mem::take(&mut self.dirty) {
            let sector = sector as usize;
            let keep = match survival {
                Survival::Nothing => false,
                Survival::Everything => true,
                Survival::Each(permille) => dice.chance(permille),
                Survival::Newest => self.stamp[sector] >= moment,
                Survival::Oldest => self.stamp[sector] < moment,
            };
            let meta = u32::from(self.flags[sector] & META != 0);
            if keep {
                self.harden(sector);
                losses.meta_kept += meta;
            } else {
                self.forget(sector);
                losses.meta_lost += meta;
                losses.lost += 1;
            }
            self.stamp[sector] = 0;
        }
        (self.clock, self.covered) = (1, 0);
        losses
    }

    fn forget(&mut self, sector: usize) {
        let range = sector * SECTOR..(sector + 1) * SECTOR;
        self.current[range.clone()].copy_from_slice(&self.durable[range]);
    }

    /// Copies the durable content, for [`Disk::go_stale`].
    pub fn remember(&mut self) {
        // The memory of the previous copy is reused, because new memory takes longer than the copy.
        let mut image = self.old.take().map_or(Vec::new(), |(image, _)| image);
        image.clone_from(&self.durable);
        self.old = Some((image, self.zones.as_ref().map(Zones::durable)));
    }

    /// Restores the content of [`Disk::remember`]. Returns false when there is none.
    pub fn go_stale(&mut self) -> bool {
        let Some((old, zones)) = self.old.take() else { return false };
        self.current.copy_from_slice(&old);
        (self.durable, self.zones) = (old, zones);
        true
    }

    /// Swaps the device and the copy of [`Disk::remember`]; a second call swaps them back.
    pub fn exchange(&mut self) {
        let (old, zones) = self.old.take().expect("a copy was made");
        self.current.copy_from_slice(&old);
        let before = core::mem::replace(&mut self.durable, old);
        // Without power, the content of its cache is lost.
        let zones_before = core::mem::replace(&mut self.zones, zones);
        self.old = Some((before, zones_before.as_ref().map(Zones::durable)));
    }

    /// Returns whether the durable content differs from the copy of [`Disk::remember`].
    pub fn differs(&self) -> bool {
        self.old.as_ref().is_some_and(|(old, _)| *old != self.durable)
    }

    /// Returns the content that reads return.
    pub fn bytes(&self) -> &[u8] {
        &self.current
    }

    /// Overwrites the medium from byte `at` on.
    pub fn patch(&mut self, at: usize, bytes: &[u8]) {
        self.current[at..][..bytes.len()].copy_from_slice(bytes);
        self.durable[at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Makes a sector unreadable.
    pub fn spoil(&mut self, sector: u64) {
        self.flags[sector as usize] |= BAD;
    }

    /// Flips one bit of a sector on the medium and in the cache.
    pub fn rot(&mut self, sector: u64, bit: u64) {
        let at = sector as usize * SECTOR + (bit / 8) as usize;
        self.current[at] ^= 1 << (bit % 8);
        self.durable[at] ^= 1 << (bit % 8);
    }

    /// Finds a data sector at or after `start`, wrapping around.
    pub fn find_data(&self, start: u64) -> Option<u64> {
        let is_data = |at: &u64| self.flags[*at as usize] & META == 0 && self.is_written(*at);
        (start..self.sectors()).chain(0..start).find(is_data)
    }

    /// Finds a data sector like [`Disk::find_data`] that was durable at epoch `known`.
    pub fn find_known_data(&self, start: u64, known: u32) -> Option<u64> {
        let is_known = |at: &u64| {
            let settled = self.settled[*at as usize];
            let is_data = self.flags[*at as usize] & META == 0 && self.is_written(*at);
            is_data && settled != 0 && settled <= known
        };
        (start..self.sectors()).chain(0..start).find(is_known)
    }

    /// Finds a data sector behind one of [`Disk::find_log`] that became durable with it.
    pub fn find_log_data(&self, start: u64) -> Option<u64> {
        let head = self.find_log(start)?;
        let settled = |at: &u64| self.settled[*at as usize] == self.settled[head as usize];
        let with = (head..self.sectors()).take_while(settled);
        with.into_iter().find(|at| self.flags[*at as usize] & META == 0)
    }

    /// Finds a metadata sector outside the log, at or after `start`, wrapping around.
    pub fn find_meta(&self, start: u64) -> Option<u64> {
        let fits = |at: &u64| {
            let at = *at as usize;
            self.flags[at] & META != 0 && self.born[at] == 0 && self.is_written(at as u64)
        };
        (start..self.sectors()).chain(0..start).find(fits)
    }

    /// Finds a log sector at or after `start`, wrapping around.
    pub fn find_any_log(&self, start: u64) -> Option<u64> {
        (start..self.sectors()).chain(0..start).find(|at| self.born[*at as usize] != 0)
    }

    /// Finds a log sector at or after `start`, wrapping around, that a later complete log page
    /// shows to be durable. Without such a page, damage is indistinguishable from a torn write.
    pub fn find_log(&self, start: u64) -> Option<u64> {
        let whole = self.born.iter().zip(&self.settled).filter(|(_, settled)| **settled != 0);
        let newest = whole.map(|(born, _)| *born).max().unwrap_or_default();
        let fits = |at: &u64| {
            let at = *at as usize;
            let known = self.settled[at] != 0 && self.settled[at] <= newest;
            self.born[at] != 0 && known && self.is_written(at as u64)
        };
        (start..self.sectors()).chain(0..start).find(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> (Disk, Dice) {
        let mut disk = Disk::default();
        disk.reset(64, true, 0, None);
        (disk, Dice::new(1, 1))
    }

    fn byte(disk: &Disk, sector: u64) -> u8 {
        disk.read(sector, 1).expect("readable")[0]
    }

    #[test]
    fn a_cut_loses_unflushed_writes() {
        let (mut disk, mut dice) = disk();
        disk.write(3, &[1; SECTOR], |_| Kind::Data, &mut dice);
        let stamp = disk.begin_flush();
        disk.write(4, &[2; SECTOR], |_| Kind::Data, &mut dice);
        disk.flush(stamp);
        assert_eq!((byte(&disk, 3), byte(&disk, 4)), (1, 2));
        assert_eq!(disk.cut(Survival::Nothing, &mut dice).lost, 1);
        assert_eq!((byte(&disk, 3), byte(&disk, 4)), (1, 0));
    }

    #[test]
    fn a_flush_keeps_covered_data_despite_overwrites() {
        let (mut disk, mut dice) = disk();
        disk.write(3, &[1; SECTOR], |_| Kind::Data, &mut dice);
        let stamp = disk.begin_flush();
        disk.write(3, &[2; SECTOR], |_| Kind::Data, &mut dice);
        disk.flush(stamp);
        disk.cut(Survival::Nothing, &mut dice);
        assert_eq!(byte(&disk, 3), 1);
    }

    #[test]
    fn a_device_without_a_cache_keeps_completed_writes() {
        let (mut disk, mut dice) = disk();
        disk.reset(64, false, 0, None);
        disk.write(3, &[1; SECTOR], |_| Kind::Data, &mut dice);
        disk.cut(Survival::Nothing, &mut dice);
        assert_eq!(byte(&disk, 3), 1);
    }

    #[test]
    fn the_newest_can_survive_without_the_older() {
        let (mut disk, mut dice) = disk();
        let mut seen = [false; 4];
        for _ in 0..64 {
            disk.reset(64, true, 0, None);
            disk.write(0, &[1; SECTOR], |_| Kind::Data, &mut dice);
            disk.write(1, &[1; SECTOR], |_| Kind::Data, &mut dice);
            disk.cut(Survival::Each(500), &mut dice);
            seen[usize::from(byte(&disk, 0) * 2 + byte(&disk, 1))] = true;
        }
        assert_eq!(seen, [true; 4]);
    }

    #[test]
    fn only_superseded_log_pages_may_be_corrupted() {
        let (mut disk, mut dice) = disk();
        let mut log = |disk: &mut Disk, at, epoch| {
            disk.write(at, &[1; SECTOR], |_| Kind::Log(epoch), &mut dice);
            let stamp = disk.begin_flush();
            disk.flush(stamp);
        };
        log(&mut disk, 7, 1);
        assert_eq!(disk.find_log(0), None);
        log(&mut disk, 9, 1);
        assert_eq!(disk.find_log(0), None, "it was submitted before the first was durable");
        let epoch = disk.epoch();
        log(&mut disk, 11, epoch);
        assert_eq!(disk.find_log(0), Some(7));
        assert_eq!(disk.find_log(8), Some(9));
        assert_eq!(disk.find_log(10), Some(7));
    }

    #[test]
    fn each_fault_does_its_harm() {
        let (mut disk, mut dice) = disk();
        disk.write(5, &[9; SECTOR], |_| Kind::Meta, &mut dice);
        let stamp = disk.begin_flush();
        disk.flush(stamp);
        assert_eq!(disk.find_meta(60), Some(5));
        disk.remember();
        disk.rot(5, 3);
        assert_eq!(byte(&disk, 5), 9 ^ 8);
        disk.spoil(5);
        assert!(disk.read(4, 3).is_none());
        disk.write(5, &[7; SECTOR], |_| Kind::Data, &mut dice);
        assert_eq!(byte(&disk, 5), 7);
        disk.exchange();
        assert!(disk.differs());
        assert_eq!(byte(&disk, 5), 9);
        disk.exchange();
        assert_eq!(byte(&disk, 5), 9 ^ 8, "later writes are not durable");
        disk.exchange();
        disk.remember();
        assert!(!disk.differs() && disk.go_stale());
        assert_eq!(byte(&disk, 5), 9);
    }
}
