//! Putting what only the journal has into rows again, at the end of recovery.
//!
//! Invariant: when it is over, the map points nowhere into the journal.

use hostftl_core::{Command, Piece, ViewMut};
use hostftl_format::log::Kind;
use hostftl_format::log::journal::bytes_of;

use super::Engine;
use super::replay::{DAMAGED, Step};
use crate::log::buffers::Buffer;
use crate::log::ops::{Cx, Op, Part, give_up};

impl Engine {
    /// All rows and records were played. Whether anything may have to go into rows.
    pub(in crate::log) fn begin_restoring(&mut self) -> bool {
        let played = &mut self.journal.played;
        (played.next, played.step) = (0, Step::Begin);
        !played.records.is_empty()
    }

    /// Goes on with that; `None` when it is done.
    pub(in crate::log) fn pump_restore(&mut self, cx: &mut Cx) -> Option<bool> {
        let played = &self.journal.played;
        let waits = played.pending > 0 && !matches!(played.step, Step::Apply(..));
        let Some(record) = played.records.get(played.next).copied() else {
            return (played.pending > 0).then_some(false);
        };
        if waits {
            return Some(false);
        }
        match played.step {
            Step::Begin => {
                self.read_record(record, cx);
                self.journal.played.step = Step::Reading;
            }
            Step::Reading if played.bad => give_up(DAMAGED, cx),
            Step::Reading => self.journal.played.step = Step::Apply(0, 0),
            Step::Apply(index, _) if index == record.entries => {
                self.journal.played.next += 1;
                self.journal.played.step = Step::Begin;
            }
            Step::Apply(index, at) => return Some(self.restore_entry(index, at, cx)),
            other => unreachable!("nothing is restored in {other:?}"),
        }
        Some(true)
    }

    /// Gives an entry's block a row, if the journal has its newest version. False when none takes
    /// it now.
    fn restore_entry(&mut self, index: u32, at: u32, cx: &mut Cx) -> bool {
        if cx.room() < 8 {
            return false;
        }
        let entry = self.entry_of(index).expect("it was checked");
        let is_newest = entry.kind == Kind::Data
            && self.pages.map().look(entry.block) == Some(self.place_of(&entry, at));
        if is_newest {
            let (len, generation) = (entry.place.len(), entry.place.generation());
            let to = self.to_restore();
            let record = (entry.block, len, generation);
            let Some((row, item)) = self.append(to, record, entry.crc, cx) else { return false };
            let noted = self.rows[row].items[item as usize];
            let (from, into) = (Buffer::Journal, Buffer::row(row, noted.chunk.into()));
            let from = Piece::Data(self.buffers.at(from).view(at, len));
            let into = self.buffers.at(into).view_mut(noted.byte, len);
            self.journal.played.pending += 1;
            let command = Command::Place { from, into };
            self.devices.submit(Op::Journal(Part::Restore(row, item)), command, cx);
        }
        self.journal.played.step = Step::Apply(index + 1, at + bytes_of(&entry));
        true
    }

    /// A block is in its row: the map points there.
    pub(super) fn restored(&mut self, row: u8, item: u32, from: Piece, into: ViewMut, cx: &mut Cx) {
        let Piece::Data(view) = from else { unreachable!("a block was copied") };
        let buffer = Buffer::Journal;
        self.buffers.at(buffer).repay(view);
        self.buffers.repay_row_mut(row, into);
        self.publish(row, item, None, cx);
        let it = &mut self.rows[row];
        it.placing -= 1;
        self.durability.host_published(it.stamp);
    }
}
