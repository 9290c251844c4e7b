//! Commands to zones: zeros in gaps before new data, and segments that are filled up and closed
//! because too many zones would be open.

use hostftl_core::{Cause, Command, Gather, Piece, Tally};

use crate::log::devices::Devices;
use crate::log::layout::At;
use crate::log::ops::{Cx, Op, count_sent, works};
use crate::log::segments::Segments;
use crate::log::stripe::streams::MAP;

/// Maximum sectors of zeros in one program.
const FILL: u32 = 2048;
/// Outputs that filling up a segment may take.
const FILL_OUTPUTS: usize = 36;

impl Devices {
    /// Prepares a command to a zoned device. The gap between the write pointer and a program is
    /// filled with zeros. Returns false if the command would fail: a program to a failed zone, or a
    /// read of unwritten sectors.
    pub(in crate::log) fn enter_zone(&mut self, command: &Command, cx: &mut Cx) -> bool {
        let (device, lba, tally) = match command {
            Command::Program { device, lba, tally, .. } => (*device, *lba, tally),
            Command::Read { device, lba, into, .. } => {
                return !self.is_unwritten(*device, *lba, into.sectors());
            }
            _ => return true,
        };
        let Some((segment, at)) = self.layout().zone_at(lba) else { return true };
        if self.zones().has_failed(segment, device) {
            return false;
        }
        let sent = self.zones().sent(segment, device);
        assert!(sent <= at, "a program behind the write pointer of its zone");
        if sent < at {
            self.send_zeros((segment, device), at - sent, cx);
        }
        // The pointer includes programs in flight, so later programs need not wait.
        self.zones_mut().enter(segment, device, at + tally.total());
        true
    }

    /// Writes zeros at the write pointer of a zone.
    fn send_zeros(&mut self, (segment, device): (u32, u8), sectors: u32, cx: &mut Cx) {
        let begin = self.layout().lba(At { segment, slot: 0, sector: 0 });
        let lba = begin + u64::from(self.zones().sent(segment, device));
        let gather = Gather::from_iter([Piece::zero_sectors(sectors)]);
        let tally = Tally::single(Cause::Pad, sectors);
        count_sent(&tally, cx);
        self.zones_mut().fill_begins(segment);
        let command = Command::Program { device, lba, gather, tally, placement: MAP };
        self.submit(Op::Fill { segment, device }, command, cx);
    }

    /// Notes the completion of a program to a zone.
    pub(in crate::log) fn left_zone(&mut self, command: &Command, cx: &mut Cx) {
        let Command::Program { lba, .. } = command else { return };
        let Some((segment, _)) = self.layout().zone_at(*lba) else { return };
        if self.zones_mut().left(segment) {
            self.settle_closed(segment, cx);
        }
    }

    /// Flushes all devices if a segment is closed, so that its closing is durable.
    fn settle_closed(&mut self, segment: u32, cx: &mut Cx) {
        let lost = self.inactive();
        if self.zones_mut().begin_to_settle(segment, lost) {
            for device in 0..self.layout().devices {
                self.submit(Op::Settle { segment }, Command::Flush { device }, cx);
            }
        }
    }

    /// Continues after zeros were written to a zone, or could not be.
    pub(in crate::log) fn filled(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        if self.zones_mut().fill_over(segment) && works(cx) {
            self.fill_up(segment, device, cx);
        }
    }

    /// Writes the next zeros to a zone that is being filled up.
    fn fill_up(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        let rest = self.zones().rest(segment, device, FILL);
        if rest > 0 && !self.is_inactive(device) {
            self.send_zeros((segment, device), rest, cx);
        }
    }

    /// Returns whether a stripe may be written to a segment now, because it is open or can be
    /// opened. Otherwise another segment without programs in flight is filled up.
    pub(in crate::log) fn may_enter(
        &mut self,
        segment: u32,
        segments: &Segments,
        cx: &mut Cx,
    ) -> bool {
        if self.zones_mut().may_open(segment) {
            return true;
        }
        if cx.outputs_left() < FILL_OUTPUTS {
            cx.wake();
        } else if let Some(segment) = self.begin_to_fill(segments) {
            for device in 0..self.layout().devices {
                self.fill_up(segment, device, cx);
            }
            self.settle_closed(segment, cx);
            cx.wake();
        }
        false
    }

    /// Returns whether a zone of a segment failed, except on lost devices.
    pub(in crate::log) fn is_hurt(&self, segment: u32) -> bool {
        self.layout().zoned && !self.zones().failed(segment).is_within(self.inactive())
    }

    /// Returns whether part of a range of a zone is unwritten.
    pub(in crate::log) fn is_unwritten(&self, device: u8, lba: u64, sectors: u32) -> bool {
        let beyond = |(segment, at): (u32, u32)| at + sectors > self.zones().sent(segment, device);
        self.layout().zoned && self.layout().zone_at(lba).is_some_and(beyond)
    }
}
