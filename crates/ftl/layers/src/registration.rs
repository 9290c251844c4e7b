//! Registrations: the single description of each layer for the registry, the command line, volumes
//! and chaos.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

use hostftl_core::{DeviceInfo, Layer, Payload};

use crate::about::About;
use crate::chaos::Chaos;
use crate::config::{LayerConfig, Mode};
use crate::effect::{Effect, Usage};
use crate::kind::LayerKind;
use crate::parameter::Parameter;
use crate::plan::{Plan, PlanError};
use crate::promises::Promises;

/// A running layer, with functions that only some layers support.
pub trait Registered: Layer + Debug + Send {
    /// Returns the CRC-32C of the map, for tests of recovery, or `None` if the layer does not
    /// support it.
    fn map_crc(&self) -> Option<u32> {
        None
    }

    /// Returns the number of pages that each rule chose; see [`crate::AnyLayer::rules`].
    fn rules(&self) -> [u64; 3] {
        [0; 3]
    }
}

/// The devices that a layer works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// One block device.
    Block,
    /// One block device that reports its next victim.
    Hinting,
    /// One zoned device.
    Zoned,
    /// One to sixteen devices, all block devices or all zoned.
    Array,
    /// A fast block device and a slow one.
    FastAndSlow,
    /// One to four block devices.
    Few,
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Devices::Block => "one block device",
            Devices::Hinting => "one block device that reports its next GC victim",
            Devices::Zoned => "one zoned device",
            Devices::Array => "1 to 16 block devices or zoned devices",
            Devices::FastAndSlow => "a fast block device and a slow one",
            Devices::Few => "1 to 4 block devices",
        })
    }
}

/// Function that creates a layer; see [`crate::AnyLayer::new`].
pub(crate) type Make =
    fn(&LayerConfig, &[DeviceInfo], Vec<Payload>, Mode) -> Result<Box<dyn Registered>, PlanError>;

/// The description of a layer.
#[derive(Debug)]
pub struct Registration {
    /// The kind of layer.
    pub kind: LayerKind,
    /// The name on the command line, in reports and on media.
    pub name: &'static str,
    /// The description for users.
    pub about: About,
    /// Version of the format on media. Any change of a byte or its meaning must increment it;
    /// volumes of another version are refused. `crates/check/chaos/tests/golden.rs` detects a
    /// missing increment.
    pub format: u32,
    /// The devices that the layer works on.
    pub devices: Devices,
    /// The layer's parameters, in the order in which volumes store them.
    pub parameters: &'static [Parameter],
    /// Checks the effect of the parameter with a key, see [`crate::effect`].
    pub effect: fn(&LayerConfig, &str, &Usage) -> Effect,
    /// Sets defaults that differ from those of other layers.
    pub defaults: fn(&mut LayerConfig),
    /// Whether the layer reads its metadata back while it serves requests.
    pub reads_metadata: bool,
    /// The layer's promises.
    pub promises: Promises,
    /// Returns the resources and limits of a configuration over devices, or the reason why it is
    /// impossible.
    pub plan: fn(&LayerConfig, &[DeviceInfo]) -> Result<Plan, PlanError>,
    /// Creates the layer.
    pub new: Make,
    /// Choices of a chaos run for the layer.
    pub chaos: Chaos,
}

impl Registration {
    /// Returns the parameter with a name.
    pub fn parameter(&self, key: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.key == key)
    }
}
