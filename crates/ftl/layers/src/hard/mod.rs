//! HARD: every sector is mapped, and small writes are gathered into full, aligned superpages.
//!
//! Source: Jang and Shin, "HARD: Host-Level Address Remapping Driver for Solid-State Disk" (ICITCS
//! 2011), as described by Choi and Shin. The crash protocol is this project's; see [`crate::vsp`].
//!
//! [`map`] stores both directions at 4 bytes per sector. [`crate::vsp::collect`] empties the
//! superpage with the fewest valid sectors.

mod map;
pub(crate) mod register;

use hostftl_core::{Command, DeviceInfo, Payload};

use crate::config::{LayerConfig, PlanError};
use crate::kit::Shell;
use crate::vsp::collect::Collection;
use crate::vsp::layout::Layout;
use crate::vsp::ops::NoOp;
use crate::vsp::{Area, CxOf, Machine, Scheme};
use map::Map;

/// The layer `hard`.
pub(crate) type Hard = Shell<Machine<Sectors>>;

/// The scheme of `hard`.
#[derive(Debug, Default)]
pub(crate) struct Sectors {
    collection: Collection,
}

impl Scheme for Sectors {
    type Table = Map;

    fn layout(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Layout, PlanError> {
        Layout::logged(config, devices)
    }

    fn map_bytes(_config: &LayerConfig, layout: &Layout) -> u64 {
        Map::memory(layout)
    }

    fn table(_config: &LayerConfig, layout: &Layout) -> Map {
        Map::new(layout)
    }

    fn new(_: &LayerConfig, _: &Layout, _: impl Iterator<Item = Payload>) -> Self {
        Sectors::default()
    }

    fn collection(&mut self) -> Option<&mut Collection> {
        Some(&mut self.collection)
    }

    fn pump_collection(&mut self, area: &mut Area<Map>, cx: &mut CxOf<Self>) -> bool {
        self.collection.pump_vgc(area, cx)
    }

    fn is_collecting(&self) -> bool {
        self.collection.is_reading()
    }

    fn pump_write(&mut self, area: &mut Area<Map>, req: u16, cx: &mut CxOf<Self>) -> bool {
        area.gather(req, u64::MAX, cx)
    }

    fn done(&mut self, _: &mut Area<Map>, op: NoOp, _: Command, _: bool, _: &mut CxOf<Self>) {
        match op {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    #[test]
    fn the_paper_s_drive_needs_about_512_mib() {
        let config = LayerConfig::new(LayerKind::Hard);
        let layout = Layout::logged(&config, &[DeviceInfo::block(1 << 26, 128)]).unwrap();
        let used = 4 * layout.root + 2 * layout.groups + layout.count;
        assert!(used <= (1 << 19) && used > (1 << 19) - 3);
        let mib = Map::memory(&layout) >> 20;
        assert!((480..=520).contains(&mib), "{mib} MiB");
    }

    #[test]
    fn small_devices_are_refused() {
        let config = LayerConfig::new(LayerKind::Hard);
        assert!(Layout::logged(&config, &[DeviceInfo::block(64 * 128, 128)]).is_err());
        assert!(Layout::logged(&config, &[DeviceInfo::block(80 * 128, 128)]).is_ok());
    }
}
