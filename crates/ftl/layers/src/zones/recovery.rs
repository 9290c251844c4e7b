//! Recovery: opens a volume from the contents of the device.
//!
//! 1. Flush, so that data read later is durable.
//! 2. Read the device's report: the write pointer of each segment.
//! 3. Pad open segments (see [`super::pads`]).
//! 4. Read the last tail of each segment, and all tails of segments with images (see
//!    [`super::scan`]).
//! 5. Load the images of the newest root.
//! 6. Apply the rows since then in the order of their numbers (see [`super::replay`]): from the
//!    lists of full lines, else from tails.
//! 7. Count the valid blocks of each line. Partly written lines are filled later.
//!
//! Recovery writes only pads, so it can be interrupted and repeated at any point.

use hostftl_core::{About, BLOCK, Command, DeviceError, SECTORS_PER_BLOCK, Target};
use hostftl_format::report::{self, SEGMENT_BYTES};

use super::checkpoint::Checkpoint;
use super::lanes::Lanes;
use super::layout::Layout;
use super::map::At;
use super::ops::{Cx, fail, fail_volume};
use super::pads::Pads;
use super::reclaim;
use super::replay::Replay;
use super::scan::Scan;
use super::store::Store;
use crate::kit::metabuf::MetaHome;
use crate::kit::shell::Ended;

/// Segments per report.
const REPORTED: u32 = (BLOCK / SEGMENT_BYTES) as u32;
/// Blocks counted per call.
const COUNTED: u64 = 16_384;

/// Step of recovery, with its progress.
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
    /// A new volume: all segments are erased, then the first root is written.
    Erase,
    First,
    /// The layer is open or has failed.
    Over,
}

/// State of a volume that is being opened.
#[derive(Debug)]
pub(super) struct Recovery {
    layout: Layout,
    /// Whether a new volume is created.
    formats: bool,
    step: Step,
    report: MetaHome,
    lanes: Lanes,
    pads: Pads,
    scan: Scan,
    replay: Replay,
}

impl Recovery {
    /// Creates the state. `formats` ignores the contents of the device.
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

    /// Advances recovery. The last step opens the volume. Returns whether anything moved.
    pub(super) fn run(
        &mut self,
        store: &mut Store,
        checkpoint: &mut Checkpoint,
        cx: &mut Cx,
    ) -> bool {
        let Recovery { layout, lanes, scan, replay, .. } = self;
        // Before the root is chosen this is a default, which no step uses.
        let from = scan.root().replay_from;
        match self.step {
            Step::Start => {
                // Otherwise data that recovery reads could be lost in a second power cut.
                lanes.submit(0, Command::Flush { device: 0 }, cx);
                self.go(Step::Flush)
            }
            Step::Flush => lanes.are_idle() && self.go(Step::Report(0)),
            Step::Report(segment) => self.ask_report(segment, store, cx),
            Step::Pad(segment) if segment == layout.device.count => {
                lanes.are_idle() && self.go(Step::Scan)
            }
            Step::Pad(segment) => {
                // Pads make the last strips readable, so they come before every read of a tail.
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
                // Only erased lines may take strips of the new volume.
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
                fail_volume("too many segments are offline or shorter than reported", cx);
                return false;
            }
            // With no map loaded every line counts as empty, and is erased.
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
            let Some(reported) = report::segment(self.report.pages(), index as usize) else {
                return fail_volume("the segment report of the device is invalid", cx);
            };
            let segment = from + index;
            store.lines.chunks_mut().found(segment, &reported, &self.layout);
            let chunk = store.lines.chunk(segment);
            if chunk.open {
                self.pads.found_open(segment, (reported.pointer as u32).min(chunk.length));
            }
        }
        if count == 0 {
            return fail_volume("the segment report of the device is too short", cx);
        }
        self.go(Step::Report(from + count));
    }

