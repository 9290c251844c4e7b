//! Recovery: from what the device holds to a layer that serves.
//!
//! 1. Flush, so that what is read is durable.
//! 2. The device's report: how far each segment is written.
//! 3. Open segments are padded (see [`super::pads`]).
//! 4. The last tail of each segment, and all tails of those with images (see [`super::scan`]).
//! 5. The images of the newest root.
//! 6. The rows since then, in the order of their numbers (see [`super::replay`]): from the list of
//!    a full line, else from tails.
//! 7. How many blocks are valid in each line; lines that are partly written are filled later.
//!
//! It writes nothing but pads, so that it can be cut and begun again at any point.

use hostftl_core::{About, BLOCK, Command, DeviceError, SECTORS_PER_BLOCK, Target};
use hostftl_format::report::{self, SEGMENT_BYTES};

use super::checkpoint::Checkpoint;
use super::lanes::Lanes;
use super::layout::Layout;
use super::map::At;
use super::ops::{Cx, fail, give_up};
use super::pads::Pads;
use super::reclaim;
use super::replay::Replay;
use super::scan::Scan;
use super::store::Store;
use crate::kit::metabuf::MetaHome;
use crate::kit::shell::Ended;

/// Segments in one report.
const REPORTED: u32 = (BLOCK / SEGMENT_BYTES) as u32;
/// Blocks that are counted in one go.
const COUNTED: u64 = 16_384;

/// What is being done; the number is how far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
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
    /// The layer serves, or never will.
    Over,
}

#[derive(Debug)]
pub(super) struct Recovery {
    layout: Layout,
    /// Whether a new volume is made.
    formats: bool,
    step: Step,
    report: MetaHome,
    lanes: Lanes,
    pads: Pads,
    scan: Scan,
    replay: Replay,
}

impl Recovery {
    /// Nothing is known of the device; `formats` when what it holds does not count.
    pub(super) fn new(layout: &Layout, formats: bool) -> Self {
        Recovery {
            layout: *layout,
            formats,
            step: Step::Start,
            report: MetaHome::new(1),
            lanes: Lanes::new(layout),
            pads: Pads::new(layout),
            scan: Scan::new(layout),
            replay: Replay::new(layout),
        }
    }

    /// Goes on; the last step makes the layer ready.
    pub(super) fn run(
        &mut self,
        store: &mut Store,
        checkpoint: &mut Checkpoint,
        cx: &mut Cx,
    ) -> bool {
        let Recovery { layout, lanes, scan, replay, .. } = self;
        let from = scan.root().replay_from;
        match self.step {
            Step::Start => {
                lanes.submit(0, Command::Flush { device: 0 }, cx);
                self.go(Step::Flush)
            }
            Step::Flush => lanes.are_idle() && self.go(Step::Report(0)),
            Step::Report(segment) => self.ask_report(segment, store, cx),
            Step::Pad(segment) if segment == layout.device.count => {
                lanes.are_idle() && self.go(Step::Scan)
            }
            Step::Pad(segment) => {
                self.pads.run(segment, lanes, store, cx) && self.go(Step::Pad(segment + 1))
            }
            Step::Scan if scan.is_over(lanes) => self.choose_root(store, cx),
            Step::Scan => scan.run(lanes, &store.lines, cx),
            Step::Images(index) => self.read_images(index, store, cx),
            Step::Find if replay.has_found_all(lanes) => {
                replay.sort();
                self.go(Step::Replay)
            }
            Step::Find => replay.find(from, scan, lanes, &store.lines, cx),
            Step::Replay if replay.is_over() => self.go(Step::Count(0)),
            Step::Replay => replay.run(lanes, store, cx),
            Step::Count(block) => self.count_valid(block, store, cx),
            Step::Adopt => self.adopt(store, checkpoint, cx),
            Step::Erase => {
                let Store { lines, durability, .. } = store;
                if reclaim::run(layout, lines, durability, checkpoint, cx) {
                    return true;
                }
                if store.lines.empty_count() > 0 || store.lines.resetting() > 0 {
                    return false;
                }
                checkpoint.hurry();
                self.go(Step::First)
            }
            Step::First => {
                let moved = checkpoint.run(store, cx);
                moved || checkpoint.is_idle() && self.serve(store, cx)
            }
            Step::Over => false,
        }
    }

