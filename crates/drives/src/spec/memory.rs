//! The keys of a storage-class memory: `kind = "scm"`.

use hostftl_core::SECTOR;
use serde::Deserialize;
use toml::Spanned;

use super::error::DriveError;
use super::file::{Fault, capacity, optional, within};
use super::text::Text;
use crate::scm::ScmSpec;

/// Sectors of a KiB.
const KIB: u32 = 1024 / SECTOR as u32;

/// The file's keys.
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

/// The memory that a text describes.
///
/// # Errors
/// The line or the option that is wrong, and why.
pub fn spec(text: &Text) -> Result<ScmSpec, DriveError> {
    let file: File = toml::from_str(&text.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        text.fault(at, error.message().replace('\n', " "))
    })?;
    file.spec(&text.name).map_err(|(at, why)| text.fault(at, why))
}

impl File {
    fn spec(&self, name: &str) -> Result<ScmSpec, Fault> {
        let at = self.capacity.span().start;
        let wrong = |why: &str| (at, why.to_owned());
        let page = optional("page_kib", &self.page_kib, 1, 1024, 16)? * KIB;
        let page_bytes = u64::from(page) * SECTOR as u64;
        let bytes = capacity(self.capacity.get_ref(), (page_bytes, "pages"), 44);
        let pages = bytes.map_err(|why| (at, why))? / page_bytes;
        let share = optional("spare_percent", &self.spare_percent, 0.0, 90.0, 0.0)?;
        let spare = (pages as f64 * share / 100.0).ceil() as u64;
        if pages + spare > u64::from(u32::MAX) {
            return Err(wrong("more than 2^32 pages: make them larger"));
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
