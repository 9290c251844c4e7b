//! Opening a volume: from what the device holds to a map, in small steps.
//!
//! flush (what is read becomes durable) → roots → images → log → counts → a root of a new epoch,
//! after new images when the log is long: so there is always room in it to end a checkpoint.
//!
//! Every record in the log points at data that was durable when it was written, so each whole log
//! page counts; the log ends with the first that is not whole. A page that a later one knows to be
//! durable and that is not there, or one that can't be read, ends in `Event::Unrecoverable`.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Event, MetaBuf, Nanos, Out, Output, SECTORS_PER_BLOCK, Target};
use hostftl_format::scrambler::{
    LogHead, MAP_ENTRIES, Root, map_entry, parse_log, parse_map, parse_root, record,
};

use super::layout::Layout;
use super::ops::Op;
use super::{Life, PENDING_PAGES, Scrambler};
use crate::config::Mode;
use crate::planted::{Bug, planted};

/// Map entries or pages counted in one go.
const COUNT_STEP: u32 = 8192;
/// Log pages behind the end that are looked at for one that knows better.
const BEYOND: u64 = 4 * PENDING_PAGES as u64;

/// What recovery is at.
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

/// The state of an opening volume.
#[derive(Debug)]
pub struct Recovery {
    mode: Mode,
    step: Step,
    /// Sent and not back yet.
    outstanding: u32,
    /// How far the step is; what it counts depends on the step.
    cursor: u64,
    bufs: Vec<Option<MetaBuf>>,
    failed: [bool; 4],
    /// The first log page that is not there, once one is not.
    gap: Option<u64>,
    /// The next record of a log page that is being applied, and the next slot of it.
    record: (u32, u32),
    replayed: u64,
    dropped: u64,
}

impl Recovery {
    /// Nothing read yet.
    pub fn new(layout: &Layout, mode: Mode) -> Self {
        Recovery {
            mode,
            step: Step::Flush,
            outstanding: 0,
            cursor: 0,
            bufs: (0..4).map(|_| Some(MetaBuf::new(layout.blocks() as usize))).collect(),
            failed: [false; 4],
            gap: None,
            record: (0, 0),
            replayed: 0,
            dropped: 0,
        }
    }

    fn go(&mut self, step: Step, cursor: u64) -> bool {
        (self.step, self.cursor) = (step, cursor);
        true
    }

    fn pages(&self, index: usize) -> &[hostftl_core::Page] {
        self.bufs[index].as_ref().expect("what was read is here").pages()
    }
}

impl Scrambler {
    fn recovery(&mut self) -> &mut Recovery {
        self.recovery.as_mut().expect("the volume is being recovered")
    }

    /// The volume can't be opened.
    pub fn give_up(&mut self, why: &'static str, out: &mut Out) -> bool {
        self.life = Life::Over;
        out.push(Output::Event(Event::Unrecoverable(why)));
        true
    }

    /// One move of recovery.
    pub fn pump_recovery(&mut self, now: Nanos, out: &mut Out) -> bool {
        let recovery = self.recovery();
        if recovery.outstanding > 0 {
            return false;
        }
        match recovery.step {
            Step::Flush if recovery.mode == Mode::Format => {
                (self.log_next, self.root.first_log, self.root.boundary) = (1, 1, 1);
                self.recovery().go(Step::Root, 0)
            }
            Step::Flush => self.recover(now, 0, Command::Flush { device: 0 }, out),
            Step::Roots => self.read_roots(now, out),
            Step::Images => self.read_images(now, out),
            Step::Log => self.read_log(now, out),
            Step::Apply => self.apply_some(out),
            Step::Counts => self.count_some(out),
            Step::Pages => self.link_some(),
            Step::Root => self.begin_epoch(now, out),
        }
    }

    fn recover(&mut self, now: Nanos, index: u8, command: Command, out: &mut Out) -> bool {
        self.recovery().outstanding += 1;
        self.submit(now, Op::Recover { index }, command, out);
        true
    }

    fn recover_read(&mut self, now: Nanos, index: u8, lba: u64, out: &mut Out) -> bool {
        let pages = self.layout.blocks();
        let buf = self.recovery().bufs[index as usize].take().expect("it is not in use");
        let into = Target::Meta { buf, pages };
        let command = Command::Read { device: 0, lba, into, cause: Cause::Map };
        self.recover(now, index, command, out)
    }

