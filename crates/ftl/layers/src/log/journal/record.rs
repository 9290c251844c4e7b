//! Writes a record: the publications since the last one are copied together, written and flushed.

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, SECTOR, SECTORS_PER_BLOCK, Tally};
use hostftl_format::log::journal::{self, Record, data_bytes, most_entries};
use hostftl_format::log::{Entry, Kind, put_entry};

use super::{Journal, Kept, State};
use crate::log::buffers::Buffer;
use crate::log::durability::Durability;
use crate::log::media::Media;
use crate::log::ops::{Cx, OWN_OPS, Op, Part, count_sent, works};
use crate::log::stripe::stripes::Stripes;
use crate::log::volume::Volume;
use crate::planted::{Bug, planted};

/// Record in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Making {
    /// Order of the last publication in it.
    pub upto: u64,
    /// Number of notes in it, from the first.
    pub count: u32,
    /// Stripes whose buffers must be kept while they are copied.
    pub stripes: u32,
    /// First note that is not copied yet, and the offset of its copy.
    next: u32,
    bytes: u32,
    /// Copies in flight.
    copies: u32,
    /// It is replayed before this stripe.
    before: u64,
    oldest: u64,
    is_sent: bool,
}

impl Journal {
    /// Performs the next step of the record in progress, or starts a new one.
    pub(crate) fn pump(
        &mut self,
        media: &mut Media,
        stripes: &Stripes,
        durability: &mut Durability,
        volume: Volume,
        cx: &mut Cx,
    ) -> bool {
        let asked = self.is_ready() && self.asked > self.logged;
        match self.making {
            Some(making) if making.is_sent => false,
            Some(making) if making.next < making.count => {
                self.copy_some(making, media, stripes, cx)
            }
            Some(making) => making.copies == 0 && self.write_record(making, media, volume, cx),
            None => asked && works(cx) && self.begin_record(stripes, durability, cx),
        }
    }

    /// Writes the first record of a life; `None` if it is durable, or the journal is not used.
    pub(crate) fn first_record(
        &mut self,
        media: &mut Media,
        volume: Volume,
        cx: &mut Cx,
    ) -> Option<bool> {
        if self.state != State::Starting || self.begun {
            return None;
        }
        let waits = self.making.is_some();
        if !waits {
            self.continue_numbering();
            let oldest = self.next;
            let making = Making { oldest, ..Making::default() };
            self.write_record(making, media, volume, cx);
        }
        Some(!waits)
    }

    fn noted(&self, index: u32, stripes: &Stripes) -> Entry {
        let note = self.notes.at(index);
        let item = stripes[note.stripe].items[note.item as usize];
        Entry { kind: item.kind, block: item.block, place: item.place, crc: item.crc }
    }

    /// Starts a record of all publications. Seals stripes instead if they are too many or the ring
    /// is full.
    fn begin_record(
        &mut self,
        stripes: &Stripes,
        durability: &mut Durability,
        cx: &mut Cx,
    ) -> bool {
        self.forget_durable(stripes, durability, cx);
        let count = self.notes.len();
        let all_noted = self.notes.has_all_from(Self::first_at_risk(stripes, durability));
        // All publications are durable in stripes, so no record is needed.
        if count == 0 && all_noted {
            self.logged = self.clock;
            return true;
        }
        let oldest = self.oldest_record(stripes, durability);
        let next = self.next;
        // The slot after this record must be free too.
        let has_room = next + 1 < oldest + u64::from(self.ring.slots);
        let fits = count <= most_entries() as usize && {
            let bytes =
                (0..count as u32).map(|index| u64::from(data_bytes(&self.noted(index, stripes))));
            bytes.sum::<u64>() <= self.ring.bytes().into()
        };
        // A stripe with a trim must be replayed before later writes, so before the record.
        let has_trims = stripes.iter().any(|stripe| stripe.is_unsealed() && stripe.has_trims);
        if !has_room || !fits || !all_noted || has_trims {
            // The request is withdrawn: the flushes that wait are acknowledged when their stripes
            // are durable.
            self.asked = self.logged;
            self.passed_by += 1;
            durability.want_host(durability.host());
            return true;
        }
        let mut head = self.head.take().expect("one record at a time");
        let mut held = 0;
        for index in 0..count as u32 {
            put_entry(&mut head, index, &self.noted(index, stripes));
            held |= 1 << self.notes.at(index).stripe;
        }
        self.head = Some(head);
        cx.touch(count);
        assert!(self.making.is_none(), "one record at a time");
        self.making = Some(Making {
            upto: self.clock,
            count: count as u32,
            stripes: held,
            next: 0,
            bytes: 0,
            copies: 0,
            before: durability.next(),
            oldest,
            is_sent: false,
        });
        true
    }

