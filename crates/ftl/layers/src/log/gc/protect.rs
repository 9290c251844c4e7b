//! Rebuild without a spare: after a loss, segments that miss a chunk move to segments on the
//! remaining devices, with parity, while there is space for that.
//!
//! The published name is virtual hot capacity (XDP). Stripes of several widths coexist, because
//! each segment records its members (see [`crate::log::devices`]). Host writes go to such segments
//! too. If they leave too little space, segments are opened on the lost device as well, so the
//! volume never holds less than it exports. Data on a device that is being removed moves in the
//! same way, and stays while there is no space elsewhere.
//!
//! Invariant: the reserves of the volume stay free, or segments are opened at full width.

use hostftl_core::{DeviceSet, Task, TaskKind};

use crate::log::devices::Devices;
use crate::log::gc::Collection;
use crate::log::layout::Layout;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::output::Output;
use crate::log::segments::Segments;

/// Checkpoints without progress after which the rebuild stops trying.
const TRIES: u32 = 4;
/// Output slots without which no stripe is written for a rebuild.
const ROOM: usize = 16;

/// Returns the number of valid bytes in segments that miss a chunk.
pub(crate) fn exposed_bytes(segments: &Segments, devices: &Devices) -> u64 {
    match devices.exposed() {
        0 => 0,
        _ => segments.valid_bytes_in(|segment| devices.is_missing_a_chunk(segment)),
    }
}

/// Returns the number of valid bytes in segments on devices that are being removed.
fn leaving_bytes(segments: &Segments, devices: &Devices) -> u64 {
    let leaving = devices.leaving();
    let is_on = |segment| devices.membership().recorded(segment).0.overlaps(leaving);
    if leaving.is_empty() { 0 } else { segments.valid_bytes_in(is_on) }
}

/// Returns whether the rebuild is stuck: too few devices remain, or too little space on them, so
/// segments are opened on lost devices as well. This is unknown until a root records the lost
/// devices.
fn is_stuck(devices: &Devices) -> bool {
    let lies = devices.membership().current().members();
    // Joining devices change the members soon, so nothing is decided until then.
    devices.is_committed() && devices.untrusted().is_empty() && lies.overlaps(devices.inactive())
}

/// Returns the number of valid bytes that exceed the capacity of the remaining devices if the
/// rebuild is stuck for that reason. Returns 0 unless more devices remain than there are parity
/// chunks.
pub(crate) fn excess(segments: &Segments, devices: &Devices, layout: &Layout) -> u64 {
    let stays = devices.staying();
    let is_possible = stays.len() > u32::from(layout.parity) && devices.exposed() != 0;
    if is_possible && is_stuck(devices) {
        segments.excess(stays, segments.reserves(), layout, false)
    } else {
        0
    }
}

/// Returns whether all valid data and the images of the map fit into stripes on the devices in
/// `set`. If no device is leaving (`stay`), devices with the volume's full capacity always suffice.
/// A smaller set is not enough only because some devices were being removed when the volume was
/// opened.
fn fits_on(
    set: DeviceSet,
    stay: bool,
    already: bool,
    segments: &Segments,
    layout: &Layout,
) -> bool {
    stay && layout.blocks_on(set, 0) >= layout.blocks_on(layout.members, 0)
        || layout.usable(set) > 0
            && segments.can_continue(set, layout, already)
            && layout.image_segments(layout.narrowest(set)) <= segments.reserves().images()
            && segments.fits(set, layout, already)
}

/// Progress of the rebuild, or of the repair after a scrub.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protection {
    /// Segments that missed a chunk when a checkpoint was last requested, and the number of
    /// checkpoints requested since without progress.
    left: u32,
    tries: u32,
    /// Valid bytes that had to move when the rebuild began.
    all: u64,
    /// Valid bytes on devices being removed when the removal began.
    leaving: u64,
}

impl Protection {
    /// Returns the number of valid bytes that had to move when the rebuild began.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// Returns whether further attempts are futile, with `left` segments left.
    fn is_futile(&self, left: u32) -> bool {
        left == self.left && self.tries > TRIES
    }