    fn go(&mut self, next: Step) -> bool {
        let fits = match (self.step, next) {
            (Step::Report(from), Step::Report(next)) => next > from,
            (Step::Pad(from), Step::Pad(next)) => next == from + 1,
            (Step::Images(from), Step::Images(next)) => next == from + 1,
            (Step::Count(from), Step::Count(next)) => next > from,
            (Step::Start, Step::Flush)
            | (Step::Flush, Step::Report(0))
            | (Step::Report(_), Step::Pad(0) | Step::Erase)
            | (Step::Pad(_), Step::Scan)
            | (Step::Scan, Step::Images(0))
            | (Step::Images(_), Step::Find)
            | (Step::Find, Step::Replay)
            | (Step::Replay, Step::Count(0))
            | (Step::Count(_), Step::Adopt)
            | (Step::Erase, Step::First)
            | (Step::Adopt | Step::First, Step::Over) => true,
            _ => false,
        };
        assert!(fits, "recovery can't go from {:?} to {next:?}", self.step);
        self.step = next;
        true
    }

    fn ask_report(&mut self, from: u32, store: &mut Store, cx: &mut Cx) -> bool {
        if from >= self.layout.device.count {
            store.lines.measure();
            if !self.formats {
                return self.go(Step::Pad(0));
            }
            if store.lines.is_worn() {
                give_up("too many segments are out of use, or shorter than they seem", cx);
                return false;
            }
            (0..self.layout.lines).for_each(|line| store.lines.found(line));
            return self.go(Step::Erase);
        }
        if !self.report.is_home() {
            return false;
        }
        let (about, into) = (About::Segments(from), self.report.lend());
        self.lanes.submit(0, Command::Report { device: 0, about, into }, cx);
        true
    }

    fn take_report(&mut self, from: u32, bytes: u32, store: &mut Store, cx: &mut Cx) {
        let count = (bytes / SEGMENT_BYTES as u32).min(REPORTED);
        for index in 0..count.min(self.layout.device.count - from) {
            let Some(told) = report::segment(self.report.pages(), index as usize) else {
                return give_up("the device's report makes no sense", cx);
            };
            let segment = from + index;
            store.lines.chunks_mut().found(segment, &told, &self.layout);
            let chunk = store.lines.chunk(segment);
            if chunk.open {
                self.pads.found_open(segment, (told.pointer as u32).min(chunk.length));
            }
        }
        if count == 0 {
            return give_up("the device's report ends too early", cx);
        }
        self.go(Step::Report(from + count));
    }

    /// A command of recovery is over.
    pub(super) fn done(
        &mut self,
        lane: u8,
        (command, ended): (Command, Ended),
        store: &mut Store,
        cx: &mut Cx,
    ) {
        self.lanes.end();
        let lane = usize::from(lane);
        match command {
            Command::Flush { .. } => {
                if let Err(error) = ended {
                    fail(error, cx);
                }
            }
            Command::Report { about: About::Segments(from), into, .. } => {
                self.report.take_back(into);
                match ended {
                    Ok(verdict) => self.take_report(from, verdict.bytes, store, cx),
                    Err(error) => fail(error, cx),
                }
            }
            Command::Program { lba, gather, .. } => {
                self.pads.padded(lane, (lba, gather), ended, &mut self.lanes, store, cx);
            }
            Command::Read { into: Target::Meta { buf, pages }, .. } => {
                self.lanes.take_back(lane, buf);
                match ended {
                    Ok(_) => self.strip_read(lane, pages, store, cx),
                    Err(error) => self.read_failed(lane, (pages, error), store, cx),
                }
            }
            other => unreachable!("{other:?} is no command of recovery"),
        }
    }

