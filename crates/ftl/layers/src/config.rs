//! Configuration of a layer.

use hostftl_core::Nanos;

use crate::kind::LayerKind;
use crate::members::Members;
pub use crate::plan::{Mode, Plan, PlanError};

/// Configuration of a layer. The same values must be given each time a volume is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// The kind of layer.
    pub kind: LayerKind,
    /// Write unit of the layer in sectors; 128 (64 KiB) by default.
    pub superpage: u32,
    /// Over-provisioning in thousandths of the device; 70 by default, 110 with `pblk`, 100 with
    /// `rrpc`.
    pub spare_permille: u32,
    /// Deadline of a command in ns, after which it is abandoned; 0 = none.
    pub deadline: Nanos,
    /// Deadline for each device by its index in the stack, in ns; 0 = `deadline`.
    pub deadlines: [Nanos; 16],
    /// The members at this start.
    pub members: Members,
    /// Sectors to export; 0 = as many as the devices have room for.
    pub exported: u64,
    /// Identity of the volume, so that metadata of another volume is never accepted.
    pub uuid: [u8; 16],
    /// Parameters of `shatl` and `hatl-auto`.
    pub shatl: crate::shatl::params::Params,
    /// Parameters of `mhatl`.
    pub mhatl: crate::mhatl::params::Params,
    /// Parameters of `scrambler`.
    pub scrambler: crate::scrambler::params::Params,
    /// Parameters of `log`.
    pub log: crate::log::params::Params,
    /// Parameters of `tier`.
    pub tier: crate::tier::params::Params,
    /// Parameters of `pblk`.
    pub zones: crate::zones::params::Params,
}

impl LayerConfig {
    /// Returns `kind` with the defaults of most layers; [`LayerConfig::new`] applies the layer's
    /// own.
    pub(crate) fn bare(kind: LayerKind) -> Self {
        LayerConfig {
            kind,
            superpage: 128,
            spare_permille: 70,
            deadline: 0,
            deadlines: [0; 16],
            members: Members::default(),
            exported: 0,
            uuid: [0; 16],
            shatl: Default::default(),
            mhatl: Default::default(),
            scrambler: Default::default(),
            log: Default::default(),
            tier: Default::default(),
            zones: Default::default(),
        }
    }

    /// Chooses parameters that depend on the workload. Writes are multiples of `grain` sectors, and
    /// the devices' map unit has `unit` sectors (0 if unknown). Returns whether anything was
    /// chosen.
    pub fn suit(&mut self, grain: u32, unit: u32) -> bool {
        let before = self.scrambler;
        self.scrambler.suit(grain, unit);
        self.scrambler != before
    }

    /// Returns the deadline of each device by its index in the stack, in ns; 0 = none.
    pub fn patience(&self) -> [Nanos; 16] {
        self.deadlines.map(|own| if own == 0 { self.deadline } else { own })
    }
}
