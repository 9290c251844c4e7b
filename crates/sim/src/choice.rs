//! A layer as the user names it, and how it is configured on a drive.

use hostftl_drives::DriveSpec;
use hostftl_layers::{LayerConfig, LayerKind};

/// The least unit in which a layer writes, in sectors, unless the user says otherwise: 64 KiB.
const LEAST_SUPERPAGE: u32 = 128;

/// A layer with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerChoice {
    /// What rows call it.
    pub name: String,
    config: LayerConfig,
    /// Whether the user chose its superpage.
    sized: bool,
}

impl From<LayerKind> for LayerChoice {
    fn from(kind: LayerKind) -> Self {
        let config = LayerConfig::new(kind);
        LayerChoice { name: kind.name().to_owned(), config, sized: false }
    }
}

impl LayerChoice {
    /// Reads `NAME[:KEY=VALUE]…`, as in `hard:spare=10`.
    ///
    /// # Errors
    /// What is wrong and what would be right, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let config = LayerConfig::parse(text)?;
        let name = match text {
            "none" => config.kind.name().to_owned(),
            _ => text.to_owned(),
        };
        Ok(LayerChoice { name, config, sized: text.contains(":superpage=") })
    }

    /// Which layer.
    pub fn kind(&self) -> LayerKind {
        self.config.kind
    }

    /// The configuration on `drive`: it writes in whole map units of the drive, of 64 KiB or more.
    pub fn on(&self, drive: &DriveSpec) -> LayerConfig {
        let mut config = self.config.clone();
        if !self.sized {
            config.superpage = LEAST_SUPERPAGE.next_multiple_of(drive.device_info().map_unit);
        }
        config
    }
}
