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
    About, BLOCK, Cause, Command, DeviceError, MetaBuf, SECTORS_PER_BLOCK, Target, Verdict,
};
use hostftl_format::report::{self, SEGMENT_BYTES};

use crate::config::Mode;

use super::Engine;
use super::layout::Layout;
use super::map::At;
use super::ops::{Cx, Op, fail, give_up};
use super::replay::Replay;
use super::scan::Scan;

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

impl Engine {
    pub(super) fn recovery(&mut self) -> &mut Recovery {
        self.recovery.as_mut().expect("the volume is being recovered")
    }

    pub(super) fn recover(&mut self, index: u16, command: Command, cx: &mut Cx) {
        self.recovery().pending += 1;
        cx.submit(Op::Recover { index }, command);
    }

    pub(super) fn pump_recovery(&mut self, cx: &mut Cx) -> bool {
        match self.recovery().step {
            Step::Start => {
                self.recover(0, Command::Flush { device: 0 }, cx);
                self.go(Step::Flush)
            }
            Step::Flush => self.end_of_step(Step::Report(0)),
            Step::Report(from) => self.ask_report(from, cx),
            Step::Pad(segment) => self.pump_pads(segment, cx),
            Step::Scan => self.pump_scan(cx),
            Step::Images(index) => self.pump_images(index, cx),
            Step::Find => self.pump_find(cx),
            Step::Replay => self.pump_replay(cx),
            Step::Count(block) => self.count_live(block, cx),
            Step::Adopt => self.adopt(cx),
            Step::Erase => self.erase(cx),
            Step::First => {
                let moved = self.pump_checkpoint(cx);
                moved || self.checkpoint.is_idle() && self.serve(cx)
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

    fn ask_report(&mut self, from: u32, cx: &mut Cx) -> bool {
        if from >= self.layout.device.count {
            self.lines.measure();
            let too_few = self.lines.is_worn();
            return match self.recovery().mode {
                Mode::Open => self.go(Step::Pad(0)),
                Mode::Format if too_few => {
                    give_up("too many segments are out of use, or shorter than they seem", cx);
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
        self.recover(0, command, cx);
        true
    }

    fn take_report(&mut self, from: u32, buf: MetaBuf, bytes: u32, cx: &mut Cx) {
        let count = (bytes / SEGMENT_BYTES as u32).min(REPORTED);
        for index in 0..count.min(self.layout.device.count - from) {
            let Some(told) = report::segment(buf.pages(), index as usize) else {
                return give_up("the device's report makes no sense", cx);
            };
            let segment = from + index;
            self.lines.found_segment(segment, &told);
            let chunk = self.lines.chunk(segment);
            if chunk.open {
                let pointer = (told.pointer as u32).min(chunk.length);
                self.recovery().pointers[segment as usize] = pointer;
            }
        }
        self.recovery().report = Some(buf);
        if count == 0 {
            return give_up("the device's report ends too early", cx);
        }
        self.go(Step::Report(from + count));
    }

    /// Reads the tail of a strip, or the strip, into the buffer of a lane.
    pub(super) fn read_strip(
        &mut self,
        lane: usize,
        (segment, strip): (u32, u32),
        tail_only: bool,
        cx: &mut Cx,
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
        self.recover(lane as u16, command, cx);
    }

    /// A command of recovery is over.
    pub(super) fn recover_done(
        &mut self,
        index: u16,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        self.recovery().pending -= 1;
        match command {
            Command::Flush { .. } => {
                if let Err(error) = result {
                    fail(error, cx);
                }
            }
            Command::Report { about: About::Segments(from), into, .. } => match result {
                Ok(verdict) => self.take_report(from, into, verdict.bytes, cx),
                Err(error) => fail(error, cx),
            },
            Command::Program { lba, gather, .. } => {
                self.padded(index.into(), (lba, gather), result, cx);
            }
            Command::Read { into: Target::Meta { buf, pages }, .. } => {
                self.strip_read(index.into(), buf, pages, result, cx);
            }
            other => unreachable!("{other:?} is no command of recovery"),
        }
    }

    fn strip_read(
        &mut self,
        lane: usize,
        buf: MetaBuf,
        pages: u32,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let sound = cx.is_good();
        let recovery = self.recovery();
        recovery.bufs[lane] = Some(buf);
        if let Err(error) = result {
            recovery.tries[lane] += 1;
            let media = error == DeviceError::Media && sound;
            let again = recovery.tries[lane] < TRIES;
            let (asked, step) = (recovery.asked[lane], recovery.step);
            cx.counters().device_errors += 1;
            if media && again {
                return self.read_strip(lane, asked, pages == 1, cx);
            }
            if media && step == Step::Find && pages > 1 {
                self.recovery().tries[lane] = 0;
                return self.refuse_list(self.layout.line(asked.0));
            }
            if media && matches!(step, Step::Pad(_)) {
                self.recovery().tries[lane] = 0;
                return self.mark_read(lane, false, cx);
            }
            return give_up("what was written last can't be read", cx);
        }
        recovery.tries[lane] = 0;
        match recovery.step {
            Step::Pad(_) => self.mark_read(lane, true, cx),
            Step::Scan => self.scanned(lane),
            Step::Images(_) => self.image_read(lane, cx),
            Step::Find if pages > 1 => self.found_part(lane, cx),
            Step::Find => self.found_tail(lane),
            Step::Replay => self.row_read(lane),
            step => unreachable!("nothing is read in {step:?}"),
        }
    }

    /// Counts what the map points at.
    fn count_live(&mut self, from: u64, cx: &mut Cx) -> bool {
        let to = self.map.len().min(from + COUNTED);
        for block in from..to {
            let At::Media(place) = self.map.get(block) else { continue };
            let segment = self.layout.segment_of(place);
            let sectors = self.layout.device.size;
            let within = (place * u64::from(SECTORS_PER_BLOCK) % u64::from(sectors)) as u32;
            if within / self.layout.strip >= self.lines.chunk(segment).done {
                give_up("the map points at what is not written", cx);
                return false;
            }
            self.lines.add_valid(self.layout.line(segment));
        }
        cx.touch((to - from) as usize);
        let next = if to == self.map.len() { Step::Adopt } else { Step::Count(to) };
        self.go(next)
    }

    fn erase(&mut self, cx: &mut Cx) -> bool {
        if self.pump_reclaim(cx) {
            return true;
        }
        if self.lines.empty_count() > 0 || self.lines.resetting() > 0 {
            return false;
        }
        self.checkpoint.hurry();
        self.go(Step::First)
    }

    pub(super) fn serve(&mut self, cx: &mut Cx) -> bool {
        let recovery = self.recovery.take().expect("the volume is being recovered");
        self.lines.measure();
        cx.become_ready(recovery.replay.applied, 0);
        true
    }
}
