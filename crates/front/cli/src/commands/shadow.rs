//! `hostftl shadow`: models the current load of a block device with and without layers.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hostftl_core::SECTOR;
use hostftl_frontend::advise::fill;
use hostftl_frontend::export;
use hostftl_frontend::shadow::{Volume, candidates, spec};
use hostftl_sim::{Export, LayerSpec, Shadow, ShadowReport, Tap};
use hostftl_trace::{Grain, Op, Record, Recorder};
use hostftl_volume::ShadowStatus;

use super::advise::device;
use super::serve::shadow::{Budget, CHECK, EXAMINED, PATIENCE, PAUSE, figures};
use super::status::long;
use crate::console::Console;
use crate::envelope::Envelope;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{bytes, counted};

/// Share of a processor. Parsing the kernel's events takes most of it.
const CPU_SHARE: f64 = 0.5;
/// Processor time by which a burst may exceed the share: the events that arrive while the models
/// are created.
const BURST: Duration = Duration::from_secs(3);
/// Interval between lines of progress.
const REPORT: Duration = Duration::from_secs(10);

/// Compare layers under the current load of a block device (needs root)
///
/// Reads the requests that the kernel sends to the device, and models a sample of them on the
/// drive without a layer and under each layer. The device is not changed. Figures need writes of
/// about twice its capacity; Ctrl-C ends the command and prints the current ones.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl shadow /dev/nvme0n1 --fill 80% --seconds 86400")]
pub(crate) struct Args {
    /// Whole disk, such as /dev/nvme0n1
    #[arg(value_name = "BLOCKDEV")]
    device: PathBuf,
    /// Layers to model, separated by commas; auto: hatl-auto and log
    #[arg(long, value_name = "LAYERS", default_value = "auto")]
    layers: String,
    /// Drive model [default: by the unit that the device reports]
    #[arg(long, value_name = "MODEL")]
    drive: Option<String>,
    /// Share of the device that holds data
    #[arg(long, value_name = "SHARE", value_parser = fill, default_value = "70%")]
    fill: hostftl_sim::Warm,
    /// Capacity that all layers export. Requests beyond it are not modelled
    #[arg(long, value_name = "SHARE", value_parser = export, default_value = "80%")]
    export: Export,
    /// Stop after this many seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
}

/// The figures as JSON.
#[derive(serde::Serialize)]
struct Figures {
    device: String,
    exported_bytes: u64,
    /// Bytes of writes beyond the exported capacity.
    beyond_bytes: u64,
    /// Events that the kernel dropped for lack of buffer space.
    lost_events: u64,
    /// Events that could not be parsed.
    unknown_events: u64,
    #[serde(flatten)]
    shadow: ShadowStatus,
}

/// Requests of a device and their models.
struct Session {
    /// Exported sectors.
    sectors: u64,
    drive: String,
    volume: Volume,
    layers: Vec<LayerSpec>,
    began_unix: Duration,
    /// Requests before the models exist, because the models depend on their granularity.
    early: Vec<Record>,
    grain: Grain,
    shadow: Option<Shadow>,
    budget: Budget,
    applied: usize,
    beyond_bytes: u64,
}

impl Session {
    fn new(args: &Args) -> Result<Self, Failure> {
        let path = args.device.display().to_string();
        let model = device::model(&path)?;
        let model = model.ok_or_else(|| {
            Failure::usage(format!("{path}: not a block device; name one such as /dev/nvme0n1"))
        })?;
        let share = match args.export {
            Export::Share(permille) => f64::from(permille) / 1000.0,
            Export::Bytes(bytes) => bytes as f64 / model.capacity as f64,
            Export::Usual | Export::Most => unreachable!("the default is a share"),
        };
        if share > 1.0 {
            let capacity = bytes(model.capacity);
            return Err(Failure::usage(format!("--export: {path} has only {capacity}")));
        }
        let sectors = (model.capacity as f64 * share) as u64 / SECTOR as u64;
        let filled = f64::from(args.fill.filled_permille()) / 1000.0;
        let volume = Volume {
            bytes: sectors * SECTOR as u64,
            drive_bytes: model.capacity,
            filled: (filled / share).min(1.0),
        };
        let layers = candidates(&args.layers).map_err(Failure::usage)?;
        let drive = args.drive.clone().unwrap_or_else(|| model.name.to_owned());
        // An unknown drive is reported before anything is recorded.
        spec(&volume, &drive, Vec::new(), 8)?;
        Ok(Session {
            sectors,
            drive,
            volume,
            layers,
            began_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            early: Vec::new(),
            grain: Grain::default(),
            shadow: None,
            budget: Budget::new(CPU_SHARE, BURST),
            applied: 0,
            beyond_bytes: 0,
        })
    }

