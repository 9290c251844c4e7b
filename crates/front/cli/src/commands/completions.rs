//! `hostftl completions`: prints the completion script of a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Cli;
use crate::console::Console;
use crate::failure::Failure;

/// Print shell completions
#[derive(clap::Args)]
#[command(after_help = "Example: source <(hostftl completions bash)")]
pub(crate) struct Args {
    /// Shell
    shell: Shell,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hostftl", &mut text);
    console.lines(String::from_utf8_lossy(&text).trim_end())
}
