//! What a layer tells of itself, once: the one place that the registry, the command line, volumes
//! and chaos ask.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{self, Debug};

use hostftl_core::{DeviceInfo, Layer, Payload};

use crate::about::About;
use crate::chaos::Chaos;
use crate::config::{LayerConfig, Mode};
use crate::kind::LayerKind;
use crate::parameter::Parameter;
use crate::plan::{Plan, PlanError};
use crate::roots::Roots;

/// A layer that works, and what only some layers can tell.
pub trait Registered: Layer + Debug + Send {
    /// The CRC-32C of the map, for tests of recovery; `None` when the layer does not tell.
    fn map_crc(&self) -> Option<u32> {
        None
    }

    /// By which rule pages were taken; see [`crate::AnyLayer::rules`].
    fn rules(&self) -> [u64; 3] {
        [0; 3]
    }
}

/// The devices that a layer works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// One block device.
    Block,
    /// One block device that tells what it collects next.
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
            Devices::Hinting => "one block device that tells what it collects next",
            Devices::Zoned => "one zoned device",
            Devices::Array => "1 to 16 block devices or zoned devices",
            Devices::FastAndSlow => "a fast block device and a slow one",
            Devices::Few => "1 to 4 block devices",
        })
    }
}

/// What a layer promises beside its column of the matrix in docs/SEMANTICS.md.
#[derive(Debug)]
pub struct Promises {
    /// How many devices a volume can do without.
    pub does_without: fn(&LayerConfig) -> u32,
    /// Whether it knows what was lost with a device, and reads all else. A volume is then looked at
    /// without that device, to say what would be lost with it.
    pub knows_lost: bool,
    /// Whether reads of sectors that no host wrote reach the devices. They are made zeros then when
    /// a volume is made.
    pub reads_unwritten: bool,
    /// Whether somebody hears why before a read of the host fails.
    pub tells_corrupt: bool,
    /// How its roots are read by others; none where devices neither come to a volume nor leave it.
    pub roots: Option<Roots>,
}

impl Promises {
    /// Whether devices may come to a volume and leave it.
    pub fn changes(&self) -> bool {
        self.roots.is_some()
    }

    /// What a layer over one device promises.
    pub const USUAL: Promises = Promises {
        does_without: |_| 0,
        knows_lost: false,
        reads_unwritten: false,
        tells_corrupt: false,
        roots: None,
    };
}

/// The function that makes a layer; see [`crate::AnyLayer::new`].
pub(crate) type Make =
    fn(&LayerConfig, &[DeviceInfo], Vec<Payload>, Mode) -> Result<Box<dyn Registered>, PlanError>;

/// See the module text.
#[derive(Debug)]
pub struct Registration {
    /// Which layer it is.
    pub kind: LayerKind,
    /// The name in the command line, in reports and on media.
    pub name: &'static str,
    /// What it is, in words.
    pub about: About,
    /// The version of what it writes on media. Whoever changes a byte of that, or what one means,
    /// adds one to it: volumes of another version are refused. `crates/check/chaos/tests/golden.rs`
    /// notices a change without it.
    pub format: u32,
    /// The devices that it works on.
    pub devices: Devices,
    /// What it can be told, in the order in which volumes keep it.
    pub parameters: &'static [Parameter],
    /// Changes what is not as with other layers when nothing is said.
    pub defaults: fn(&mut LayerConfig),
    /// Whether it reads back, while it serves, the metadata that it wrote.
    pub reads_metadata: bool,
    /// What it promises.
    pub promises: Promises,
    /// What a configuration over devices needs and gives, its limits among that; or why it can't
    /// work on them.
    pub plan: fn(&LayerConfig, &[DeviceInfo]) -> Result<Plan, PlanError>,
    /// Makes the layer.
    pub new: Make,
    /// What a chaos run chooses for it.
    pub chaos: Chaos,
}

impl Registration {
    /// The parameter of that name.
    pub fn parameter(&self, key: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.key == key)
    }
}
