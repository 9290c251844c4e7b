//! A raw device: segments with write pointers over modelled flash, without translation. A ZNS zone
//! and an Open-Channel chunk are the same thing; this enforces what they demand of a host.
//!
//! What the flash does for it is told to a sink, as by a [`Pool`](crate::pool::Pool): pages are
//! numbered through all segments, and a segment lies on one parallel unit.
//!
//! Invariants
//! - A segment is free (nothing written), open, closed (written to its end) or offline, and stays
//!   so.
//! - Its write pointer is a multiple of the smallest write; free ones are at 0, closed ones at the
//!   end.
//! - No more segments are open than the device allows.
//! - A command that is refused changes nothing. One that fails takes its segment offline, which
//!   then can be read up to its pointer: all that was written, or nothing after a reset.

pub mod rules;
mod saved;
mod spec;

use std::ops::Range;

use hostftl_core::{About, Command, DeviceError, DeviceInfo, MetaBuf, Verdict};
use hostftl_format::report::{self, SegmentReport, SegmentState};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use thiserror::Error;

use crate::pool::FlashOp;
pub use spec::{ZonedFaults, ZonedSpec, ZonedSpecError};

/// Why a raw device refuses a command. Places are in sectors.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of each names its fields")]
pub enum Refusal {
    #[error("{lba}+{sectors} is not within one segment of the device")]
    Range { lba: u64, sectors: u64 },
    #[error("a write at {at} of a segment whose write pointer is at {pointer}")]
    NotAtPointer { at: u32, pointer: u32 },
    #[error("a write of {sectors} sectors: the unit is {unit}")]
    Uneven { sectors: u64, unit: u32 },
    #[error("{0} segments are open, which is all that the device allows")]
    TooManyOpen(u32),
    #[error("only the first {0} sectors of the segment can be read now")]
    Unreadable(u32),
    #[error("the segment is offline")]
    Offline,
    #[error("it failed, and its segment is offline now")]
    Failed,
    #[error("a raw device has no such command")]
    Unknown,
}

impl From<Refusal> for DeviceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unreadable(_) | Refusal::Offline | Refusal::Failed => DeviceError::Media,
            _ => DeviceError::Unsupported,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// In pages.
    pointer: u32,
    /// How often it was erased.
    erased: u32,
    offline: bool,
}

/// See the module text.
#[derive(Debug)]
pub struct Zoned {
    spec: ZonedSpec,
    segments: Vec<Segment>,
    open: u32,
    dice: Xoshiro256PlusPlus,
}

impl Zoned {
    /// A device of erased segments, of which some may be bad.
    ///
    /// # Errors
    /// As [`ZonedSpec::check`].
    pub fn new(spec: ZonedSpec) -> Result<Self, ZonedSpecError> {
        spec.check()?;
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(spec.faults.seed ^ 0x0cdd);
        let bad = spec.faults.bad_permille;
        let mut segment = || Segment {
            pointer: 0,
            erased: 0,
            offline: bad > 0 && dice.random_range(0..1000) < bad,
        };
        let segments = (0..spec.count()).map(|_| segment()).collect();
        Ok(Zoned { segments, open: 0, dice, spec })
    }

    /// Changes what fails from now on.
    pub fn set_faults(&mut self, faults: ZonedFaults) {
        self.spec.faults = faults;
    }

    /// Whether something fails of which `ppm` in a million do.
    fn fails(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.dice.random_range(0..1_000_000) < ppm
    }

    /// What the host sees of it.
    pub fn info(&self) -> DeviceInfo {
        self.spec.device_info()
    }

    /// What it is made of.
    pub fn spec(&self) -> &ZonedSpec {
        &self.spec
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        (self.segments.len() * size_of::<Segment>()) as u64
    }

