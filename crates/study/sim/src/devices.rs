//! What each device of a stack did in a row.

use std::iter::zip;

use hostftl_core::{Nanos, SECTOR};
use hostftl_drives::DeviceSpec;
use serde::Serialize;

use crate::choice::LayerChoice;
use crate::ratio::ratio;
use crate::wear::{Erases, Life};
use crate::work::Work;

/// What one device did. Ratios are `None` when there is nothing to divide by.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceRow {
    /// The drive.
    pub drive: String,
    /// What it is for: `data`, `fast`, `slow` or `journal`.
    pub role: &'static str,
    /// What the layer sent to it.
    pub sent_bytes: u64,
    /// What was programmed in it.
    pub programmed_bytes: u64,
    /// Bytes programmed for each that was sent to it.
    pub waf: Option<f64>,
    /// How long its dies were busy, in ns.
    pub busy_ns: Nanos,
    /// Erases of a segment in the mean; of a memory, writes of a sector.
    pub worn_mean: f64,
    /// Those of the one that has most.
    pub worn_max: u32,
    /// How many of them it survives.
    pub cycles: u32,
    /// What the host of the whole stack can write until this device is worn out, with even wear, in
    /// 10^12 bytes.
    pub host_tb: Option<f64>,
    /// The same until its most worn segment or sector is.
    pub host_tb_by_most_worn: Option<f64>,
}

/// A row for each device of `specs`, of which the first `data` are the stack's own; the host wrote
/// so many sectors.
pub(crate) fn rows(
    specs: &[DeviceSpec],
    (layer, data): (&LayerChoice, usize),
    work: &Work,
    written: u64,
) -> Vec<DeviceRow> {
    let row = |(index, spec): (usize, &DeviceSpec)| {
        let part = work.part(index..index + 1);
        let erases = part.erases();
        let life = Life::of(spec, written, &part, &erases);
        let (sent, programmed) = (part.sent_in_all(), part.programmed());
        DeviceRow {
            drive: spec.name().to_owned(),
            role: layer.role(index, data),
            sent_bytes: sent * SECTOR as u64,
            programmed_bytes: programmed * SECTOR as u64,
            waf: ratio(programmed, sent),
            busy_ns: part.busy().total(),
            worn_mean: erases.mean,
            worn_max: erases.max,
            cycles: spec.cycles(),
            host_tb: life.host_tb,
            host_tb_by_most_worn: life.host_tb_by_most_erased,
        }
    };
    specs.iter().enumerate().map(row).collect()
}

/// The wear of the stack's own devices, of flash where there is any: of all their segments. And the
/// life of the device that is worn out first.
pub(crate) fn wear(specs: &[DeviceSpec], work: &Work, written: u64) -> (Erases, Life) {
    let flash = specs.iter().any(DeviceSpec::is_flash);
    let counted = zip(specs, &work.worn).filter(|(spec, _)| spec.is_flash() == flash);
    let all = Erases::of(counted.flat_map(|(_, worn)| worn.iter().copied()).collect());
    let lives = specs.iter().enumerate().map(|(index, spec)| {
        let part = work.part(index..index + 1);
        Life::of(spec, written, &part, &part.erases())
    });
    let least = lives.reduce(Life::shorter).expect("a stack has a device");
    (all, least)
}
