//! Registration of storage-class memory.

use std::io::{self, Read, Write};
use std::sync::Arc;

use hostftl_core::{DeviceInfo, SECTOR};
use serde::Deserialize;
use toml::Spanned;

use super::{Scm, ScmSpec};
use hostftl_drives::pool::LoadError;
use hostftl_drives::{Description, Registration, SavedModel};
use hostftl_drives::{DriveError, Fault, Key, Text, capacity, key, optional, within};

/// Memory that is written in place.
pub(crate) static REGISTRATION: Registration = Registration {
    kind: "scm",
    about: "memory with in-place writes",
    is_flash: false,
    keys: &[&KEYS],
    built_in: &[
        ("scm-m", include_str!("../../../../../stacks/drives/scm-m.toml")),
        ("scm-s", include_str!("../../../../../stacks/drives/scm-s.toml")),
    ],
    read,
};

/// The keys of its file besides `kind`.
const KEYS: [Key; 8] = [
    key("capacity", "SIZE", "", "capacity that the host sees, below 16t, in whole pages"),
    key(
        "spare_percent",
        "0..=90",
        "0",
        "space reserved for wear levelling, in percent of the capacity",
    ),
    key("page_kib", "1..=1024", "16", "unit of wear levelling in KiB"),
    key("latency_ns", "1..=1000000000", "", "access time of a sector in ns"),
    key("bus_ns", "0..=1000000000", "", "bus time of a sector in ns"),
    key(
        "level",
        "0..=1073741824",
        "0",
        "writes of a sector between two moves of its page; 0: no levelling",
    ),
    key(
        "overwrites_only",
        "true|false",
        "false",
        "levelling by overwrites only, without writes that consist of copies of the layer",
    ),
    key("cycles", "1..=4294967295", "", "endurance of a sector in writes"),
];

/// Sectors of a KiB.
const KIB: u32 = 1024 / SECTOR as u32;

/// The keys of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "kind")]
    _kind: String,
    capacity: Spanned<String>,
    spare_percent: Option<Spanned<f64>>,
    page_kib: Option<Spanned<u32>>,
    latency_ns: Spanned<u64>,
    bus_ns: Spanned<u64>,
    level: Option<Spanned<u32>>,
    overwrites_only: Option<bool>,
    cycles: Spanned<u32>,
}

fn read(text: &Text) -> Result<Arc<dyn Description>, DriveError> {
    let file: File = text.parse()?;
    let spec = file.spec(text.name()).map_err(|(at, why)| text.fault(at, why))?;
    Ok(Arc::new(spec))
}

impl Description for ScmSpec {
    fn registration(&self) -> &'static Registration {
        &REGISTRATION
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn device_info(&self) -> DeviceInfo {
        ScmSpec::device_info(self)
    }

    fn exported(&self) -> u64 {
        ScmSpec::sectors(self)
    }

    fn sectors(&self) -> u64 {
        ScmSpec::sectors(self) + u64::from(self.spare) * u64::from(self.page)
    }

    fn cycles(&self) -> u32 {
        self.endurance.min(u32::MAX.into()) as u32
    }

    fn memory(&self) -> u64 {
        let pages = u64::from(self.pages) + u64::from(self.spare);
        pages * (4 * u64::from(self.page) + 16)
    }

    fn device(&self) -> Result<Box<dyn SavedModel>, DriveError> {
        Ok(Box::new(Scm::new(self)))
    }

    fn load(&self, mut from: &mut dyn Read) -> Result<Box<dyn SavedModel>, LoadError> {
        Ok(Box::new(Scm::load(self, &mut from)?))
    }
}

impl SavedModel for Scm {
    fn save(&self, mut out: &mut dyn Write) -> io::Result<()> {
        Scm::save(self, &mut out)
    }
}

impl File {
    fn spec(&self, name: &str) -> Result<ScmSpec, Fault> {
        let at = self.capacity.span().start;
        let wrong = |why: &str| (at, why.to_owned());
        let page = optional("page_kib", &self.page_kib, 1, 1024, 16)? * KIB;
        let page_bytes = u64::from(page) * SECTOR as u64;
        let bytes = capacity("capacity", self.capacity.get_ref(), (page_bytes, "pages"), 44);
        let pages = bytes.map_err(|why| (at, why))? / page_bytes;
        let share = optional("spare_percent", &self.spare_percent, 0.0, 90.0, 0.0)?;
        let spare = (pages as f64 * share / 100.0).ceil() as u64;
        if pages + spare > u64::from(u32::MAX) {
            return Err(wrong("more than 2^32 pages; use larger pages"));
        }
        Ok(ScmSpec {
            name: name.to_owned(),
            pages: pages as u32,
            spare: spare as u32,
            page,
            latency: within("latency_ns", &self.latency_ns, 1, 1_000_000_000)?,
            bus: within("bus_ns", &self.bus_ns, 0, 1_000_000_000)?,
            interval: optional("level", &self.level, 0, 1 << 30, 0)?,
            overwrites_only: self.overwrites_only.unwrap_or(false),
            endurance: within("cycles", &self.cycles, 1, u32::MAX)?.into(),
        })
    }
}
