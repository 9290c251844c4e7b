//! Command line of HostFTL: one file for each command in `commands`.

mod commands;
mod console;
mod ending;
mod envelope;
mod failure;
mod interrupt;
mod notify;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use hostftl_frontend::{nearest, units};

use crate::commands::Command;
use crate::console::{ColorChoice, Console};
use crate::failure::{Failure, code};

/// A flash translation layer that runs on the host: see what each layer does to your workload, then
/// serve a real volume with the very same code.
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
Sizes: 64k, 1.5G and 1GiB are in powers of 1024; 960GB and 1.92TB of 1000, as drives are sold. One
with a point or a decimal unit is rounded down to the whole blocks, pages or units that are needed.

Exit codes: 0 done · 1 could not be done · 2 wrong command line · 3 integrity or conservation is
violated · 4 the volume needs attention, as status and check say · 101 a fault of HostFTL itself ·
130 ended by Ctrl-C · 141 nobody reads the output";

/// The path of standard input where a trace on it has options, as in `-:format=msr`: clap takes the
/// hyphen for that of an option.
fn stdin_path(word: OsString) -> OsString {
    match word.to_str().and_then(|text| text.strip_prefix("-:")) {
        Some(options) => format!("/dev/stdin:{options}").into(),
        None => word,
    }
}

/// A shortage of memory is an error of the command, not a crash.
#[global_allocator]
static ALLOCATOR: hostftl_io::OrExit = hostftl_io::OrExit;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(std::env::args_os().map(stdin_path)) {
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

/// Prints help as clap has it, and a wrong command line as one line.
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

/// What clap says in several paragraphs, without the usage that `--help` has.
fn one_line(text: &str) -> String {
    let said = text.split("\n\nUsage:").next().unwrap_or(text);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = lines.join("; ");
    let said = said.trim_start_matches("error: ").replace(":; ", ": ");
    format!("{said} (see `hostftl --help`)")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_command_line_is_said_in_one_line() {
        let text = "error: unexpected argument '--layr' found\n\n  tip: a similar argument exists: \
                    '--layers'\n\nUsage: hostftl compare\n\nFor more information, try '--help'.\n";
        let wanted = "unexpected argument '--layr' found; tip: a similar argument exists: \
                      '--layers' (see `hostftl --help`)";
        assert_eq!(one_line(text), wanted);
    }
}
