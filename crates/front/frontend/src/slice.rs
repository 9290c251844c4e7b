//! Slices of drives: small drives on which a workload behaves as on the whole drive.
//!
//! Write amplification depends on shares: the share of the drive that holds data, the share that
//! the workload overwrites, and the spare of the drive. A slice keeps these shares, and the map
//! unit, the pages and the policies of the drive. Its size follows from the data of the workload.
//! Its blocks are shorter, so that it has [`UNITS`] reclaim units if possible, and its write buffer
//! is smaller in proportion. It has fewer dies only if reclaim units would be too few otherwise.

use hostftl_core::SECTOR;
use hostftl_drives::DriveSpec;
use hostftl_sim::{Export, Stack};
use serde::Serialize;

use crate::question::stack;
use crate::wrong::Wrong;

/// Number of reclaim units of a slice. With more, write amplification changes little.
const UNITS: u64 = 512;
/// Map units that a write buffer holds at least, if parts of units merge in it.
const MERGED_UNITS: u64 = 4;

/// Parses the share of the exported capacity that is data of the workload, and returns thousandths.
///
/// # Errors
/// The accepted form.
pub fn hot(text: &str) -> Result<u16, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse::<f64>().ok();
    let percent = percent.filter(|it| (0.1..=100.0).contains(it));
    let wrong =
        || format!("`{text}` is not a share; write a percentage from 0.1% to 100%, as in 20%");
    percent.map(|it| (it * 10.0).round() as u16).ok_or_else(wrong)
}

/// A slice of a drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slice {
    /// Text of the slice: the drive with options.
    pub drive: String,
    /// Exported capacity of the whole drive in bytes.
    pub drive_bytes: u64,
    /// Exported capacity of the slice in bytes.
    pub slice_bytes: u64,
    /// Reclaim units of the slice; `None` for a device without them.
    pub reclaim_units: Option<u64>,
    /// Dies of the slice.
    pub dies: u32,
    /// Dies of the whole drive.
    pub drive_dies: u32,
    /// Share of the exported capacity that is data of the workload.
    pub hot: f64,
}

/// Options that make a drive a slice.
struct Options {
    text: String,
    units: u64,
}

impl Slice {
    /// Returns the slice of the drive `name` on which `footprint` bytes of data are the share `hot`
    /// of the exported capacity. `real` is the capacity of the whole drive in bytes, if that is not
    /// the capacity of the model. The slice is the whole drive if that is smaller, or raw, because
    /// layers of raw drives work with its segments.
    ///
    /// # Errors
    /// If the drive is unknown, or is a stack of several devices.
    pub fn new(
        name: &str,
        footprint: u64,
        hot: f64,
        export: Export,
        real: Option<u64>,
    ) -> Result<(Self, Stack), Wrong> {
        let whole = stack(name)?;
        if whole.devices.len() > 1 {
            let why = "a slice is of one drive; compare takes stacks of several without --hot";
            return Err(Wrong::usage(format!("{name}: {why}")));
        }
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        let (model, all) = (bytes(whole.sectors()), whole.devices[0].dies());
        let nominal = whole.devices[0].flash().and_then(|it| it.nominal).map(bytes);
        let drive_bytes = real.or(nominal).unwrap_or(model);
        // One more block, because exported capacities are rounded down to blocks.
        let exported = footprint as f64 / hot + f64::from(hostftl_core::SECTORS_PER_BLOCK) * 512.0;
        let share = bytes(export.sectors(&whole, whole.sectors())) as f64 / model as f64;
        let wanted = (exported / share).ceil() as u64;
        let about = |drive: &str, made: &Stack, reclaim_units| {
            let slice_bytes = bytes(made.sectors());
            let hot = footprint as f64 / (slice_bytes as f64 * share);
            let (drive, dies) = (drive.to_owned(), made.devices[0].dies());
            Slice { drive, drive_bytes, slice_bytes, reclaim_units, dies, drive_dies: all, hot }
        };
        let Some(spec) =
            whole.devices[0].flash().filter(|it| it.zoned.is_none() && wanted < drive_bytes)
        else {
            let units = whole.devices[0].flash().map(|it| u64::from(it.shape.blocks));
            return Ok((about(name, &whole, units), whole));
        };
        let found = options(spec, &whole.devices[0].parameters(), wanted, drive_bytes);
        let text = format!("{name}{}", found.text);
        let made = stack(&text)?;
        Ok((about(&text, &made, Some(found.units)), made))
    }
}

