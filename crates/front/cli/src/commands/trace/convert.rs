//! `hostftl trace convert`: a trace of any format in one of this project's.

use std::path::PathBuf;

use hostftl_trace::Writer;

use super::progress::Progress;
use super::{source, warn};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::counted;

/// Write a trace of any format as CSV, in the compact binary format, or in the flat one
///
/// A flat trace is larger, but nothing of it is decoded: all studies of a machine share it in
/// the page cache.
/// The name of the new file tells which: .csv, .hft or .flat, and .zst behind it compresses.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A trace, perhaps with options as in FILE:format=msr,dev=0; - for standard input; or a
    /// workload, synth:…
    input: String,
    /// The new file, which must not exist
    output: PathBuf,
    /// Count bad lines and leave them out
    #[arg(long)]
    skip_bad: bool,
    /// Pack the addresses that the trace touches densely
    #[arg(long)]
    compact: bool,
    /// Fixes what a synthetic workload chooses at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
///
/// # Errors
/// When the trace can't be read or the new file can't be written; then there is no new file.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut source = source(&args.input, args.skip_bad)?;
    source.read_once();
    // Packing addresses reads the whole trace: a place that can't be written is said before.
    drop(Writer::create(&args.output, false)?);
    let mut stream = source.open(args.seed, args.compact)?;
    let mut writer = Writer::create(&args.output, stream.has_saved())?;
    let mut progress = Progress::new(console.is_watched());
    for record in &mut stream {
        writer.write(&record?).map_err(Failure::failed)?;
        if progress.step() {
            break;
        }
    }
    drop(progress);
    warn(&args.input, &stream.notes());
    if interrupt::asked() {
        return Err(Failure::interrupted("ended by a signal; nothing was written"));
    }
    let requests = writer.finish().map_err(Failure::failed)?;
    let output = args.output.display().to_string();
    match console.is_json() {
        true => console.value(&serde_json::json!({
            "output": output,
            "requests": requests,
            "notes": stream.notes(),
            "warnings": stream.notes().warnings(),
        })),
        false => {
            let left = stream.notes().left_out();
            let left = match left.is_empty() {
                true => String::new(),
                false => format!("; left out: {}", left.join(", ")),
            };
            console.line(format!("{output}: {}{left}", counted(requests, "request")))
        }
    }
}
