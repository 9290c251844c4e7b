//! Making a record: what was published since the last one is copied together, written and flushed.

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, SECTOR, SECTORS_PER_BLOCK, Tally};
use hostftl_format::log::journal::{self, Record, bytes_of, most_entries};
use hostftl_format::log::{Entry, Kind, put_entry};

use super::{Engine, Kept, State};
use crate::log::OWN_OPS;
use crate::log::buffers::Buffer;
use crate::log::ops::{Cx, Op, Part, count_sent, works};
use crate::planted::{Bug, planted};

/// The record that is being made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making {
    /// It has everything that was published up to here.
    pub upto: u64,
    /// How many notes that is, from the first.
    pub count: u32,
    /// Rows that must keep what is being copied.
    pub rows: u32,
    /// The first note whose copy was not begun, and where that goes.
    next: u32,
    bytes: u32,
    /// Copies under way.
    copies: u32,
    /// It is replayed before this row.
    before: u64,
    oldest: u64,
    is_sent: bool,
}

impl Engine {
    /// The next step of the record under way, or the first of a new one.
    pub(in crate::log) fn pump_journal(&mut self, cx: &mut Cx) -> bool {
        let asked = self.journal.is_ready() && self.journal.asked > self.journal.logged;
        match self.journal.making {
            Some(making) if making.is_sent => false,
            Some(making) if making.next < making.count => self.copy_some(making, cx),
            Some(making) => making.copies == 0 && self.write_record(making, cx),
            None => asked && works(cx) && self.begin_record(cx),
        }
    }

    /// Writes the record that begins a life; `None` when it is durable, or the journal is not used.
    pub(in crate::log) fn pump_first_record(&mut self, cx: &mut Cx) -> Option<bool> {
        if self.journal.state != State::Starting || self.journal.begun {
            return None;
        }
        let waits = self.journal.making.is_some();
        if !waits {
            self.journal.go_on();
            let oldest = self.journal.next;
            let making = Making { oldest, ..Making::default() };
            self.write_record(making, cx);
        }
        Some(!waits)
    }

    fn noted(&self, index: u32) -> Entry {
        let note = self.journal.notes[index as usize];
        let item = self.rows[note.row].items[note.item as usize];
        Entry { kind: item.kind, block: item.block, place: item.place, crc: item.crc }
    }

    /// Begins a record of all that was published, unless there is nothing, or too much, or no room.
    fn begin_record(&mut self, cx: &mut Cx) -> bool {
        self.forget_durable(cx);
        let count = self.journal.notes.len();
        let all_noted = self.first_at_risk() > self.journal.unlisted;
        if count == 0 && all_noted {
            self.journal.logged = self.journal.clock;
            return true;
        }
        let oldest = self.oldest_record();
        let next = self.journal.next;
        // The slot behind this record must be free too.
        let has_room = next + 1 < oldest + u64::from(self.journal.ring.slots);
        let fits = count <= most_entries() as usize && {
            let bytes = (0..count as u32).map(|index| u64::from(bytes_of(&self.noted(index))));
            bytes.sum::<u64>() <= self.journal.ring.bytes().into()
        };
        // A row with a trim must be replayed before what was written since, so before the record.
        let has_trims = self.rows.iter().any(|row| row.is_unsealed() && row.has_trims);
        if !has_room || !fits || !all_noted || has_trims {
            self.journal.asked = self.journal.logged;
            self.journal.passed_by += 1;
            self.durability.want_host(self.durability.host());
            return true;
        }
        let mut head = self.journal.head.take().expect("one record at a time");
        let mut rows = 0;
        for index in 0..count as u32 {
            put_entry(&mut head, index, &self.noted(index));
            rows |= 1 << self.journal.notes[index as usize].row;
        }
        self.journal.head = Some(head);
        cx.touch(count);
        self.journal.making = Some(Making {
            upto: self.journal.clock,
            count: count as u32,
            rows,
            next: 0,
            bytes: 0,
            copies: 0,
            before: self.durability.next(),
            oldest,
            is_sent: false,
        });
        true
    }

