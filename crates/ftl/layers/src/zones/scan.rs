//! Scan: the last use of each segment, and the newest root.
//!
//! The scan reads from the last strip of each segment back to the first one with a valid tail.
//! Segments with images are read back to their beginning.

use alloc::vec::Vec;

use hostftl_format::zones::{self, Holds, Kind, Tail, Written};

use super::checkpoint::Root;
use super::lanes::Lanes;
use super::layout::Layout;
use super::lines::Lines;
use super::ops::{Cx, fail_volume};
use super::store::Store;

/// Last use of a segment.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Tail of its last strip that has one.
    tail: Option<Tail>,
    /// Number of that strip.
    strip: u32,
}

/// Results of the scan.
#[derive(Debug)]
pub(super) struct Scan {
    layout: Layout,
    seen: Vec<Seen>,
    /// Next segment to scan.
    next: u32,
    /// Strips with images: number, segment and strip.
    images: Vec<(u64, u32, u32)>,
    /// Newest root; `root_in` is its segment.
    root: Root,
    root_in: u32,
    /// Number of images loaded.
    loaded: u32,
    /// Highest numbers seen of rows and of strips with images.
    rows: u64,
    strips: u64,
    /// Sectors written since the volume was created, as of the newest tail.
    written: Written,
}

impl Scan {
    /// Creates the state before the scan.
    pub(super) fn new(layout: &Layout) -> Self {
        let most = (layout.keep * layout.line_strips()) as usize;
        Scan {
            layout: *layout,
            seen: alloc::vec![Seen::default(); layout.device.count as usize],
            next: 0,
            images: Vec::with_capacity(most),
            root: Root::default(),
            root_in: 0,
            loaded: 0,
            rows: 0,
            strips: 0,
            written: Written::default(),
        }
    }

    /// Returns the last tail of a segment, and its strip.
    pub(super) fn seen(&self, segment: u32) -> (Option<Tail>, u32) {
        let Seen { tail, strip } = self.seen[segment as usize];
        (tail, strip)
    }

    /// Returns the newest root.
    pub(super) fn root(&self) -> Root {
        self.root
    }

    /// Returns the last row that was seen or that the root implies.
    pub(super) fn last_row(&self) -> u64 {
        self.rows.max(self.root.replay_from - 1)
    }

    /// Returns the last strip of images that was seen.
    pub(super) fn last_strip(&self) -> u64 {
        self.strips
    }

    /// Returns the sectors written since the volume was created.
    pub(super) fn written(&self) -> &Written {
        &self.written
    }

    /// Returns whether all segments were scanned.
    pub(super) fn is_over(&self, lanes: &Lanes) -> bool {
        self.next == self.layout.device.count && lanes.are_idle()
    }

    /// Continues with the segments in progress, or begins the next one.
    pub(super) fn run(&mut self, lanes: &mut Lanes, lines: &Lines, cx: &mut Cx) -> bool {
        if lanes.read_queued(|_| false, cx) {
            return true;
        }
        let segment = self.next;
        if segment == self.layout.device.count {
            return false;
        }
        // After the readable strips there are only pads.
        let strips = lines.chunk(segment).readable(self.layout.unreadable());
        if strips > 0 {
            let Some(lane) = lanes.idle() else { return false };
            lanes.read(lane, (segment, strips - 1), true, cx);
        }
        self.next += 1;
        true
    }

    /// Examines a tail.
    pub(super) fn tail_read(&mut self, lane: usize, lanes: &mut Lanes) {
        let (segment, strip) = lanes.place(lane);
        // Strips behind the last valid tail may be torn.
        let Some(tail) = lanes.tail(lane, 0) else { return lanes.step_back(lane) };
        let seen = &mut self.seen[segment as usize];
        if seen.tail.is_none() {
            *seen = Seen { tail: Some(tail), strip };
        }
        self.written = self.written.max(&tail.written);
        // Rows are found later, by replay; here only the last tail of their segment matters.
        if tail.holds != Holds::Images {
            self.rows = self.rows.max(tail.seq).max(tail.newest);
            return;
        }
        // Every strip of images is noted, because the newest root may be in any segment.
        self.strips = self.strips.max(tail.seq);
        self.images.push((tail.seq, segment, strip));
        let page = &lanes.pages(lane)[0];
        let entries = [zones::entry(page, 0), zones::entry(page, 1)];
        if let [Some(root), Some(from)] = entries
            && (root.kind, from.kind, tail.entries) == (Kind::Root, Kind::Images, 2)
            && tail.seq > self.root.seq
            // Plausibility check: no volume reaches larger numbers.
            && (root.block | from.block) >> 55 == 0
        {
            let (replay_from, images) = (root.block, root.value);
            self.root = Root { seq: tail.seq, replay_from, images_from: from.block, images };
            self.root_in = segment;
        }
        lanes.step_back(lane);
    }

