//! Replays journal records between the stripes during recovery.
//!
//! All heads of the ring are read. The newest one records the oldest needed record, and none from
//! there on may be missing. When a record is due, it is read again and each of its blocks is
//! verified; it is due before the stripe with the next sequence number at its time. An incomplete
//! newest record was torn and never acknowledged; if any other record is incomplete, the volume is
//! not opened. Nor is it opened if no record is of this life, or if the root or a stripe knows of a
//! newer one: the device is then a stale copy. Afterwards the map points into the journal for
//! blocks that no stripe has; `recovery/records.rs` copies these into stripes.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceSet, MetaBuf, Piece, SECTORS_PER_BLOCK, Target};
use hostftl_format::log::journal::{MOST_PAGES, Record, data_bytes, open};
use hostftl_format::log::{Entry, Kind, Place, Root, entry, seed};

use super::{Journal, State};
use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op, Part, fail_volume};
use crate::log::stripe::stripes::Stripes;
use crate::log::volume::Volume;
use crate::planted::{Bug, planted};

/// Reasons not to open a volume.
pub(super) const DAMAGED: &str =
    "a record of the journal is damaged; it may hold the only copy of flushed data";
const ABSENT: &str =
    "the journal device is missing; it may hold the only copy of flushed data: reconnect it";
const STALE: &str = "the journal device lacks flushed records, as an older copy or another device \
                     does; reconnect the original device";

/// Progress of the replay of a record, or of the scan of the heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// The journal is not needed.
    #[default]
    Unneeded,
    /// The head in this slot is read next.
    Scan(u32),
    /// A record is started next.
    Begin,
    /// Head and blocks of the record are being read.
    Reading,
    /// This entry is verified next; its block is at this offset in the record.
    Check(u32, u32),
    Apply(u32, u32),
}

/// Result of a replay step.
#[derive(Debug)]
pub(crate) enum Turn {
    /// No record is due.
    None,
    /// A command is in flight.
    Waits,
    /// Progress was made.
    Moved,
    /// The entry is to be applied, with the place of its block in the journal; see
    /// [`Journal::applied`].
    Apply(Entry, Place),
}

/// Meaning of a completed command.
#[derive(Debug)]
pub(crate) enum Done {
    /// Internal.
    Nothing,
    /// A record is durable.
    Durable,
    /// A block was copied into a stripe as this item.
    Restored(u8, u32),
}

#[derive(Debug, Default)]
pub(super) struct Played {
    step: Step,
    epoch: u32,
    from: u64,
    /// Newest complete record, and newest one that the root or a stripe knows to be durable.
    newest: u64,
    limit: u64,
    /// Valid records found in the ring; after the scan the needed ones, in ascending order.
    records: Vec<Record>,
    /// Index of the next record to replay.
    next: usize,
    /// Commands in flight.
    pending: u32,
    /// Whether the record is damaged, and whether a part of it is unreadable.
    bad: bool,
    unread: bool,
    /// Slots with unreadable heads.
    dark: Vec<u32>,
    /// Head of the record, and the sector of its blocks on the device.
    head: Option<MetaBuf>,
    data_at: u64,
}

impl Journal {
    /// Continues numbering after the newest record that was replayed.
    pub(super) fn continue_numbering(&mut self) {
        if self.played.step != Step::Unneeded {
            self.next = self.played.newest + 1;
        }
    }
}

