//! `hostftl paper`: a published experiment made again.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use hostftl_papers::{ALL, Error, Findings, Options, Paper, Watch};
use indicatif::{ProgressBar, ProgressStyle};

use crate::console::Console;
use crate::failure::Failure;
use crate::{interrupt, nearest};

/// A published experiment made again: its figures beside ours, and which claims hold here
#[derive(clap::Args)]
pub struct Args {
    /// Which one; without a name, all are listed
    #[arg(value_parser = paper)]
    name: Option<Paper>,
    /// At the published size, however long that takes
    #[arg(long)]
    full: bool,
    /// Also sweep the parameters that the paper fixes, where there is such a sweep
    #[arg(long, visible_alias = "pareto")]
    sweep: bool,
    /// A folder with traces, for the experiments that use real ones
    #[arg(long, value_name = "DIR", env = "HOSTFTL_TRACES")]
    traces: Option<PathBuf>,
    /// How many threads work at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,
    /// Fixes everything that is chosen at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn paper(name: &str) -> Result<Paper, String> {
    let names: Vec<&str> = ALL.iter().map(|paper| paper.name).collect();
    let found = ALL.iter().find(|paper| paper.name == name);
    found.copied().ok_or_else(|| nearest::unknown("paper", name, &names))
}

/// Makes the experiment and prints what it found.
///
/// # Errors
/// When it can't be made, or its figures break a law of conservation.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let Some(paper) = &args.name else { return list(console) };
    let machine = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options {
        full: args.full,
        sweep: args.sweep,
        traces: args.traces.clone(),
        threads: args.threads.map_or(machine, usize::from),
        seed: args.seed,
    };
    let waiting = Waiting::new(console.is_watched());
    let found = (paper.run)(&options, &waiting);
    waiting.clear();
    let found = found.map_err(|error| match error {
        Error::Cancelled => Failure::interrupted(format!("{}: interrupted", paper.name)),
        Error::Failed(text) => Failure::failed(format!("{}: {text}", paper.name)),
    })?;
    match console.is_json() {
        true => console.value(&found)?,
        false => print(&found, console)?,
    }
    if let Some(path) = &args.html {
        let command: Vec<String> = std::env::args().collect();
        std::fs::write(path, hostftl_papers::page(&found, &command.join(" ")))
            .with_context(|| format!("{}: can't write the page", path.display()))
            .map_err(|error| Failure::failed(format!("{error:#}")))?;
    }
    match found.violations.is_empty() {
        true => Ok(()),
        false => Err(Failure::violation(found.violations.join("; "))),
    }
}

fn list(console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        let names: Vec<_> = ALL.iter().map(|paper| (paper.name, paper.about)).collect();
        return console.value(&names);
    }
    ALL.iter().try_for_each(|paper| console.line(format!("{:<12} {}", paper.name, paper.about)))
}

fn print(found: &Findings, console: &mut Console) -> Result<(), Failure> {
    console.line(format!("{}\n", found.title))?;
    console.paragraph(&found.lead)?;
    for sheet in &found.sheets {
        let rows = sheet.rows.iter().map(|row| row.iter().map(|cell| cell.text()).collect());
        let table = table(&sheet.heads, rows, 1);
        console.line(format!("\n{}\n{table}", sheet.title))?;
    }
    if !found.checks.is_empty() {
        let heads = ["claim", "published", "ours", "band", "holds"].map(String::from);
        let rows = found.checks.iter().map(|check| check.cells().to_vec());
        let (held, of) = found.held();
        console.line(format!("\nClaims: {held} of {of} hold\n{}", table(&heads, rows, 5)))?;
    }
    for text in found.setting.iter().chain(&found.notes) {
        console.line("")?;
        console.paragraph(text)?;
    }
    Ok(())
}

/// A table whose first `words` columns stand at the left, the others at the right.
fn table(heads: &[String], rows: impl Iterator<Item = Vec<String>>, words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let cells = |texts: Vec<String>| {
        texts.into_iter().enumerate().map(move |(at, text)| match at < words {
            true => Cell::new(text),
            false => Cell::new(text).set_alignment(CellAlignment::Right),
        })
    };
    table.set_header(cells(heads.to_vec()));
    rows.for_each(|row| {
        table.add_row(cells(row));
    });
    table
}

/// Runs shorter than this need no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A progress bar on standard error, if somebody watches.
struct Waiting {
    watched: bool,
    begin: Instant,
    bar: Mutex<Option<ProgressBar>>,
}

impl Waiting {
    fn new(watched: bool) -> Self {
        Waiting { watched, begin: Instant::now(), bar: Mutex::new(None) }
    }

    fn clear(&self) {
        self.bar().iter().for_each(ProgressBar::finish_and_clear);
    }

    fn bar(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Watch for Waiting {
    fn progress(&self, what: &str, done: usize, of: usize) {
        if !self.watched || self.begin.elapsed() < PATIENCE {
            return;
        }
        let mut bar = self.bar();
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %  {eta}");
            ProgressBar::new(of as u64).with_style(style.expect("the template is well formed"))
        });
        bar.set_length(of as u64);
        bar.set_message(what.to_owned());
        bar.set_position(done as u64);
    }

    fn cancelled(&self) -> bool {
        interrupt::asked()
    }
}
