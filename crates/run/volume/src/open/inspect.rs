//! A look at a volume that is not served: it is recovered in memory, and nothing is written.

pub(crate) mod sweep;

use hostftl_core::Layer;
use hostftl_io::Driver;
use hostftl_layers::AnyLayer;

use crate::open::event_host::Quiet;
use crate::open::inspect::sweep::{DataRead, Progress, Sweep};
use crate::open::machine::assemble_machine;
use crate::open::volume::Volume;
use crate::util::counted::counted;
use crate::util::error::Error;

/// What is read of a volume's data.
pub(crate) enum Data<'a> {
    /// Nothing.
    None,
    /// Some of it, from everywhere.
    Sample,
    /// All that is mapped; who hears how far that is.
    All(Progress<'a>),
}

/// What recovery in memory and the layer found.
pub(crate) struct Inspected {
    /// Log writes that recovery applied, and those at the end that were not whole.
    pub replayed: u64,
    pub dropped: u64,
    /// What is wrong.
    pub problems: Vec<String>,
    /// What was made again from parity.
    pub mended: Vec<String>,
    /// What reading data found.
    pub data: Option<DataRead>,
    /// The layer is stopped; it has the devices.
    pub driver: Driver<AnyLayer>,
}

/// Recovers a volume in memory, and checks the layer's invariants; nothing is written.
///
/// # Errors
/// When it can't be recovered.
pub(crate) fn inspect(volume: Volume, data: Data) -> Result<Inspected, Error> {
    let in_memory = volume.config.is_memory();
    let machine = assemble_machine(&volume.layer, &volume.plan, volume.devices, volume.mode, None)?;
    let mut driver = machine.driver;
    if !in_memory {
        driver.look_only(false);
    }
    let mut host = Quiet::of(driver.devices());
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
    problems.extend(driver.layer().check().err().map(String::from));
    let (mended, troubles) = host.sort_troubles();
    problems.extend(troubles);
    let Quiet { replayed, dropped, .. } = host;
    Ok(Inspected { replayed, dropped, problems, mended, data, driver })
}

fn keep((found, host): (DataRead, Quiet)) -> (Option<DataRead>, Quiet) {
    (Some(found), host)
}

/// The ranges that can't be read, in words.
fn unreadable(found: &DataRead) -> Vec<String> {
    let named = found.bad_ranges.iter();
    let mut all: Vec<_> = named
        .map(|(from, bytes)| {
            format!(
                "{bytes} bytes at byte {from} can't be read or are corrupt: restore them from a \
                 backup"
            )
        })
        .collect();
    let more = found.bad_count - all.len() as u64;
    if more > 0 {
        let bytes = found.bad_bytes;
        all.push(format!(
            "{} more can't be read: {bytes} bytes altogether",
            counted(more, "range")
        ));
    }
    all
}
