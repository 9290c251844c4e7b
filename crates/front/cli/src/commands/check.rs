//! `hostftl check`: checks a volume that is not served, without writing to it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hostftl_volume::{CheckOptions, Checked, Progress, Verdict};
use indicatif::ProgressBar;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, counted};

/// Interval between updates of the progress bar.
const REDRAW: Duration = Duration::from_millis(100);
/// Interval between progress lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(30);

/// Check superblocks, recovery and layer invariants of a volume that is not served
///
/// Recovers in memory and writes nothing. Ends with exit code 3 if the volume is DAMAGED, 4 if it
/// is only DEGRADED.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl check vol.toml --data")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Check although members are missing; they remain members
    #[arg(long)]
    degraded: bool,
    /// Also read all mapped data and list unreadable ranges
    #[arg(long)]
    data: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut meter = Meter::new(console.is_watched());
    let mut show = |at, of| meter.show(at, of);
    let data = args.data.then_some(&mut show as Progress);
    let options = CheckOptions { degraded: args.degraded, data };
    let checked = hostftl_volume::check_with(&args.volume, options);
    meter.clear();
    let checked = checked?;
    if console.is_json() {
        console.value(&checked)?
    } else {
        print(&checked, console)?
    }
    let all = match checked.verdict {
        Verdict::Sound => return Ok(()),
        Verdict::Degraded => &checked.degraded,
        Verdict::Damaged => &checked.problems,
    };
    let (first, more) = (&all[0], all.len() - 1);
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let text = format!("{}: {first}{more}", checked.volume);
    Err(match checked.verdict {
        Verdict::Degraded => Failure::needs_attention(text),
        _ => Failure::violation(text),
    })
}

fn print(checked: &Checked, console: &mut Console) -> Result<(), Failure> {
    let verdict = match checked.verdict {
        Verdict::Sound => "sound",
        Verdict::Degraded => "DEGRADED",
        Verdict::Damaged => "DAMAGED",
    };
    let size = bytes(checked.exported_bytes);
    console.line(format!("{}: {verdict}, layer {}, {size}", checked.volume, checked.layer))?;
    if checked.log_writes_replayed + checked.log_writes_dropped > 0 {
        let replayed = counted(checked.log_writes_replayed, "log write");
        let dropped = counted(checked.log_writes_dropped, "incomplete log write");
        console.field("recovery", format!("{replayed} replayed, {dropped} at the end ignored"))?;
    }
    if let Some(data) = &checked.data {
        let mut text = format!("{} read", bytes(data.read_bytes));
        if data.mended > 0 {
            text += &format!(", {} repaired from parity", counted(data.mended, "read"));
        }
        console.field("data", text)?;
    }
    checked.problems.iter().try_for_each(|problem| console.field("problem", problem))?;
    checked.degraded.iter().try_for_each(|member| console.field("member", member))?;
    checked.notes.iter().try_for_each(|note| console.field("note", note))
}

/// Progress of reading the data: a bar on a terminal, otherwise a line every 30 s.
struct Meter {
    watched: bool,
    bar: Option<ProgressBar>,
    shown: Instant,
}

impl Meter {
    fn new(watched: bool) -> Self {
        Meter { watched, bar: None, shown: Instant::now() }
    }

    fn show(&mut self, at: u64, of: u64) {
        let often = if self.watched { REDRAW } else { LINE };
        if self.shown.elapsed() < often {
            return;
        }
        self.shown = Instant::now();
        if self.watched {
            self.bar.get_or_insert_with(|| ProgressBar::new(of)).set_position(at)
        } else {
            eprintln!("{} of {} checked", bytes(at), bytes(of))
        }
    }

    fn clear(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
