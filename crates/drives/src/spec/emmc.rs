//! The keys of an array of eMMC chips: `kind = "emmc"`.

use hostftl_core::{BLOCK, SECTOR};
use serde::Deserialize;
use toml::Spanned;

use super::error::DriveError;
use super::file::{Fault, capacity, optional};
use super::text::Text;
use crate::olive::{OliveSpec, Port, SEGMENT};

/// Sectors of a KiB.
const KIB: u32 = 1024 / SECTOR as u32;

/// The file's keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "kind")]
    _kind: String,
    capacity: Spanned<String>,
    chips: Option<Spanned<u32>>,
    buses: Option<Spanned<u32>>,
    controllers: Option<Spanned<u32>>,
    port: Option<Spanned<String>>,
    interleave_kib: Option<Spanned<u32>>,
    access: Option<Spanned<String>>,
    service: Option<Spanned<String>>,
}

/// The array that a text describes.
///
/// # Errors
/// The line or the option that is wrong, and why.
pub fn spec(text: &Text) -> Result<OliveSpec, DriveError> {
    let file: File = toml::from_str(&text.text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        text.fault(at, error.message().replace('\n', " "))
    })?;
    file.spec(&text.name).map_err(|(at, why)| text.fault(at, why))
}

/// One of two words; the first when nothing is said.
fn word<T: Copy>(
    key: &str,
    value: &Option<Spanned<String>>,
    words: [(&str, T); 2],
) -> Result<T, Fault> {
    let Some(value) = value else { return Ok(words[0].1) };
    let found = words.iter().find(|(known, _)| known == value.get_ref());
    let [(one, _), (other, _)] = words;
    let wrong = || format!("no {key} '{}': use {one} or {other}", value.get_ref());
    found.map(|(_, it)| *it).ok_or_else(|| (value.span().start, wrong()))
}

impl File {
    fn spec(&self, name: &str) -> Result<OliveSpec, Fault> {
        let at = self.capacity.span().start;
        let raw = word("access", &self.access, [("block", false), ("raw", true)])?;
        let count = |key, value| optional(key, value, 1, 256, 4).map(|count: u32| count as usize);
        let interleave = optional("interleave_kib", &self.interleave_kib, 4, 1 << 20, 2048)?;
        let chips: usize = count("chips", &self.chips)?;
        let units = match raw {
            true => (u64::from(SEGMENT) * SECTOR as u64 * chips as u64, "segments on all chips"),
            false => (BLOCK as u64, "blocks"),
        };
        let bytes = capacity(self.capacity.get_ref(), units, 47).map_err(|why| (at, why))?;
        let sectors = bytes / SECTOR as u64;
        Ok(OliveSpec {
            name: name.to_owned(),
            sectors,
            chips,
            buses: count("buses", &self.buses)?,
            controllers: count("controllers", &self.controllers)?,
            port: word("port", &self.port, [("acp", Port::Acp), ("hp", Port::Hp)])?,
            interleave: interleave * KIB,
            raw,
            spread: word("service", &self.service, [("exponential", true), ("fixed", false)])?,
        })
    }
}
