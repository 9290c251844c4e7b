//! Typical devices of layers, for figures that follow from a layer's plan.

use hostftl_core::{DeviceInfo, DeviceKind, SECTOR, SECTORS_PER_BLOCK, Segments};
use hostftl_layers::{AnyLayer, Devices, LayerConfig, LayerKind};

/// Sectors per terabyte.
const TERABYTE: u64 = 1_000_000_000_000 / SECTOR as u64;

/// Returns the bytes of map and metadata of a layer with its defaults on [`usual_devices`] of a
/// terabyte; `None` if it can't run on them.
pub fn memory_of_a_terabyte(kind: LayerKind) -> Option<u64> {
    // Rounded down to whole MiB, like real devices.
    let sectors = TERABYTE >> 11 << 11;
    let plan = AnyLayer::plan(&LayerConfig::new(kind), &usual_devices(sectors, kind)).ok()?;
    Some(plan.map_bytes + plan.meta_bytes)
}

/// Returns typical devices of `sectors` sectors in total for a layer: for zoned layers about 32
/// thousand segments in 16 parallel units; for tiers a fast device of a 16th; for layers that need
/// the collection hint pages of 16 KiB.
pub fn usual_devices(sectors: u64, kind: LayerKind) -> Vec<DeviceInfo> {
    // At least 1 MiB.
    let segment = (sectors >> 15).next_power_of_two().clamp(1 << 11, 1 << 22) as u32;
    const PAGE: u32 = 4 * SECTORS_PER_BLOCK;
    let block = DeviceInfo::block(sectors, SECTORS_PER_BLOCK);
    match kind.registration().devices {
        Devices::Zoned => {
            let segments = Segments {
                size: segment,
                write_unit: SECTORS_PER_BLOCK,
                write_best: SECTORS_PER_BLOCK,
                unreadable: 0,
                max_open: 0,
                count: (sectors / u64::from(segment)) as u32,
                units: 16,
            };
            vec![DeviceInfo { kind: DeviceKind::Zoned(segments), ..block }]
        }
        Devices::FastAndSlow => {
            let fast = sectors / 16;
            [fast, sectors - fast].map(|it| DeviceInfo::block(it, SECTORS_PER_BLOCK)).into()
        }
        Devices::Hinting => {
            vec![DeviceInfo { collection_hint: true, ..DeviceInfo::block(sectors, PAGE) }]
        }
        Devices::Block | Devices::Array | Devices::Few => vec![block],
    }
}
