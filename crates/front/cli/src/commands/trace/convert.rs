//! `hostftl trace convert`: converts a trace to a format of HostFTL.

use std::path::PathBuf;

use hostftl_trace::{Extras, Writer};

use super::progress::Progress;
use super::{source, warn};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::counted;

/// Convert a trace to CSV (.csv), compact (.hft) or flat (.flat) format
///
/// A flat trace is larger but needs no decoding, so that parallel studies share it in the page
/// cache. With .zst behind it, the file is compressed.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl trace convert msr.csv:format=msr out.hft.zst")]
pub(super) struct Args {
    /// Trace, with options as in FILE:format=msr,dev=0; `-` for standard input; or a workload,
    /// synth:...
    input: String,
    /// New file; the extension selects the format
    output: PathBuf,
    /// Skip and count bad lines
    #[arg(long)]
    skip_bad: bool,
    /// Renumber the touched addresses densely
    #[arg(long)]
    compact: bool,
    /// Random seed of a synthetic workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut source = source(&args.input, args.skip_bad)?;
    source.read_once();
    // With --compact, opening reads the whole trace. An unusable output must fail before that.
    drop(Writer::create(&args.output, Extras::default())?);
    let mut stream = source.open(args.seed, args.compact)?;
    let mut writer = Writer::create(&args.output, stream.extras())?;
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
        return Err(Failure::interrupted("interrupted; nothing was written"));
    }
    let requests = writer.finish().map_err(Failure::failed)?;
    let output = args.output.display().to_string();
    if console.is_json() {
        console.value(&serde_json::json!({
            "output": output,
            "requests": requests,
            "notes": stream.notes(),
            "warnings": stream.notes().warnings(),
        }))
    } else {
        let left = stream.notes().left_out();
        let left =
            if left.is_empty() { String::new() } else { format!("; skipped: {}", left.join(", ")) };
        console.line(format!("{output}: {}{left}", counted(requests, "request")))
    }
}
