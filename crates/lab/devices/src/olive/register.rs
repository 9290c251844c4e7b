//! Registration of arrays of eMMC chips.

use std::io::{self, Read, Write};
use std::sync::Arc;

use hostftl_core::{BLOCK, DeviceInfo, SECTOR};
use serde::Deserialize;
use toml::Spanned;

use super::{Olive, OliveSpec, Port, SEGMENT};
use hostftl_drives::pool::LoadError;
use hostftl_drives::{Description, Registration, SavedModel};
use hostftl_drives::{DriveError, Fault, Key, Text, capacity, key, optional};

/// eMMC chips with their own translation, behind an FPGA. Nothing is known of their flash.
pub(crate) static REGISTRATION: Registration = Registration {
    kind: "emmc",
    about: "eMMC chips with their own translation, behind an FPGA",
    is_flash: false,
    keys: &[&KEYS],
    built_in: &[("olive", include_str!("../../../../../stacks/drives/olive.toml"))],
    read,
};

/// The keys of its file besides `kind`.
const KEYS: [Key; 8] = [
    key(
        "capacity",
        "SIZE",
        "",
        "capacity that the host sees, below 128t; with access=raw, a multiple of 2m per chip",
    ),
    key("chips", "1..=256", "4", "number of eMMC chips"),
    key("buses", "1..=256", "4", "number of buses to the chips"),
    key("controllers", "1..=256", "4", "number of controllers in the FPGA"),
    key(
        "port",
        "acp|hp",
        "acp",
        "processor port for data: coherent (ACP) or high-performance (HP)",
    ),
    key("interleave_kib", "4..=1048576", "2048", "length of contiguous data per chip in KiB"),
    key(
        "access",
        "block|raw",
        "block",
        "interface; raw: each chip is a parallel unit, for rrpc and pblk",
    ),
    key(
        "writes_per_chip",
        "1..=8",
        "1",
        "writes in progress per chip; 2 reproduces the board under LightNVM",
    ),
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
    chips: Option<Spanned<u32>>,
    buses: Option<Spanned<u32>>,
    controllers: Option<Spanned<u32>>,
    port: Option<Spanned<String>>,
    interleave_kib: Option<Spanned<u32>>,
    access: Option<Spanned<String>>,
    writes_per_chip: Option<Spanned<u32>>,
}

fn read(text: &Text) -> Result<Arc<dyn Description>, DriveError> {
    let file: File = text.parse()?;
    let spec = file.spec(text.name()).map_err(|(at, why)| text.fault(at, why))?;
    Ok(Arc::new(spec))
}

impl Description for OliveSpec {
    fn registration(&self) -> &'static Registration {
        &REGISTRATION
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn device_info(&self) -> DeviceInfo {
        OliveSpec::device_info(self)
    }

    fn exported(&self) -> u64 {
        self.sectors
    }

    fn dies(&self) -> u32 {
        self.chips as u32
    }

    fn memory(&self) -> u64 {
        1 << 20
    }

    fn device(&self) -> Result<Box<dyn SavedModel>, DriveError> {
        Ok(Box::new(Olive::new(self)))
    }

    fn load(&self, mut from: &mut dyn Read) -> Result<Box<dyn SavedModel>, LoadError> {
        Ok(Box::new(Olive::load(self, &mut from)?))
    }
}

impl SavedModel for Olive {
    fn save(&self, mut out: &mut dyn Write) -> io::Result<()> {
        Olive::save(self, &mut out)
    }
}

/// Returns the value for one of two words; the first one if the key is not set.
fn word<T: Copy>(
    key: &str,
    value: &Option<Spanned<String>>,
    words: [(&str, T); 2],
) -> Result<T, Fault> {
    let Some(value) = value else { return Ok(words[0].1) };
    let found = words.iter().find(|(known, _)| known == value.get_ref());
    let [(one, _), (other, _)] = words;
    let wrong = || format!("no {key} '{}'; use {one} or {other}", value.get_ref());
    found.map(|(_, it)| *it).ok_or_else(|| (value.span().start, wrong()))
}

impl File {
    fn spec(&self, name: &str) -> Result<OliveSpec, Fault> {
        let at = self.capacity.span().start;
        let raw = word("access", &self.access, [("block", false), ("raw", true)])?;
        let count = |key, value| optional(key, value, 1, 256, 4).map(|count: u32| count as usize);
        let interleave = optional("interleave_kib", &self.interleave_kib, 4, 1 << 20, 2048)?;
        let chips: usize = count("chips", &self.chips)?;
        let units = if raw {
            (u64::from(SEGMENT) * SECTOR as u64 * chips as u64, "segments on all chips")
        } else {
            (BLOCK as u64, "blocks")
        };
        let bytes =
            capacity("capacity", self.capacity.get_ref(), units, 47).map_err(|why| (at, why))?;
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
            writes_per_chip: optional("writes_per_chip", &self.writes_per_chip, 1, 8, 1)? as usize,
            ..OliveSpec::default()
        })
    }
}
