//! `hostftl trace record`: records the requests of the kernel to a block device.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_trace::{Extras, Recorder, Writer, lies_on};

use super::progress::Progress;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{count, counted};

/// Interval between reads of the kernel's events.
const PAUSE: Duration = Duration::from_millis(20);

/// Record the requests to a block device (needs root)
///
/// Records requests as the kernel sends them to the device: after merging, without data. The
/// extension selects the format: .csv, .hft or .flat, also with .zst.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl trace record --device /dev/nvme0n1 --seconds 60")]
pub(super) struct Args {
    /// Whole disk, such as /dev/nvme0n1
    #[arg(long, value_name = "BLOCKDEV")]
    device: PathBuf,
    /// New file [default: name of the device with .hft.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Stop after this many seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// Runs the command. Ctrl-C ends the recording normally.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let output = args.output.clone().unwrap_or_else(|| {
        let name = args.device.file_name().unwrap_or(args.device.as_os_str());
        PathBuf::from(name).with_added_extension("hft.zst")
    });
    let mut recorder = Recorder::start(&args.device).map_err(Failure::failed)?;
    let mut writer = Writer::create(&output, Extras::default())?;
    warn_of_feedback(&output, &args.device);
    if console.is_watched() {
        let end = args.seconds.map_or("Ctrl-C stops it".to_owned(), |it| format!("for {it} s"));
        eprintln!("hostftl: recording {}: {end}", args.device.display());
    }
    let mut requests = 0;
    let mut progress = Progress::new(console.is_watched());
    let mut take = |record: &_| {
        requests += 1;
        progress.step();
        writer.write(record)
    };
    let begin = Instant::now();
    let is_over = || args.seconds.is_some_and(|it| begin.elapsed() >= Duration::from_secs(it));
    while !interrupt::asked() && !is_over() {
        recorder.poll(&mut take).map_err(Failure::failed)?;
        thread::sleep(PAUSE);
    }
    recorder.stop().map_err(Failure::failed)?;
    recorder.poll(&mut take).map_err(Failure::failed)?;
    drop(progress);
    if requests == 0 {
        return Err(Failure::failed(format!(
            "{}: no requests recorded; for stacked devices (device mapper, md, zram), record the \
             devices below",
            args.device.display()
        )));
    }
    writer.finish().map_err(Failure::failed)?;
    report(&output, requests, &recorder, console)
}

/// Warns if the trace is written to the recorded device.
fn warn_of_feedback(output: &Path, device: &Path) {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    if lies_on(folder.unwrap_or(Path::new(".")), device) {
        let output = output.display();
        eprintln!(
            "hostftl: warning: {output} is on the recorded device, so the trace includes its own \
             writes; use --output"
        );
    }
}

fn report(
    output: &Path,
    requests: u64,
    recorder: &Recorder,
    console: &mut Console,
) -> Result<(), Failure> {
    let (lost, bad) = (recorder.lost(), recorder.bad());
    if lost > 0 {
        eprintln!("hostftl: warning: the kernel dropped {}", counted(lost, "event"));
    }
    if bad > 0 {
        eprintln!("hostftl: warning: unknown events: {}", count(bad));
    }
    let output = output.display().to_string();
    if console.is_json() {
        console.value(&serde_json::json!({
            "output": output,
            "requests": requests,
            "lost": lost,
            "bad": bad,
        }))
    } else {
        console.line(format!("{output}: {}", counted(requests, "request")))
    }
}
