//! Inspection of a volume that is not served: it is recovered in memory, and nothing is written.

pub(crate) mod sweep;

use hostftl_core::Layer;
use hostftl_io::Driver;
use hostftl_layers::AnyLayer;

use crate::open::event_host::EventHost;
use crate::open::inspect::sweep::{DataRead, Progress, Sweep};
use crate::open::machine::assemble_machine;
use crate::open::volume::Volume;
use crate::util::counted::counted;
use crate::util::error::Error;

/// Amount of data to read.
pub(crate) enum Data<'a> {
    /// No data.
    None,
    /// Samples from the whole volume.
    Sample,
    /// All mapped data; the callback gets the progress.
    All(Progress<'a>),
}

/// Findings of recovery in memory and of the layer.
pub(crate) struct Inspected {
    /// Log writes that recovery applied, and incomplete ones at the end.
    pub replayed: u64,
    pub dropped: u64,
    /// Problems.
    pub problems: Vec<String>,
    /// Repairs from parity.
    pub mended: Vec<String>,
    /// Result of reading data.
    pub data: Option<DataRead>,
    /// Driver of the stopped layer; it owns the devices.
    pub driver: Driver<AnyLayer>,
}

/// Recovers a volume in memory, and checks the invariants of the layer. Nothing is written.
pub(crate) fn inspect(volume: Volume, data: Data) -> Result<Inspected, Error> {
    let in_memory = volume.config.is_memory();
    let machine = assemble_machine(&volume.layer, &volume.plan, volume.devices, volume.mode, None)?;
    let mut driver = machine.driver;
    if !in_memory {
        // Writes of recovery are kept in memory, so that the devices do not change.
        driver.discard_writes(false);
    }
    let mut host = EventHost::new(driver.devices());
    driver.start(&mut host).map_err(|error| host.explain(error))?;
    let mut problems: Vec<String> =
        driver.layer().check().err().map(String::from).into_iter().collect();
    let (data, mut host) = match data {
        Data::None => (None, host),
        Data::Sample => keep(Sweep::sample(&mut driver, machine.arena, host)?),
        Data::All(progress) => keep(Sweep::run(&mut driver, machine.arena, host, progress)?),
    };
    problems.extend(data.iter().flat_map(unreadable));
    driver.stop(&mut host)?;
    // Stopping changes the layer, so its invariants are checked again.
    problems.extend(driver.layer().check().err().map(String::from));
    let (mended, troubles) = host.split_notes();
    problems.extend(troubles);
    let EventHost { replayed, dropped, .. } = host;
    Ok(Inspected { replayed, dropped, problems, mended, data, driver })
}

fn keep((found, host): (DataRead, EventHost)) -> (Option<DataRead>, EventHost) {
    (Some(found), host)
}

/// Describes the ranges that can't be read.
fn unreadable(found: &DataRead) -> Vec<String> {
    let named = found.bad_ranges.iter();
    let mut all: Vec<_> = named
        .map(|(from, bytes)| {
            format!(
                "{bytes} bytes at byte {from} are unreadable or corrupt; restore them from a backup"
            )
        })
        .collect();
    let more = found.bad_count - all.len() as u64;
    if more > 0 {
        let bytes = found.bad_bytes;
        all.push(format!(
            "{} more are unreadable ({bytes} bytes in total)",
            counted(more, "range")
        ));
    }
    all
}