    /// Resets the attempts, because nothing is left. The next task gets its own attempts even if it
    /// stops at the same count.
    fn rest(&mut self) {
        (self.left, self.tries) = (0, 0);
    }

    /// Counts an attempt with `left` segments left. Returns whether one more checkpoint may help.
    fn tries_again(&mut self, left: u32) -> bool {
        if left != self.left {
            (self.left, self.tries) = (left, 0);
        }
        self.tries += 1;
        self.tries <= TRIES
    }
}

impl Collection {
    /// Chooses the devices on which segments are opened.
    pub(crate) fn choose_members(&mut self, media: &mut Media, cx: &mut Cx) {
        let (layout, segments) = (&self.layout, &media.segments);
        let leaving = media.devices.leaving();
        let current = media.devices.membership().current().members();
        // The set in use needs no margin, so that the choice does not alternate.
        let fits = |set| fits_on(set, leaving.is_empty(), set == current, segments, layout);
        if media.devices.choose(fits) {
            let set = media.devices.membership().current().members();
            media.segments.set_widths(|segment| layout.width_on(set, segment));
            // Other members change the space that garbage collection can gain.
            self.stall_detector.reset();
            cx.wake();
        }
    }

    /// Chooses members again while devices are joining. No write is refused then, because their
    /// space follows. Returns whether devices are joining.
    pub(crate) fn widen(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let waits = media.devices.is_widening();
        if waits {
            self.choose_members(media, cx);
            if media.devices.is_entering() {
                mapping.checkpoint.hurry();
            }
            cx.wake();
        }
        waits
    }

    /// Records the total amount of work when a rebuild or a removal begins.
    pub(super) fn measure_protection(&mut self, media: &Media) {
        let all = &mut self.protection.all;
        *all = match (media.devices.to_move(), *all) {
            (0, _) => 0,
            // Measured once: progress is the difference from the amount at the start.
            (_, 0) => exposed_bytes(&media.segments, &media.devices),
            (_, all) => all,
        };
        if self.protection.leaving == 0 {
            self.protection.leaving = leaving_bytes(&media.segments, &media.devices);
        }
    }

    /// Chooses the next segment that misses a chunk and must move. Requests the checkpoints that
    /// the rebuild needs.
    pub(crate) fn protect(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> Option<u32> {
        if media.devices.is_as_made() {
            self.protection.leaving = 0;
            self.protection.rest();
            return None;
        }
        let left = media.devices.to_move();
        if left == 0 {
            self.protection.rest();
        }
        let outdated = media.devices.is_lack_outdated() || media.devices.is_replay_outdated();
        // Only a new root records a complete rebuild, or lets devices join or leave.
        let is_due = outdated && media.devices.exposed() == 0
            || media.devices.need_another_root()
            || media.devices.is_parting();
        // Requested even if no segment is left to move.
        if is_due && mapping.checkpoint.hurry() {
            cx.wake();
        }
        if left == 0 || self.protection.is_futile(left) || cx.outputs_left() < ROOM {
            return None;
        }
        if !media.devices.untrusted().is_empty() && mapping.checkpoint.is_due() {
            return None; // A joining device soon receives its missing chunks in place.
        }
        let segments = &media.segments;
        let can_move = |it| segments.can_be_victim(it);
        let victim = media.devices.next_exposed(can_move, |it| segments.can_be_filled(it));
        // A full segment moves at once; the rest of this function is for those that cannot.
        if let Some(victim) = victim.filter(|it| media.segments.pick_this(*it)) {
            return Some(victim);
        }
        // Open segments cannot move, so the streams leave them first.
        if output.stripes.leave_exposed(media, &mut output.durability, cx) {
            cx.wake();
        } else if media.devices.next_exposed(|_| true, |_| false).is_some()
            && mapping.checkpoint.is_idle()
            && self.protection.tries_again(left)
        {
            // The next root frees the empty segments and moves the images of the map.
            mapping.checkpoint.hurry();
            cx.wake();
        }
        None
    }
}

impl Collection {
    /// Returns whether the rebuild can make progress.
    pub(crate) fn protects(&self, devices: &Devices) -> bool {
        let left = devices.to_move();
        left > 0 && !self.protection.is_futile(left) && !is_stuck(devices)
    }