    /// A command of recovery is over.
    pub fn recovered(&mut self, index: u8, command: Command, ok: bool) {
        let recovery = self.recovery();
        recovery.outstanding -= 1;
        match command {
            Command::Read { into: Target::Meta { buf, .. }, .. } => {
                recovery.bufs[index as usize] = Some(buf);
                recovery.failed[index as usize] = !ok;
            }
            // When the flush fails, so does the volume.
            Command::Flush { .. } => {
                recovery.go(Step::Roots, 0);
            }
            other => unreachable!("recovery sends no {other:?}"),
        }
    }

    fn read_roots(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.recovery().cursor == 0 {
            self.recovery().cursor = 1;
            for index in 0..4u8 {
                let lba = self.layout.root_at(u64::from(index / 2), u32::from(index % 2));
                self.recover_read(now, index, lba, out);
            }
            return true;
        }
        let mut best: Option<Root> = None;
        for index in 0..4 {
            let lba = self.layout.root_at(index as u64 / 2, index as u32 % 2);
            let (uuid, recovery) = (self.uuid, self.recovery());
            let found = parse_root(&recovery.pages(index)[0], uuid, lba).ok();
            let found = found.filter(|_| !recovery.failed[index]);
            best = best.into_iter().chain(found).max_by_key(|root| root.number);
        }
        let failed = self.recovery().failed;
        let Some(root) = best else {
            return self.give_up("no root of the volume can be read", out);
        };
        if failed[0] && failed[1] || failed[2] && failed[3] {
            return self.give_up("both copies of a root can't be read", out);
        }
        let Layout { page, slot, count, area, .. } = self.layout;
        if (root.page, root.slot, root.count) != (page, slot, count) || root.area > 1 {
            return self.give_up("the volume was made for another device or with other slots", out);
        }
        self.root = root;
        self.pages.adopt_taken(root.fresh);
        let from = if root.images == 0 { area } else { 0 };
        self.recovery().go(Step::Images, u64::from(from) * 2)
    }

    /// Reads pages of images one by one; the cursor is twice the page, plus one when it is here.
    fn read_images(&mut self, now: Nanos, out: &mut Out) -> bool {
        let cursor = self.recovery().cursor;
        let index = (cursor / 2) as u32;
        if index >= self.layout.area {
            let first = self.root.first_log;
            self.log_next = first;
            return self.recovery().go(Step::Log, first);
        }
        let lba = self.layout.image_at(self.root.area, index);
        self.recovery().cursor += 1;
        if cursor.is_multiple_of(2) {
            return self.recover_read(now, 0, lba, out);
        }
        if self.recovery().failed[0] {
            return self.give_up("an image of the map can't be read", out);
        }
        let blocks = self.layout.blocks();
        self.touched += blocks as usize * MAP_ENTRIES;
        for i in 0..blocks {
            let first = u64::from(index * blocks + i) * MAP_ENTRIES as u64;
            let at = lba + u64::from(i * SECTORS_PER_BLOCK);
            let recovery = self.recovery.as_ref().expect("the volume is being recovered");
            let page = &recovery.pages(0)[i as usize];
            if parse_map(page, self.root.images, first, self.uuid, at).is_err() {
                return self.give_up("an image of the map is damaged or of another age", out);
            }
            for entry in 0..MAP_ENTRIES {
                self.map.load(first as u32 + entry as u32, map_entry(page, entry));
            }
        }
        true
    }

    /// Reads the device page with the log page at the cursor.
    fn read_log(&mut self, now: Nanos, out: &mut Out) -> bool {
        let recovery = self.recovery();
        let (seq, gap) = (recovery.cursor, recovery.gap);
        let end = self.root.first_log + self.layout.ring_len();
        if seq >= gap.map_or(end, |gap| end.min(gap + BEYOND)) {
            return self.recovery().go(Step::Counts, 0);
        }
        self.recovery().step = Step::Apply;
        let lba = self.layout.log_at(seq - seq % u64::from(self.layout.blocks()));
        self.recover_read(now, 0, lba, out)
    }

    /// The log page at the cursor, if it counts as what it should be.
    fn log_page(&self) -> Option<LogHead> {
        let recovery = self.recovery.as_ref().expect("the volume is being recovered");
        let seq = recovery.cursor;
        let page = &recovery.pages(0)[(seq % u64::from(self.layout.blocks())) as usize];
        let head = parse_log(page, self.uuid, self.layout.log_at(seq)).ok()?;
        let of_age = match head.seq < self.root.boundary {
            true => head.epoch < self.root.epoch,
            false => head.epoch == self.root.epoch,
        };
        (head.seq == seq && of_age).then_some(head)
    }

