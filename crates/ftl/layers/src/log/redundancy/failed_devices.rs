//! Handling of failed commands: the fault of a zone, of a device or of the volume.

use hostftl_core::{Command, DeviceError, SECTOR, Task, TaskKind};
use hostftl_format::log::Root;

use crate::kit::Life;
use crate::log::array::Array;
use crate::log::ops::{Checking, Cx, Op, fail};
use crate::planted::{Bug, planted};

impl Array {
    /// Handles a failed command: fails its zone, its device or the volume, or notes a read fault.
    pub(crate) fn judge(&mut self, op: Op, command: &Command, error: DeviceError, cx: &mut Cx) {
        let Some(device) = command.device() else { return };
        if self.layout().zoned && self.zone_failed(op, command, error, cx) {
            return;
        }
        cx.counters().device_errors += 1;
        let writes = match command {
            Command::Flush { .. } if planted(Bug::FlushUnheard) => return,
            // A block device may keep discarded data, so a failed discard is harmless. Zones are
            // written again, so a failed reset is not.
            Command::Reset { .. } => self.layout().zoned,
            _ => matches!(command, Command::Program { .. } | Command::Flush { .. }),
        };
        if self.output.journal.is(device) {
            // Unreadable records matter only to recovery, which detects them itself.
            // A failed write ends the use of the journal; data is then written to stripes.
            if writes {
                self.output.journal.failed(error, &mut self.output.durability, cx);
            }
            return;
        }
        // A failed read affects only its data, but a failed write makes the device stale.
        if !writes && error != DeviceError::Removed {
            // The end of a zone is found by reading past it, so such errors are expected.
            let is_known =
                matches!(op, Op::GcRead { .. } | Op::Load { .. } | Op::Scrub(Checking::Chunk(_)));
            let is_real = !self.layout().zoned || is_known && cx.life() != Life::Starting;
            // The records of a joint read are read again one by one, which finds the damaged one.
            let is_real = is_real && !matches!(op, Op::JointRead { .. });
            if let Command::Read { device, lba, .. } = command
                && is_real
            {
                let is_moved = matches!(op, Op::GcHead { .. } | Op::GcRead { .. } | Op::Scrub(_));
                self.found_damage(*device, *lba, is_moved, cx);
            }
            return;
        }
        if self.media.devices.is_inactive(device) {
            // A joining device counts as lost already, but must not become a member now.
            return self.media.devices.stop_joining(device);
        }
        self.media.devices.mark_lost(device, error, cx);
    }

    /// Handles unreadable or wrong data at sector `lba` of a device. Marks its segment for repair,
    /// unless its data `is_moved` already or a scrub will check whether it is valid.
    pub(crate) fn found_damage(&mut self, device: u8, lba: u64, is_moved: bool, cx: &mut Cx) {
        let layout = *self.layout();
        if self.media.devices.is_inactive(device) || self.media.devices.lacks(device, lba) {
            return;
        }
        if layout.parity > 0 && !is_moved && lba >= layout.first() {
            let segment = layout.segment_at(lba * SECTOR as u64);
            match cx.life() {
                // Behind the segments is nothing that garbage collection could move.
                _ if segment >= layout.segments => {}
                Life::Starting => self.media.devices.health_mut().flaw_later(device, segment),
                _ => {
                    self.media.segments.flaw(segment);
                }
            }
        }
        self.media.devices.note_fault(device, lba, cx);
    }

    /// Returns the valid bytes of damaged segments without a missing chunk.
    pub(crate) fn damaged_bytes(&self) -> u64 {
        self.media
            .segments
            .flawed_bytes_in(|segment| !self.media.devices.is_missing_a_chunk(segment))
    }

    /// Returns the repair of known damage as a task, unless a scrub covers it.
    pub(crate) fn repair_task(&self) -> Option<Task> {
        let is_active = self.media.devices.health().is_unrepaired() && self.layout().parity > 0;
        let is_scrubbed = self.background.scrub.task(&self.media.segments).is_some();
        (is_active && !is_scrubbed).then(|| Task {
            kind: TaskKind::Rebuild,
            is_paused: false,
            lacks_room: false,
            done: 0,
            left: self.damaged_bytes(),
            place: 0,
        })
    }

    /// Continues the repair of known damage.
    pub(crate) fn pump_health(&mut self, cx: &mut Cx) -> bool {
        if self.media.devices.health().is_quiet() || cx.life() != Life::Running {
            return false;
        }
        // The root at the end of a scrub makes all of its repairs durable.
        self.media.devices.observe_health(&mut self.media.segments, cx)
            && self.background.scrub.task(&self.media.segments).is_none()
            && self.mapping.checkpoint.hurry()
    }

    /// Handles a failed command that is only the fault of a zone. Returns whether it was.
    fn zone_failed(&mut self, op: Op, command: &Command, error: DeviceError, cx: &mut Cx) -> bool {
        let (Command::Program { device, lba, .. } | Command::Reset { device, lba, .. }) = command
        else {
            return false;
        };
        if error != DeviceError::Media || self.media.devices.is_inactive(*device) {
            return false;
        }
        // Zones in front of the segments contain roots.
        let Some((segment, _)) = self.layout().zone_at(*lba) else {
            self.mapping.checkpoint.roots_mut().fail(*device, *lba);
            return true;
        };
        self.spoil(segment, *device);
        if op.changes_media() && !self.media.devices.can_write_to(segment) {
            fail(*device, error, cx);
        } else {
            cx.counters().device_errors += 1;
        }
        true
    }

    /// Fails a zone. The streams leave its segment, and its data is moved.
    fn spoil(&mut self, segment: u32, device: u8) {
        self.media.devices.zones_mut().fail(segment, device);
        self.output.stripes.leave(segment, &mut self.media.segments);
    }

    /// Writes a root that records the lost devices, if the durable root does not.
    pub(crate) fn pump_committed(&mut self, cx: &mut Cx) -> bool {
        let running = cx.life() != Life::Starting;
        let closes = running
            && self.output.journal.needs_root(&self.output.durability, &self.output.stripes);
        let knows = self.media.devices.is_committed()
            && (!running || self.media.devices.is_out_committed());
        if knows && !closes || !self.mapping.checkpoint.is_idle() || cx.outputs_left() < 20 {
            return false;
        }
        let root = *self.mapping.checkpoint.root();
        let lost = if closes { self.output.journal.unneeded().to_bits() } else { root.lost };
        let root = Root { number: root.number + 1, lost, ..root };
        self.mapping.checkpoint.commit_members(root, &mut self.media, &mut self.output, cx);
        true
    }
}
