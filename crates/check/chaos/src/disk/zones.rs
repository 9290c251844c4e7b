//! Segments of a zoned disk: their write rules, and their state after a cut.
//!
//! Invariants
//! - All sectors below `pointer` were written in order since the last reset. A cut cannot take back
//!   the sectors below `durable`.
//! - While `reset` is not 0, the medium still has the content before that reset.
//! - The number of open segments never exceeds the geometry's limit, not even after a cut.

use hostftl_core::{About, DeviceError, MetaBuf, Segments, Verdict};
use hostftl_format::report::{self, SegmentReport, SegmentState};

use super::Survival;
use crate::dice::Dice;

/// Segment. Pointers are in sectors from its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Zone {
    /// Write pointer.
    pub pointer: u32,
    /// Write pointer after a cut that loses as much as possible.
    pub durable: u32,
    /// Stamp of a reset that a cut can take back; else 0.
    pub reset: u32,
    /// Stamp of the last program or reset.
    pub last: u32,
    /// Whether the segment failed.
    pub offline: bool,
    /// Whether a failed flush marked all of it clean. The segment returns to its durable state when
    /// the device is reopened.
    pub doomed: bool,
    erased: u32,
}

/// Reason why a segment refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The layer violated a rule.
    Rule(&'static str),
    /// The range is not readable now.
    Unreadable,
    /// The segment failed.
    Offline,
}

impl From<Refusal> for DeviceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Rule(_) => DeviceError::Unsupported,
            Refusal::Unreadable | Refusal::Offline => DeviceError::Media,
        }
    }
}

/// All segments of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    /// Geometry.
    pub shape: Segments,
    /// Segments by index.
    pub list: Vec<Zone>,
}

impl Zones {
    /// Creates free segments.
    pub(crate) fn new(shape: Segments) -> Self {
        Zones { shape, list: vec![Zone::default(); shape.count as usize] }
    }

    /// Returns the segment of a range, and the offset of the range in it.
    pub(crate) fn place(&self, lba: u64, sectors: u64) -> Result<(usize, u32), Refusal> {
        let size = u64::from(self.shape.size);
        let (index, at) = (lba / size, lba % size);
        let fits = sectors > 0 && at + sectors <= size && index < self.list.len() as u64;
        let place = fits.then_some((index as usize, at as u32));
        place.ok_or(Refusal::Rule("a range beyond its segment"))
    }

    /// Checks that a write is permitted now.
    pub(crate) fn may_write(&self, lba: u64, sectors: u64) -> Result<(), Refusal> {
        let (index, at) = self.place(lba, sectors)?;
        let zone = &self.list[index];
        if zone.offline {
            return Err(Refusal::Offline);
        }
        if at != zone.pointer {
            return Err(Refusal::Rule("a write that is not at the write pointer"));
        }
        if !sectors.is_multiple_of(self.shape.write_unit.into()) {
            return Err(Refusal::Rule("a write that is not a multiple of the write unit"));
        }
        let most = self.shape.max_open;
        if at == 0 && most > 0 && self.open() >= most {
            return Err(Refusal::Rule("a write that opens one segment too many"));
        }
        Ok(())
    }

    /// Checks that a segment can be reset now.
    pub(crate) fn may_reset(&self, lba: u64, sectors: u64) -> Result<(), Refusal> {
        let (index, at) = self.place(lba, sectors)?;
        if at != 0 || sectors != u64::from(self.shape.size) {
            return Err(Refusal::Rule("a reset of something else than one segment"));
        }
        if self.list[index].offline { Err(Refusal::Offline) } else { Ok(()) }
    }

    /// Checks that a range can be read now.
    pub(crate) fn may_read(&self, lba: u64, sectors: u64) -> Result<(), Refusal> {
        let (index, at) = self.place(lba, sectors)?;
        let Zone { pointer, offline, .. } = self.list[index];
        let readable = if offline || pointer == self.shape.size {
            pointer
        } else {
            pointer.saturating_sub(self.shape.unreadable)
        };
        let fits = at + sectors as u32 <= readable;
        if fits { Ok(()) } else { Err(Refusal::Unreadable) }
    }

