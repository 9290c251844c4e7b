//! Recovery, in small steps: from the contents of the device to a map.
//!
//! flush (everything read is durable) → roots → images → log → counts → a root of a new epoch. If
//! the log is long, new images are written before that root, so the log always has room to complete
//! a checkpoint.
//!
//! Every log record points at data that was durable when the record was written, so each valid log
//! page counts. The log ends at the first page that is not valid. If a later page proves that an
//! invalid page was durable, or if a page cannot be read, the result is `Event::Unrecoverable`.

use hostftl_core::{Cause, Command, SECTORS_PER_BLOCK};
use hostftl_format::scrambler::{
    LogHead, MAP_ENTRIES, Root, map_entry, parse_log, parse_map, parse_root, record,
};

use super::checkpoint::Checkpoint;
use super::layout::{Layout, PENDING_PAGES};
use super::ops::{Cx, Op};
use super::round::Ring;
use super::space::Space;
use crate::kit::reads::Reads;
use crate::kit::roots;
use crate::plan::Mode;
use crate::planted::{Bug, planted};

/// Map entries or pages that are counted in one step.
const COUNT_STEP: u32 = 8192;
/// Log pages behind the end that are searched for proof that the end was durable.
const BEYOND: u64 = 4 * PENDING_PAGES as u64;

/// A step of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Flush,
    Roots,
    Images,
    Log,
    Apply,
    Counts,
    Pages,
    Root,
}

/// The parts of the engine that recovery fills.
#[derive(Debug)]
struct Parts<'a> {
    space: &'a mut Space,
    ring: &'a mut Ring,
    checkpoint: &'a mut Checkpoint,
}

/// The state of recovery.
#[derive(Debug)]
pub(super) struct Recovery {
    mode: Mode,
    layout: Layout,
    uuid: [u8; 16],
    step: Step,
    /// Whether the flush is in progress.
    flushing: bool,
    /// Position within the step, in units that depend on the step.
    cursor: u64,
    reads: Reads,
    /// The first invalid log page, once found.
    gap: Option<u64>,
    /// The next record of the log page being applied, and the next slot within it.
    record: (u32, u32),
    replayed: u64,
    dropped: u64,
}

impl Recovery {
    /// Creates the state before the first read.
    pub(super) fn new(layout: &Layout, uuid: [u8; 16], mode: Mode) -> Self {
        Recovery {
            mode,
            layout: *layout,
            uuid,
            step: Step::Flush,
            flushing: false,
            cursor: 0,
            reads: Reads::new(roots::READS, layout.blocks()),
            gap: None,
            record: (0, 0),
            replayed: 0,
            dropped: 0,
        }
    }

    /// Returns the number of log pages applied, and of those beyond the end that were ignored.
    pub(super) fn found(&self) -> (u64, u64) {
        (self.replayed, self.dropped)
    }

    fn go(&mut self, step: Step, cursor: u64) -> bool {
        (self.step, self.cursor) = (step, cursor);
        true
    }

    /// Advances recovery by one move.
    pub(super) fn pump(
        &mut self,
        space: &mut Space,
        ring: &mut Ring,
        checkpoint: &mut Checkpoint,
        cx: &mut Cx,
    ) -> bool {
        if self.flushing || !self.reads.are_back() {
            return false;
        }
        let parts = &mut Parts { space, ring, checkpoint };
        match self.step {
            Step::Flush if self.mode == Mode::Format => {
                parts.ring.continue_with(1);
                let root = Root { first_log: 1, boundary: 1, ..*parts.checkpoint.root() };
                parts.checkpoint.adopt(root);
                self.go(Step::Root, 0)
            }
            Step::Flush => {
                self.flushing = true;
                cx.submit(Op::Recover { index: 0 }, Command::Flush { device: 0 });
                true
            }
            Step::Roots => self.read_roots(parts, cx),
            Step::Images => self.read_images(parts, cx),
            Step::Log => self.read_log(parts, cx),
            Step::Apply => self.apply_some(parts, cx),
            Step::Counts => self.count_some(parts.space, cx),
            Step::Pages => self.link_some(parts.space, cx),
            Step::Root => self.begin_epoch(parts, cx),
        }
    }

    fn read(&mut self, index: u8, lba: u64, cx: &mut Cx) -> bool {
        let command = self.reads.begin(index.into(), 0, lba, Cause::Map);
        cx.submit(Op::Recover { index }, command);
        true
    }

    /// Handles the completion of a command.
    pub(super) fn done(&mut self, index: u8, command: Command, ok: bool) {
        match command {
            // If the flush failed, `Engine::done` has ended the volume already.
            Command::Flush { .. } => {
                self.flushing = false;
                self.go(Step::Roots, 0);
            }
            other => self.reads.end(index.into(), other, ok),
        }
    }

