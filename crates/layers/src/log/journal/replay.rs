//! Playing records between the rows, in recovery.
//!
//! All heads of the ring are read. The newest one says from which on records are needed; of these
//! none may be missing. A record is read again, and every block in it checked, when its turn comes:
//! before the row that was next when it was made. When the newest is not whole it was torn, and was
//! never promised; when another one is not, the volume is not opened. Nor is it when none is of
//! this life, or when the root or a row knows of a newer one: that is an older copy of the device.
//! The map then points into the journal at what no row has; see [`super::restore`].

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, SECTORS_PER_BLOCK, Target, Verdict};
use hostftl_format::log::journal::{MOST_PAGES, Record, bytes_of, open};
use hostftl_format::log::{Entry, Kind, Place, Root, entry, seed};

use super::{Engine, Journal, State};
use crate::log::buffers::Buffer;
use crate::log::ops::{Cx, Op, Part, give_up};
use crate::log::recovery::replay::Applied;
use crate::planted::{Bug, planted};

/// Why a volume is not opened.
pub const DAMAGED: &str =
    "a record of the journal is damaged, and what was flushed may be in it alone";
const ABSENT: &str = "the journal's device is not here, and what was flushed may be on it alone: \
                      bring it back";

const STALE: &str = "the journal's device lacks what was flushed to it, as an older copy of it or \
                     another device does: bring back the device itself";

/// How far it has come with one record, or with the heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Step {
    /// Nothing is needed of the journal.
    #[default]
    Unneeded,
    /// The head in this slot is next.
    Scan(u32),
    /// A record is next.
    Begin,
    /// Head and blocks of the record are read.
    Reading,
    /// This entry is next, whose block lies there in the record.
    Check(u32, u32),
    Apply(u32, u32),
}

/// See the module text.
#[derive(Debug, Default)]
pub struct Played {
    pub step: Step,
    epoch: u32,
    from: u64,
    /// The newest record that is whole, and the newest that the root or a row knows to be durable.
    newest: u64,
    told: u64,
    /// Of the heads that count; later of the records that are needed, in the order of numbers.
    pub records: Vec<Record>,
    /// The record whose turn is next.
    pub next: usize,
    /// Commands under way.
    pub pending: u32,
    /// Whether something of the record is wrong, and whether that is because it can't be read.
    pub bad: bool,
    unread: bool,
    /// Slots whose heads can't be read.
    dark: Vec<u32>,
    /// The record's head and where its blocks lie on the device.
    pub head: Option<MetaBuf>,
    pub data_at: u64,
}

impl Journal {
    /// The next record comes after all that were played.
    pub(super) fn go_on(&mut self) {
        if self.played.step != Step::Unneeded {
            self.next = self.played.newest + 1;
        }
    }
}

