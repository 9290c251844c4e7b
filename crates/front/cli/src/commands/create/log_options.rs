//! Options of `create` for the layer `log`: redundancy, export size, memory and journal.

use hostftl_layers::LayerConfig;
use hostftl_volume::CreateSpec;

use crate::failure::Failure;
use crate::units::bytes;

/// Options that set parameters of the layer `log`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LogOptions {
    /// Number of parity chunks per stripe of the layer log: 1 needs three devices, 2 needs four
    /// [default: 1 if given without a number]
    #[arg(long, value_name = "CHUNKS", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=2))]
    parity: Option<u8>,
    /// Mirror two devices with the layer log
    #[arg(long, conflicts_with = "parity")]
    mirror: bool,
    /// RAID level of the layer log: 1 is --mirror, 5 is --parity, 6 is --parity 2
    #[arg(long, value_name = "1|5|6", conflicts_with_all = ["parity", "mirror"])]
    level: Option<u8>,
    /// Reduce the export of the layer log by the space of one device, so that redundancy returns
    /// after a loss without a spare device (virtual hot capacity)
    #[arg(long, conflicts_with = "logical_size")]
    vhc: bool,
    /// Memory for the map of the layer log [default: all of it up to 96M, more for larger volumes]
    #[arg(long, value_name = "SIZE")]
    map_memory: Option<String>,
    /// Segment length of the layer log on each device, ideally the erase unit
    #[arg(long, value_name = "SIZE")]
    reclaim_unit: Option<String>,
    /// Export size of the layer log; may exceed the capacity if the data compresses
    #[arg(long, value_name = "SIZE")]
    logical_size: Option<String>,
    /// Device that absorbs flushes of the layer log (small and fast), so that stripes are still
    /// written full
    ///
    /// A file that does not exist is created with 64 MiB.
    #[arg(long, value_name = "DEVICE")]
    journal: Option<String>,
}

impl LogOptions {
    /// Sets the given parameters, and appends `journal` to `devices`. `complete` devices, those
    /// of `--drive`, include it already.
    pub(super) fn apply(
        &self,
        layer: &mut LayerConfig,
        (devices, journal): (&mut Vec<String>, Option<String>),
        complete: bool,
    ) -> Result<(), String> {
        let (parity, mirror) = match self.level {
            None => (self.parity, self.mirror),
            Some(1) => (None, true),
            Some(5) => (Some(1), false),
            Some(6) => (Some(2), false),
            Some(10) => {
                return Err(
                    "log has no level 10; with four devices --level 6 stores as much, and \
                            any two may fail"
                        .into(),
                );
            }
            Some(level) => return Err(format!("no level {level}; use 1, 5 or 6")),
        };
        match (parity, mirror, devices.len()) {
            (Some(1), _, 0..3) => {
                return Err("--parity needs three devices; use --mirror for two".into());
            }
            (Some(2..), _, 0..4) => return Err("--parity 2 needs four devices".into()),
            (_, true, devices) if devices != 2 => {
                return Err(format!("--mirror needs two devices, not {devices}; see --parity"));
            }
            (None, false, _) => {}
            (Some(2..), ..) => layer.set("parity", "2")?,
            _ => layer.set("parity", "yes")?,
        }
        set(layer, "map-memory", &self.map_memory)?;
        set(layer, "reclaim-unit", &self.reclaim_unit)?;
        set(layer, "logical-size", &self.logical_size)?;
        match journal {
            Some(journal) => {
                devices.push(journal);
                layer.set("journal", "yes")
            }
            None if layer.log.journal && !complete => {
                Err("log:journal=yes needs a device; add --journal DEVICE".into())
            }
            None => Ok(()),
        }
    }

    /// Returns each option, the parameter of the layer that it sets, and whether it is given.
    pub(super) fn given(&self) -> [(&'static str, &'static str, bool); 8] {
        [
            ("--parity", "parity", self.parity.is_some()),
            ("--mirror", "parity", self.mirror),
            ("--level", "parity", self.level.is_some()),
            ("--vhc", "logical-size", self.vhc),
            ("--map-memory", "map-memory", self.map_memory.is_some()),
            ("--reclaim-unit", "reclaim-unit", self.reclaim_unit.is_some()),
            ("--logical-size", "logical-size", self.logical_size.is_some()),
            ("--journal", "journal", self.journal.is_some()),
        ]
    }

    /// Returns the device of `--journal`.
    pub(super) fn journal(&self) -> Option<String> {
        self.journal.clone()
    }

    /// With `--vhc` limits the export, and returns a note about it.
    pub(super) fn reserve_device(&self, spec: &mut CreateSpec) -> Result<Option<String>, Failure> {
        if !self.vhc {
            return Ok(None);
        }
        let exported = bytes(spec.reserve_device()?);
        let why = "redundancy returns after the loss of any one device";
        Ok(Some(format!("export limited to {exported}, so that {why}")))
    }
}

/// Sets a parameter if its option is given.
fn set(layer: &mut LayerConfig, key: &str, value: &Option<String>) -> Result<(), String> {
    value.as_ref().map_or(Ok(()), |value| layer.set(key, value))
}
