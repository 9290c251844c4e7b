//! Out of memory: rows go to the medium, and are durable after a flush.
//!
//! Invariants
//! - A flush of the host is answered when its mark is durable.

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::zones::{self, Holds, Kind, Tail, Written};

use super::Engine;
use super::append::GC;
use super::lines::Who;
use super::map::At;
use super::ops::{Cx, Op, fail};
use super::row::{Phase, Row};
use crate::planted::{Bug, planted};

impl Engine {
    /// Closes the row that is filled when it is full or somebody waits for it.
    pub(super) fn pump_rows(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        if let Some(row) = self.rows.filling() {
            let it = self.rows.at(row);
            if it.slots == self.layout.strip_blocks() || self.durability.is_wanted(it.seq) {
                self.rows.close();
                moved = true;
            }
        }
        moved |= self.rows.make_ready();
        moved | self.send_first(cx)
    }

    /// Sends the first row that is ready.
    fn send_first(&mut self, cx: &mut Cx) -> bool {
        let Some(row) = self.rows.first_ready() else { return false };
        if cx.command_room() < 8 {
            return false;
        }
        let fronts = self.layout.fronts;
        let of_gc = self.rows.at(row).taken[GC] > 0;
        let first =
            if of_gc && !self.layout.wide { self.lines.freest_front() } else { self.next_front };
        let who = if of_gc { Who::Collection } else { Who::Host };
        // What was acknowledged does not wait for the reserve of all units.
        let placed = [who, Who::Collection].into_iter().find_map(|who| {
            (0..fronts).map(|step| (first + step) % fronts).find_map(|front| {
                Some((front, self.lines.place(front as usize, self.durability.newest(), who)?))
            })
        });
        let Some((front, (segment, strip))) = placed else { return false };
        self.next_front = (front + 1) % fronts;
        self.rows.send(segment, strip);
        self.send_row(row, (segment, strip), cx);
        true
    }

    fn send_row(&mut self, row: u16, (segment, strip): (u32, u32), cx: &mut Cx) {
        let line = self.layout.line(segment);
        let blocks = self.layout.strip_blocks();
        let it = self.rows.at_mut(row);
        let mut tail = it.tail.take().expect("a row has its tail when it is sent");
        for (index, entry) in it.entries.iter().enumerate() {
            zones::put_entry(&mut tail.pages_mut()[0], index, entry);
        }
        let (slots, mut tally) = (it.slots, it.tally);
        if it.has_trim {
            self.lines.note_trim(line, it.seq);
        }
        let rest = self.rest(segment, strip);
        tally.add(Cause::Map, SECTORS_PER_BLOCK);
        tally.add(Cause::Pad, self.layout.strip + rest - tally.total());
        self.count_sent(&tally, cx);
        let it = self.rows.at(row);
        let head = self.head(line, it.seq, it.entries.len());
        let at = self.layout.tail_at(segment, strip);
        zones::seal(&mut tail.pages_mut()[0], &self.uuid, at, &head);
        let mut gather = Gather::new();
        if slots > 0 {
            gather.push(Piece::Data(self.rows.buffer(row).view(0, Row::byte(slots))));
        }
        if slots < blocks {
            gather.push(Piece::Zeros(Row::byte(blocks - slots)));
        }
        gather.push(Piece::Meta { buf: tail, pages: 1 });
        if rest > 0 {
            gather.push(Piece::zero_sectors(rest));
        }
        let lba = self.layout.lba(segment, strip);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        cx.submit(Op::Row { row, segment, strip }, command);
    }

    /// What the tail of a strip says of it.
    pub(super) fn head(&self, line: u32, seq: u64, entries: usize) -> Tail {
        let opened = self.lines.at(line).opened();
        Tail {
            seq,
            newest: self.durability.newest(),
            opened: opened.after,
            line,
            previous: opened.previous,
            entries: entries as u16,
            holds: if opened.of_map { Holds::Images } else { Holds::Blocks },
            units: opened.units,
            written: self.written,
        }
    }

    /// Sectors behind the last strip of a segment, which are written with it so that it closes.
    pub(super) fn rest(&self, segment: u32, strip: u32) -> u32 {
        let chunk = self.lines.chunk(segment);
        if strip + 1 < chunk.strips { 0 } else { chunk.length - chunk.strips * self.layout.strip }
    }