    /// Keeps the images of the newest root. Returns false if there is no root.
    pub(super) fn choose_root(&mut self, lines: &mut Lines) -> bool {
        let root = self.root;
        if root.seq == 0 {
            return false;
        }
        // Other images belong to older roots, or to one that was never completed.
        self.images.retain(|(seq, ..)| (root.images_from..root.seq).contains(seq));
        self.images.sort_unstable();
        // The root keeps its line from being erased.
        lines.at_mut(self.layout.line(self.root_in)).add_valid();
        true
    }

    /// Returns the place of a strip of images, or `None` after the last.
    pub(super) fn images(&self, index: usize) -> Option<(u32, u32)> {
        self.images.get(index).map(|(_, segment, strip)| (*segment, *strip))
    }

    /// Returns whether all images of the root were loaded.
    pub(super) fn has_all_images(&self) -> bool {
        self.loaded == self.root.images
    }

    /// Loads a strip of images.
    pub(super) fn images_read(
        &mut self,
        lane: usize,
        lanes: &Lanes,
        store: &mut Store,
        cx: &mut Cx,
    ) {
        let last = self.layout.strip_blocks() as usize;
        let (tail, pages) = (lanes.tail(lane, last), lanes.pages(lane));
        let (end, strip) = (self.layout.device_blocks(), last as u64 + 1);
        let is_place = |place: u64| place < end && place % strip < last as u64;
        let line = self.layout.line(lanes.place(lane).0);
        let mut sound = tail.is_some();
        for index in 0..tail.map_or(0, |tail| usize::from(tail.entries)) {
            let Some(entry) = zones::entry(&pages[last], index) else { continue };
            let (page, slot) = (entry.block, entry.value as usize);
            if entry.kind != Kind::Image || page >= self.layout.pages.into() || slot >= last {
                continue;
            }
            sound &= zones::image_crc(&pages[slot], page) == entry.crc
                && store.map.load(page as u32, &pages[slot], is_place);
            cx.touch(self.layout.page_entries() as usize);
            self.loaded += 1;
            store.lines.at_mut(line).add_valid();
        }
        if !sound {
            fail_volume("an image of the map is damaged", cx);
        }
    }

    /// Reports the last use of each segment to its line.
    pub(super) fn apply_to(&self, lines: &mut Lines) {
        for (segment, seen) in (0..).zip(&self.seen) {
            if let Some(tail) = &seen.tail {
                lines.at_mut(self.layout.line(segment)).found_tail(tail);
            }
        }
    }

    /// Finds the lines with a valid list: its end is in the last strip of a segment, and no segment
    /// of the line can be written further or was last written for another use of the line.
    pub(super) fn believe_lists(&self, lines: &mut Lines) {
        for line in 0..self.layout.lines {
            let segment = |column: u32| self.layout.segment(line, column);
            let seen = |column: u32| self.seen[segment(column) as usize];
            let list = (0..self.layout.width).find_map(|column| {
                let Seen { tail, strip } = seen(column);
                let last = strip + 1 == lines.chunk(segment(column)).strips;
                let tail = tail.filter(|it| it.holds == Holds::List && it.entries > 0 && last)?;
                Some((column, tail))
            });
            let Some((column, list)) = list else { continue };
            let agrees = |column: u32| {
                let takes_part = zones::takes_part(list.units, column);
                let same = seen(column).tail.is_none_or(|tail| tail.opened == list.opened);
                let full = lines.chunk(segment(column)).left() == 0;
                full && (same || !takes_part)
            };
            if (0..self.layout.width).all(agrees) {
                lines.at_mut(line).found_list(column);
            }
        }
    }
}