impl Journal {
    /// Starts the replay for the chosen root, which records whether the journal is needed. Returns
    /// the reason if the volume cannot be opened.
    pub(crate) fn begin_replay(&mut self, root: &Root) -> Result<(), &'static str> {
        // Numbers continue from life to life, even if no record is replayed.
        self.next = root.journal + 1;
        let is_needed = !self.device_set().is_within(DeviceSet::from_bits(root.lost));
        if !is_needed {
            return Ok(());
        }
        if self.state == State::Lost {
            return Err(ABSENT);
        }
        let played = &mut self.played;
        (played.epoch, played.from) = (root.epoch, root.replay_from);
        played.limit = root.journal;
        (played.step, played.head) = (Step::Scan(0), Some(MetaBuf::new(MOST_PAGES as usize)));
        Ok(())
    }

    /// Reads the heads; `None` when all are read.
    pub(crate) fn scan(&mut self, media: &mut Media, cx: &mut Cx) -> Option<bool> {
        let Step::Scan(slot) = self.played.step else { return None };
        if self.played.pending > 0 {
            return Some(false);
        }
        if slot < self.ring.slots {
            self.read_record_head(slot, media, cx);
            return Some(true);
        }
        self.played.step = Step::Begin;
        if let Err(why) = self.choose_records() {
            fail_volume(why, cx);
        }
        Some(true)
    }

    fn read_record_head(&mut self, slot: u32, media: &mut Media, cx: &mut Cx) {
        let buf = self.played.head.take().expect("one head at a time");
        self.played.pending += 1;
        let (device, lba) = (self.ring.device(), self.ring.at(slot));
        let into = Target::Meta { buf, pages: MOST_PAGES };
        let command = Command::Read { device, lba, into, cause: Cause::Journal };
        media.devices.submit(Op::Journal(Part::Head), command, cx);
    }

    fn head_of_record(
        &mut self,
        buf: MetaBuf,
        lba: u64,
        is_read: bool,
        media: &Media,
        volume: Volume,
    ) {
        let record = open(&buf, &volume.uuid, lba).filter(|_| is_read);
        let record = record.filter(|record| media.devices.layout().admits_record(record));
        let ring = self.ring;
        let played = &mut self.played;
        played.head = Some(buf);
        played.unread |= !is_read;
        match played.step {
            Step::Scan(slot) => {
                // Heads of earlier lives and in wrong slots are ignored.
                let counts = |it: &Record| {
                    let life = it.epoch == played.epoch || planted(Bug::JournalOldLife);
                    life && ring.record_slot(it.number) == slot
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

    /// Selects the needed records. Returns the reason if one of them is missing.
    fn choose_records(&mut self) -> Result<(), &'static str> {
        let played = &mut self.played;
        let records = &mut played.records;
        records.sort_unstable_by_key(|record| record.number);
        let Some(newest) = records.last().copied() else {
            // An unreadable head may be that of a needed record.
            let dark = !played.dark.is_empty();
            let none = if planted(Bug::JournalStale) { Ok(()) } else { Err(STALE) };
            return if dark { Err(DAMAGED) } else { none };
        };
        if played.dark.contains(&self.ring.record_slot(newest.number + 1)) {
            return Err(DAMAGED); // An unreadable record may be newer.
        }
        if !planted(Bug::JournalOldLife) {
            records.retain(|record| record.number >= newest.oldest);
            // In a forged head `oldest` may exceed the number.
            let count = newest.number + 1 - newest.oldest.min(newest.number);
            if records.len() as u64 != count {
                return Err(DAMAGED);
            }
        }
        played.newest = newest.number;
        let from = played.from;
        // The root already includes records that were due before the first replayed stripe.
        records.retain(|record| record.before >= from);
        Ok(())
    }

    /// Notes that record `number` was durable according to a stripe of this life.
    pub(crate) fn stripe_knows(&mut self, number: u64) {
        let played = &mut self.played;
        played.limit = played.limit.max(number);
    }

    /// Returns the reason if a durable record is missing.
    pub(crate) fn lacks_records(&self) -> Option<&'static str> {
        let played = &self.played;
        let lacks = played.step != Step::Unneeded && played.newest < played.limit;
        (lacks && !planted(Bug::JournalStale)).then_some(STALE)
    }

    /// Replays the next record if it is due before stripe `stripe`.
    pub(crate) fn play(&mut self, stripe: u64, media: &mut Media, cx: &mut Cx) -> Turn {
        if self.played.step == Step::Unneeded {
            return Turn::None;
        }
        let late = planted(Bug::JournalLast) && stripe < u64::MAX;
        let record = self.played.records.get(self.played.next).copied();
        let Some(record) = record.filter(|record| record.before <= stripe && !late) else {
            return Turn::None;
        };
        if self.played.pending > 0 {
            return Turn::Waits;
        }
        match self.played.step {
            Step::Begin => {
                self.read_record(record, media, cx);
                self.played.step = Step::Reading;
            }
            Step::Reading => self.played.step = Step::Check(0, 0),
            Step::Check(index, at) => self.check_entry_at(record, index, at, media, cx),
            Step::Apply(..) => return self.next_entry(record),
            Step::Unneeded | Step::Scan(_) => unreachable!("the heads were read"),
        }
        Turn::Moved
    }

    /// Returns the next entry of a record, and the place of its block in the journal.
    fn next_entry(&mut self, record: Record) -> Turn {
        let Step::Apply(index, at) = self.played.step else { unreachable!("an entry to apply") };
        if index == record.entries {
            self.played.next += 1;
            self.played.step = Step::Begin;
            return Turn::Moved;
        }
        let entry = self.read_entry(index).expect("the entry was checked");
        Turn::Apply(entry, self.block_place(&entry, at))
    }

    /// Notes that the entry of [`Turn::Apply`] was applied.
    pub(crate) fn applied(&mut self, entry: &Entry) {
        let Step::Apply(index, at) = self.played.step else { unreachable!("an entry to apply") };
        self.played.step = Step::Apply(index + 1, at + data_bytes(entry));
    }

    /// Starts copying blocks into stripes after all stripes and records were replayed. Returns
    /// whether there may be any.
    pub(crate) fn begin_restoring(&mut self) -> bool {
        (self.played.next, self.played.step) = (0, Step::Begin);
        !self.played.records.is_empty()
    }

    /// Continues copying blocks into stripes; [`Turn::None`] when done.
    pub(crate) fn restore(&mut self, media: &mut Media, cx: &mut Cx) -> Turn {
        let waits = self.played.pending > 0 && !matches!(self.played.step, Step::Apply(..));
        let Some(record) = self.played.records.get(self.played.next).copied() else {
            // The last copies into stripes may still be in flight.
            return if self.played.pending > 0 { Turn::Waits } else { Turn::None };
        };
        if waits {
            return Turn::Waits;
        }
        match self.played.step {
            Step::Begin => {
                self.read_record(record, media, cx);
                self.played.step = Step::Reading;
            }
            // The record was valid when it was replayed, so it is not a torn one.
            Step::Reading if self.played.bad => fail_volume(DAMAGED, cx),
            Step::Reading => self.played.step = Step::Apply(0, 0),
            Step::Apply(..) => return self.next_entry(record),
            other => unreachable!("{other:?} restores no entry"),
        }
        Turn::Moved
    }

    /// Copies the block of the next entry to a place in a stripe.
    pub(crate) fn copy_out(
        &mut self,
        len: u32,
        (stripe, item): (u8, u32),
        media: &mut Media,
        stripes: &Stripes,
        cx: &mut Cx,
    ) {
        let Step::Apply(_, at) = self.played.step else { unreachable!("an entry to restore") };
        let noted = stripes[stripe].items[item as usize];
        let from = Piece::Data(media.buffers.at(Buffer::Journal).view(at, len));
        let into = Buffer::stripe(stripe, noted.chunk.into());
        let into = media.buffers.at(into).view_mut(noted.byte, len);
        self.played.pending += 1;
        let command = Command::Place { from, into };
        let item = u16::try_from(item).expect("the head has no further entry");
        media.devices.submit(Op::Journal(Part::Restore(stripe, item)), command, cx);
    }

    /// Reads the head and the blocks of a record.
    pub(crate) fn read_record(&mut self, record: Record, media: &mut Media, cx: &mut Cx) {
        let ring = self.ring;
        let slot = ring.record_slot(record.number);
        self.read_record_head(slot, media, cx);
        let lba = ring.at(slot) + u64::from(record.pages() * SECTORS_PER_BLOCK);
        let played = &mut self.played;
        (played.data_at, played.bad, played.unread) = (lba, false, false);
        self.played.pending += 1;
        let buffer = Buffer::Journal;
        // Head and blocks are read together, so the length of the blocks is not known yet.
        let into = Target::Data(media.buffers.at(buffer).view_mut_sectors(0, ring.data));
        let device = self.ring.device();
        let command = Command::Read { device, lba, into, cause: Cause::Journal };
        media.devices.submit(Op::Journal(Part::Data), command, cx);
    }

    /// Returns entry `index` of the record that was read.
    pub(crate) fn read_entry(&self, index: u32) -> Option<Entry> {
        entry(self.played.head.as_ref().expect("no head is being read"), index)
    }

    /// Returns the place on the journal device of a block that is `at` bytes after the head.
    pub(crate) fn block_place(&self, entry: &Entry, at: u32) -> Place {
        let byte = self.played.data_at * 512 + u64::from(at);
        Place::new(self.ring.device(), byte, entry.place.len(), entry.place.generation())
    }

    fn check_entry_at(
        &mut self,
        record: Record,
        index: u32,
        at: u32,
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let bad = self.played.bad && !planted(Bug::JournalUnverified);
        if bad {
            return self.judge_record(cx);
        }
        if index == record.entries {
            self.played.step = Step::Apply(0, 0);
            return;
        }
        let Some(entry) = self.read_entry(index) else { return self.judge_record(cx) };
        let end = at + data_bytes(&entry);
        // A forged entry must not reach beyond the buffer.
        if end > self.ring.bytes() {
            return self.judge_record(cx);
        }
        self.played.step = Step::Check(index + 1, end);
        if entry.kind == Kind::Data {
            self.played.pending += 1;
            let buffer = Buffer::Journal;
            let from = media.buffers.at(buffer).view(at, entry.place.len());
            let seed = seed(entry.block, entry.place.generation());
            media.devices.submit(Op::Journal(Part::Check), Command::Digest { from, seed }, cx);
        }
    }

    /// Handles an incomplete record. The newest one was never acknowledged and is dropped;
    /// otherwise the volume is damaged.
    fn judge_record(&mut self, cx: &mut Cx) {
        let played = &mut self.played;
        // An unreadable record may have been acknowledged, unlike a torn one.
        if played.next + 1 < played.records.len() || played.unread {
            return fail_volume(DAMAGED, cx);
        }
        played.records.pop();
        played.newest -= 1;
        played.step = Step::Begin;
    }

    /// Handles the completion of a journal command.
    pub(crate) fn done(
        &mut self,
        part: Part,
        command: Command,
        ended: Ended,
        media: &mut Media,
        volume: Volume,
        cx: &mut Cx,
    ) -> Done {
        if matches!(part, Part::Copy(_) | Part::Write | Part::Flush) {
            let durable = self.making_done(part, command, ended.map(|_| ()), media, cx);
            return if durable { Done::Durable } else { Done::Nothing };
        }
        self.played.pending -= 1;
        let buffer = Buffer::Journal;
        match (part, command) {
            (Part::Head, Command::Read { into: Target::Meta { buf, .. }, lba, .. }) => {
                self.head_of_record(buf, lba, ended.is_ok(), media, volume);
            }
            (Part::Data, Command::Read { into: Target::Data(view), .. }) => {
                media.buffers.at(buffer).repay_mut(view);
                self.played.bad |= ended.is_err();
                self.played.unread |= ended.is_err();
            }
            (Part::Check, Command::Digest { from, .. }) => {
                media.buffers.at(buffer).repay(from);
                let Step::Check(next, _) = self.played.step else {
                    unreachable!("an entry is being checked")
                };
                // The step names the entry after the one that was checked.
                let listed = self.read_entry(next - 1).expect("the chunk was read").crc;
                let found = ended.expect("a checksum in memory succeeds").crc;
                self.played.bad |= found != listed;
            }
            (Part::Restore(stripe, item), Command::Place { from: Piece::Data(view), into }) => {
                media.buffers.at(buffer).repay(view);
                media.buffers.repay_stripe_mut(stripe, into);
                return Done::Restored(stripe, item.into());
            }
            (part, command) => unreachable!("{command:?} is not a {part:?}"),
        }
        Done::Nothing
    }
}
