//! One layer, whichever it is: chosen when a stack is opened, never per request.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use hostftl_core::{Counters, Credits, DeviceInfo, Input, Layer, Limits, Nanos, Out, Payload};

use crate::exerciser::Exerciser;
use crate::hard::Hard;
use crate::passthrough::Passthrough;

/// The layers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// No translation.
    Passthrough,
    /// Small writes are gathered into superpages; every sector is mapped.
    Hard,
    /// The test layer that uses every command; no user may choose it.
    Exerciser,
}

impl LayerKind {
    /// All of them that a user may choose.
    pub const ALL: &'static [LayerKind] = &[LayerKind::Passthrough, LayerKind::Hard];

    /// The name in the CLI, in reports and on media.
    pub const fn name(self) -> &'static str {
        match self {
            LayerKind::Passthrough => "passthrough",
            LayerKind::Hard => "hard",
            LayerKind::Exerciser => "exerciser",
        }
    }
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LayerKind {
    type Err = ();

    /// Accepts a name from [`LayerKind::name`], and `none` for passthrough.
    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "none" => Ok(LayerKind::Passthrough),
            _ => Self::ALL.iter().copied().find(|kind| kind.name() == name).ok_or(()),
        }
    }
}

/// What a layer is made from. The same values must be given each time a volume is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerConfig {
    /// Which layer.
    pub kind: LayerKind,
    /// The unit in which the layer writes, in sectors; 128 (64 KiB) by default.
    pub superpage: u32,
    /// Share of the device that is kept spare, in thousandths; 70 by default.
    pub spare_permille: u32,
    /// How long a command may take before it is abandoned, in ns; 0 = for ever.
    pub deadline: Nanos,
    /// The volume, so that metadata of another is never taken for its own.
    pub uuid: [u8; 16],
}

impl LayerConfig {
    /// `kind` with every other value at its default.
    pub fn new(kind: LayerKind) -> Self {
        LayerConfig { kind, superpage: 128, spare_permille: 70, deadline: 0, uuid: [0; 16] }
    }
}

/// How a layer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Write an empty volume's metadata first.
    Format,
    /// Recover what the devices hold.
    Open,
}

/// What a configuration needs and gives, known before anything is allocated or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the host will see.
    pub limits: Limits,
    /// How many payload buffers the layer holds for itself.
    pub buffers: u32,
    /// The length of each, in sectors.
    pub buffer_sectors: u32,
    /// Bytes of map in host memory.
    pub map_bytes: u64,
}

/// Why a configuration is impossible, in words for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError(pub &'static str);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One layer of any kind. Driver code takes this type and nothing else.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one per stack, and it is never moved")]
pub enum AnyLayer {
    /// See [`LayerKind::Passthrough`].
    Passthrough(Passthrough),
    /// See [`LayerKind::Hard`].
    Hard(Hard),
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
            LayerKind::Exerciser => AnyLayer::Exerciser(Exerciser::new(plan, devices, buffers)),
        })
    }
}

macro_rules! each {
    ($self:ident, $layer:ident => $body:expr) => {
        match $self {
            AnyLayer::Passthrough($layer) => $body,
            AnyLayer::Hard($layer) => $body,
            AnyLayer::Exerciser($layer) => $body,
        }
    };
}

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

    fn map_bytes(&self) -> u64 {
        each!(self, layer => layer.map_bytes())
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
