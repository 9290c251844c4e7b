//! Offline check of a volume: superblocks, recovery and the invariants of the layer.

use std::path::Path;

use hostftl_core::{DeviceSet, Layer, SECTOR};
use serde::Serialize;

use crate::open::cut::InterruptedChange;
use crate::open::gather::{CHECK, OpenOptions};
use crate::open::inspect::sweep::{DataRead, Progress};
use crate::open::inspect::{Data, inspect};
use crate::open::refusal::degraded::{beyond_parity, redundancy_note};
use crate::open::session::{self, Last};
use crate::open::volume::open_with;
use crate::util::error::Error;

/// Options of a check.
#[derive(Default)]
pub struct CheckOptions<'a> {
    /// Also checks a volume whose members are not all present. The member list does not change.
    pub degraded: bool,
    /// Reads all mapped data when set, and reports the progress to this callback.
    pub data: Option<Progress<'a>>,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No problem and no missing member.
    Sound,
    /// A member is missing or excluded; no other problem.
    Degraded,
    /// A problem was found.
    Damaged,
}

/// Findings of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Path of the volume file.
    pub volume: String,
    /// Layer with its parameters.
    pub layer: String,
    /// Overall result.
    pub verdict: Verdict,
    /// Exported capacity in bytes.
    pub exported_bytes: u64,
    /// Log writes that recovery applied.
    pub log_writes_replayed: u64,
    /// Incomplete log writes at the end of the log. They are normal after a power cut.
    pub log_writes_dropped: u64,
    /// Problems; empty if nothing is damaged.
    pub problems: Vec<String>,
    /// Members that are missing or excluded.
    pub degraded: Vec<String>,
    /// Remarks that are not problems.
    pub notes: Vec<String>,
    /// Result of reading all data, if it was requested.
    pub data: Option<DataRead>,
}

/// Recovers the volume in memory and checks the invariants of the layer. Nothing is written.
///
/// # Errors
/// When the volume can't be opened or recovered.
pub fn check(path: &Path) -> Result<Checked, Error> {
    check_with(path, CheckOptions::default())
}

/// Checks a volume like [`check()`], with options.
///
/// # Errors
/// When the volume can't be opened or recovered.
pub fn check_with(path: &Path, options: CheckOptions) -> Result<Checked, Error> {
    let CheckOptions { degraded, data } = options;
    let options = OpenOptions { degraded, command: CHECK, ..OpenOptions::default() };
    let mut volume = open_with(path, &options)?;
    let (layer, exported) = (volume.config.layer.clone(), volume.plan.limits.exported);
    let in_memory = volume.config.is_memory();
    let (mut absent, flaws): (Vec<_>, Vec<_>) =
        std::mem::take(&mut volume.notes).into_iter().partition(|note| is_absence(note));
    let cut = volume.cut.as_ref().map(InterruptedChange::note);
    let left = session::find_log(
        &volume.config,
        &Last::read(&volume.config, &volume.devices, DeviceSet::EMPTY),
    )?;
    let found = inspect(volume, data.map_or(Data::None, Data::All))?;
    let (mut problems, mut notes) = (found.problems, found.mended);
    if let Some(gauges) = found.driver.layer().gauges() {
        redundancy_note(&mut absent, &gauges);
        problems.extend(beyond_parity(gauges.unreadable));
    }
    notes.extend(cut);
    notes.extend(left.filter(|left| left.count() > 0).map(|left| left.waits()));
    if in_memory {
        // Superblocks of a volume in memory are new at each start, so flaws in them are no damage.
        notes.extend(flaws)
    } else {
        problems.extend(flaws)
    }
    let verdict = match (problems.is_empty(), absent.is_empty()) {
        (false, _) => Verdict::Damaged,
        (true, false) => Verdict::Degraded,
        (true, true) => Verdict::Sound,
    };
    Ok(Checked {
        volume: path.display().to_string(),
        layer,
        verdict,
        exported_bytes: exported * SECTOR as u64,
        log_writes_replayed: found.replayed,
        log_writes_dropped: found.dropped,
        problems,
        degraded: absent,
        notes,
        data: found.data,
    })
}

/// Returns whether a note of the start reports an absent member.
fn is_absence(note: &str) -> bool {
    note.starts_with("DEGRADED") || note.starts_with("left out:")
}
