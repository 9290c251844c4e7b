//! Reads roots without opening the volume: their places, and the last stripe that a stale device
//! has for certain according to its newest root.

use hostftl_core::{DeviceInfo, DeviceSet, MetaBuf};
use hostftl_format::log::{self, Root};

use crate::config::LayerConfig;
use crate::log::layout::Layout;
use crate::plan::PlanError;
use crate::roots::RootPlaces;

/// Returns the number of the last stripe that a device has with all earlier stripes, according to
/// the newest root on it: 0 if the device was already lost then.
pub(crate) fn has_up_to(root: &Root, device: u8) -> u64 {
    if DeviceSet::from_bits(root.lost).contains(device) { 0 } else { root.durable }
}

/// Returns the places of the roots on the devices, see [`RootPlaces`].
pub(crate) fn roots_at(
    config: &LayerConfig,
    infos: &[DeviceInfo],
) -> Result<RootPlaces, PlanError> {
    let layout = Layout::new(config, infos)?;
    if layout.zoned {
        return Err(PlanError("roots of zoned devices have no fixed addresses"));
    }
    let at = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(slot, copy)| layout.root_at(slot, copy));
    let (devices, pages, counts) = (layout.devices, layout.root_pages(), layout.tree.counts);
    Ok(RootPlaces { devices, at, pages, counts })
}

/// Returns the number of the last stripe that `device` has, see [`crate::roots::LastOn`].
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
