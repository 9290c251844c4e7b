//! Slices of drives: small drives on which a workload behaves as on the whole drive.
//!
//! Write amplification depends on shares: the share of the drive that holds data, the share that
//! the workload overwrites, and the spare of the drive. A slice keeps these shares, and the map
//! unit, the pages and the policies of the drive. Its size follows from the data of the workload.
//! Its blocks are shorter, so that it has [`UNITS`] reclaim units, or fewer if these would have
//! less than [`MAPPED`] map units. Its write buffer is smaller in proportion. It has fewer dies
//! only if its reclaim units would be too large otherwise. Areas and tables of layers are smaller
//! in proportion.

use hostftl_core::SECTOR;
use hostftl_drives::{DriveSpec, shared_options};
use hostftl_sim::{Export, Stack, Whole};
use serde::Serialize;

use crate::question::stack;
use crate::wrong::Wrong;

/// Number of reclaim units of a slice. With more, write amplification changes little.
const UNITS: u64 = 512;
/// Number of reclaim units that a slice has even if they are small.
const LEAST_UNITS: u64 = 64;
/// Minimum number of map units of a reclaim unit. The fill of smaller ones varies more, so that
/// greedy collection finds better victims than on the whole drive: with 32 map units, write
/// amplification was 6 % lower than on a slice of eight times the size; with 128, within 1 %.
const MAPPED: u64 = 128;
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
        let mut made = stack(&text).map_err(|wrong| {
            let why = "the workload's data is too little for a slice of this drive; use a larger \
                       workload, a smaller --hot or fewer placements";
            Wrong { text: format!("{name}: {why} ({})", wrong.text), ..wrong }
        })?;
        let mut selected = vec![("drive", name.to_owned()), ("hot", format!("{}%", hot * 100.0))];
        selected.extend(real.map(|bytes| ("scale-to", bytes.to_string())));
        made.whole = Some(Whole { sectors: drive_bytes / SECTOR as u64, options: selected });
        Ok((about(&text, &made, Some(found.units)), made))
    }
}

/// Returns the options for a slice of `spec` that exports `bytes` of the drive's `real` bytes.
fn options(spec: &DriveSpec, keys: &[(String, String)], bytes: u64, real: u64) -> Options {
    let shape = &spec.shape;
    let number = |name: &str| {
        let found = keys.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.parse::<f64>().ok())
    };
    let key = |name: &str| number(name).unwrap_or(1.0) as u64;
    let unit = u64::from(spec.map_unit);
    let bytes = bytes.next_multiple_of(unit * SECTOR as u64);
    let mut text = format!(":capacity={bytes}");
    let flash = bytes as f64 * (shape.sectors() as f64 / spec.exported as f64);
    let row = u64::from(shape.row_sectors) * SECTOR as u64;
    // A block is a multiple of the rows of a map unit, and at least two rows.
    let step = u64::from(spec.rows_per_unit());
    let least = step.max(2);
    let mapped = (MAPPED * unit * SECTOR as u64) as f64;
    let reclaimed = mapped.clamp(flash / UNITS as f64, flash / LEAST_UNITS as f64);
    let (mut lanes, mut ways, mut dies) = (u64::from(shape.lanes()), key("ways"), key("dies"));
    let mut channels = key("channels");
    let rows = |lanes: u64| (reclaimed / (row * lanes) as f64) as u64 / step * step;
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
    let share = lanes as f64 / f64::from(shape.lanes());
    if spec.nominal.is_some() && share < 1.0 {
        // The share of merged writes follows from the nominal capacity.
        text += &shared_options(number, share);
    }
    if spec.nominal.is_none() && spec.write_buffer > 0 {
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
    use hostftl_layers::LayerKind;
    use hostftl_sim::{Outcome, Pace, Study, Unobserved, compare};

    use super::*;
    use crate::Question;

    fn slice(name: &str, footprint: u64, hot: f64) -> Slice {
        Slice::new(name, footprint, hot, Export::Usual, None).expect("a slice").0
    }

    #[test]
    fn a_slice_has_enough_reclaim_units_and_the_share_of_hot_data() {
        for (footprint, hot) in [(512 << 20, 0.7), (64 << 20, 0.7), (64 << 20, 0.05)] {
            let it = slice("qlc-64k", footprint, hot);
            assert!((it.hot / hot - 1.0).abs() < 0.01, "{it:?}");
            let units = it.reclaim_units.expect("it is flash");
            let mapped = it.slice_bytes / units / (64 << 10);
            let is_small = units < 2 * LEAST_UNITS;
            assert!(units >= 480 || mapped >= MAPPED / 2 || is_small, "{it:?}");
            assert!(units >= LEAST_UNITS, "{it:?}");
            assert_eq!(it.drive_bytes, 32 << 30);
        }
    }

    /// Drives without a layer whose slice has the data of a workload, and of one eight times as
    /// large.
    #[test]
    fn write_amplification_is_that_of_a_slice_eight_times_as_large() {
        let waf = |pattern: &str, scale: u64| {
            let (span, count) = (400 * scale, 50_000 * scale);
            let text = format!("synth:{pattern},span={span}m,count={count}");
            let (_, stack) =
                Slice::new("qlc-64k", span << 20, 0.7, Export::Usual, None).expect("a slice");
            let study = Question { workloads: vec![text], ..Question::default() };
            let study = study.study(&|| false).expect("a study");
            let study = Study {
                drives: vec![stack],
                layers: vec![LayerKind::Passthrough.into()],
                warm: vec!["self=70%".parse().expect("a state")],
                pace: Pace::Counted,
                ..study
            };
            let rows = compare(&study, &Unobserved).and_then(Outcome::whole).expect("rows");
            rows[0].waf_total.expect("it writes")
        };
        for pattern in ["uniform:size=64k", "hotcold:size=64k", "uniform:size=16k"] {
            let (one, eight) = (waf(pattern, 1), waf(pattern, 8));
            assert!((one / eight - 1.0).abs() < 0.03, "{pattern}: {one} {eight}");
        }
    }

    #[test]
    fn a_slice_without_room_for_placement_ids_is_refused() {
        let made = Slice::new("qlc-64k:placements=8", 300 << 20, 0.7, Export::Usual, None);
        let why = made.expect_err("too few blocks").text;
        assert!(
            why.starts_with("qlc-64k:placements=8: the workload's data is too little"),
            "{why}"
        );
    }

    #[test]
    fn dies_are_removed_only_if_reclaim_units_are_too_large() {
        let large = slice("qlc-64k", 4 << 30, 0.7);
        assert_eq!(large.dies, large.drive_dies);
        let small = slice("qlc-64k", 64 << 20, 0.7);
        assert!(small.dies < small.drive_dies, "{small:?}");
        let whole = slice("qlc-64k:capacity=64m", 64 << 20, 0.7);
        assert_eq!((whole.drive.as_str(), whole.slice_bytes), ("qlc-64k:capacity=64m", 64 << 20));
    }
}
