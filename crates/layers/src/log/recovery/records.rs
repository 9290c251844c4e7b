//! Records of the journal, played between the rows, and what no row has put into new rows.
//!
//! Invariant: when that is over, the map points nowhere into the journal.

use hostftl_format::log::{Entry, Kind, Place};

use crate::kit::shell::Ended;
use crate::log::Engine;
use crate::log::journal::{Done, Turn};
use crate::log::ops::{Cx, Part, give_up};
use crate::log::recovery::replay::Applied;

impl Engine {
    /// Plays the next record if its turn comes before row `row`; `None` when it does not.
    pub(in crate::log) fn play_journal(&mut self, row: u64, cx: &mut Cx) -> Option<bool> {
        match self.with_journal(|it, with| it.play(row, with, cx)) {
            Turn::None => None,
            Turn::Waits => Some(false),
            Turn::Moved => Some(true),
            Turn::Apply(entry, place) => Some(self.apply_record(entry, place, cx)),
        }
    }

    fn apply_record(&mut self, entry: Entry, place: Place, cx: &mut Cx) -> bool {
        let place = if entry.kind == Kind::Data { place } else { entry.place };
        // What its row has too stays there.
        let known = entry.kind == Kind::Data
            && entry.block < self.pages.map().len()
            && self.pages.pair(entry.block) == Some((entry.place, entry.crc));
        let applied = match known {
            true => Applied::Yes,
            false => self.apply_sound(Entry { place, ..entry }, cx),
        };
        match applied {
            Applied::Yes => self.journal.applied(&entry),
            Applied::Later => return false,
            Applied::Never(why) => give_up(why, cx),
        }
        matches!(applied, Applied::Yes)
    }

    /// Puts the next block that only the journal has into a row; `None` when there is none.
    pub(in crate::log) fn pump_restore(&mut self, cx: &mut Cx) -> Option<bool> {
        match self.with_journal(|it, with| it.restore(with, cx)) {
            Turn::None => None,
            Turn::Waits => Some(false),
            Turn::Moved => Some(true),
            Turn::Apply(entry, place) => Some(self.restore_entry(entry, place, cx)),
        }
    }

    /// Gives an entry's block a row, if the journal has its newest version. False when none takes
    /// it now.
    fn restore_entry(&mut self, entry: Entry, place: Place, cx: &mut Cx) -> bool {
        if cx.room() < 8 {
            return false;
        }
        let newest = entry.kind == Kind::Data && self.pages.map().look(entry.block) == Some(place);
        if newest {
            let (len, generation) = (entry.place.len(), entry.place.generation());
            let record = (entry.block, len, generation);
            let Some(item) = self.append(self.to_restore(), record, entry.crc, cx) else {
                return false;
            };
            self.with_journal(|it, with| it.copy_out(len, item, with, cx));
        }
        self.journal.applied(&entry);
        true
    }

    /// A command of the journal is over.
    pub(in crate::log) fn journal_done(
        &mut self,
        part: Part,
        command: hostftl_core::Command,
        ended: Ended,
        cx: &mut Cx,
    ) {
        match self.with_journal(|it, with| it.done(part, command, ended, with, cx)) {
            Done::Nothing => {}
            Done::Durable => {
                self.answer_flushed(cx);
            }
            Done::Restored(row, item) => {
                self.publish(row, item, None, cx);
                let it = &mut self.rows[row];
                it.placing -= 1;
                self.durability.host_published(it.stamp);
            }
        }
    }
}
