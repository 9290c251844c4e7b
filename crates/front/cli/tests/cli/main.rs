//! Tests of the command line, as users and scripts see it.

mod boot;
mod codes;
#[cfg(feature = "paper")]
mod documents;
mod interrupt;
mod parts;
mod pipes;
mod replaced;
mod several;
mod status;
mod strange;
mod transcripts;
mod volume;

use std::process::Command;

/// Returns the command under test.
fn hostftl() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hostftl"))
}
