//! `hostftl man`: manual pages, one for each command, generated from its help.

use std::path::PathBuf;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::Cli;
use crate::console::Console;
use crate::failure::Failure;

/// Write manual pages, one for each command
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl man target/man")]
pub(crate) struct Args {
    /// Existing folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut made = 0;
    page(args, &command, "hostftl", &mut made)?;
    console.line(format!("{made} pages in {}", args.folder.display()))
}

/// Writes the page `name` of `command` and those of its subcommands.
fn page(args: &Args, command: &Command, name: &str, made: &mut u32) -> Result<(), Failure> {
    let path = args.folder.join(format!("{name}.1"));
    let titled = command.clone().display_name(name.to_owned());
    let mut text = Vec::new();
    let written = Man::new(titled).manual("HostFTL").render(&mut text);
    let written = written.and_then(|()| std::fs::write(&path, &text));
    written.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    *made += 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        page(args, below, &format!("{name}-{}", below.get_name()), made)?;
    }
    Ok(())
}
