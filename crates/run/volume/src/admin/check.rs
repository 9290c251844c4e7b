//! Looking at a volume that is not served: superblocks, recovery, and the layer's own invariants.

use std::path::Path;

use hostftl_core::{Layer, SECTOR};
use serde::Serialize;

use crate::open::cut::Cut;
use crate::open::gather::{CHECK, OpenOptions};
use crate::open::inspect::sweep::{DataRead, Progress};
use crate::open::inspect::{Data, inspect};
use crate::open::refusal::degraded::{beyond_parity, say_what_it_means};
use crate::open::session::{self, Last};
use crate::open::volume::open_with;
use crate::util::error::Error;

/// What is to be looked at.
#[derive(Default)]
pub struct CheckOptions<'a> {
    /// Also without members that belong to the volume; who belongs to it stays as it is.
    pub degraded: bool,
    /// Whether everything that is mapped is read, and who hears how far that is.
    pub data: Option<Progress<'a>>,
}

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is well.
    Sound,
    /// A member is missing or left out, and nothing else is wrong.
    Degraded,
    /// Something is wrong.
    Damaged,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The volume file.
    pub volume: String,
    /// The layer.
    pub layer: String,
    /// What it all comes to.
    pub verdict: Verdict,
    /// What clients see, in bytes.
    pub exported_bytes: u64,
    /// Log writes that recovery applied.
    pub log_writes_replayed: u64,
    /// Log writes at the end that were not whole: normal after a power cut.
    pub log_writes_dropped: u64,
    /// What is wrong; empty when nothing is damaged.
    pub problems: Vec<String>,
    /// The members that are missing or left out.
    pub degraded: Vec<String>,
    /// What should be known, but is not wrong.
    pub notes: Vec<String>,
    /// What reading everything found, if that was asked for.
    pub data: Option<DataRead>,
}

/// Recovers the volume in memory, and checks the layer's invariants; nothing is written.
///
/// # Errors
/// When the volume can't be opened or recovered at all.
pub fn check(path: &Path) -> Result<Checked, Error> {
    check_with(path, CheckOptions::default())
}

/// As [`check`], with options.
///
/// # Errors
/// As [`check`].
pub fn check_with(path: &Path, options: CheckOptions) -> Result<Checked, Error> {
    let CheckOptions { degraded, data } = options;
    let options = OpenOptions { degraded, command: CHECK, ..OpenOptions::default() };
    let mut volume = open_with(path, &options)?;
    let (layer, exported) = (volume.config.layer.clone(), volume.plan.limits.exported);
    let in_memory = volume.config.is_memory();
    let (mut absent, flaws): (Vec<_>, Vec<_>) =
        std::mem::take(&mut volume.notes).into_iter().partition(|note| is_absence(note));
    let cut = volume.cut.as_ref().map(Cut::note);
    let left = session::left_by(&volume.config, &Last::of(&volume.config, &volume.devices, 0))?;
    let found = inspect(volume, data.map_or(Data::None, Data::All))?;
    let (mut problems, mut notes) = (found.problems, found.mended);
    if let Some(gauges) = found.driver.layer().gauges() {
        say_what_it_means(&mut absent, &gauges);
        problems.extend(beyond_parity(gauges.unreadable));
    }
    notes.extend(cut);
    notes.extend(left.filter(|left| left.count() > 0).map(|left| left.waits()));
    match in_memory {
        true => notes.extend(flaws),
        false => problems.extend(flaws),
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

/// Whether a note of the start says that a member is not there.
fn is_absence(note: &str) -> bool {
    note.starts_with("DEGRADED") || note.starts_with("left out:")
}
