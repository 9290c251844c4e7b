//! Targets: several layers on one device, of which each has a place of its own.
//!
//! Invariants
//! - A target's commands reach nothing beyond its segments.
//! - A target that was given no error gives its host none, whatever befell the others.
//! - A flush is of one target: it makes durable what that target's host wrote.

use std::ops::Range;

use hostftl_core::{DeviceInfo, Token};
use hostftl_layers::LayerConfig;
use hostftl_layers::targets::register::{Place, places, sender};

use crate::extent::Extent;

/// See the module text. Empty for a layer that has its devices alone.
#[derive(Debug, Default)]
pub struct Places {
    list: Vec<Place>,
    /// Which of them were given an error since they were blank, as bits.
    struck: u64,
}

impl Places {
    /// Those of a layer over these devices.
    ///
    /// # Errors
    /// When the layer can't be.
    pub fn of(config: &LayerConfig, infos: &[DeviceInfo]) -> Result<Self, String> {
        let list = places(config, infos).map_err(|why| format!("places: {why}"))?;
        Ok(Places { list, struck: 0 })
    }

    /// Blank devices.
    pub fn blank(&mut self) {
        self.struck = 0;
    }

    /// What one host has of the volume, by any of its sectors; `None` when it has all.
    pub fn host_of(&self, lba: u64) -> Option<Range<u64>> {
        Some(self.list.get(self.index(lba)?)?.exported.clone())
    }

    /// Where each host begins; nothing when there is one.
    pub fn hosts(&self) -> Vec<u64> {
        self.list.iter().map(|place| place.exported.start).collect()
    }

    /// What a target has of the device, by any of its sectors; `None` when nobody has that.
    pub fn place_at(&self, lba: u64) -> Option<Range<u64>> {
        let places = self.list.iter().map(|place| &place.device);
        places.into_iter().find(|place| place.contains(&lba)).cloned()
    }

    fn index(&self, lba: u64) -> Option<usize> {
        let before = self.list.iter().filter(|place| place.exported.start <= lba).count();
        before.checked_sub(1)
    }

    /// A command of `token` fails, hangs or is late.
    pub fn strike(&mut self, token: Token) {
        self.struck |= 1 << sender(token);
    }

    /// Whether nothing befell the target whose host asked at `lba`, so that it has no excuse.
    pub fn is_unharmed(&self, lba: u64) -> bool {
        self.index(lba).is_some_and(|index| self.struck >> index & 1 == 0)
    }

    /// Whether a command stays in the place of the target that sent it.
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
