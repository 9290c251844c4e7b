//! The scan: what each segment was last written for, and which root is the newest.
//!
//! From the last strip of each segment back to the first that has a tail; segments with images are
//! gone through to their beginning.

use alloc::vec::Vec;

use hostftl_format::zones::{self, Holds, Kind, Tail, Written};

use super::Engine;
use super::checkpoint::Root;
use super::layout::Layout;
use super::ops::{Cx, give_up};
use super::recovery::{LANES, Step};

/// What a segment was last written for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// The tail of its last strip that has one.
    pub tail: Option<Tail>,
    /// Where that is.
    pub strip: u32,
}

/// See the module text.
#[derive(Debug)]
pub struct Scan {
    pub seen: Vec<Seen>,
    /// The next segment to begin with.
    pub next: u32,
    /// Strips with images: number, segment and strip.
    images: Vec<(u64, u32, u32)>,
    root: Root,
    /// The segment and the strip of the root.
    root_in: u32,
    loaded: u32,
    /// The greatest numbers seen of rows, and of strips with images.
    pub seqs: u64,
    pub strips: u64,
    /// What was written by then since the volume was made.
    written: Written,
}

impl Scan {
    pub fn new(layout: &Layout) -> Self {
        let most = (layout.keep * layout.line_strips()) as usize;
        Scan {
            seen: alloc::vec![Seen::default(); layout.device.count as usize],
            next: 0,
            images: Vec::with_capacity(most),
            root: Root::default(),
            root_in: 0,
            loaded: 0,
            seqs: 0,
            strips: 0,
            written: Written::default(),
        }
    }
}

impl Engine {
    /// The tail that a lane read, if it is one of this place.
    pub(super) fn tail_of(&mut self, lane: usize, page: usize) -> Option<Tail> {
        let (segment, strip) = self.recovery().asked[lane];
        let at = self.layout.tail_at(segment, strip);
        let line = self.layout.line(segment);
        let recovery = self.recovery.as_ref().expect("the volume is being recovered");
        let buf = recovery.bufs[lane].as_ref().expect("it was read");
        zones::open(&buf.pages()[page], &self.uuid, at).filter(|tail| tail.line == line)
    }

    pub(super) fn pump_scan(&mut self, cx: &mut Cx) -> bool {
        if self.pump_again(cx) {
            return true;
        }
        let count = self.layout.device.count;
        let segment = self.recovery().scan.next;
        if segment == count {
            return self.recovery().pending == 0 && self.choose_root(cx);
        }
        // Behind what can be read there are only pads.
        let strips = self.lines.chunk(segment).readable(self.layout.unreadable());
        if strips > 0 {
            let Some(lane) = self.idle_lane() else { return false };
            self.read_strip(lane, (segment, strips - 1), true, cx);
        }
        self.recovery().scan.next += 1;
        true
    }

    pub(super) fn idle_lane(&mut self) -> Option<usize> {
        let recovery = self.recovery();
        let idle = |lane: &usize| recovery.bufs[*lane].is_some();
        // A lane that has something to go on with is not idle.
        (0..LANES).find(|lane| idle(lane) && recovery.replay.again[*lane].is_none())
    }

    /// Goes on with the lanes whose segment has more to be read; true when one did.
    pub(super) fn pump_again(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        for lane in 0..LANES {
            if cx.room() < 4 {
                return moved;
            }
            if let Some(place) = self.recovery().replay.again[lane].take() {
                self.read_strip(lane, place, !self.is_part(place), cx);
                moved = true;
            }
        }
        moved
    }

    /// A tail of the scan was read.
    pub(super) fn scanned(&mut self, lane: usize) {
        let (segment, strip) = self.recovery().asked[lane];
        let tail = self.tail_of(lane, 0);
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        let scan = &mut recovery.scan;
        let Some(tail) = tail else {
            return self.look_before(lane, segment, strip);
        };
        let seen = &mut scan.seen[segment as usize];
        if seen.tail.is_none() {
            *seen = Seen { tail: Some(tail), strip };
        }
        scan.written = scan.written.max(&tail.written);
        if tail.holds != Holds::Images {
            scan.seqs = scan.seqs.max(tail.seq).max(tail.newest);
            return;
        }
        scan.strips = scan.strips.max(tail.seq);
        scan.images.push((tail.seq, segment, strip));
        let page = &recovery.bufs[lane].as_ref().expect("it was read").pages()[0];
        let entries = [zones::entry(page, 0), zones::entry(page, 1)];
        if let [Some(root), Some(from)] = entries
            && (root.kind, from.kind, tail.entries) == (Kind::Root, Kind::Images, 2)
            && tail.seq > scan.root.seq
            && (root.block | from.block) >> 55 == 0
        {
            let (replay_from, images) = (root.block, root.value);
            scan.root = Root { seq: tail.seq, replay_from, images_from: from.block, images };
            scan.root_in = segment;
        }
        self.look_before(lane, segment, strip);
    }