    /// Returns the progress of the removal of devices; `None` when none is being removed.
    pub(crate) fn evacuation_task(&self, segments: &Segments, devices: &Devices) -> Option<Task> {
        let left = leaving_bytes(segments, devices);
        let done = self.protection.leaving.saturating_sub(left);
        let (kind, leaving) = (TaskKind::Evacuate, devices.leaving());
        let lacks_room = devices.wanted().overlaps(leaving);
        (!leaving.is_empty()).then_some(Task {
            kind,
            is_paused: false,
            lacks_room,
            done,
            left,
            place: 0,
        })
    }

    /// Returns the progress of the rebuild or the resilver; `None` when no chunk is missing or
    /// nothing more can be done. A joining device may miss no chunk, but its task is open until it
    /// is a member. The task lasts until a durable root records that no chunk is missing, because
    /// an earlier power cut would restore the old state.
    pub(crate) fn protection_task(&self, segments: &Segments, devices: &Devices) -> Option<Task> {
        let fills = || (0..self.layout.segments).any(|it| devices.is_to_fill(it));
        let is_active = self.protects(devices) || is_stuck(devices) && fills();
        let comes = !devices.untrusted().is_empty();
        let is_open = match devices.exposed() {
            // No chunk is missing, but the durable root does not record that yet.
            0 => {
                devices.is_lack_outdated()
                    || !devices.inactive().is_empty() && !devices.is_out_committed()
            }
            _ => is_active,
        };
        if !comes && !is_open {
            return None;
        }
        let left = exposed_bytes(segments, devices);
        let done = self.protection.all.saturating_sub(left);
        let joins = devices.membership().any_lacking() || devices.is_lack_outdated();
        let kind = if comes || joins { TaskKind::Resilver } else { TaskKind::Rebuild };
        Some(Task { kind, is_paused: false, lacks_room: false, done, left, place: 0 })
    }

    /// Chooses the next segment that a scrub marked as flawed and that must move.
    pub(crate) fn repair_flawed(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> Option<u32> {
        let left = media.segments.flawed();
        // While free segments are short, only victims that gain space are collected.
        if left == 0 || cx.outputs_left() < ROOM || self.is_short(&media.segments) {
            return None;
        }
        if let Some(victim) = media.segments.pick_flawed() {
            return Some(victim);
        }
        if output.stripes.leave_flawed(media, &mut output.durability, cx) {
            cx.wake();
        } else if mapping.checkpoint.is_idle() {
            // Without a limit, data that cannot be moved would be tried without end.
            if self.flawed_repair.tries_again(left) {
                mapping.checkpoint.hurry();
            } else {
                media.segments.forget_flaws();
            }
            cx.wake();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::chunk_placement::set;
    use crate::log::params::Params;

    #[test]
    fn a_device_is_kept_if_the_others_are_too_small() {
        let layout = Layout { stay: set(0b011), ..Layout::example(3) };
        let mut segments = Segments::new(&layout, &Params::default());
        let grains = layout.segment_grains(2);
        (0..layout.segments * 3 / 4).for_each(|it| assert!(segments.set_count(it, grains)));
        assert_eq!(layout.full_width(), 1, "one was to leave");
        assert!(!fits_on(set(0b011), true, false, &segments, &layout));
        assert!(fits_on(set(0b111), true, false, &segments, &layout));
    }

    #[test]
    fn fruitless_checkpoints_end_protection() {
        let mut it = Protection::default();
        assert!((0..TRIES).all(|_| it.tries_again(3)) && !it.tries_again(3));
        assert!(it.tries_again(2), "one came on");
        assert!((1..TRIES).all(|_| it.tries_again(2)) && !it.tries_again(2));
        it.rest();
        assert!(!it.is_futile(2) && it.tries_again(2), "these are others");
    }
}