    fn read_roots(&mut self, parts: &mut Parts, cx: &mut Cx) -> bool {
        let lba = |index: u8| self.layout.root_at(u64::from(index / 2), u32::from(index % 2));
        if self.cursor == 0 {
            self.cursor = 1;
            for (index, lba) in [0, 1, 2, 3].map(|index| (index, lba(index))) {
                self.read(index, lba, cx);
            }
            return true;
        }
        let parse = |index: usize| {
            let root = parse_root(&self.reads.pages(index)[0], self.uuid, lba(index as u8));
            root.ok().filter(is_sane)
        };
        let root = match roots::newest(&self.reads, parse, |root| root.number) {
            Ok(root) => root,
            Err(why) => return fail_volume(why, cx),
        };
        let Layout { page, slot, count, area, .. } = self.layout;
        if (root.page, root.slot, root.count) != (page, slot, count) || root.area > 1 {
            return fail_volume(
                "the volume was created for another device or with another slot size",
                cx,
            );
        }
        parts.checkpoint.adopt(root);
        parts.space.pages_mut().adopt_taken(root.fresh);
        let from = if root.images == 0 { area } else { 0 };
        self.go(Step::Images, u64::from(from) * 2)
    }

    /// Reads pages of images one by one. The cursor is twice the page, plus one once the page was
    /// read.
    fn read_images(&mut self, parts: &mut Parts, cx: &mut Cx) -> bool {
        let (cursor, root) = (self.cursor, *parts.checkpoint.root());
        let index = (cursor / 2) as u32;
        if index >= self.layout.area {
            parts.ring.continue_with(root.first_log);
            return self.go(Step::Log, root.first_log);
        }
        let lba = self.layout.image_at(root.area, index);
        self.cursor += 1;
        if cursor.is_multiple_of(2) {
            return self.read(0, lba, cx);
        }
        if self.reads.failed(0) {
            return fail_volume("an image of the map is unreadable", cx);
        }
        let blocks = self.layout.blocks();
        cx.touch(blocks as usize * MAP_ENTRIES);
        for i in 0..blocks {
            let first = u64::from(index * blocks + i) * MAP_ENTRIES as u64;
            let at = lba + u64::from(i * SECTORS_PER_BLOCK);
            let page = &self.reads.pages(0)[i as usize];
            if parse_map(page, root.images, first, self.uuid, at).is_err() {
                return fail_volume("an image of the map is damaged or of another generation", cx);
            }
            for entry in 0..MAP_ENTRIES {
                let map = parts.space.map_mut();
                map.load(first as u32 + entry as u32, map_entry(page, entry));
            }
        }
        true
    }

    /// Reads the device page that contains the log page at the cursor.
    fn read_log(&mut self, parts: &Parts, cx: &mut Cx) -> bool {
        let (seq, gap) = (self.cursor, self.gap);
        let end = parts.checkpoint.root().first_log + self.layout.ring_len();
        if seq >= gap.map_or(end, |gap| end.min(gap + BEYOND)) {
            return self.go(Step::Counts, 0);
        }
        self.step = Step::Apply;
        let lba = self.layout.log_at(seq - seq % u64::from(self.layout.blocks()));
        self.read(0, lba, cx)
    }

    /// Returns the head of the log page at the cursor, if the page is valid and of the expected
    /// epoch.
    fn log_page(&self, root: &Root) -> Option<LogHead> {
        let seq = self.cursor;
        let page = &self.reads.pages(0)[(seq % u64::from(self.layout.blocks())) as usize];
        let head = parse_log(page, self.uuid, self.layout.log_at(seq)).ok()?;
        let of_age = if head.seq < root.boundary {
            head.epoch < root.epoch
        } else {
            head.epoch == root.epoch
        };
        (head.seq == seq && of_age).then_some(head)
    }