    /// Begins copies, as many as there is room for.
    fn copy_some(&mut self, mut making: Making, cx: &mut Cx) -> bool {
        let begun = making.next;
        while making.next < making.count && cx.room() > 8 && cx.command_room() > OWN_OPS / 2 {
            let entry = self.noted(making.next);
            let note = self.journal.notes[making.next as usize];
            making.next += 1;
            if entry.kind != Kind::Data {
                continue;
            }
            let item = self.rows[note.row].items[note.item as usize];
            let len = entry.place.len();
            let (row, into) = (Buffer::row(note.row, item.chunk.into()), Buffer::Journal);
            let from = Piece::Data(self.buffers.at(row).view(item.byte, len));
            let into = self.buffers.at(into).view_mut(making.bytes, len);
            making.bytes += bytes_of(&entry);
            making.copies += 1;
            let command = Command::Place { from, into };
            self.devices.submit(Op::Journal(Part::Copy(note.row)), command, cx);
        }
        self.journal.making = Some(making);
        making.next > begun
    }

    fn write_record(&mut self, making: Making, cx: &mut Cx) -> bool {
        let (number, ring) = (self.journal.next, self.journal.ring);
        let lba = ring.at(ring.slot_of(number));
        let Making { count: entries, oldest, before, bytes, .. } = making;
        let record = Record { number, oldest, before, epoch: self.life_number, entries };
        let mut buf = self.journal.head.take().expect("one record at a time");
        journal::seal(&mut buf, &self.uuid, lba, &record);
        let pages = record.pages();
        let full = pages * SECTORS_PER_BLOCK * SECTOR as u32 + bytes;
        let sectors = full.div_ceil(SECTOR as u32).next_multiple_of(ring.align);
        let mut gather = Gather::new();
        gather.push(Piece::Meta { buf, pages });
        if bytes > 0 {
            let buffer = Buffer::Journal;
            gather.push(Piece::Data(self.buffers.at(buffer).view(0, bytes)));
        }
        if sectors * SECTOR as u32 > full {
            gather.push(Piece::Zeros(sectors * SECTOR as u32 - full));
        }
        let tally = Tally::of(Cause::Journal, sectors);
        count_sent(&tally, cx);
        self.journal.making = Some(Making { is_sent: true, rows: 0, ..making });
        let device = self.journal.device;
        let command = Command::Program { device, lba, gather, tally, placement: 0 };
        self.devices.submit(Op::Journal(Part::Write), command, cx);
        true
    }

    /// A command of the record under way is over.
    pub(super) fn making_done(
        &mut self,
        part: Part,
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let buffer = Buffer::Journal;
        match (part, command) {
            (Part::Copy(row), Command::Place { from: Piece::Data(from), into }) => {
                self.buffers.repay_row(row, from);
                self.buffers.at(buffer).repay_mut(into);
                self.journal.making.as_mut().expect("a record is being made").copies -= 1;
            }
            (Part::Write, Command::Program { gather, device, .. }) => {
                for piece in gather {
                    match piece {
                        Piece::Data(view) => self.buffers.at(buffer).repay(view),
                        Piece::Meta { buf, .. } => self.journal.head = Some(buf),
                        Piece::Zeros(_) => {}
                    }
                }
                if result.is_ok() && !planted(Bug::JournalUnflushed) {
                    let part = Op::Journal(Part::Flush);
                    return self.devices.submit(part, Command::Flush { device }, cx);
                }
                self.end_record(result.is_ok(), cx);
            }
            (Part::Flush, _) => self.end_record(result.is_ok(), cx),
            (part, command) => unreachable!("{command:?} is no {part:?}"),
        }
    }

    /// The record is durable, or lost with the journal.
    fn end_record(&mut self, is_durable: bool, cx: &mut Cx) {
        let making = self.journal.making.take().expect("a record is being made");
        let used = matches!(self.journal.state, State::Starting | State::Ready);
        if !is_durable || !used || !works(cx) {
            return;
        }
        let (number, upto) = (self.journal.next, making.upto);
        self.journal.notes.drain(..making.count as usize);
        self.journal.kept.push_back(Kept { number, upto });
        self.journal.next += 1;
        self.journal.begun = true;
        self.journal.logged = upto;
        self.answer_flushed(cx);
    }
}