impl Engine {
    /// A root was chosen, and says whether the journal is needed. Why not, if it can't be opened.
    pub(in crate::log) fn begin_journal(&mut self, root: &Root) -> Result<(), &'static str> {
        self.journal.next = root.journal + 1;
        let is_needed = root.lost & self.journal.bit() != self.journal.bit();
        if !is_needed {
            return Ok(());
        }
        if self.journal.state == State::Dead {
            return Err(ABSENT);
        }
        let played = &mut self.journal.played;
        (played.epoch, played.from) = (root.epoch, root.replay_from);
        played.told = root.journal;
        (played.step, played.head) = (Step::Scan(0), Some(MetaBuf::new(MOST_PAGES as usize)));
        Ok(())
    }

    /// Reads the heads; `None` when that is done.
    pub(in crate::log) fn scan_journal(&mut self, cx: &mut Cx) -> Option<bool> {
        let Step::Scan(slot) = self.journal.played.step else { return None };
        if self.journal.played.pending > 0 {
            return Some(false);
        }
        if slot < self.journal.ring.slots {
            self.read_record_head(slot, cx);
            return Some(true);
        }
        self.journal.played.step = Step::Begin;
        if let Err(why) = self.choose_records() {
            give_up(why, cx);
        }
        Some(true)
    }

    fn read_record_head(&mut self, slot: u32, cx: &mut Cx) {
        let buf = self.journal.played.head.take().expect("one head at a time");
        self.journal.played.pending += 1;
        let (device, lba) = (self.journal.device, self.journal.ring.at(slot));
        let into = Target::Meta { buf, pages: MOST_PAGES };
        let command = Command::Read { device, lba, into, cause: Cause::Journal };
        self.devices.submit(Op::Journal(Part::Head), command, cx);
    }

    fn head_of_record(&mut self, buf: MetaBuf, lba: u64, is_read: bool) {
        let record = open(&buf, &self.uuid, lba).filter(|_| is_read);
        let record = record.filter(|record| self.layout.admits_record(record));
        let ring = self.journal.ring;
        let played = &mut self.journal.played;
        played.head = Some(buf);
        played.unread |= !is_read;
        match played.step {
            Step::Scan(slot) => {
                let counts = |it: &Record| {
                    let life = it.epoch == played.epoch || planted(Bug::JournalOldLife);
                    life && ring.slot_of(it.number) == slot
                };
                played.records.extend(record.filter(counts));
                if core::mem::take(&mut played.unread) {
                    played.dark.push(slot);
                }
                played.step = Step::Scan(slot + 1);
            }
            _ => played.bad |= record != Some(played.records[played.next]),
        }
    }

    /// Keeps the records that are needed. Why not, when one of them is missing.
    fn choose_records(&mut self) -> Result<(), &'static str> {
        let played = &mut self.journal.played;
        let records = &mut played.records;
        records.sort_unstable_by_key(|record| record.number);
        let Some(newest) = records.last().copied() else {
            let dark = !played.dark.is_empty();
            let none = if planted(Bug::JournalStale) { Ok(()) } else { Err(STALE) };
            return if dark { Err(DAMAGED) } else { none };
        };
        if played.dark.contains(&self.journal.ring.slot_of(newest.number + 1)) {
            return Err(DAMAGED); // What can't be read there may be newer.
        }
        if !planted(Bug::JournalOldLife) {
            records.retain(|record| record.number >= newest.oldest);
            let count = newest.number + 1 - newest.oldest.min(newest.number);
            if records.len() as u64 != count {
                return Err(DAMAGED);
            }
        }
        played.newest = newest.number;
        let from = played.from;
        records.retain(|record| record.before >= from);
        Ok(())
    }

    /// A row of this life knows that record `number` was durable.
    pub(in crate::log) fn row_knows(&mut self, number: u64) {
        let played = &mut self.journal.played;
        played.told = played.told.max(number);
    }

    /// Why the volume can't be opened with the records that were played, if it can't.
    pub(in crate::log) fn lacks_records(&self) -> Option<&'static str> {
        let played = &self.journal.played;
        let lacks = played.step != Step::Unneeded && played.newest < played.told;
        (lacks && !planted(Bug::JournalStale)).then_some(STALE)
    }

    /// Plays the next record if its turn comes before row `row`; `None` when it does not.
    pub(in crate::log) fn play_journal(&mut self, row: u64, cx: &mut Cx) -> Option<bool> {
        let played = &self.journal.played;
        if played.step == Step::Unneeded {
            return None;
        }
        let late = planted(Bug::JournalLast) && row < u64::MAX;
        let record = played.records.get(played.next).copied();
        let record = record.filter(|record| record.before <= row && !late)?;
        if played.pending > 0 {
            return Some(false);
        }
        match played.step {
            Step::Begin => {
                self.read_record(record, cx);
                self.journal.played.step = Step::Reading;
            }
            Step::Reading => self.journal.played.step = Step::Check(0, 0),
            Step::Check(index, at) => self.check_entry_of(record, index, at, cx),
            Step::Apply(index, at) => {
                return Some(self.apply_entry_of(record, index, at, cx));
            }
            Step::Unneeded | Step::Scan(_) => unreachable!("the heads were read"),
        }
        Some(true)
    }

    /// Reads a record, head and blocks.
    pub(super) fn read_record(&mut self, record: Record, cx: &mut Cx) {
        let ring = self.journal.ring;
        let slot = ring.slot_of(record.number);
        self.read_record_head(slot, cx);
        let lba = ring.at(slot) + u64::from(record.pages() * SECTORS_PER_BLOCK);
        let played = &mut self.journal.played;
        (played.data_at, played.bad, played.unread) = (lba, false, false);
        self.journal.played.pending += 1;
        let buffer = Buffer::Journal;
        let into = Target::Data(self.buffers.at(buffer).view_mut_sectors(0, ring.data));
        let device = self.journal.device;
        let command = Command::Read { device, lba, into, cause: Cause::Journal };
        self.devices.submit(Op::Journal(Part::Data), command, cx);
    }

    /// Entry `index` of the record that was read.
    pub(super) fn entry_of(&self, index: u32) -> Option<Entry> {
        entry(self.journal.played.head.as_ref().expect("no head is being read"), index)
    }

    /// Where a block's record lies on the journal's device that is `at` bytes behind the head.
    pub(super) fn place_of(&self, entry: &Entry, at: u32) -> Place {
        let byte = self.journal.played.data_at * 512 + u64::from(at);
        Place::new(self.journal.device, byte, entry.place.len(), entry.place.generation())
    }

    fn check_entry_of(&mut self, record: Record, index: u32, at: u32, cx: &mut Cx) {
        let bad = self.journal.played.bad && !planted(Bug::JournalUnverified);
        if bad {
            return self.judge_record(cx);
        }
        if index == record.entries {
            self.journal.played.step = Step::Apply(0, 0);
            return;
        }
        let Some(entry) = self.entry_of(index) else { return self.judge_record(cx) };
        let end = at + bytes_of(&entry);
        if end > self.journal.ring.bytes() {
            return self.judge_record(cx);
        }
        self.journal.played.step = Step::Check(index + 1, end);
        if entry.kind == Kind::Data {
            self.journal.played.pending += 1;
            let buffer = Buffer::Journal;
            let from = self.buffers.at(buffer).view(at, entry.place.len());
            let seed = seed(entry.block, entry.place.generation());
            self.devices.submit(Op::Journal(Part::Check), Command::Digest { from, seed }, cx);
        }
    }

    /// A record is not whole: it is the newest, which nobody was promised, or the volume is
    /// damaged.
    fn judge_record(&mut self, cx: &mut Cx) {
        let played = &mut self.journal.played;
        if played.next + 1 < played.records.len() || played.unread {
            return give_up(DAMAGED, cx);
        }
        played.records.pop();
        played.newest -= 1;
        played.step = Step::Begin;
    }

    fn apply_entry_of(&mut self, record: Record, index: u32, at: u32, cx: &mut Cx) -> bool {
        if index == record.entries {
            self.journal.played.next += 1;
            self.journal.played.step = Step::Begin;
            return true;
        }
        let entry = self.entry_of(index).expect("it was checked");
        let place = if entry.kind == Kind::Data { self.place_of(&entry, at) } else { entry.place };
        // What its row has too stays there.
        let known = entry.kind == Kind::Data
            && entry.block < self.pages.map().len()
            && self.pages.pair(entry.block) == Some((entry.place, entry.crc));
        let applied = match known {
            true => Applied::Yes,
            false => self.apply_sound(Entry { place, ..entry }, cx),
        };
        match applied {
            Applied::Yes => {
                self.journal.played.step = Step::Apply(index + 1, at + bytes_of(&entry));
                true
            }
            Applied::Later => false,
            Applied::Never(why) => {
                give_up(why, cx);
                false
            }
        }
    }

    /// A command of the journal is over.
    pub(in crate::log) fn journal_done(
        &mut self,
        part: Part,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        if matches!(part, Part::Copy(_) | Part::Write | Part::Flush) {
            return self.making_done(part, command, result.map(|_| ()), cx);
        }
        self.journal.played.pending -= 1;
        let buffer = Buffer::Journal;
        match (part, command) {
            (Part::Head, Command::Read { into: Target::Meta { buf, .. }, lba, .. }) => {
                self.head_of_record(buf, lba, result.is_ok());
            }
            (Part::Data, Command::Read { into: Target::Data(view), .. }) => {
                self.buffers.at(buffer).repay_mut(view);
                self.journal.played.bad |= result.is_err();
                self.journal.played.unread |= result.is_err();
            }
            (Part::Check, Command::Digest { from, .. }) => {
                self.buffers.at(buffer).repay(from);
                let Step::Check(next, _) = self.journal.played.step else {
                    unreachable!("an entry is being checked")
                };
                let listed = self.entry_of(next - 1).expect("it was read before").crc;
                let found = result.expect("a checksum in memory can't fail").crc;
                self.journal.played.bad |= found != listed;
            }
            (Part::Restore(row, item), Command::Place { from, into }) => {
                self.restored(row, item, from, into, cx);
            }
            (part, command) => unreachable!("{command:?} is no {part:?}"),
        }
    }
}
