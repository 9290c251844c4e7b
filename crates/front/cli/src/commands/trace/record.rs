//! `hostftl trace record`: what the kernel sends to a block device, as a trace.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_trace::{Recorder, Writer, lies_on};

use super::progress::Progress;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{count, counted};

/// How long to wait for further events.
const PAUSE: Duration = Duration::from_millis(20);

/// Record the requests to a block device, until Ctrl-C or for some seconds; needs root
///
/// Requests are as they leave the kernel for the device: after merging, without their data. The
/// name of the new file tells its format: .csv, .hft or .flat, and .zst behind it compresses.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The device, such as /dev/nvme0n1: a whole disk, no partition
    #[arg(long, value_name = "BLOCKDEV")]
    device: PathBuf,
    /// The new file, which must not exist; the device's name and .hft.zst by default
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// End after so many seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// Runs the command. Ctrl-C ends the recording well.
///
/// # Errors
/// When the device can't be recorded, sent nothing, or the file can't be written.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let output = args.output.clone().unwrap_or_else(|| {
        let name = args.device.file_name().unwrap_or(args.device.as_os_str());
        PathBuf::from(name).with_added_extension("hft.zst")
    });
    let mut recorder = Recorder::start(&args.device).map_err(Failure::failed)?;
    let mut writer = Writer::create(&output, false)?;
    warn_of_feedback(&output, &args.device);
    if console.is_watched() {
        let end = args.seconds.map_or("Ctrl-C ends it".to_owned(), |it| format!("for {it} s"));
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
            "{}: no request was sent to it in that time. What stacks on other devices (device \
             mapper, md, zram) has none of these events: record the devices below it",
            args.device.display()
        )));
    }
    writer.finish().map_err(Failure::failed)?;
    report(&output, requests, &recorder, console)
}

/// Says when writing the trace would be recorded, too.
fn warn_of_feedback(output: &Path, device: &Path) {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    if lies_on(folder.unwrap_or(Path::new(".")), device) {
        let output = output.display();
        eprintln!(
            "hostftl: warning: {output} lies on the device that is recorded, so writing the trace \
             is recorded, too; --output names another place"
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
        eprintln!(
            "hostftl: warning: the kernel had no room for {}: so many requests are missing",
            counted(lost, "event")
        );
    }
    if bad > 0 {
        eprintln!("hostftl: warning: events that were not understood: {}", count(bad));
    }
    let output = output.display().to_string();
    match console.is_json() {
        true => console.value(&serde_json::json!({
            "output": output,
            "requests": requests,
            "lost": lost,
            "bad": bad,
        })),
        false => console.line(format!("{output}: {}", counted(requests, "request"))),
    }
}
