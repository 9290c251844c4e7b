//! What a layer is made from.

use hostftl_core::Nanos;

use crate::kind::LayerKind;
use crate::members::Members;
pub use crate::plan::{Mode, Plan, PlanError};

/// What a layer is made from. The same values must be given each time a volume is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// Which layer.
    pub kind: LayerKind,
    /// The unit in which the layer writes, in sectors; 128 (64 KiB) by default.
    pub superpage: u32,
    /// Share of the device that is kept spare, in thousandths; 70 by default, 110 with `pblk`, 100
    /// with `rrpc`.
    pub spare_permille: u32,
    /// How long a command may take before it is abandoned, in ns; 0 = for ever.
    pub deadline: Nanos,
    /// As `deadline`, for each device by its index in the stack; 0 = as for the others.
    pub deadlines: [Nanos; 16],
    /// Who belongs to the volume this time.
    pub members: Members,
    /// Sectors to export, if that is not as many as the devices have room for; 0 = as many.
    pub exported: u64,
    /// The volume, so that metadata of another is never taken for its own.
    pub uuid: [u8; 16],
    /// What only `shatl` and `hatl-auto` have.
    pub shatl: crate::shatl::params::Params,
    /// What only `mhatl` has.
    pub mhatl: crate::mhatl::params::Params,
    /// What only `scrambler` has.
    pub scrambler: crate::scrambler::params::Params,
    /// What only `log` has.
    pub log: crate::log::params::Params,
    /// What only `tier` has.
    pub tier: crate::tier::params::Params,
    /// What only `pblk` has.
    pub zones: crate::zones::params::Params,
}

impl LayerConfig {
    /// `kind` with the values that most layers have by default; [`LayerConfig::new`] has them all.
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

    /// Chooses what is left to the requests, for writes in whole multiples of `grain` sectors and
    /// devices that map in units of `unit` sectors, 0 where that is not known. Whether anything was
    /// chosen.
    pub fn suit(&mut self, grain: u32, unit: u32) -> bool {
        let before = self.scrambler;
        self.scrambler.suit(grain, unit);
        self.scrambler != before
    }

    /// How long a command of each device may take, by its index in the stack, in ns; 0 = for ever.
    pub fn patience(&self) -> [Nanos; 16] {
        self.deadlines.map(|own| if own == 0 { self.deadline } else { own })
    }
}