    pub(super) fn count_sent(&mut self, tally: &Tally, cx: &mut Cx) {
        let counters = cx.counters();
        counters.gc_copied += u64::from(tally.get(Cause::Gc));
        counters.padded += u64::from(tally.get(Cause::Pad));
        counters.map_written += u64::from(tally.get(Cause::Map));
        counters.checkpoint_written += u64::from(tally.get(Cause::Checkpoint));
        counters.lists_written += u64::from(tally.get(Cause::List));
        let of = |cause| u64::from(tally.get(cause));
        self.written = self.written.plus(&Written {
            host: of(Cause::Host),
            gc: of(Cause::Gc),
            pad: of(Cause::Pad),
            map: of(Cause::Map),
            checkpoint: of(Cause::Checkpoint),
            list: of(Cause::List),
        });
    }

    /// A row is written, or is not.
    pub(super) fn row_done(
        &mut self,
        (row, segment, strip): (u16, u32, u32),
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Program { gather, .. } = command else { unreachable!("a program comes back") };
        for piece in gather {
            match piece {
                Piece::Meta { buf, .. } => self.rows.at_mut(row).tail = Some(buf),
                piece => self.rows.repay(piece),
            }
        }
        self.lines.sent(segment, strip, result.is_err());
        let line = self.layout.line(segment);
        match result {
            Ok(()) => {
                let seq = self.rows.at(row).seq;
                self.rows.at_mut(row).go(Phase::Written);
                self.durability.written(seq);
                self.note_row(row, segment, strip, cx);
                self.retire(segment, cx);
            }
            Err(DeviceError::Media) => {
                // Its segment is out of use: it goes to another, with the number that it has.
                self.rows.send_again(row);
                self.lines.lose_segment(segment, cx);
                self.lines.row_over(line, self.durability.newest());
                self.retire(segment, cx);
            }
            Err(error) => fail(error, cx),
        }
    }

    /// The map points at the medium for all rows of a segment that can be read there.
    pub(super) fn retire(&mut self, segment: u32, cx: &mut Cx) {
        let hidden = if planted(Bug::ZonesReadTooEarly) { 0 } else { self.layout.unreadable() };
        let readable = self.lines.chunk(segment).readable(hidden);
        for row in 0..self.layout.rows() as u16 {
            let it = self.rows.at(row);
            let is_here = it.phase() == Phase::Written && it.segment == segment;
            if is_here && it.strip < readable {
                self.retire_row(row, cx);
            }
        }
    }

    fn retire_row(&mut self, row: u16, cx: &mut Cx) {
        let it = self.rows.at_mut(row);
        let (segment, strip) = (it.segment, it.strip);
        it.go(Phase::Draining);
        let line = self.layout.line(segment);
        for index in 0..self.rows.at(row).entries.len() {
            let entry = self.rows.at(row).entries[index];
            let here = At::Row { row, slot: entry.value as u8 };
            if entry.kind == Kind::Data && self.map.get(entry.block) == here {
                let place = self.layout.place(segment, strip, entry.value);
                self.map.set(entry.block, At::Media(place));
                self.lines.add_valid(line);
            }
            cx.touch(1);
        }
        self.lines.row_over(line, self.durability.newest());
    }

    /// Flushes the device when somebody waits for that and all is written that it should cover.
    pub(super) fn pump_flush(&mut self, cx: &mut Cx) -> bool {
        if !self.durability.is_flush_due() || cx.command_room() == 0 {
            return false;
        }
        self.durability.begin_flush();
        cx.submit(Op::Flush, Command::Flush { device: 0 });
        true
    }

    /// The device has flushed.
    pub(super) fn flush_done(&mut self, cx: &mut Cx) {
        self.durability.end_flush(cx.is_good());
    }

    /// Answers what waits for rows that are durable.
    pub(super) fn answer_flushed(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        while cx.room() > 4
            && cx.requests().waits_for().is_some_and(|it| self.durability.is_durable(it))
        {
            moved |= cx.answer_waiting(Ok(()));
        }
        moved
    }
}
