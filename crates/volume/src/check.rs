//! Looking at a volume that is not served: superblocks, recovery, and the layer's own invariants.

use std::path::Path;

use hostftl_core::{Layer, SECTOR};
use serde::Serialize;

use crate::error::Error;
use crate::gather::{CHECK, OpenOptions};
use crate::open::{assemble_machine, open_with};
use crate::quiet::Quiet;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// The volume file.
    pub volume: String,
    /// The layer.
    pub layer: String,
    /// What clients see, in bytes.
    pub exported_bytes: u64,
    /// Log writes that recovery applied.
    pub log_writes_replayed: u64,
    /// Log writes at the end that were not whole: normal after a power cut.
    pub log_writes_dropped: u64,
    /// What is wrong; empty when all is well.
    pub problems: Vec<String>,
    /// What should be known, but is not wrong.
    pub notes: Vec<String>,
}

/// Recovers the volume in memory, and checks the layer's invariants; nothing is written.
///
/// # Errors
/// When the volume can't be opened or recovered at all.
pub fn check(path: &Path) -> Result<Checked, Error> {
    check_with(path, false)
}

/// As [`check`]; when it is to be `degraded`, also without members that belong to the volume. Who
/// belongs to it stays as it is.
///
/// # Errors
/// As [`check`].
pub fn check_with(path: &Path, degraded: bool) -> Result<Checked, Error> {
    let options = OpenOptions { degraded, command: CHECK, ..OpenOptions::default() };
    let volume = open_with(path, &options)?;
    let (flaws, notes) = match volume.config.is_memory() {
        true => (Vec::new(), volume.notes),
        false => (volume.notes, Vec::new()),
    };
    let machine = assemble_machine(&volume.layer, &volume.plan, volume.devices, volume.mode, None)?;
    let mut driver = machine.driver;
    if !volume.config.is_memory() {
        driver.look_only();
    }
    let mut host = Quiet::of(driver.devices());
    driver.start(&mut host).map_err(|error| host.explain(error))?;
    let mut problems = flaws;
    problems.extend(driver.layer().check().err().map(String::from));
    driver.stop(&mut host)?;
    problems.extend(driver.layer().check().err().map(String::from));
    problems.append(&mut host.troubles);
    Ok(Checked {
        volume: path.display().to_string(),
        layer: volume.config.layer,
        exported_bytes: volume.plan.limits.exported * SECTOR as u64,
        log_writes_replayed: host.replayed,
        log_writes_dropped: host.dropped,
        problems,
        notes,
    })
}
