//! Targets: several layers on one device, each with its own range.
//!
//! Invariants
//! - Commands of a target never leave its segments.
//! - A target without errors returns no errors to its host, regardless of faults of the other
//!   targets.
//! - A flush belongs to one target and makes the writes of that target's host durable.

use std::ops::Range;

use hostftl_core::{DeviceInfo, Token};
use hostftl_layers::LayerConfig;
use hostftl_layers::targets::register::{Place, places, sender};

use crate::extent::Extent;

/// Ranges of all targets; empty for a layer that has its devices alone.
#[derive(Debug, Default)]
pub struct Places {
    list: Vec<Place>,
    /// Targets that received an error since the devices were blank, as a bit set.
    struck: u64,
}

impl Places {
    /// Returns the ranges of a layer over these devices.
    ///
    /// # Errors
    /// When the layer cannot use these devices.
    pub fn new(config: &LayerConfig, infos: &[DeviceInfo]) -> Result<Self, String> {
        let list = places(config, infos).map_err(|why| format!("places: {why}"))?;
        Ok(Places { list, struck: 0 })
    }

    /// Resets the state for blank devices.
    pub fn blank(&mut self) {
        self.struck = 0;
    }

    /// Returns the range of the host that has this sector of the volume; `None` for a single host.
    pub fn host_range(&self, lba: u64) -> Option<Range<u64>> {
        Some(self.list.get(self.index(lba)?)?.exported.clone())
    }

    /// Returns the start of each host's range; empty for a single host.
    pub fn hosts(&self) -> Vec<u64> {
        self.list.iter().map(|place| place.exported.start).collect()
    }

    /// Returns the range of the target that has this sector of the device; `None` when no target
    /// has it.
    pub fn place_at(&self, lba: u64) -> Option<Range<u64>> {
        let places = self.list.iter().map(|place| &place.device);
        places.into_iter().find(|place| place.contains(&lba)).cloned()
    }

    fn index(&self, lba: u64) -> Option<usize> {
        let before = self.list.iter().filter(|place| place.exported.start <= lba).count();
        before.checked_sub(1)
    }

    /// Records that a command of `token` failed or timed out.
    pub fn strike(&mut self, token: Token) {
        self.struck |= 1 << sender(token);
    }

    /// Returns whether the target of this host address had no fault, and therefore no excuse.
    pub fn is_unharmed(&self, lba: u64) -> bool {
        self.index(lba).is_some_and(|index| self.struck >> index & 1 == 0)
    }

    /// Checks that a command stays within the range of its target.
    ///
    /// # Errors
    /// When it does not.
    pub fn within(&self, token: Token, extent: Option<Extent>) -> Result<(), String> {
        let (Some(place), Some((_, lba, sectors, _))) = (self.list.get(sender(token)), extent)
        else {
            return Ok(());
        };
        let Range { start, end } = place.device;
        if lba >= start && lba.saturating_add(sectors) <= end {
            Ok(())
        } else {
            Err(format!(
                "target {} reaches sectors {lba}+{sectors}, and has {start} to {end} of the device",
                sender(token)
            ))
        }
    }
}
