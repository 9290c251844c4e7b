//! What may be live, kept for the next write.

use hostftl_core::DeviceSet;

use crate::log::layout::{Layout, Reserves};

/// What may be live, on the devices and with the reserves for which it was asked last: each write
/// asks, and it changes only with these.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// The devices, what bounds the reserves, and the blocks of the volume.
    of: (DeviceSet, (u32, u32), u64),
    most: Option<u64>,
}

impl Bound {
    /// As [`Layout::most_live`].
    #[inline]
    pub(super) fn most_live(
        &mut self,
        layout: &Layout,
        members: DeviceSet,
        reserves: &Reserves,
    ) -> Option<u64> {
        let of = (members, reserves.bounds(), layout.blocks);
        if self.of != of {
            *self = Bound { of, most: layout.most_live(members, reserves) };
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_worked_out_again_when_devices_leave_and_come_back() {
        let layout = Layout::example(4);
        let (all, mut it) = (layout.members, Bound::default());
        for members in [all, all.without(0), all.without(0), all] {
            let known = it.most_live(&layout, members, &layout.reserves);
            assert_eq!(known, layout.most_live(members, &layout.reserves));
        }
        let most = |members| layout.most_live(members, &layout.reserves);
        assert_ne!(most(all.without(0)), most(all), "what may be live depends on the devices");
    }
}
