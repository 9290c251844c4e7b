//! One parameter of a layer: its name and help, how a word sets it, and the word that it has.
//!
//! A layer's parameters stand in its registration, in the order in which volumes keep them.

use alloc::format;
use alloc::string::String;

use hostftl_core::{SECTOR, Size};

use crate::config::LayerConfig;

/// See the module text.
#[derive(Debug)]
pub struct Parameter {
    /// The name, as in `KEY=VALUE`.
    pub key: &'static str,
    /// What stands for the value in help, as `8k..=1m`, `4k..` or `1..=50`, the range, or
    /// `yes|no`.
    pub value: &'static str,
    /// What it is, and what holds where it is not set.
    pub about: &'static str,
    /// Sets it from its word. The error says what words would be right, in the form `use …`.
    pub set: fn(&mut LayerConfig, &str) -> Result<(), &'static str>,
    /// The word that sets it as it is; `None` where it is not set and no word says so.
    pub get: fn(&LayerConfig) -> Option<String>,
}

/// The unit in which a layer writes. A layer says in words of its own what that is to it.
pub(crate) const SUPERPAGE: Parameter = Parameter {
    key: "superpage",
    value: "8k..=1m",
    about: "the unit in which the layer writes",
    set: |config, word| short(word).map(|sectors| config.superpage = sectors),
    get: |config| Some(sectors_text(config.superpage.into())),
};

/// The share of the devices that a layer keeps spare.
pub(crate) const SPARE: Parameter = Parameter {
    key: "spare",
    value: "0..=90",
    about: "over-provisioning: the percentage of the devices that is kept free for GC",
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

/// A size in whole sectors, as a number of them.
pub(crate) fn sectors(word: &str) -> Option<u64> {
    Some(in_units(word, SECTOR as u64)? / SECTOR as u64)
}

/// A size in whole units of so many bytes, as [`Size::whole`] rounds it, or nothing.
pub(crate) fn in_units(word: &str, unit: u64) -> Option<u64> {
    let size = Size::parse(word)?;
    if size.bytes() == 0 { Some(0) } else { size.whole(unit).ok() }
}

/// As [`sectors`], for what is short.
pub(crate) fn short(word: &str) -> Result<u32, &'static str> {
    let short = sectors(word).and_then(|sectors| u32::try_from(sectors).ok());
    short.ok_or("a size in whole sectors, as 64k")
}

/// So many sectors, as [`sectors`] reads them.
pub(crate) fn sectors_text(sectors: u64) -> String {
    size_text(sectors * SECTOR as u64)
}

/// Bytes, as [`Size`] reads them.
pub(crate) fn size(word: &str) -> Option<u64> {
    Size::parse(word).map(Size::bytes)
}

/// A size as [`size`] reads it, in the largest unit that it is a multiple of.
pub(crate) fn size_text(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        30..64 => format!("{}g", bytes >> 30),
        20..30 => format!("{}m", bytes >> 20),
        10..20 => format!("{}k", bytes >> 10),
        _ => format!("{bytes}"),
    }
}

/// `yes` or `no`.
pub(crate) fn truth(word: &str) -> Result<bool, &'static str> {
    match word {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("yes or no"),
    }
}

/// As [`truth`] reads it.
pub(crate) fn truth_text(truth: bool) -> String {
    String::from(if truth { "yes" } else { "no" })
}