/// Returns the options for a slice of `spec` that exports `bytes` of the drive's `real` bytes.
fn options(spec: &DriveSpec, keys: &[(String, String)], bytes: u64, real: u64) -> Options {
    let shape = &spec.shape;
    let key = |name: &str| {
        let found = keys.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.parse::<u64>().ok()).unwrap_or(1)
    };
    let unit = u64::from(spec.map_unit);
    let bytes = bytes.next_multiple_of(unit * SECTOR as u64);
    let mut text = format!(":capacity={bytes}");
    let flash = bytes as f64 * (shape.sectors() as f64 / spec.exported as f64);
    let row = u64::from(shape.row_sectors) * SECTOR as u64;
    // A block is a multiple of the rows of a map unit, and at least two rows.
    let step = u64::from(spec.rows_per_unit());
    let least = step.max(2);
    let units = UNITS.min((real as f64 / bytes as f64 * f64::from(shape.blocks)) as u64).max(64);
    let (mut lanes, mut ways, mut dies) = (u64::from(shape.lanes()), key("ways"), key("dies"));
    let mut channels = key("channels");
    let rows = |lanes: u64| (flash / (units * row * lanes) as f64) as u64 / step * step;
    // A stripe over several dies is one unit of work that a slice must keep.
    let is_plain = u64::from(shape.stripe) <= key("planes");
    while rows(lanes) < least && is_plain && lanes > 1 {
        let larger = [&mut ways, &mut dies, &mut channels].into_iter().find(|it| **it % 2 == 0);
        let Some(count) = larger else { break };
        (*count, lanes) = (*count / 2, lanes / 2);
    }
    for (name, count) in [("channels", channels), ("ways", ways), ("dies", dies)] {
        if count != key(name) {
            text += &format!(":{name}={count}");
        }
    }
    let pages = rows(lanes).clamp(least, u64::from(shape.rows).max(least));
    text += &format!(":pages={pages}");
    // The power budget and the host interface are shared by all dies.
    let dies_share = lanes as f64 / f64::from(shape.lanes());
    for (name, factor) in
        [("program_dies", dies_share), ("link_mbs", dies_share), ("command_us", 1.0 / dies_share)]
    {
        let given = keys.iter().find(|(known, _)| known == name);
        let given = given.and_then(|(_, value)| value.parse::<f64>().ok());
        if let Some(value) = given.filter(|_| dies_share < 1.0) {
            let scaled = value * factor;
            let scaled = if name == "program_dies" { scaled.ceil() } else { scaled };
            text += &format!(":{name}={scaled}");
        }
    }
    // The model of a real drive scales the effect of its buffer itself.
    if spec.write_buffer > 0 && spec.nominal.is_none() {
        let scaled = (spec.write_buffer as f64 * bytes as f64 / real as f64) as u64;
        let merged = if spec.merge { MERGED_UNITS * unit } else { 0 };
        let shared = if spec.units_per_row() > 1 { lanes * row / SECTOR as u64 } else { 0 };
        let sectors = scaled.max(merged).max(shared).max(unit).min(spec.write_buffer);
        text += &format!(":write_buffer_kib={}", (sectors * SECTOR as u64).div_ceil(1024));
    }
    Options { text, units: (flash / (pages * row * lanes) as f64).ceil() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(name: &str, footprint: u64, hot: f64) -> Slice {
        Slice::new(name, footprint, hot, Export::Usual, None).expect("a slice").0
    }

    #[test]
    fn a_slice_has_enough_reclaim_units_and_the_share_of_hot_data() {
        for (footprint, hot) in [(512 << 20, 0.7), (64 << 20, 0.7), (64 << 20, 0.05)] {
            let it = slice("qlc-64k", footprint, hot);
            assert!((it.hot / hot - 1.0).abs() < 0.01, "{it:?}");
            assert!(it.reclaim_units.is_some_and(|units| (480..=1024).contains(&units)), "{it:?}");
            assert_eq!(it.drive_bytes, 32 << 30);
        }
    }

    #[test]
    fn dies_are_removed_only_where_reclaim_units_would_be_too_few() {
        let large = slice("qlc-64k", 4 << 30, 0.7);
        assert_eq!(large.dies, large.drive_dies);
        let small = slice("qlc-64k", 64 << 20, 0.7);
        assert!(small.dies < small.drive_dies, "{small:?}");
        let whole = slice("qlc-64k:capacity=64m", 64 << 20, 0.7);
        assert_eq!((whole.drive.as_str(), whole.slice_bytes), ("qlc-64k:capacity=64m", 64 << 20));
    }
}