    fn strip_read(&mut self, lane: usize, pages: u32, store: &mut Store, cx: &mut Cx) {
        let Recovery { lanes, scan, replay, .. } = self;
        let from = scan.root().replay_from;
        lanes.read_well(lane);
        match self.step {
            Step::Pad(_) => {
                self.pads.mark_read(lane, true, lanes, store, cx);
            }
            Step::Scan => scan.tail_read(lane, lanes),
            Step::Images(_) => scan.images_read(lane, lanes, store, cx),
            Step::Find if pages > 1 => replay.part_read(from, lane, lanes, &mut store.lines, cx),
            Step::Find => replay.tail_read(from, lane, lanes),
            Step::Replay => replay.row_read(lane),
            step => unreachable!("nothing is read in {step:?}"),
        }
    }

    fn read_failed(
        &mut self,
        lane: usize,
        (pages, error): (u32, DeviceError),
        store: &mut Store,
        cx: &mut Cx,
    ) {
        let Recovery { lanes, pads, replay, .. } = self;
        cx.counters().device_errors += 1;
        if error != DeviceError::Media || !cx.is_good() {
            return give_up("what was written last can't be read", cx);
        }
        if lanes.read_again(lane, pages == 1, cx) {
            return;
        }
        match self.step {
            Step::Find if pages > 1 => {
                replay.refuse_list(self.layout.line(lanes.place(lane).0), &mut store.lines);
            }
            Step::Pad(_) => pads.mark_read(lane, false, lanes, store, cx),
            _ => give_up("what was written last can't be read", cx),
        }
    }

    fn choose_root(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        if !self.scan.choose_root(&mut store.lines) {
            give_up("no sound root on the device", cx);
            return false;
        }
        self.go(Step::Images(0))
    }

    fn read_images(&mut self, index: usize, store: &mut Store, cx: &mut Cx) -> bool {
        let Some(place) = self.scan.images(index) else {
            if !self.lanes.are_idle() {
                return false;
            }
            if !self.scan.has_all_images() {
                give_up("images of the map are missing", cx);
                return false;
            }
            self.scan.believe_lists(&mut store.lines);
            return self.go(Step::Find);
        };
        let Some(lane) = self.lanes.idle() else { return false };
        self.lanes.read(lane, place, false, cx);
        self.go(Step::Images(index + 1))
    }

    /// Counts what the map points at.
    fn count_valid(&mut self, from: u64, store: &mut Store, cx: &mut Cx) -> bool {
        let to = store.map.len().min(from + COUNTED);
        for block in from..to {
            let At::Media(place) = store.map.get(block) else { continue };
            let segment = self.layout.segment_of(place);
            let sectors = self.layout.device.size;
            let within = (place * u64::from(SECTORS_PER_BLOCK) % u64::from(sectors)) as u32;
            if within / self.layout.strip >= store.lines.chunk(segment).done {
                give_up("the map points at what is not written", cx);
                return false;
            }
            store.lines.add_valid(self.layout.line(segment));
        }
        cx.touch((to - from) as usize);
        self.go(if to == store.map.len() { Step::Adopt } else { Step::Count(to) })
    }

    /// Says what each line is, and where all numbers go on.
    fn adopt(&mut self, store: &mut Store, checkpoint: &mut Checkpoint, cx: &mut Cx) -> bool {
        self.scan.tell(&mut store.lines);
        (0..self.layout.lines).for_each(|line| store.lines.found(line));
        store.strips.resume(self.scan.written());
        store.durability.resume(self.scan.last_row());
        checkpoint.resume(self.scan.root(), self.scan.last_strip());
        self.serve(store, cx)
    }

    fn serve(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        store.lines.measure();
        cx.become_ready(self.replay.applied(), 0);
        self.go(Step::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    fn recovery() -> Recovery {
        Recovery::new(&Layout::trial(LayerKind::Pblk, 16, 80, 2), false)
    }

    #[test]
    #[should_panic(expected = "recovery can't go from Report(0) to Scan")]
    fn open_segments_are_padded_before_the_scan() {
        let mut it = recovery();
        it.go(Step::Flush);
        it.go(Step::Report(0));
        it.go(Step::Scan);
    }

    #[test]
    #[should_panic(expected = "recovery can't go from Scan to Images(3)")]
    fn no_image_is_left_out() {
        let mut it = recovery();
        for step in [Step::Flush, Step::Report(0), Step::Pad(0), Step::Scan, Step::Images(3)] {
            it.go(step);
        }
    }
}