    pub(super) fn look_before(&mut self, lane: usize, segment: u32, strip: u32) {
        if strip > 0 {
            self.recovery().replay.again[lane] = Some((segment, strip - 1));
        }
    }

    fn choose_root(&mut self, cx: &mut Cx) -> bool {
        let scan = &mut self.recovery().scan;
        let (root, root_in) = (scan.root, scan.root_in);
        if root.seq == 0 {
            give_up("no sound root on the device", cx);
            return false;
        }
        scan.images.retain(|(seq, ..)| (root.images_from..root.seq).contains(seq));
        scan.images.sort_unstable();
        let line = self.layout.line(root_in);
        self.lines.found_image(line);
        self.checkpoint.root = root;
        self.go(Step::Images(0))
    }

    pub(super) fn pump_images(&mut self, index: usize, cx: &mut Cx) -> bool {
        let Some(&(_, segment, strip)) = self.recovery().scan.images.get(index) else {
            if self.recovery().pending > 0 {
                return false;
            }
            if self.recovery().scan.loaded != self.checkpoint.root.images {
                give_up("images of the map are missing", cx);
                return false;
            }
            self.recovery().scan.next = 0;
            self.believe_lists();
            return self.go(Step::Find);
        };
        let Some(lane) = self.idle_lane() else { return false };
        self.read_strip(lane, (segment, strip), false, cx);
        self.go(Step::Images(index + 1))
    }

    /// A strip of images was read.
    pub(super) fn image_read(&mut self, lane: usize, cx: &mut Cx) {
        let last = self.layout.strip_blocks() as usize;
        let (segment, _) = self.recovery().asked[lane];
        let tail = self.tail_of(lane, last);
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        let pages = recovery.bufs[lane].as_ref().expect("it was read").pages();
        let end = u64::from(self.layout.device.size) * u64::from(self.layout.device.count) / 8;
        let strip = last as u64 + 1;
        let is_place = |place: u64| place < end && place % strip < last as u64;
        let line = self.layout.line(segment);
        let mut sound = tail.is_some();
        for index in 0..tail.map_or(0, |tail| usize::from(tail.entries)) {
            let Some(entry) = zones::entry(&pages[last], index) else { continue };
            let (page, slot) = (entry.block, entry.value as usize);
            if entry.kind != Kind::Image || page >= self.layout.pages.into() || slot >= last {
                continue;
            }
            sound &= zones::image_crc(&pages[slot], page) == entry.crc
                && self.map.load(page as u32, &pages[slot], is_place);
            cx.touch(self.layout.page_entries() as usize);
            recovery.scan.loaded += 1;
            self.lines.found_image(line);
        }
        if !sound {
            give_up("an image of the map is damaged", cx);
        }
    }

    /// Which lines have a list that counts: the last strip of a segment has its end, and no segment
    /// of the line was written for another use of it, or can be written on.
    fn believe_lists(&mut self) {
        for line in 0..self.layout.lines {
            let segment = |column: u32| self.layout.segment(line, column);
            let scan = &self.recovery.as_ref().expect("the volume is being recovered").scan;
            let seen = |column: u32| scan.seen[segment(column) as usize];
            let list = (0..self.layout.width).find_map(|column| {
                let Seen { tail, strip } = seen(column);
                let last = strip + 1 == self.lines.chunk(segment(column)).strips;
                let tail = tail.filter(|it| it.holds == Holds::List && it.entries > 0 && last)?;
                Some((column, tail))
            });
            let Some((column, list)) = list else { continue };
            let agrees = |column: u32| {
                let takes_part = zones::takes_part(list.units, column);
                let same = seen(column).tail.is_none_or(|tail| tail.opened == list.opened);
                let full = self.lines.chunk(segment(column)).left() == 0;
                full && (same || !takes_part)
            };
            if (0..self.layout.width).all(agrees) {
                self.lines.found_list(line, column);
            }
        }
    }

    /// Says what each line is.
    pub(super) fn adopt(&mut self, cx: &mut Cx) -> bool {
        let scan = &self.recovery.as_ref().expect("the volume is being recovered").scan;
        let (seqs, strips) = (scan.seqs.max(self.checkpoint.root.replay_from - 1), scan.strips);
        let written = scan.written;
        for segment in 0..self.layout.device.count {
            let Some(tail) = scan.seen[segment as usize].tail else { continue };
            self.lines.found_tail(segment, &tail);
        }
        (0..self.layout.lines).for_each(|line| self.lines.found(line));
        self.written = self.written.plus(&written);
        self.durability.resume(seqs);
        self.checkpoint.strips = strips;
        self.serve(cx)
    }
}
