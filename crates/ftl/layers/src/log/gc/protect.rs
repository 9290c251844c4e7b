//! Protection without a spare: after a loss, what misses a chunk moves to segments on the devices
//! that are left, with parity, while there is room for that.
//!
//! The published name is virtual hot capacity (XDP). Rows of several widths lie side by side: a
//! segment says on which devices it lies (see [`crate::log::devices`]). What the host writes goes
//! to such segments too. When they leave too little room, segments are opened on the lost device as
//! well, as before: the volume never holds less than it exports. What lies on a device that is to
//! leave moves in the same way, and stays as long as there is no room elsewhere.
//!
//! Invariant: what the volume has to keep free is kept free, or segments are wide.

use hostftl_core::{DeviceSet, Task, TaskKind};

use crate::log::devices::Devices;
use crate::log::gc::Collection;
use crate::log::layout::Layout;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::output::Output;
use crate::log::segments::Segments;

/// Checkpoints that may bring nothing on before nothing more is tried.
const TRIES: u32 = 4;
/// With less room for outputs, rows are not written for this.
const ROOM: usize = 16;

/// What is live where a chunk is missing, in bytes.
pub(crate) fn live_exposed(segments: &Segments, devices: &Devices) -> u64 {
    match devices.exposed() {
        0 => 0,
        _ => segments.live_in(|segment| devices.is_missing_a_chunk(segment)),
    }
}

/// What is live where a device is that is to leave, in bytes.
fn live_leaving(segments: &Segments, devices: &Devices) -> u64 {
    let leaving = devices.leaving();
    let is_on = |segment| devices.membership().told(segment).0.overlaps(leaving);
    if leaving.is_empty() { 0 } else { segments.live_in(is_on) }
}

/// Whether nothing that misses a chunk moves for now: too few devices are left, or too little room
/// on them, and rows lie on lost ones as well. Before a root says who is lost that is not known.
fn is_stuck(devices: &Devices) -> bool {
    let lies = devices.membership().current().members();
    devices.is_told() && devices.untrusted().is_empty() && lies.overlaps(devices.inactive())
}

/// The live bytes that are too many for the devices that are left, where nothing moves for that
/// reason. Needs more devices than parity takes.
pub(crate) fn excess(segments: &Segments, devices: &Devices, layout: &Layout) -> u64 {
    let stays = devices.staying();
    let is_possible = stays.len() > u32::from(layout.parity) && devices.exposed() != 0;
    if is_possible && is_stuck(devices) {
        segments.excess(stays, segments.reserves(), layout, false)
    } else {
        0
    }
}

/// Whether all that there is fits into rows on these devices: as [`Segments::fits`], with the
/// images of the map. Where all `stay` nothing has to be looked at on as many devices as the volume
/// has; no fewer are enough because some were to leave when it was opened, and stay after all.
fn fits_on(
    set: DeviceSet,
    stay: bool,
    already: bool,
    segments: &Segments,
    layout: &Layout,
) -> bool {
    stay && layout.blocks_on(set, 0) >= layout.blocks_on(layout.members, 0)
        || layout.usable(set) > 0
            && segments.can_go_on(set, layout, already)
            && layout.image_segments(layout.narrowest(set)) <= segments.reserves().images()
            && segments.fits(set, layout, already)
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protection {
    /// How often segments missed a chunk when a checkpoint was asked for last, and how many were
    /// asked for since that was more.
    left: u32,
    tries: u32,
    /// What was live when it began of what is to move, in bytes.
    all: u64,
    /// The same, of what lies on devices that are to leave.
    leaving: u64,
}

impl Protection {
    /// What was live when it began of what is to move, in bytes.
    pub(super) fn all(&self) -> u64 {
        self.all
    }

    /// Whether nothing helps, with so much left.
    fn gave_up(&self, left: u32) -> bool {
        left == self.left && self.tries > TRIES
    }

    /// Nothing is left. What is next to be done is tried as often again, though as much is left of
    /// it in the end.
    fn rest(&mut self) {
        (self.left, self.tries) = (0, 0);
    }

    /// Whether one more checkpoint may help, with so much left.
    fn tries_again(&mut self, left: u32) -> bool {
        if left != self.left {
            (self.left, self.tries) = (left, 0);
        }
        self.tries += 1;
        self.tries <= TRIES
    }
}

impl Collection {
    /// Chooses where segments are opened.
    pub(crate) fn choose_members(&mut self, media: &mut Media, cx: &mut Cx) {
        let (layout, segments) = (&self.layout, &media.segments);
        let leaving = media.devices.leaving();
        let current = media.devices.membership().current().members();
        let fits = |set| fits_on(set, leaving.is_empty(), set == current, segments, layout);
        if media.devices.choose(fits) {
            let set = media.devices.membership().current().members();
            media.segments.set_widths(|segment| layout.width_on(set, segment));
            self.effort.begin_again();
            cx.wake();
        }
    }

    /// While devices are on their way into the volume nothing is refused: their room comes. Whether
    /// that is so.
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

    /// Takes down how much there is to be done in all, when it begins.
    pub(super) fn measure_protection(&mut self, media: &Media) {
        let all = &mut self.protection.all;
        *all = match (media.devices.to_move(), *all) {
            (0, _) => 0,
            (_, 0) => live_exposed(&media.segments, &media.devices),
            (_, all) => all,
        };
        if self.protection.leaving == 0 {
            self.protection.leaving = live_leaving(&media.segments, &media.devices);
        }
    }

    /// Chooses where segments are opened, and what moves next because it misses a chunk.
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
        let is_due = outdated && media.devices.exposed() == 0
            || media.devices.need_another_root()
            || media.devices.is_parting();
        if is_due && mapping.checkpoint.hurry() {
            cx.wake();
        }
        if left == 0 || self.protection.gave_up(left) || cx.room() < ROOM {
            return None;
        }
        if !media.devices.untrusted().is_empty() && mapping.checkpoint.is_due() {
            return None; // What a device that comes lacks is made there, soon.
        }
        let segments = &media.segments;
        let can_move = |it| segments.can_be_victim(it);
        let victim = media.devices.next_exposed(can_move, |it| segments.can_be_filled(it));
        if let Some(victim) = victim.filter(|it| media.segments.pick_this(*it)) {
            return Some(victim);
        }
        if output.rows.leave_exposed(media, &mut output.durability, cx) {
            cx.wake();
        } else if media.devices.next_exposed(|_| true, |_| false).is_some()
            && mapping.checkpoint.is_idle()
            && self.protection.tries_again(left)
        {
            // What is empty is free, and images of the map move, with the next root.
            mapping.checkpoint.hurry();
            cx.wake();
        }
        None
    }
}