    /// Applies part of the log page at the cursor.
    fn apply_some(&mut self, parts: &mut Parts, cx: &mut Cx) -> bool {
        let blocks = u64::from(self.layout.blocks());
        let (seq, gap, root) = (self.cursor, self.gap, *parts.checkpoint.root());
        if self.reads.failed(0) {
            if gap.is_none() {
                return fail_volume("a page that may belong to the map log is unreadable", cx);
            }
            return self.go(Step::Log, (seq / blocks + 1) * blocks);
        }
        match (self.log_page(&root), gap) {
            (Some(head), Some(gap)) if head.durable >= gap => {
                return fail_volume("a durable page of the map log is missing or damaged", cx);
            }
            (Some(_), Some(_)) => self.dropped += 1,
            (Some(head), None) if !self.apply_records(head, parts.space, cx) => {
                return fail_volume("a record of the map log is invalid", cx);
            }
            (Some(head), None) if self.record.0 < head.records => return true,
            (Some(head), None) => {
                parts.ring.continue_with(seq + 1);
                parts.ring.adopt_durable(head.durable);
                self.record = (0, 0);
                self.replayed += 1;
            }
            (None, None) if parts.ring.durable() >= seq || seq < root.boundary => {
                return fail_volume("a durable page of the map log is missing or damaged", cx);
            }
            (None, None) => self.gap = Some(seq),
            (None, Some(_)) => {}
        }
        let next = seq + 1;
        let step = if next % blocks == 0 { Step::Log } else { Step::Apply };
        if next >= root.first_log + self.layout.ring_len() {
            self.go(Step::Counts, 0)
        } else {
            self.go(step, next)
        }
    }

    /// Applies records of the log page at the cursor. Returns `false` for a record that exceeds the
    /// volume.
    fn apply_records(&mut self, head: LogHead, space: &mut Space, cx: &mut Cx) -> bool {
        let page = self.cursor % u64::from(self.layout.blocks());
        let mut budget = COUNT_STEP;
        while self.record.0 < head.records && budget > 0 {
            let (index, done) = self.record;
            let record = record(&self.reads.pages(0)[page as usize], index as usize);
            let slots = u64::from(self.layout.count) * u64::from(self.layout.per_page);
            let end = |first: u32| u64::from(first) + u64::from(record.count);
            if end(record.logical) > u64::from(self.layout.slots)
                || record.slot.is_some_and(|slot| end(slot) > slots)
            {
                return false;
            }
            let some = (record.count - done).min(budget);
            for i in done..done + some {
                let raw = record.slot.map_or(0, |slot| slot + i + 1);
                space.map_mut().load(record.logical + i, raw);
            }
            budget -= some;
            cx.touch(some as usize);
            let over = done + some == record.count;
            self.record = if over { (index + 1, 0) } else { (index, done + some) };
        }
        true
    }

    /// Counts mapped slots.
    fn count_some(&mut self, space: &mut Space, cx: &mut Cx) -> bool {
        let from = self.cursor as u32;
        let end = (from + COUNT_STEP).min(self.layout.slots);
        cx.touch((end - from) as usize);
        for logical in from..end {
            match space.map_mut().adopt(logical) {
                Ok(Some(slot)) => space.pages_mut().adopt(slot),
                Ok(None) => {}
                Err(why) => return fail_volume(why, cx),
            }
        }
        if end < self.layout.slots {
            self.go(Step::Counts, end.into())
        } else {
            self.go(Step::Pages, 0)
        }
    }

    fn link_some(&mut self, space: &mut Space, cx: &mut Cx) -> bool {
        let from = self.cursor as u32;
        let taken = space.pages().taken();
        let end = (from + COUNT_STEP).min(taken);
        cx.touch((end - from) as usize);
        (from..end).for_each(|page| space.pages_mut().adopt_page(page));
        if end < taken { self.go(Step::Pages, end.into()) } else { self.go(Step::Root, 0) }
    }

    /// Writes the root of a new epoch, so that torn log pages of earlier runs never count.
    fn begin_epoch(&mut self, parts: &mut Parts, cx: &mut Cx) -> bool {
        let Parts { space, ring, checkpoint } = parts;
        if !checkpoint.is_idle() {
            return checkpoint.pump(space, &self.layout, cx);
        }
        let Layout { page, slot, count, .. } = self.layout;
        let epoch = checkpoint.root().epoch + u64::from(!planted(Bug::SameEpoch));
        ring.adopt_durable(ring.next() - 1);
        let boundary = ring.next();
        let root = Root { epoch, boundary, page, slot, count, ..*checkpoint.root() };
        checkpoint.adopt(root);
        if ring.is_long(&root, &self.layout) {
            checkpoint.begin(ring.next())
        } else {
            let root = Root { number: root.number + 1, ..root };
            checkpoint.write_root(root, space, &self.layout, cx);
        }
        true
    }
}

/// Refuses to open the volume.
fn fail_volume(why: &'static str, cx: &mut Cx) -> bool {
    cx.fail_volume(why);
    true
}

/// Returns whether the values of a root are plausible. A valid checksum proves nothing if another
/// program wrote the root. No counter ever reaches the limit.
fn is_sane(root: &Root) -> bool {
    let Root { number, epoch, first_log, boundary, images, .. } = *root;
    let counts = [number, epoch, first_log, boundary, images];
    counts.iter().all(|count| *count < 1 << 62) && first_log > 0
}
