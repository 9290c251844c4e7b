//! A raw drive: segments with write pointers over modelled flash, without translation. It models
//! ZNS zones and Open-Channel chunks alike, and enforces their rules.
//!
//! Flash operations are passed to a sink, as by a [`Pool`](crate::pool::Pool). Pages are numbered
//! over all segments, and a segment is on one parallel unit.
//!
//! Invariants
//! - A segment is free (nothing written), open, closed (written to its end) or offline.
//! - Its write pointer is a multiple of the smallest write. It is 0 for a free segment, and the end
//!   for a closed one.
//! - At most as many segments are open as the device allows.
//! - A refused command changes nothing. A failed command takes its segment offline. An offline
//!   segment is readable up to its pointer: everything written before, or nothing after a reset.

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

/// Reason why a raw drive refuses a command. Positions are in sectors.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "error texts describe the fields")]
pub enum Refusal {
    #[error("{lba}+{sectors} is not within one segment of the device")]
    Range { lba: u64, sectors: u64 },
    #[error("a write at {at}, but the write pointer of the segment is at {pointer}")]
    NotAtPointer { at: u32, pointer: u32 },
    #[error("a write of {sectors} sectors is not a multiple of the write unit {unit}")]
    Uneven { sectors: u64, unit: u32 },
    #[error("{0} segments are open, the maximum of the device")]
    TooManyOpen(u32),
    #[error("only the first {0} sectors of the segment are readable")]
    Unreadable(u32),
    #[error("the segment is offline")]
    Offline,
    #[error("the command failed and took its segment offline")]
    Failed,
    #[error("a raw device does not support the command")]
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
    /// Write pointer in pages.
    pointer: u32,
    /// Number of erases.
    erased: u32,
    offline: bool,
}

/// Segments of a raw drive.
#[derive(Debug)]
pub struct Zoned {
    spec: ZonedSpec,
    segments: Vec<Segment>,
    open: u32,
    dice: Xoshiro256PlusPlus,
}

impl Zoned {
    /// Makes a device of erased segments, some of which may be bad.
    ///
    /// # Errors
    /// The errors of [`ZonedSpec::check`].
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

    /// Sets the fault rates of later commands.
    pub fn set_faults(&mut self, faults: ZonedFaults) {
        self.spec.faults = faults;
    }

    /// Draws whether an operation fails, with a probability of `ppm` in a million.
    fn fails(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.dice.random_range(0..1_000_000) < ppm
    }

    /// Returns the device's interface as the host sees it.
    pub fn info(&self) -> DeviceInfo {
        self.spec.device_info()
    }

    /// Returns the parameters.
    pub fn spec(&self) -> &ZonedSpec {
        &self.spec
    }

    /// Returns the bytes of its tables.
    pub fn bytes(&self) -> u64 {
        (self.segments.len() * size_of::<Segment>()) as u64
    }

    /// Returns the number of written pages.
    pub fn written(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.pointer)).sum()
    }

    /// Executes a read, write, reset, mark or flush. Flash operations are passed to `sink`, except
    /// those of a read: its pages are returned, and the caller times them.
    ///
    /// # Errors
    /// The reason of the refusal.
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
    /// When the write is not at the pointer, not a multiple of the write unit, too long, opens one
    /// segment too many, or fails.
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

    /// Returns the pages that hold a range.
    ///
    /// # Errors
    /// When the range was not written, or so recently that the medium cannot return it yet.
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

    /// Erases one whole segment. A free segment is left as it is.
    ///
    /// # Errors
    /// When the range is not one segment, or the segment is offline or goes offline with this
    /// erase.
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

    /// Marks the segment at `lba` bad, or good again, which erases it.
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

    /// Reports as many segments as fit, from the requested one on.
    ///
    /// # Errors
    /// `Unsupported` for other reports.
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

    /// Returns the number of erases of each segment.
    pub fn erased(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().map(|segment| segment.erased)
    }

    /// Checks every invariant.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let partly = |it: &&Segment| !it.offline && it.pointer > 0 && it.pointer < self.spec.pages;
        if self.segments.iter().filter(partly).count() as u32 != self.open {
            return Err("the count of open segments is wrong");
        }
        if self.spec.max_open > 0 && self.open > self.spec.max_open {
            return Err("too many segments are open");
        }
        let broken = |it: &Segment| {
            it.pointer > self.spec.pages || !it.pointer.is_multiple_of(self.spec.write)
        };
        if self.segments.iter().any(broken) { Err("an invalid write pointer") } else { Ok(()) }
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

    /// Returns the segment of a range and the range's start within it.
    fn place(&self, lba: u64, sectors: u64) -> Result<(u32, u32), Refusal> {
        let size = u64::from(self.spec.size());
        let (index, at) = (lba / size, lba % size);
        let fits = sectors > 0 && sectors <= size - at && index < u64::from(self.spec.count());
        fits.then_some((index as u32, at as u32)).ok_or(Refusal::Range { lba, sectors })
    }
}