    /// Returns whether a sector is written.
    pub(crate) fn is_written(&self, sector: u64) -> bool {
        let size = u64::from(self.shape.size);
        sector % size < self.list[(sector / size) as usize].pointer.into()
    }

    /// Returns the number of partly written segments, from the point of view of reads.
    fn open(&self) -> u32 {
        let open = |zone: &&Zone| self.is_partial(zone.pointer) && !zone.offline;
        self.list.iter().filter(open).count() as u32
    }

    fn is_partial(&self, pointer: u32) -> bool {
        pointer > 0 && pointer < self.shape.size
    }

    /// Returns whether one more open segment could exceed the limit after a cut, unless everything
    /// becomes durable.
    pub(crate) fn is_tight(&self) -> bool {
        let either = |zone: &&Zone| {
            !zone.offline && (self.is_partial(zone.pointer) || self.is_partial(zone.durable))
                || zone.reset > 0
                || zone.durable < zone.pointer && zone.pointer == self.shape.size
        };
        let open = self.list.iter().filter(either).count() as u32;
        self.shape.max_open > 0 && open >= self.shape.max_open
    }

    /// Returns the durable length of a segment when everything up to stamp `upto` is durable;
    /// `None` when not even its reset is.
    pub(crate) fn reach(&self, index: usize, upto: u32, stamps: &[u32]) -> Option<u32> {
        let zone = &self.list[index];
        if zone.reset > upto {
            return None;
        }
        let from = if zone.reset > 0 { 0 } else { zone.durable };
        let of_zone = &stamps[index * self.shape.size as usize..];
        (from..=zone.pointer).find(|&at| at == zone.pointer || of_zone[at as usize] > upto)
    }

    /// Returns the durable length of a segment after a cut.
    pub(crate) fn surviving(
        &self,
        index: usize,
        survival: Survival,
        moment: u32,
        stamps: &[u32],
        dice: &mut Dice,
    ) -> Option<u32> {
        let zone = &self.list[index];
        match survival {
            _ if zone.doomed => self.reach(index, 0, stamps),
            Survival::Nothing => self.reach(index, 0, stamps),
            Survival::Everything => Some(zone.pointer),
            Survival::Oldest => self.reach(index, moment - 1, stamps),
            Survival::Newest if zone.last >= moment => Some(zone.pointer),
            Survival::Newest => self.reach(index, 0, stamps),
            Survival::Each(permille) => {
                let least = self.reach(index, 0, stamps);
                let units = (zone.pointer - least.unwrap_or(0)) / self.shape.write_unit;
                if !dice.chance(permille) {
                    return least;
                }
                let kept = dice.between(u64::from(least.is_some()).min(units.into()), units.into());
                Some(least.unwrap_or(0) + kept as u32 * self.shape.write_unit)
            }
        }
    }

    /// Returns the state of the medium.
    pub(crate) fn durable(&self) -> Self {
        let durable =
            |zone: &Zone| Zone { pointer: zone.durable, reset: 0, last: 0, doomed: false, ..*zone };
        Zones { shape: self.shape, list: self.list.iter().map(durable).collect() }
    }

    /// Counts an erase of a segment.
    pub(crate) fn count_erase(&mut self, index: usize) {
        self.list[index].erased += 1;
    }

    /// Reports the states of segments (`About::Segments`).
    pub(crate) fn report(&self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        let About::Segments(from) = about else { return Err(DeviceError::Unsupported) };
        let (size, mut count) = (u64::from(self.shape.size), 0);
        for (index, zone) in self.list.iter().enumerate().skip(from as usize) {
            let state = match zone.pointer {
                _ if zone.offline => SegmentState::Offline,
                0 => SegmentState::Free,
                pointer if self.is_partial(pointer) => SegmentState::Open,
                _ => SegmentState::Closed,
            };
            let entry = SegmentReport {
                state,
                wear: zone.erased.min(255) as u8,
                start: index as u64 * size,
                length: size,
                pointer: zone.pointer.into(),
            };
            if !report::put_segment(into.pages_mut(), count, &entry) {
                break;
            }
            count += 1;
        }
        Ok(Verdict { bytes: (count * report::SEGMENT_BYTES) as u32, crc: 0 })
    }
}