    /// Processes a request of the device.
    fn take(&mut self, record: &Record) {
        if record.end() > self.sectors && record.op != Op::Flush {
            if record.op == Op::Write {
                self.beyond_bytes += record.sectors * SECTOR as u64;
            }
            return;
        }
        let Some(shadow) = &mut self.shadow else {
            self.grain.see(record);
            self.early.push(*record);
            return;
        };
        shadow.observe(record);
        self.applied += 1;
        if self.applied.is_multiple_of(CHECK) && self.budget.is_exceeded() {
            shadow.shrink();
            self.budget = Budget::new(CPU_SHARE, BURST);
        }
    }

    /// Creates the models as soon as the granularity of the writes is known.
    fn start(&mut self, elapsed: Duration) -> Result<(), Failure> {
        let is_known = self.early.len() >= EXAMINED || elapsed >= PATIENCE;
        if self.shadow.is_some() || self.early.is_empty() || !is_known {
            return Ok(());
        }
        let spec = spec(&self.volume, &self.drive, self.layers.clone(), self.grain.sectors())?;
        let shadow = Shadow::new(spec, Arc::new(Tap::new().0)).map_err(Failure::failed)?;
        self.shadow = Some(shadow);
        self.budget = Budget::new(CPU_SHARE, BURST);
        std::mem::take(&mut self.early).iter().for_each(|record| self.take(record));
        Ok(())
    }

    /// Returns the current figures; `None` before the first requests.
    fn report(&self) -> Option<ShadowReport> {
        self.shadow.as_ref().map(Shadow::report)
    }
}

/// Runs the command. Ctrl-C ends it normally.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut session = Session::new(args)?;
    let mut recorder = Recorder::start(&args.device).map_err(Failure::failed)?;
    let (begin, mut reported) = (Instant::now(), Instant::now());
    let is_over = || args.seconds.is_some_and(|it| begin.elapsed() >= Duration::from_secs(it));
    while !interrupt::asked() && !is_over() {
        poll(&mut recorder, &mut session)?;
        session.start(begin.elapsed())?;
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            progress(&session);
        }
        thread::sleep(PAUSE);
    }
    recorder.stop().map_err(Failure::failed)?;
    poll(&mut recorder, &mut session)?;
    session.start(PATIENCE)?;
    let path = args.device.display().to_string();
    let Some(report) = session.report() else {
        return Err(Failure::failed(format!(
            "{path}: no requests in the first {} of the device; for stacked devices (device \
             mapper, md, zram), name a device below",
            bytes(session.volume.bytes)
        )));
    };
    let figures = Figures {
        device: path,
        exported_bytes: session.volume.bytes,
        beyond_bytes: session.beyond_bytes,
        lost_events: recorder.lost(),
        unknown_events: recorder.bad(),
        shadow: figures(report, &session.drive, session.began_unix),
    };
    print(&figures, console)
}

fn poll(recorder: &mut Recorder, session: &mut Session) -> Result<(), Failure> {
    let take = |record: &Record| {
        session.take(record);
        Ok(())
    };
    recorder.poll(take).map_err(Failure::failed)
}

/// Prints a line of progress with the first doubt.
fn progress(session: &Session) {
    let Some(report) = session.report() else {
        eprintln!("hostftl: no requests yet");
        return;
    };
    let written = bytes(report.host_bytes);
    match report.doubts.first() {
        Some(doubt) => eprintln!("hostftl: {written} of writes; {doubt}"),
        None => eprintln!("hostftl: {written} of writes; the figures have settled"),
    }
}

fn print(figures: &Figures, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(&Envelope::new("shadow", figures));
    }
    console.field("device", &figures.device)?;
    long::shadow(&figures.shadow, "", console)?;
    if figures.beyond_bytes > 0 {
        let (beyond, exported) = (bytes(figures.beyond_bytes), bytes(figures.exported_bytes));
        let text = format!("{beyond} of writes beyond the first {exported} are not modelled");
        console.field("doubt", text)?;
    }
    if figures.lost_events > 0 {
        let lost = counted(figures.lost_events, "event");
        console.field("doubt", format!("the kernel dropped {lost}"))?;
    }
    if figures.unknown_events > 0 {
        let unknown = counted(figures.unknown_events, "event");
        console.field("doubt", format!("{unknown} of the kernel could not be parsed"))?;
    }
    Ok(())
}
