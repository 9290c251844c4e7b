//! `hostftl list`: volumes that are served on this machine.

use comfy_table::{Cell, CellAlignment, Table, presets};
use hostftl_format::letters::Plain;
use hostftl_volume::{Listed, Status};

use super::status::color;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, counted};

/// List the volumes that are served on this machine
///
/// Shows the volumes in the runtime directory of this user; root has /run/hostftl.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl list --json | jq -r '.[].volume'")]
pub(crate) struct Args {}

/// Runs the command.
pub(super) fn run(_: &Args, console: &mut Console) -> Result<(), Failure> {
    let found = hostftl_volume::list()?;
    let served: Vec<&Status> = found.iter().filter_map(|it| it.status.as_ref().ok()).collect();
    match (console.is_json(), served.is_empty()) {
        (true, _) => console.value(&served)?,
        (false, true) => console.line("no volumes are served")?,
        (false, false) => {
            let table = console.fit(table(&served)).trim_fmt();
            console.coloured(table)?;
        }
    }
    let failed = found.iter().find_map(|it: &Listed| Some((it.uuid, it.status.as_ref().err()?)));
    match failed {
        Some((uuid, error)) => Err(Failure::failed(format!("volume {uuid}: {error}"))),
        None => Ok(()),
    }
}

fn table(volumes: &[&Status]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "STATE", "LAYER", "SIZE", "DEVICES", "EXPORT", "PROCESS", "VOLUME", "PROBLEMS",
    ]);
    for it in volumes {
        let problems = match it.problems.len() as u64 {
            0 => "none".to_owned(),
            some => counted(some, "problem"),
        };
        table.add_row([
            Cell::new(it.state).fg(color(it.state).into()),
            Cell::new(&it.layer),
            Cell::new(bytes(it.exported_bytes)),
            Cell::new(it.devices.len()),
            Cell::new(Plain(&it.export)),
            Cell::new(it.served_by.map_or(String::new(), |process| process.to_string())),
            Cell::new(Plain(&it.volume)),
            Cell::new(problems),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