    /// Pages that are written.
    pub fn written(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.pointer)).sum()
    }

    /// Takes a read, a write, a reset, a mark or a flush. What the flash does is told to `sink`,
    /// but for a read: its pages are given back, and the caller's clock reads them.
    ///
    /// # Errors
    /// Why the device refuses it.
    pub fn submit(
        &mut self,
        command: &Command,
        sink: &mut impl FnMut(FlashOp),
    ) -> Result<Range<u32>, Refusal> {
        match command {
            Command::Read { lba, into, .. } => return self.read(*lba, into.sectors().into()),
            Command::Program { lba, tally, .. } => self.write(*lba, tally.total().into(), sink)?,
            Command::Reset { lba, sectors, .. } => self.reset(*lba, *sectors, sink)?,
            Command::Mark { lba, bad, .. } => self.mark(*lba, *bad, sink)?,
            Command::Flush { .. } => {}
            _ => return Err(Refusal::Unknown),
        }
        Ok(0..0)
    }

    /// Writes at the pointer of a segment.
    ///
    /// # Errors
    /// When it is not at the pointer, not whole, too long, opens one segment too many, or fails.
    pub fn write(
        &mut self,
        lba: u64,
        sectors: u64,
        sink: &mut impl FnMut(FlashOp),
    ) -> Result<(), Refusal> {
        let (index, at) = self.place(lba, sectors)?;
        let Segment { pointer, offline, .. } = self.segments[index as usize];
        let unit = self.spec.write * self.spec.page_sectors;
        if offline {
            return Err(Refusal::Offline);
        }
        if at != pointer * self.spec.page_sectors {
            let pointer = pointer * self.spec.page_sectors;
            return Err(Refusal::NotAtPointer { at, pointer });
        }
        if !sectors.is_multiple_of(unit.into()) {
            return Err(Refusal::Uneven { sectors, unit });
        }
        if pointer == 0 && self.spec.max_open > 0 && self.open == self.spec.max_open {
            return Err(Refusal::TooManyOpen(self.open));
        }
        let end = pointer + sectors as u32 / self.spec.page_sectors;
        let first = index * self.spec.pages;
        (pointer..end).for_each(|within| sink(FlashOp::Program { page: first + within }));
        if self.fails(self.spec.faults.programs_ppm) {
            self.segments[index as usize].offline = true;
            self.open -= u32::from(pointer > 0);
            return Err(Refusal::Failed);
        }
        self.segments[index as usize].pointer = end;
        self.open += u32::from(pointer == 0);
        self.open -= u32::from(end == self.spec.pages);
        Ok(())
    }

    /// The pages that hold a range.
    ///
    /// # Errors
    /// When it was not written, or so lately that the medium can't give it yet.
    pub fn read(&self, lba: u64, sectors: u64) -> Result<Range<u32>, Refusal> {
        let (index, at) = self.place(lba, sectors)?;
        let Segment { pointer, offline, .. } = self.segments[index as usize];
        let readable = if offline || pointer == self.spec.pages {
            pointer
        } else {
            pointer.saturating_sub(self.spec.unreadable)
        };
        let (readable, end) = (readable * self.spec.page_sectors, at + sectors as u32);
        if end > readable {
            return Err(Refusal::Unreadable(readable));
        }
        let first = index * self.spec.pages;
        let size = self.spec.page_sectors;
        Ok(first + at / size..first + end.div_ceil(size))
    }

    /// Erases one whole segment; nothing happens to one that is free.
    ///
    /// # Errors
    /// When the range is not one segment, or the segment is offline, perhaps from now on.
    pub fn reset(
        &mut self,
        lba: u64,
        sectors: u64,
        sink: &mut impl FnMut(FlashOp),
    ) -> Result<(), Refusal> {
        let (index, at) = self.place(lba, sectors)?;
        if at != 0 || sectors != u64::from(self.spec.size()) {
            return Err(Refusal::Range { lba, sectors });
        }
        let segment = &mut self.segments[index as usize];
        if segment.offline {
            return Err(Refusal::Offline);
        }
        if segment.pointer == 0 {
            return Ok(());
        }
        self.open -= u32::from(segment.pointer < self.spec.pages);
        self.erase(index, sink)
    }

    fn erase(&mut self, index: u32, sink: &mut impl FnMut(FlashOp)) -> Result<(), Refusal> {
        sink(FlashOp::Erase { segment: index });
        let erased = self.segments[index as usize].erased;
        let worn = self.spec.cycles > 0 && erased == self.spec.cycles;
        let fails = worn || self.fails(self.spec.faults.resets_ppm);
        let segment = &mut self.segments[index as usize];
        (segment.pointer, segment.offline) = (0, fails);
        segment.erased += u32::from(!fails);
        if fails { Err(Refusal::Failed) } else { Ok(()) }
    }

    /// The host says that the segment at `lba` is bad, or good again: then it is erased.
    ///
    /// # Errors
    /// When no segment begins there, or its erase fails.
    pub fn mark(
        &mut self,
        lba: u64,
        bad: bool,
        sink: &mut impl FnMut(FlashOp),
    ) -> Result<(), Refusal> {
        let (index, at) = self.place(lba, 1)?;
        if at != 0 {
            return Err(Refusal::Range { lba, sectors: 1 });
        }
        let segment = &mut self.segments[index as usize];
        if segment.offline == bad {
            return Ok(());
        }
        if !bad {
            return self.erase(index, sink);
        }
        segment.offline = true;
        self.open -= u32::from(segment.pointer > 0 && segment.pointer < self.spec.pages);
        Ok(())
    }

    /// Answers `About::Segments`: as many entries, from the segment asked for on, as fit.
    ///
    /// # Errors
    /// `Unsupported` for other questions.
    pub fn report(&self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        let About::Segments(from) = about else { return Err(DeviceError::Unsupported) };
        let mut count = 0;
        for index in from..self.spec.count() {
            if !report::put_segment(into.pages_mut(), count, &self.describe(index)) {
                break;
            }
            count += 1;
        }
        Ok(Verdict { bytes: (count * report::SEGMENT_BYTES) as u32, crc: 0 })
    }

    /// How often each segment was erased.
    pub fn erased(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|segment| segment.erased)
    }

    /// Whether the invariants hold.
    ///
    /// # Errors
    /// The first one that does not.
    pub fn check(&self) -> Result<(), &'static str> {
        let partly = |it: &&Segment| !it.offline && it.pointer > 0 && it.pointer < self.spec.pages;
        if self.segments.iter().filter(partly).count() as u32 != self.open {
            return Err("the count of open segments is wrong");
        }
        if self.spec.max_open > 0 && self.open > self.spec.max_open {
            return Err("more segments are open than may be");
        }
        let broken = |it: &Segment| {
            it.pointer > self.spec.pages || !it.pointer.is_multiple_of(self.spec.write)
        };
        if self.segments.iter().any(broken) {
            Err("a write pointer where none can be")
        } else {
            Ok(())
        }
    }

    fn describe(&self, index: u32) -> SegmentReport {
        let Segment { pointer, erased, offline } = self.segments[index as usize];
        let size = u64::from(self.spec.size());
        let worn = u64::from(erased) * 255 / u64::from(self.spec.cycles.max(1));
        SegmentReport {
            state: match pointer {
                _ if offline => SegmentState::Offline,
                0 => SegmentState::Free,
                pages if pages == self.spec.pages => SegmentState::Closed,
                _ => SegmentState::Open,
            },
            wear: if self.spec.cycles == 0 { 0 } else { worn.min(255) as u8 },
            start: u64::from(index) * size,
            length: size,
            pointer: u64::from(pointer * self.spec.page_sectors),
        }
    }

    /// The segment of a range and where in it the range begins.
    fn place(&self, lba: u64, sectors: u64) -> Result<(u32, u32), Refusal> {
        let size = u64::from(self.spec.size());
        let (index, at) = (lba / size, lba % size);
        let fits = sectors > 0 && sectors <= size - at && index < u64::from(self.spec.count());
        fits.then_some((index as u32, at as u32)).ok_or(Refusal::Range { lba, sectors })
    }
}