    /// Applies the log page at the cursor, a part at a time.
    fn apply_some(&mut self, out: &mut Out) -> bool {
        let blocks = u64::from(self.layout.blocks());
        let recovery = self.recovery();
        let (seq, gap) = (recovery.cursor, recovery.gap);
        if recovery.failed[0] {
            if gap.is_none() {
                return self.give_up("a page that may hold log can't be read", out);
            }
            return self.recovery().go(Step::Log, (seq / blocks + 1) * blocks);
        }
        match (self.log_page(), gap) {
            (Some(head), Some(gap)) if head.durable >= gap => {
                return self.give_up("a log page that was durable is missing or damaged", out);
            }
            (Some(_), Some(_)) => self.recovery().dropped += 1,
            (Some(head), None) if !self.apply_records(head) => {
                return self.give_up("a record in the log makes no sense", out);
            }
            (Some(head), None) if self.recovery().record.0 < head.records => return true,
            (Some(head), None) => {
                self.log_next = seq + 1;
                self.log_durable = self.log_durable.max(head.durable);
                self.recovery().record = (0, 0);
                self.recovery().replayed += 1;
            }
            (None, None) if self.log_durable >= seq || seq < self.root.boundary => {
                return self.give_up("a log page that was durable is missing or damaged", out);
            }
            (None, None) => self.recovery().gap = Some(seq),
            (None, Some(_)) => {}
        }
        let next = seq + 1;
        let step = if next % blocks == 0 { Step::Log } else { Step::Apply };
        let end = self.root.first_log + self.layout.ring_len();
        self.recovery().go(if next >= end { Step::Counts } else { step }, next);
        if next >= end {
            self.recovery().cursor = 0;
        }
        true
    }

    /// Applies records of the log page at the cursor; false when one makes no sense.
    fn apply_records(&mut self, head: LogHead) -> bool {
        let blocks = u64::from(self.layout.blocks());
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        let page = recovery.cursor % blocks;
        let mut budget = COUNT_STEP;
        while recovery.record.0 < head.records && budget > 0 {
            let (index, done) = recovery.record;
            let record = record(&recovery.pages(0)[page as usize], index as usize);
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
                self.map.load(record.logical + i, raw);
            }
            budget -= some;
            self.touched += some as usize;
            let over = done + some == record.count;
            recovery.record = if over { (index + 1, 0) } else { (index, done + some) };
        }
        true
    }

    /// Counts what is mapped.
    fn count_some(&mut self, out: &mut Out) -> bool {
        let from = self.recovery().cursor as u32;
        let end = (from + COUNT_STEP).min(self.layout.slots);
        self.touched += (end - from) as usize;
        for logical in from..end {
            match self.map.adopt(logical) {
                Ok(Some(slot)) => self.pages.adopt(slot),
                Ok(None) => {}
                Err(why) => return self.give_up(why, out),
            }
        }
        match end < self.layout.slots {
            true => self.recovery().go(Step::Counts, end.into()),
            false => self.recovery().go(Step::Pages, 0),
        }
    }

    fn link_some(&mut self) -> bool {
        let from = self.recovery().cursor as u32;
        let taken = self.pages.taken();
        let end = (from + COUNT_STEP).min(taken);
        self.touched += (end - from) as usize;
        (from..end).for_each(|page| self.pages.adopt_page(page));
        match end < taken {
            true => self.recovery().go(Step::Pages, end.into()),
            false => self.recovery().go(Step::Root, 0),
        }
    }

    /// Writes the root of a new epoch, so that torn log pages never count later.
    fn begin_epoch(&mut self, now: Nanos, out: &mut Out) -> bool {
        if !self.checkpoint.is_idle() {
            return self.pump_checkpoint(now, out);
        }
        let Layout { page, slot, count, .. } = self.layout;
        let epoch = self.root.epoch + u64::from(!planted(Bug::SameEpoch));
        self.log_durable = self.log_next - 1;
        self.root = Root { epoch, boundary: self.log_next, page, slot, count, ..self.root };
        match self.is_log_long() {
            true => self.begin_checkpoint(),
            false => self.write_root(now, Root { number: self.root.number + 1, ..self.root }, out),
        }
        true
    }

    /// The new root is durable.
    pub fn become_ready(&mut self, out: &mut Out) {
        let recovery = self.recovery.take().expect("the volume is being recovered");
        self.life = Life::Running;
        let Recovery { replayed, dropped, .. } = recovery;
        out.push(Output::Event(Event::Ready { replayed, dropped }));
    }
}