    /// Starts as many copies as there is room for.
    fn copy_some(
        &mut self,
        mut making: Making,
        media: &mut Media,
        stripes: &Stripes,
        cx: &mut Cx,
    ) -> bool {
        let begun = making.next;
        while making.next < making.count
            && cx.outputs_left() > 8
            && cx.commands_left() > OWN_OPS / 2
        {
            let entry = self.noted(making.next, stripes);
            let note = self.notes.at(making.next);
            making.next += 1;
            // A trim has no data to copy.
            if entry.kind != Kind::Data {
                continue;
            }
            let item = stripes[note.stripe].items[note.item as usize];
            let len = entry.place.len();
            let (stripe, into) = (Buffer::stripe(note.stripe, item.chunk.into()), Buffer::Journal);
            let from = Piece::Data(media.buffers.at(stripe).view(item.byte, len));
            let into = media.buffers.at(into).view_mut(making.bytes, len);
            making.bytes += data_bytes(&entry);
            making.copies += 1;
            let command = Command::Place { from, into };
            media.devices.submit(Op::Journal(Part::Copy(note.stripe)), command, cx);
        }
        self.making = Some(making);
        making.next > begun
    }

    fn write_record(
        &mut self,
        making: Making,
        media: &mut Media,
        volume: Volume,
        cx: &mut Cx,
    ) -> bool {
        let (number, ring) = (self.next, self.ring);
        let lba = ring.at(ring.record_slot(number));
        let Making { count: entries, oldest, before, bytes, .. } = making;
        let record = Record { number, oldest, before, epoch: volume.life, entries };
        let mut buf = self.head.take().expect("one record at a time");
        journal::seal(&mut buf, &volume.uuid, lba, &record);
        let pages = record.pages();
        // The program ends at a multiple of the alignment; zeros fill the gap.
        let full = pages * SECTORS_PER_BLOCK * SECTOR as u32 + bytes;
        let sectors = full.div_ceil(SECTOR as u32).next_multiple_of(ring.align);
        let mut gather = Gather::new();
        gather.push(Piece::Meta { buf, pages });
        if bytes > 0 {
            let buffer = Buffer::Journal;
            gather.push(Piece::Data(media.buffers.at(buffer).view(0, bytes)));
        }
        if sectors * SECTOR as u32 > full {
            gather.push(Piece::Zeros(sectors * SECTOR as u32 - full));
        }
        let tally = Tally::single(Cause::Journal, sectors);
        count_sent(&tally, cx);
        // All copies are complete, so this record no longer needs the buffers of stripes.
        self.making = Some(Making { is_sent: true, stripes: 0, ..making });
        let device = self.ring.device();
        let command = Command::Program { device, lba, gather, tally, placement: 0 };
        media.devices.submit(Op::Journal(Part::Write), command, cx);
        true
    }

    /// Handles the completion of a command of the record in progress. Returns whether the record is
    /// durable now.
    pub(crate) fn making_done(
        &mut self,
        part: Part,
        command: Command,
        result: Result<(), DeviceError>,
        media: &mut Media,
        cx: &mut Cx,
    ) -> bool {
        let buffer = Buffer::Journal;
        match (part, command) {
            (Part::Copy(stripe), Command::Place { from: Piece::Data(from), into }) => {
                media.buffers.repay_stripe(stripe, from);
                media.buffers.at(buffer).repay_mut(into);
                self.making.as_mut().expect("a record is in progress").copies -= 1;
            }
            (Part::Write, Command::Program { gather, device, .. }) => {
                for piece in gather {
                    match piece {
                        Piece::Data(view) => media.buffers.at(buffer).repay(view),
                        Piece::Meta { buf, .. } => self.head = Some(buf),
                        Piece::Zeros(_) => {}
                    }
                }
                // The device may have a volatile cache, so the record counts only after a flush.
                if result.is_ok() && !planted(Bug::JournalUnflushed) {
                    let part = Op::Journal(Part::Flush);
                    media.devices.submit(part, Command::Flush { device }, cx);
                    return false;
                }
                return self.end_record(result.is_ok(), cx);
            }
            (Part::Flush, _) => return self.end_record(result.is_ok(), cx),
            (part, command) => unreachable!("{command:?} is not a {part:?}"),
        }
        false
    }

    /// Ends the record in progress, which is durable or lost with the journal. Returns whether it
    /// counts.
    fn end_record(&mut self, is_durable: bool, cx: &mut Cx) -> bool {
        let making = self.making.take().expect("a record is in progress");
        // The device may have failed since the record was sent.
        let used = matches!(self.state, State::Starting | State::Ready);
        if !is_durable || !used || !works(cx) {
            return false;
        }
        let (number, upto) = (self.next, making.upto);
        self.notes.recorded(making.count);
        self.kept.push_back(Kept { number, upto });
        self.next += 1;
        self.begun = true;
        self.logged = upto;
        true
    }
}
