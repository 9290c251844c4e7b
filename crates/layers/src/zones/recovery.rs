//! Recovery: from what the device holds to a layer that serves.
//!
//! 1. Flush, so that what is read is durable.
//! 2. The device's report: how far each segment is written.
//! 3. Open segments are padded (see [`super::pads`]).
//! 4. The last tail of each segment, and all tails of those with images (see [`super::scan`]).
//! 5. The images of the newest root.
//! 6. The rows since then, in the order of their numbers (see [`super::replay`]): from the list of
//!    a full line, else from tails.
//! 7. What is live where; open lines are gone on with.
//!
//! It writes nothing but pads, so that it can be cut and begun again at any point.

use alloc::vec::Vec;

use hostftl_core::{
    About, BLOCK, Cause, Command, DeviceError, Event, MetaBuf, Nanos, Out, Output,
    SECTORS_PER_BLOCK, Target, Verdict,
};
use hostftl_format::report::{self, SEGMENT_BYTES, SegmentState};

use crate::config::Mode;

use super::layout::Layout;
use super::map::At;
use super::replay::Replay;
use super::scan::Scan;
use super::{Life, Zones};

/// Reads under way at once.
pub const LANES: usize = 16;
/// How often a read is tried.
const TRIES: u8 = 3;
/// Segments in one report.
const REPORTED: u32 = (BLOCK / SEGMENT_BYTES) as u32;
/// Blocks that are counted in one go.
const COUNTED: u64 = 16_384;

/// What is being done; the number is how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Start,
    Flush,
    Report(u32),
    Pad(u32),
    Scan,
    Images(usize),
    Find,
    Replay,
    Count(u64),
    Adopt,
    /// A new volume: everything is erased, then the first root is written.
    Erase,
    First,
}

/// See the module text.
#[derive(Debug)]
pub struct Recovery {
    mode: Mode,
    pub step: Step,
    pub pending: u32,
    report: Option<MetaBuf>,
    /// Buffers of a strip, what each is being read for, and how often it was tried.
    pub bufs: Vec<Option<MetaBuf>>,
    pub asked: [(u32, u32); LANES],
    tries: [u8; LANES],
    /// The write pointers of open segments, in sectors.
    pub pointers: Vec<u32>,
    pub scan: Scan,
    pub replay: Replay,
}

impl Recovery {
    pub fn new(layout: &Layout, mode: Mode) -> Self {
        let pages = (layout.strip / SECTORS_PER_BLOCK) as usize;
        Recovery {
            mode,
            step: Step::Start,
            pending: 0,
            report: Some(MetaBuf::new(1)),
            bufs: (0..LANES).map(|_| Some(MetaBuf::new(pages))).collect(),
            asked: [(0, 0); LANES],
            tries: [0; LANES],
            pointers: alloc::vec![0; layout.device.count as usize],
            scan: Scan::new(layout),
            replay: Replay::new(layout),
        }
    }
}

impl Zones {
    pub(super) fn recovery(&mut self) -> &mut Recovery {
        self.recovery.as_mut().expect("the volume is being recovered")
    }

    pub(super) fn recover(&mut self, now: Nanos, index: u16, command: Command, out: &mut Out) {
        self.recovery().pending += 1;
        self.submit(now, super::Op::Recover { index }, command, out);
    }

    pub(super) fn pump_recovery(&mut self, now: Nanos, out: &mut Out) -> bool {
        match self.recovery().step {
            Step::Start => {
                self.recover(now, 0, Command::Flush { device: 0 }, out);
                self.go(Step::Flush)
            }
            Step::Flush => self.end_of_step(Step::Report(0)),
            Step::Report(from) => self.ask_report(now, from, out),
            Step::Pad(segment) => self.pump_pads(now, segment, out),
            Step::Scan => self.pump_scan(now, out),
            Step::Images(index) => self.pump_images(now, index, out),
            Step::Find => self.pump_find(now, out),
            Step::Replay => self.pump_replay(now, out),
            Step::Count(block) => self.count_live(block, out),
            Step::Adopt => self.adopt(out),
            Step::Erase => self.erase(now, out),
            Step::First => {
                let moved = self.pump_checkpoint(now, out);
                moved || self.checkpoint.is_idle() && self.serve(out)
            }
        }
    }

    pub(super) fn go(&mut self, step: Step) -> bool {
        self.recovery().step = step;
        true
    }

    pub(super) fn end_of_step(&mut self, next: Step) -> bool {
        self.recovery().pending == 0 && self.go(next)
    }

    fn ask_report(&mut self, now: Nanos, from: u32, out: &mut Out) -> bool {
        if from >= self.layout.device.count {
            let too_few = self.lines.capacity() < self.layout.blocks;
            self.worn = too_few;
            return match self.recovery().mode {
                Mode::Open => self.go(Step::Pad(0)),
                Mode::Format if too_few => {
                    self.give_up(
                        "too many segments are out of use, or shorter than they seem",
                        out,
                    );
                    false
                }
                Mode::Format => {
                    (0..self.layout.lines).for_each(|line| self.lines.found_nothing(line));
                    self.go(Step::Erase)
                }
            };
        }
        let Some(into) = self.recovery().report.take() else { return false };
        let command = Command::Report { device: 0, about: About::Segments(from), into };
        self.recover(now, 0, command, out);
        true
    }

