//! What a layer is made from.

use hostftl_core::Nanos;

use crate::kind::LayerKind;
pub use crate::plan::{ChosenSpare, Mode, Plan, PlanError};

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
    /// The devices that are not there this time, as a set of bits by index in the stack: every
    /// command to them fails. At most as many as [`LayerConfig::tolerates`].
    pub missing: u16,
    /// The devices that hold nothing of the volume and came in the place of others, which they
    /// replace: what lies on those is made again. Only where a registration says `replaces`.
    pub fresh: u16,
    /// Those of the `fresh` ones that were there before, and lack only what was written since.
    pub returning: u16,
    /// With how many devices the volume was made, if others came since; 0 = with all of them.
    pub born: u8,
    /// The places of devices that were removed, as a set of bits; they are all `missing`.
    pub gone: u16,
    /// Devices that are to be removed: nothing new is to lie on them.
    pub leaving: u16,
    /// Devices that are kept to take the place of one that is lost, by themselves.
    pub spare: u16,
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
            missing: 0,
            fresh: 0,
            returning: 0,
            born: 0,
            gone: 0,
            leaving: 0,
            spare: 0,
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
