//! Devices that are too large for memory: only written sectors are stored.

use std::collections::HashMap;

use hostftl_core::{DeviceInfo, SECTOR};
use hostftl_layers::{LayerConfig, Mode};

use super::World;

/// Sectors by number; all others are zeros.
#[derive(Debug, Default)]
pub(crate) struct Sparse(HashMap<u64, [u8; SECTOR]>);

impl Sparse {
    pub(crate) fn read(&self, first: u64, sectors: u32) -> Vec<u8> {
        let all = first..first + u64::from(sectors);
        all.flat_map(|sector| self.0.get(&sector).copied().unwrap_or([0; SECTOR])).collect()
    }

    pub(crate) fn write(&mut self, first: u64, bytes: &[u8]) {
        for (sector, bytes) in (first..).zip(bytes.as_chunks().0) {
            self.0.insert(sector, *bytes);
        }
    }

    /// Returns the last written sector of any device, if each device has `sectors` sectors.
    pub(crate) fn last(&self, sectors: u64) -> u64 {
        self.0.keys().map(|at| at % sectors).max().unwrap_or(0)
    }
}

impl World {
    /// Starts a layer over devices of equal size, of which only written sectors take memory.
    pub(crate) fn start_far(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        far: Sparse,
        mode: Mode,
        seed: u64,
    ) -> Self {
        Self::start_with(devices.to_vec(), None, config, (Vec::new(), Some(far)), mode, seed)
    }

    /// Cuts the power: commands in flight have no effect.
    pub(crate) fn cut_far(mut self) -> Sparse {
        let far = self.far.take().expect("the devices are far");
        self.cut();
        far
    }
}
