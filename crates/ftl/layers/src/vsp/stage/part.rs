//! The part of a filling stage that is listed and programmed before the stage is full.

use hostftl_core::{Cause, SECTORS_PER_BLOCK, Tally, View};

use super::{Phase, Stage};

/// State of the part of a filling stage that is listed before the stage is full. No slot is taken
/// meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    /// None is being listed.
    #[default]
    None,
    /// The taken slots become a part.
    Wanted,
    /// It is being checksummed.
    Digesting,
    /// It has this checksum.
    Digested(u32),
}

/// The parts of a stage, and the log pages at its end.
#[derive(Debug, Default)]
pub(super) struct Parts {
    part: Part,
    /// Number of slots at the beginning that earlier parts listed.
    from: u32,
    /// Number of slots at the end that log pages have taken.
    top: u32,
    /// Programs of parts in flight.
    in_flight: u32,
    /// Entry of the superpage in the queue of pins.
    pin: u64,
}

impl Parts {
    /// Resets the state of an idle stage.
    pub(super) fn reset(&mut self) {
        assert_eq!(self.in_flight, 0, "the parts of an idle stage are on media");
        *self = Parts::default();
    }

    /// Sets the checksum of the part, if one is being checksummed. Returns whether it is.
    pub(super) fn digested(&mut self, crc: u32) -> bool {
        let digesting = self.part == Part::Digesting;
        if digesting {
            self.part = Part::Digested(crc);
        }
        digesting
    }

    /// Cancels a part that is not being checksummed yet.
    pub(super) fn cancel(&mut self) {
        if self.part == Part::Wanted {
            self.part = Part::None;
        }
    }
}

impl Stage {
    /// Returns the number of slots that earlier parts listed.
    pub(crate) fn from(&self) -> u32 {
        self.parts.from
    }

    /// Returns the number of slots at the end that log pages have taken.
    pub(crate) fn top(&self) -> u32 {
        self.parts.top
    }

    /// Returns the state of the part that is being listed.
    pub(crate) fn part(&self) -> Part {
        self.parts.part
    }

    /// Returns whether programs of parts are in flight.
    pub(crate) fn has_parts_in_flight(&self) -> bool {
        self.parts.in_flight > 0
    }

    /// Returns the entry of the superpage in the queue of pins.
    pub(crate) fn pin(&self) -> u64 {
        self.parts.pin
    }

    /// Sets the entry of the superpage in the queue of pins.
    pub(crate) fn set_pin(&mut self, pin: u64) {
        self.parts.pin = pin;
    }

    /// Returns the logical sector that the log will list for a slot that no earlier part listed.
    pub(crate) fn unlisted(&self, slot: u32) -> Option<u64> {
        if slot < self.parts.from { None } else { self.sector(slot) }
    }

    /// Returns the number of free slots before the log pages after the taken slots are rounded up
    /// to a block.
    pub(crate) fn space(&self) -> u32 {
        (self.slots.len() as u32 - self.parts.top).saturating_sub(self.rounded())
    }

    fn rounded(&self) -> u32 {
        self.fill.next_multiple_of(SECTORS_PER_BLOCK)
    }

    /// Makes the taken slots a part, rounded up to a block. Returns the number of slots that this
    /// adds.
    pub(crate) fn begin_part(&mut self) -> u32 {
        assert!(
            self.phase == Phase::Filling && self.parts.part == Part::None,
            "one part at a time"
        );
        assert!(self.fill > self.parts.from, "a part has slots");
        let added = self.rounded() - self.fill;
        if added > 0 {
            (self.fill, self.next) = (self.rounded(), None);
            self.tally.add(Cause::Pad, added);
        }
        self.parts.part = Part::Wanted;
        added
    }

    /// Begins the checksum of the part and of everything before it. Returns the data.
    pub(crate) fn begin_part_digest(&mut self) -> View {
        assert!(
            self.parts.part == Part::Wanted && self.placing == 0,
            "all data of the part is present"
        );
        self.parts.part = Part::Digesting;
        let fill = self.fill;
        self.buffer().view_sectors(0, fill)
    }

    /// Drops the part of a stage that was closed meanwhile; the stage is listed as a whole.
    pub(crate) fn drop_part(&mut self) {
        self.parts.part = Part::None;
    }

    /// Begins the program of the part. Returns its first slot, its data and its tally.
    pub(crate) fn begin_part_program(&mut self) -> (u32, View, Tally) {
        assert!(
            matches!(self.parts.part, Part::Digested(_)),
            "a part is checksummed before its program"
        );
        let (from, fill) = (self.parts.from, self.fill);
        (self.parts.part, self.parts.from) = (Part::None, fill);
        self.parts.in_flight += 1;
        (from, self.buffer().view_sectors(from, fill - from), core::mem::take(&mut self.tally))
    }

    /// Completes the program of a part.
    pub(crate) fn part_programmed(&mut self, view: View) {
        self.parts.in_flight -= 1;
        self.repay(view);
    }

    /// Takes slots at the end for log pages.
    pub(crate) fn take_top(&mut self, slots: u32) {
        assert!(slots <= self.space(), "log pages have space");
        self.parts.top += slots;
        self.keep_none();
    }

    /// Continues the stage after a part, as if it were opened now.
    pub(crate) fn reopen(&mut self, stamp: u64) {
        assert_eq!(self.fill, self.parts.from, "all taken slots are listed");
        self.stamp = stamp;
        self.replaces = false;
    }
}
