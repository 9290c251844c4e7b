//! Finds the newest root of a zoned volume: each root zone is read backwards from its end.

use hostftl_core::{BLOCK, Command, DeviceSet, MetaBuf};

use crate::config::Mode;
use crate::log::array::Array;
use crate::log::layout::ROOT_ZONES;
use crate::log::ops::Cx;
use crate::log::recovery::{Recovery, Step};

/// Progress of the search.
#[derive(Debug)]
pub(super) struct Search {
    /// One more than the next copy to read in the zone; `None` before the zone is started.
    next: Option<u32>,
    /// Whether the copy after it is damaged.
    damaged_behind: bool,
    /// Devices with a damaged root after the newest valid one of a zone.
    doubtful: DeviceSet,
    /// Devices of a new volume whose root zones are erased.
    erased: u8,
}

impl Search {
    /// Search that has not started.
    pub(super) const NEW: Search =
        Search { next: None, damaged_behind: false, doubtful: DeviceSet::EMPTY, erased: 0 };
}

impl Recovery {
    /// Erases the root zones of the next device of a new volume. Returns false if there is none.
    pub(crate) fn erase_roots(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let (devices, sectors) = (array.layout().devices, u64::from(array.layout().column));
        if self.mode() != Mode::Format || self.search.erased == devices || cx.outputs_left() < 8 {
            return false;
        }
        let device = self.search.erased;
        self.search.erased += 1;
        let mut from = 0;
        while let Some(zone) = array.mapping.checkpoint.roots_mut().written(device, from) {
            let lba = array.mapping.checkpoint.roots().copy_at(zone, 0);
            self.sent.send(
                0,
                Command::Reset { device, lba, sectors },
                &mut array.media.devices,
                cx,
            );
            from = zone + 1;
        }
        true
    }

    /// Reads the roots of each zone backwards until one is valid; `index` counts zones.
    pub(crate) fn read_root_back(&mut self, index: u32, array: &mut Array, cx: &mut Cx) -> bool {
        if !self.sent.is_empty() {
            return false;
        }
        if index == ROOT_ZONES * u32::from(array.layout().devices) {
            return self.choose_root(array, cx);
        }
        let (device, zone) = ((index / ROOT_ZONES) as u8, index % ROOT_ZONES);
        let copies = array.mapping.checkpoint.roots_mut().copies(device, zone);
        let next = self.search.next.unwrap_or(copies);
        if next == 0 {
            let doubtful = self.search.doubtful;
            self.search = Search { doubtful, ..Search::NEW };
            return self.go(Step::Roots(index + 1));
        }
        self.search.next = Some(next - 1);
        let lba = array.mapping.checkpoint.roots().copy_at(zone, next - 1);
        self.ask_root(index, (device, lba), array, cx);
        true
    }

    /// Notes a valid root, the newest of its zone. If it is `newer` than all others of its device,
    /// new roots are appended to this zone.
    pub(crate) fn root_found(&mut self, index: u32, newer: bool, array: &mut Array) {
        self.search.next = Some(0);
        if newer {
            let (device, zone) = ((index / ROOT_ZONES) as u8, index % ROOT_ZONES);
            array.mapping.checkpoint.roots_mut().continue_in(device, zone);
        }
    }

    /// Notes a copy that is not a valid root; a `blank` one was never written.
    pub(crate) fn no_root(&mut self, index: u32, blank: bool) {
        let device = (index / ROOT_ZONES) as u8;
        let search = &mut self.search;
        let second = search.next.expect("a copy was read") % 2 == 1;
        // A root with a copy that was never written was not durable.
        let both = !second && !blank && search.damaged_behind;
        search.doubtful |= DeviceSet::single_if(both, device);
        search.damaged_behind = second && !blank;
    }

    /// Returns whether the newest valid root is the newest that was written, according to a device
    /// that has it.
    pub(crate) fn is_newest(&mut self, number: u64, array: &mut Array) -> bool {
        let doubtful = self.search.doubtful;
        let newest = self.newest;
        (0..array.layout().devices)
            .any(|device| newest[usize::from(device)] == number && !doubtful.contains(device))
    }
}

/// Returns whether a buffer is all zeros.
pub(super) fn is_blank(buf: &MetaBuf) -> bool {
    buf.pages().iter().all(|page| page.0 == [0; BLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::layout::Layout;

    /// Reads both copies of an invalid root, the second first; the arguments mark blank copies.
    fn doubts(second: bool, first: bool) -> DeviceSet {
        let mut it = Recovery::new(&Layout::example(1), [0; 16], Mode::Open);
        for (copy, blank) in [(1, second), (0, first)] {
            it.search.next = Some(copy);
            it.no_root(0, blank);
        }
        it.search.doubtful
    }

    #[test]
    fn a_device_is_doubted_when_both_copies_of_a_root_are_damaged() {
        assert_eq!(doubts(false, false), DeviceSet::single(0));
        assert!(doubts(true, false).is_empty(), "the second copy was never written");
        assert!(doubts(false, true).is_empty(), "the first copy was never written");
    }
}
