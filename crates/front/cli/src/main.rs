//! Command line of HostFTL. `commands` has one module for each command.

mod commands;
mod console;
mod ending;
mod envelope;
mod failure;
mod help;
mod interrupt;
mod notify;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};
use hostftl_frontend::units;

use crate::commands::Command;
use crate::console::{ColorChoice, Console};
use crate::failure::{Failure, code};

/// Host-based flash translation layer: compare layers on your workload, then serve a volume with
/// the same code
#[derive(Parser)]
#[command(name = "hostftl", version, long_version = version::LONG.as_str())]
#[command(after_help = AFTER_HELP)]
struct Cli {
    /// Print JSON, also for errors
    #[arg(long, global = true)]
    json: bool,
    /// Use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Sizes: 64k, 1.5G and 1GiB use powers of 1024; 960GB and 1.92TB powers of 1000. A size with a point
or a decimal unit is rounded down to whole blocks, pages or units.

Exit codes: 0 success · 1 failure · 2 wrong command line · 3 integrity or conservation violated ·
4 the volume needs attention · 101 bug in HostFTL · 130 interrupted · 141 output closed

Example: hostftl compare trace.csv.zst --drive qlc-64k:capacity=2g --layers none,hard,log";

/// Replaces `-:OPTIONS`, a trace on standard input, by a path, because clap parses it as an option.
fn stdin_path(word: OsString) -> OsString {
    match word.to_str().and_then(|text| text.strip_prefix("-:")) {
        Some(options) => format!("/dev/stdin:{options}").into(),
        None => word,
    }
}

/// Turns a failed allocation into an error of the command.
#[global_allocator]
static ALLOCATOR: hostftl_io::ExitOnFailure = hostftl_io::ExitOnFailure;

fn main() -> ExitCode {
    #[cfg(feature = "paper")]
    hostftl_lab_devices::register();
    let parsed = help::grouped(Cli::command())
        .try_get_matches_from(std::env::args_os().map(stdin_path))
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let mut console = Console::new(cli.json, cli.color);
    let result = interrupt::install().and_then(|()| cli.command.run(&mut console));
    match result.and_then(|()| console.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => console.fail(&interrupt::explain(failure)),
    }
}

/// Prints help or version; prints the error of a wrong command line in one line.
fn usage(error: &clap::Error) -> ExitCode {
    let is_help = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => false,
        _ => {
            let json = std::env::args().any(|arg| arg == "--json");
            return Console::new(json, ColorChoice::Never)
                .fail(&Failure::usage(one_line(&error.to_string())));
        }
    };
    let printed = error.print();
    ExitCode::from(match (is_help, printed) {
        (true, Ok(())) => 0,
        (true, Err(_)) => code::BROKEN_PIPE,
        (false, _) => code::USAGE,
    })
}

/// Joins the lines of a clap error into one, without the usage.
fn one_line(text: &str) -> String {
    let error = text.split("\n\nUsage:").next().unwrap_or(text);
    let error = error.split("\n\nFor more information").next().unwrap_or(error);
    let lines: Vec<&str> = error.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let error = lines.join("; ");
    let error = error.trim_start_matches("error: ").replace(":; ", ": ");
    format!("{error} (see `hostftl --help`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_are_one_line() {
        let text = "error: unexpected argument '--layr' found\n\n  tip: a similar argument exists: \
                    '--layers'\n\nUsage: hostftl compare\n\nFor more information, try '--help'.\n";
        let wanted = "unexpected argument '--layr' found; tip: a similar argument exists: \
                      '--layers' (see `hostftl --help`)";
        assert_eq!(one_line(text), wanted);
    }
}