    fn take_report(&mut self, from: u32, buf: MetaBuf, bytes: u32, out: &mut Out) {
        let count = (bytes / SEGMENT_BYTES as u32).min(REPORTED);
        for index in 0..count.min(self.layout.device.count - from) {
            let Some(told) = report::segment(buf.pages(), index as usize) else {
                return self.give_up("the device's report makes no sense", out);
            };
            let segment = from + index;
            let strip = self.layout.strip;
            let chunk = self.lines.chunks.at_mut(segment);
            chunk.length = (told.length as u32).min(self.layout.device.size);
            chunk.strips = chunk.length / strip;
            let pointer = (told.pointer as u32).min(chunk.length);
            chunk.pointer = (pointer / strip).min(chunk.strips);
            chunk.done = chunk.pointer;
            chunk.dirty = told.state != SegmentState::Free;
            chunk.bad = told.state == SegmentState::Offline || chunk.strips == 0;
            if told.state == SegmentState::Open && !chunk.bad {
                self.lines.chunks.note_open(segment);
                self.recovery().pointers[segment as usize] = pointer;
            }
        }
        self.recovery().report = Some(buf);
        if count == 0 {
            return self.give_up("the device's report ends too early", out);
        }
        self.go(Step::Report(from + count));
        self.more = true;
    }

    /// Reads the tail of a strip, or the strip, into the buffer of a lane.
    pub(super) fn read_strip(
        &mut self,
        now: Nanos,
        lane: usize,
        (segment, strip): (u32, u32),
        tail_only: bool,
        out: &mut Out,
    ) {
        let recovery = self.recovery();
        let buf = recovery.bufs[lane].take().expect("an idle lane has its buffer");
        recovery.asked[lane] = (segment, strip);
        let (lba, pages) = match tail_only {
            true => (self.layout.tail_at(segment, strip), 1),
            false => (self.layout.lba(segment, strip), self.layout.strip_blocks() + 1),
        };
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device: 0, lba, into, cause: Cause::Checkpoint };
        self.recover(now, lane as u16, command, out);
    }

    /// A command of recovery is over.
    pub(super) fn recover_done(
        &mut self,
        now: Nanos,
        index: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
        out: &mut Out,
    ) {
        self.recovery().pending -= 1;
        match command {
            Command::Flush { .. } => {
                if let Err(error) = result {
                    self.fail(error, false, out);
                }
            }
            Command::Report { about: About::Segments(from), into, .. } => match result {
                Ok(verdict) => self.take_report(from, into, verdict.bytes, out),
                Err(error) => self.fail(error, false, out),
            },
            Command::Program { lba, gather, .. } => {
                self.padded(index.into(), (lba, gather), result, out);
            }
            Command::Read { into: Target::Meta { buf, pages }, .. } => {
                self.strip_read(now, index.into(), buf, pages, result, out);
            }
            other => unreachable!("{other:?} is no command of recovery"),
        }
    }

    fn strip_read(
        &mut self,
        now: Nanos,
        lane: usize,
        buf: MetaBuf,
        pages: u32,
        result: Result<Verdict, DeviceError>,
        out: &mut Out,
    ) {
        let sound = self.failed.is_none();
        let recovery = self.recovery();
        recovery.bufs[lane] = Some(buf);
        if let Err(error) = result {
            recovery.tries[lane] += 1;
            let media = error == DeviceError::Media && sound;
            let again = recovery.tries[lane] < TRIES;
            let (asked, step) = (recovery.asked[lane], recovery.step);
            self.counters.device_errors += 1;
            if media && again {
                return self.read_strip(now, lane, asked, pages == 1, out);
            }
            if media && step == Step::Find && pages > 1 {
                self.recovery().tries[lane] = 0;
                return self.refuse_list(self.layout.line(asked.0));
            }
            if media && matches!(step, Step::Pad(_)) {
                self.recovery().tries[lane] = 0;
                return self.mark_read(now, lane, false, out);
            }
            return self.give_up("what was written last can't be read", out);
        }
        recovery.tries[lane] = 0;
        match recovery.step {
            Step::Pad(_) => self.mark_read(now, lane, true, out),
            Step::Scan => self.scanned(lane),
            Step::Images(_) => self.image_read(lane, out),
            Step::Find if pages > 1 => self.found_part(lane),
            Step::Find => self.found_tail(lane),
            Step::Replay => self.row_read(lane),
            step => unreachable!("nothing is read in {step:?}"),
        }
        self.more = true;
    }

    /// Counts what the map points at.
    fn count_live(&mut self, from: u64, out: &mut Out) -> bool {
        let to = self.map.len().min(from + COUNTED);
        for block in from..to {
            let At::Media(place) = self.map.get(block) else { continue };
            let segment = self.layout.segment_of(place);
            let sectors = self.layout.device.size;
            let within = (place * u64::from(SECTORS_PER_BLOCK) % u64::from(sectors)) as u32;
            if within / self.layout.strip >= self.lines.chunks.at(segment).done {
                self.give_up("the map points at what is not written", out);
                return false;
            }
            self.lines.add(self.layout.line(segment));
        }
        self.touched += (to - from) as usize;
        let next = if to == self.map.len() { Step::Adopt } else { Step::Count(to) };
        self.go(next)
    }

    fn erase(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.pump_reclaim(now, out) {
            return true;
        }
        if self.lines.empty() > 0 || self.resetting > 0 {
            return false;
        }
        self.checkpoint.hurry();
        self.go(Step::First)
    }

    pub(super) fn serve(&mut self, out: &mut Out) -> bool {
        let recovery = self.recovery.take().expect("the volume is being recovered");
        self.worn = self.lines.capacity() < self.layout.blocks;
        self.life = Life::Running;
        out.push(Output::Event(Event::Ready { replayed: recovery.replay.applied, dropped: 0 }));
        true
    }
}
