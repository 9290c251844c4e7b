//! A parameter of a layer: its name, help, parser and formatter.
//!
//! The registration of a layer lists its parameters in the order in which volumes store them.

use alloc::format;
use alloc::string::String;

use hostftl_core::{SECTOR, Size};

use crate::config::LayerConfig;

/// A parameter of a layer.
#[derive(Debug)]
pub struct Parameter {
    /// The name, as in `KEY=VALUE`.
    pub key: &'static str,
    /// Placeholder for the value in help: `8k..=1m`, `4k..` or `1..=50` for a range, or `yes|no`.
    pub value: &'static str,
    /// The meaning and the default.
    pub about: &'static str,
    /// Parses and sets the value. An error describes the valid values, to be preceded by `use`.
    pub set: fn(&mut LayerConfig, &str) -> Result<(), &'static str>,
    /// Formats the value; `None` if it is at a default that no text expresses.
    pub get: fn(&LayerConfig) -> Option<String>,
}

/// The write unit of a layer. Layers override the help.
pub(crate) const SUPERPAGE: Parameter = Parameter {
    key: "superpage",
    value: "8k..=1m",
    about: "unit of writes of the layer",
    set: |config, word| short(word).map(|sectors| config.superpage = sectors),
    get: |config| Some(sectors_text(config.superpage.into())),
};

/// The over-provisioning of a layer.
pub(crate) const SPARE: Parameter = Parameter {
    key: "spare",
    value: "0..=90",
    about: "over-provisioning for GC, in percent of the devices",
    set: |config, word| {
        let permille = word.parse().ok().map(|percent: f64| percent * 10.0 + 1e-6);
        let permille = permille.filter(|it| (0.0..900.5).contains(it));
        config.spare_permille = permille.ok_or("a percentage from 0 to 90")? as u32;
        Ok(())
    },
    get: |config| {
        Some(match (config.spare_permille / 10, config.spare_permille % 10) {
            (whole, 0) => format!("{whole}"),
            (whole, tenth) => format!("{whole}.{tenth}"),
        })
    },
};

/// Parses a size in whole sectors. Returns the number of sectors.
pub(crate) fn sectors(word: &str) -> Option<u64> {
    Some(in_units(word, SECTOR as u64)? / SECTOR as u64)
}

/// Parses a size in bytes and rounds it to whole units of `unit` bytes, as [`Size::whole`] does.
pub(crate) fn in_units(word: &str, unit: u64) -> Option<u64> {
    let size = Size::parse(word)?;
    if size.bytes() == 0 { Some(0) } else { size.whole(unit).ok() }
}

/// Parses a size in whole sectors that fits 32 bits.
pub(crate) fn short(word: &str) -> Result<u32, &'static str> {
    let short = sectors(word).and_then(|sectors| u32::try_from(sectors).ok());
    short.ok_or("a size in whole sectors, such as 64k")
}

/// Formats a number of sectors for [`sectors`].
pub(crate) fn sectors_text(sectors: u64) -> String {
    size_text(sectors * SECTOR as u64)
}

/// Parses a size in bytes.
pub(crate) fn size(word: &str) -> Option<u64> {
    Size::parse(word).map(Size::bytes)
}

/// Formats a size in bytes as parameters accept it, in the largest unit that divides it.
pub fn size_text(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        30..64 => format!("{}g", bytes >> 30),
        20..30 => format!("{}m", bytes >> 20),
        10..20 => format!("{}k", bytes >> 10),
        _ => format!("{bytes}"),
    }
}

/// Parses `yes` or `no`.
pub(crate) fn truth(word: &str) -> Result<bool, &'static str> {
    match word {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("yes or no"),
    }
}

/// Formats a value for [`truth`].
pub(crate) fn truth_text(truth: bool) -> String {
    String::from(if truth { "yes" } else { "no" })
}