impl Collection {
    /// Whether anything is done for what misses a chunk.
    pub(crate) fn protects(&self, devices: &Devices) -> bool {
        let left = devices.to_move();
        left > 0 && !self.protection.gave_up(left) && !is_stuck(devices)
    }

    /// How far it is with what lies on devices that are to leave; none when none is.
    pub(crate) fn evacuation_task(&self, segments: &Segments, devices: &Devices) -> Option<Task> {
        let left = live_leaving(segments, devices);
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

    /// How far it is with what misses a chunk; none when nothing does, or nothing helps. One that
    /// came and does not belong yet may miss nothing, and is on its way nevertheless. The task
    /// lasts until a durable root says that nothing misses a chunk: a power cut before would bring
    /// the old state back.
    pub(crate) fn protection_task(&self, segments: &Segments, devices: &Devices) -> Option<Task> {
        let fills = || (0..self.layout.segments).any(|it| devices.is_to_fill(it));
        let goes_on = self.protects(devices) || is_stuck(devices) && fills();
        let comes = !devices.untrusted().is_empty();
        let is_open = match devices.exposed() {
            0 => {
                devices.is_lack_outdated()
                    || !devices.inactive().is_empty() && !devices.is_out_told()
            }
            _ => goes_on,
        };
        if !comes && !is_open {
            return None;
        }
        let left = live_exposed(segments, devices);
        let done = self.protection.all.saturating_sub(left);
        let joins = devices.membership().any_lacking() || devices.is_lack_outdated();
        let kind = if comes || joins { TaskKind::Resilver } else { TaskKind::Rebuild };
        Some(Task { kind, is_paused: false, lacks_room: false, done, left, place: 0 })
    }

    /// Chooses what moves next because a scrub found something wrong in it.
    pub(crate) fn mend_flawed(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> Option<u32> {
        let left = media.segments.flawed();
        if left == 0 || cx.room() < ROOM || self.is_short(&media.segments) {
            return None;
        }
        if let Some(victim) = media.segments.pick_flawed() {
            return Some(victim);
        }
        if output.rows.leave_flawed(media, &mut output.durability, cx) {
            cx.wake();
        } else if mapping.checkpoint.is_idle() {
            // What can't be moved would be tried for ever.
            if self.mending.tries_again(left) {
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
    use crate::log::params::Params;
    use crate::log::stripe::set;

    #[test]
    fn a_device_that_stays_after_all_is_needed_where_the_others_are_too_small() {
        let layout = Layout { stay: set(0b011), ..Layout::example(3) };
        let mut segments = Segments::new(&layout, &Params::default());
        let grains = layout.segment_grains(2);
        (0..layout.segments * 3 / 4).for_each(|it| assert!(segments.set_count(it, grains)));
        assert_eq!(layout.full_width(), 1, "one was to leave");
        assert!(!fits_on(set(0b011), true, false, &segments, &layout));
        assert!(fits_on(set(0b111), true, false, &segments, &layout));
    }

    #[test]
    fn checkpoints_that_bring_nothing_on_end() {
        let mut it = Protection::default();
        assert!((0..TRIES).all(|_| it.tries_again(3)) && !it.tries_again(3));
        assert!(it.tries_again(2), "one came on");
        assert!((1..TRIES).all(|_| it.tries_again(2)) && !it.tries_again(2));
        it.rest();
        assert!(!it.gave_up(2) && it.tries_again(2), "these are others");
    }
}
