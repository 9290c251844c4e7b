//! Cached bound of the valid data.

use hostftl_core::DeviceSet;

use crate::log::layout::{Layout, Reserves};

/// Bound of the valid data for the devices and reserves of the last query. Each write queries it,
/// and it changes only with these.
#[derive(Debug, Default)]
pub(super) struct Bound {
    /// The devices, the bounds of the reserves, and the number of blocks of the volume.
    of: (DeviceSet, (u32, u32), u64),
    most: Option<u64>,
}

impl Bound {
    /// Returns [`Layout::valid_limit`], from the cache if nothing changed.
    #[inline]
    pub(super) fn valid_limit(
        &mut self,
        layout: &Layout,
        members: DeviceSet,
        reserves: &Reserves,
    ) -> Option<u64> {
        let of = (members, reserves.bounds(), layout.blocks);
        if self.of != of {
            *self = Bound { of, most: layout.valid_limit(members, reserves) };
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_recomputed_when_members_change() {
        let layout = Layout::example(4);
        let (all, mut it) = (layout.members, Bound::default());
        for members in [all, all.without(0), all.without(0), all] {
            let known = it.valid_limit(&layout, members, &layout.reserves);
            assert_eq!(known, layout.valid_limit(members, &layout.reserves));
        }
        let most = |members| layout.valid_limit(members, &layout.reserves);
        assert_ne!(
            most(all.without(0)),
            most(all),
            "the limit of valid data depends on the devices"
        );
    }
}