    /// Completes a command of recovery.
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
            other => unreachable!("{other:?} is not a command of recovery"),
        }
    }

    fn strip_read(&mut self, lane: usize, pages: u32, store: &mut Store, cx: &mut Cx) {
        let Recovery { lanes, scan, replay, .. } = self;
        let from = scan.root().replay_from;
        lanes.read_well(lane);
        match self.step {
            // The step decides, because a lane is used for one purpose per step.
            Step::Pad(_) => {
                self.pads.mark_read(lane, true, lanes, store, cx);
            }
            Step::Scan => scan.tail_read(lane, lanes),
            Step::Images(_) => scan.images_read(lane, lanes, store, cx),
            Step::Find if pages > 1 => replay.part_read(from, lane, lanes, &mut store.lines, cx),
            Step::Find => replay.tail_read(from, lane, lanes),
            Step::Replay => replay.row_read(lane),
            step => unreachable!("{step:?} does not read"),
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
        // Only media errors may be limited to one place.
        if error != DeviceError::Media || !cx.is_good() {
            return fail_volume("the last written strip is unreadable", cx);
        }
        // A read may fail for a moment; a failed list falls back to the tails, which hold the same.
        if lanes.read_again(lane, pages == 1, cx) {
            return;
        }
        match self.step {
            Step::Find if pages > 1 => {
                replay.refuse_list(self.layout.line(lanes.place(lane).0), &mut store.lines);
            }
            Step::Pad(_) => pads.mark_read(lane, false, lanes, store, cx),
            _ => fail_volume("the last written strip is unreadable", cx),
        }
    }

    fn choose_root(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        if !self.scan.choose_root(&mut store.lines) {
            fail_volume("no valid root on the device", cx);
            return false;
        }
        self.go(Step::Images(0))
    }

    fn read_images(&mut self, index: usize, store: &mut Store, cx: &mut Cx) -> bool {
        let Some(place) = self.scan.images(index) else {
            if !self.lanes.are_idle() {
                return false;
            }
            // An image that was never found is as bad as a damaged one: its blocks would be
            // unmapped.
            if !self.scan.has_all_images() {
                fail_volume("images of the map are missing", cx);
                return false;
            }
            // Lists are needed from here on; the check compares the tails of all segments.
            self.scan.believe_lists(&mut store.lines);
            return self.go(Step::Find);
        };
        let Some(lane) = self.lanes.idle() else { return false };
        self.lanes.read(lane, place, false, cx);
        self.go(Step::Images(index + 1))
    }

    /// Counts the valid blocks of each line.
    fn count_valid(&mut self, from: u64, store: &mut Store, cx: &mut Cx) -> bool {
        let to = store.map.len().min(from + COUNTED);
        for block in from..to {
            let At::Media(place) = store.map.get(block) else { continue };
            let segment = self.layout.segment_at(place);
            let sectors = self.layout.device.size;
            let within = (place * u64::from(SECTORS_PER_BLOCK) % u64::from(sectors)) as u32;
            // Images come after all that they show, so such an entry can only be damage.
            if within / self.layout.strip >= store.lines.chunk(segment).done {
                fail_volume("the map refers to an unwritten page", cx);
                return false;
            }
            // Counted at the end, because replay changes the map often.
            store.lines.add_valid(self.layout.line(segment));
        }
        cx.touch((to - from) as usize);
        self.go(if to == store.map.len() { Step::Adopt } else { Step::Count(to) })
    }

    /// Sets the state of each line, and the numbers with which the volume continues.
    fn adopt(&mut self, store: &mut Store, checkpoint: &mut Checkpoint, cx: &mut Cx) -> bool {
        self.scan.apply_to(&mut store.lines);
        // The state of a line depends on its valid count and on its last use.
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
    fn all_images_are_read() {
        let mut it = recovery();
        for step in [Step::Flush, Step::Report(0), Step::Pad(0), Step::Scan, Step::Images(3)] {
            it.go(step);
        }
    }
}
