//! Results of each device of a stack.

use std::iter::zip;

use hostftl_core::{Nanos, SECTOR};
use hostftl_drives::{DeviceSpec, HandleWork};
use serde::Serialize;

use crate::layer_spec::LayerSpec;
use crate::ratio::ratio;
use crate::wear::{Erases, Life};
use crate::work::Work;

/// Results of one device. Ratios are `None` if the divisor is zero.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Name of the drive.
    pub drive: String,
    /// Role: `data`, `fast`, `slow` or `journal`.
    pub role: &'static str,
    /// Bytes that the layer sent to the device.
    pub sent_bytes: u64,
    /// Bytes programmed in the device.
    pub programmed_bytes: u64,
    /// Bytes programmed per byte sent to it.
    pub waf: Option<f64>,
    /// Results for each placement id that was used; empty for a device with only one id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<PlacementRow>,
    /// Sum of the busy times of its dies, in ns.
    pub busy_ns: Nanos,
    /// Mean number of erases of a segment; for memories, of writes of a sector.
    pub worn_mean: f64,
    /// Maximum of the same.
    pub worn_max: u32,
    /// Rated number of cycles.
    pub cycles: u32,
    /// Bytes that the host of the whole stack can write until this device is worn out at even wear,
    /// in 10^12 bytes.
    pub host_tb: Option<f64>,
    /// The same until its most worn segment or sector is worn out.
    pub host_tb_by_most_worn: Option<f64>,
}

/// Results for one placement id of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlacementRow {
    /// Placement id.
    pub id: u8,
    /// Bytes that the layer sent with this id.
    pub sent_bytes: u64,
    /// Bytes programmed for data that was last written with this id.
    pub programmed_bytes: u64,
    /// Bytes programmed per byte sent.
    pub waf: Option<f64>,
}

/// Returns a row for each placement id with work.
fn placements(handles: &[HandleWork]) -> Vec<PlacementRow> {
    let used = (0..).zip(handles).filter(|(_, it)| it.sent + it.programmed > 0);
    let row = |(id, work): (u8, &HandleWork)| PlacementRow {
        id,
        sent_bytes: work.sent * SECTOR as u64,
        programmed_bytes: work.programmed * SECTOR as u64,
        waf: ratio(work.programmed, work.sent),
    };
    used.map(row).collect()
}

/// Returns a row for each device of `specs`, of which the first `data` belong to the stack. The
/// host wrote `written` sectors.
pub(crate) fn rows(
    specs: &[DeviceSpec],
    (layer, data): (&LayerSpec, usize),
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
            placements: placements(&work.handles[index]),
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

/// Returns the wear of the stack's own devices, and the life of the device that wears out first. If
/// the stack has flash, the wear covers the segments of its flash devices only.
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
