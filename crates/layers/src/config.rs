//! Which layer, with what parameters, and what that needs and gives.

use core::fmt;
use core::str::FromStr;

use hostftl_core::{Limits, Nanos};

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
