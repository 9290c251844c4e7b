//! Roots, read by who does not serve the volume: where they lie, and what a device has for sure
//! that was done without and is back, as its newest root says.

use hostftl_core::{DeviceInfo, DeviceSet, MetaBuf};
use hostftl_format::log::{self, Root};

use crate::config::LayerConfig;
use crate::log::layout::Layout;
use crate::plan::PlanError;
use crate::roots::RootPlaces;

/// The number of the last row that a device has with all before, by the newest root on it: none
/// when the device was lost then already.
pub(crate) fn has_up_to(root: &Root, device: u8) -> u64 {
    if DeviceSet::from_bits(root.lost).contains(device) { 0 } else { root.durable }
}

/// See [`RootPlaces`].
pub(crate) fn roots_at(
    config: &LayerConfig,
    infos: &[DeviceInfo],
) -> Result<RootPlaces, PlanError> {
    let layout = Layout::new(config, infos)?;
    if layout.zoned {
        return Err(PlanError("the roots of zoned devices have no fixed places"));
    }
    let at = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(slot, copy)| layout.root_at(slot, copy));
    let (devices, pages, counts) = (layout.devices, layout.root_pages(), layout.tree.counts);
    Ok(RootPlaces { devices, at, pages, counts })
}

/// See [`crate::roots::LastOn`].
pub(crate) fn last_on(
    config: &LayerConfig,
    infos: &[DeviceInfo],
    device: u8,
    read: &mut dyn FnMut(u64, &mut MetaBuf) -> bool,
) -> Result<u64, PlanError> {
    let layout = Layout::new(config, infos)?;
    let mut buf = MetaBuf::new(layout.root_pages() as usize);
    let mut newest: Option<Root> = None;
    for (slot, copy) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
        let at = layout.root_at(slot, copy);
        let root = read(at, &mut buf)
            .then(|| log::open_root(&buf, &config.uuid, at, layout.tree.counts))
            .flatten();
        let root = root.filter(|root| layout.admits_root(root));
        newest = newest.into_iter().chain(root).max_by_key(|root| root.number);
    }
    Ok(newest.map_or(0, |root| has_up_to(&root, device)))
}
