//! One layer, whichever it is: chosen when a stack is opened, never per request.

use alloc::vec::Vec;

use hostftl_core::{
    Counters, Credits, DeviceInfo, Few, Gauges, Input, Layer, Limits, Nanos, Out, Payload,
};

use crate::config::{LayerConfig, LayerKind, Mode, Plan, PlanError};
use crate::exerciser::Exerciser;
use crate::hard::Hard;
use crate::log::Log;
use crate::mhatl::Mhatl;
use crate::passthrough::Passthrough;
use crate::scrambler::Scrambler;
use crate::shatl::{HatlAuto, Shatl};
use crate::tier::Tier;
use crate::zones::Zones;

/// One layer of any kind. Driver code takes this type and nothing else.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one per stack, and it is never moved")]
pub enum AnyLayer {
    /// See [`LayerKind::Passthrough`].
    Passthrough(Passthrough),
    /// See [`LayerKind::Hard`].
    Hard(Hard),
    /// See [`LayerKind::Mhatl`].
    Mhatl(Mhatl),
    /// See [`LayerKind::Shatl`].
    Shatl(Shatl),
    /// See [`LayerKind::HatlAuto`].
    HatlAuto(HatlAuto),
    /// See [`LayerKind::Scrambler`].
    Scrambler(Scrambler),
    /// See [`LayerKind::Log`].
    Log(Log),
    /// See [`LayerKind::Tier`].
    Tier(Tier),
    /// See [`LayerKind::Pblk`].
    Pblk(Zones),
    /// See [`LayerKind::Rrpc`].
    Rrpc(Zones),
    /// See [`LayerKind::Exerciser`].
    Exerciser(Exerciser),
}

impl AnyLayer {
    /// What `config` over `devices` needs and gives.
    ///
    /// # Errors
    /// When the layer can't work on these devices.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        match config.kind {
            LayerKind::Passthrough => Passthrough::plan(devices),
            LayerKind::Hard => Hard::plan(config, devices),
            LayerKind::Mhatl => Mhatl::plan(config, devices),
            LayerKind::Shatl => Shatl::plan(config, devices),
            LayerKind::HatlAuto => HatlAuto::plan(config, devices),
            LayerKind::Scrambler => Scrambler::plan(config, devices),
            LayerKind::Log => Log::plan(config, devices),
            LayerKind::Tier => Tier::plan(config, devices),
            LayerKind::Pblk | LayerKind::Rrpc => Zones::plan(config, devices),
            LayerKind::Exerciser => Exerciser::plan(devices),
        }
    }

    /// The layer, ready for its first `Input::Timer`. `buffers` are as [`AnyLayer::plan`] asked.
    ///
    /// # Errors
    /// As [`AnyLayer::plan`].
    ///
    /// # Panics
    /// When the buffers are not those that were asked for.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let plan = Self::plan(config, devices)?;
        assert_eq!(buffers.len(), plan.buffers as usize, "a layer gets the buffers it asked for");
        assert!(buffers.iter().all(|buffer| buffer.sectors() == plan.buffer_sectors));
        Ok(match config.kind {
            LayerKind::Passthrough => AnyLayer::Passthrough(Passthrough::new(config, plan)),
            LayerKind::Hard => AnyLayer::Hard(Hard::new(config, devices, buffers, mode)?),
            LayerKind::Mhatl => AnyLayer::Mhatl(Mhatl::new(config, devices, buffers, mode)?),
            LayerKind::Shatl => AnyLayer::Shatl(Shatl::new(config, devices, buffers, mode)?),
            LayerKind::HatlAuto => {
                AnyLayer::HatlAuto(HatlAuto::new(config, devices, buffers, mode)?)
            }
            LayerKind::Scrambler => {
                AnyLayer::Scrambler(Scrambler::new(config, devices, buffers, mode)?)
            }
            LayerKind::Log => AnyLayer::Log(Log::new(config, devices, buffers, mode)?),
            LayerKind::Tier => AnyLayer::Tier(Tier::new(config, devices, buffers, mode)?),
            LayerKind::Pblk => AnyLayer::Pblk(Zones::new(config, devices, buffers, mode)?),
            LayerKind::Rrpc => AnyLayer::Rrpc(Zones::new(config, devices, buffers, mode)?),
            LayerKind::Exerciser => AnyLayer::Exerciser(Exerciser::new(plan, devices, buffers)),
        })
    }
}

macro_rules! each {
    ($self:ident, $layer:ident => $body:expr) => {
        match $self {
            AnyLayer::Passthrough($layer) => $body,
            AnyLayer::Hard($layer) => $body,
            AnyLayer::Mhatl($layer) => $body,
            AnyLayer::Shatl($layer) => $body,
            AnyLayer::HatlAuto($layer) => $body,
            AnyLayer::Scrambler($layer) => $body,
            AnyLayer::Log($layer) => $body,
            AnyLayer::Tier($layer) => $body,
            AnyLayer::Pblk($layer) | AnyLayer::Rrpc($layer) => $body,
            AnyLayer::Exerciser($layer) => $body,
        }
    };
}

impl AnyLayer {
    /// The CRC-32C of the map, for tests of recovery; `None` when the layer does not tell.
    pub fn map_crc(&self) -> Option<u32> {
        match self {
            AnyLayer::Pblk(layer) | AnyLayer::Rrpc(layer) => Some(layer.map_crc()),
            _ => None,
        }
    }
}

// Not inlined: each crate that drives layers would have to compile all of them again.
impl Layer for AnyLayer {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        each!(self, layer => layer.step(now, input, out))
    }

    fn credits(&self) -> Credits {
        each!(self, layer => layer.credits())
    }

    fn next_timer(&self) -> Option<Nanos> {
        each!(self, layer => layer.next_timer())
    }

    fn limits(&self) -> Limits {
        each!(self, layer => layer.limits())
    }

    fn counters(&self) -> Counters {
        each!(self, layer => layer.counters())
    }

    fn gauges(&self) -> Option<Gauges> {
        each!(self, layer => layer.gauges())
    }

    fn lost_devices(&self) -> u16 {
        each!(self, layer => layer.lost_devices())
    }

    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        each!(self, layer => layer.lost_ranges())
    }

    fn map_bytes(&self) -> u64 {
        each!(self, layer => layer.map_bytes())
    }

    fn facts(&self) -> Few<(&'static str, u64), 8> {
        each!(self, layer => layer.facts())
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        each!(self, layer => layer.mapped(lba, sectors))
    }

    fn has_fast_zeroes(&self) -> bool {
        each!(self, layer => layer.has_fast_zeroes())
    }

    fn idle(&self) -> bool {
        each!(self, layer => layer.idle())
    }

    fn check(&self) -> Result<(), &'static str> {
        each!(self, layer => layer.check())
    }

    fn power_off(&mut self) {
        each!(self, layer => layer.power_off())
    }
}
