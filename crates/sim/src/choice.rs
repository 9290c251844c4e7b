//! A layer as the user names it, and how it is configured on a drive.

use hostftl_core::DeviceInfo;
use hostftl_drives::DriveSpec;
use hostftl_layers::{LayerConfig, LayerKind};

/// The least unit in which a layer writes, in sectors, unless the user says otherwise: 64 KiB.
const LEAST_SUPERPAGE: u32 = 128;

/// A layer with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerChoice {
    /// What rows call it.
    pub name: String,
    config: LayerConfig,
    /// The drive of the layer's journal.
    journal: Option<DriveSpec>,
    /// Whether the user chose its superpage.
    sized: bool,
}

impl From<LayerKind> for LayerChoice {
    fn from(kind: LayerKind) -> Self {
        let config = LayerConfig::new(kind);
        LayerChoice { name: kind.name().to_owned(), config, journal: None, sized: false }
    }
}

impl LayerChoice {
    /// Reads `NAME[:KEY=VALUE]…`, as in `hard:spare=10`. The journal of a log is the name of a
    /// drive model or its file, as in `log:journal=slc-1g`.
    ///
    /// # Errors
    /// What is wrong and what would be right, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let journal = text.split(':').find_map(|word| word.strip_prefix("journal="));
        let journal = journal.filter(|drive| *drive != "no");
        let config = match journal {
            None => LayerConfig::parse(text)?,
            Some(drive) => {
                LayerConfig::parse(&text.replace(&format!("journal={drive}"), "journal=yes"))?
            }
        };
        let journal = journal.map(DriveSpec::find).transpose();
        let journal = journal.map_err(|why| format!("the journal of {text}: {why}"))?;
        let name = match text {
            "none" => config.kind.name().to_owned(),
            _ => text.to_owned(),
        };
        Ok(LayerChoice { name, config, journal, sized: text.contains(":superpage=") })
    }

    /// Which layer.
    pub fn kind(&self) -> LayerKind {
        self.config.kind
    }

    /// The devices on `drive`: it, and behind it the journal's.
    pub fn drives(&self, drive: &DriveSpec) -> Vec<DriveSpec> {
        [drive].into_iter().chain(&self.journal).cloned().collect()
    }

    /// What the layer is told of them.
    pub fn devices(&self, drive: &DriveSpec) -> Vec<DeviceInfo> {
        [drive].into_iter().chain(&self.journal).map(DriveSpec::device_info).collect()
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
