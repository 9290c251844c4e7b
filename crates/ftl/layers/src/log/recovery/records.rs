//! Plays journal records between the stripes, and copies blocks that no stripe has into new
//! stripes.
//!
//! Invariant: afterwards the map has no pointer into the journal.

use hostftl_format::log::{Entry, Kind, Place};

use crate::log::array::Array;
use crate::log::journal::Turn;
use crate::log::ops::Cx;
use crate::log::output::Output;
use crate::log::recovery::Recovery;

impl Recovery {
    /// Copies the next block that only the journal has into a stripe; `None` if there is none.
    pub(crate) fn pump_restore(&mut self, array: &mut Array, cx: &mut Cx) -> Option<bool> {
        match array.output.journal.restore(&mut array.media, cx) {
            Turn::None => None,
            Turn::Waits => Some(false),
            Turn::Moved => Some(true),
            Turn::Apply(entry, place) => Some(self.restore_entry(entry, place, array, cx)),
        }
    }

    /// Copies an entry's block into a stripe if the journal has its newest version. Returns false
    /// if no stripe has space now.
    fn restore_entry(
        &mut self,
        entry: Entry,
        place: Place,
        array: &mut Array,
        cx: &mut Cx,
    ) -> bool {
        if cx.outputs_left() < 8 {
            return false;
        }
        let newest = entry.kind == Kind::Data
            && array.mapping.pages.map().find_place(entry.block) == Some(place);
        if newest {
            let (len, generation) = (entry.place.len(), entry.place.generation());
            let record = (entry.block, len, generation);
            let Some(item) = array.append(array.to_restore(), record, entry.crc, cx) else {
                return false;
            };
            let Output { journal, stripes, .. } = &mut array.output;
            journal.copy_out(len, item, &mut array.media, stripes, cx);
        }
        array.output.journal.applied(&entry);
        true
    }
}
