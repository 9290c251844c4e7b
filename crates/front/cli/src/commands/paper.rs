//! `hostftl paper`: reproduces published experiments.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use comfy_table::{Cell, CellAlignment, Color, Table, presets};
use hostftl_frontend::{nearest, program};
use hostftl_papers::{ALL, Check, Error, Findings, Kind, Options, Paper, Size, Watch, parts};
use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::output::Output;
use crate::console::{Console, notice};
use crate::failure::{Failure, code};
use crate::interrupt;

/// Name that selects all experiments.
const EACH: &str = "all";

/// Selected experiments.
#[derive(Clone, Debug)]
struct Papers(Vec<Paper>);

/// Reproduce published experiments and check their claims
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl paper hatl --quick")]
pub(crate) struct Args {
    /// Experiment, or `all` [default: list them]
    #[arg(value_parser = papers)]
    name: Option<Papers>,
    /// Use the published size; may take long
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Use a reduced size that takes seconds
    #[arg(long)]
    quick: bool,
    /// Also sweep the parameters that the paper fixes
    #[arg(long, visible_alias = "pareto")]
    sweep: bool,
    /// Folder with traces, for the experiments that use real ones [default: ./traces, if it exists]
    #[arg(long, value_name = "DIR", env = "HOSTFTL_TRACES")]
    traces: Option<PathBuf>,
    /// Number of parallel threads [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    threads: Option<u16>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn papers(name: &str) -> Result<Papers, String> {
    if name == EACH {
        return Ok(Papers(ALL.to_vec()));
    }
    let names: Vec<&str> = ALL.iter().map(|paper| paper.name).collect();
    let found = ALL.iter().find(|paper| paper.name == name);
    let found = found.map(|paper| Papers(vec![*paper]));
    found.ok_or_else(|| nearest::unknown("paper", name, &names))
}

impl Args {
    fn options(&self) -> Options {
        let machine = std::thread::available_parallelism().map_or(1, usize::from);
        let shipped = PathBuf::from("traces");
        Options {
            size: match (self.quick, self.full) {
                (true, _) => Size::Quick,
                (_, true) => Size::Full,
                _ => Size::Usual,
            },
            sweep: self.sweep,
            traces: self.traces.clone().or_else(|| shipped.is_dir().then_some(shipped)),
            threads: self.threads.map_or(machine, usize::from),
            seed: self.seed,
            commit: program::COMMIT,
        }
    }
}

/// Runs the experiments and prints their results.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let Some(Papers(papers)) = &args.name else { return list(console) };
    let options = args.options();
    let html = args.html.as_deref().map(Output::open).transpose()?;
    let (mut all, mut broken) = (Vec::new(), None);
    let waiting = Waiting::new(console.is_watched());
    for (paper, part) in papers.iter().zip(parts(&waiting, papers)) {
        let found = make(paper, &options, &part);
        waiting.clear();
        let found = match found {
            Ok(found) => found,
            Err(why) if papers.len() > 1 && why.code == code::FAILED => {
                notice(format_args!("{}; the other experiments continue", why.text));
                broken = Some(why);
                continue;
            }
            Err(why) => return Err(why),
        };
        if !console.is_json() {
            print(&found, console)?;
        }
        all.push(found);
    }
    match (console.is_json(), &all[..]) {
        (true, [one]) if papers.len() == 1 => console.value(one)?,
        (true, all) => console.value(&all)?,
        (false, _) => {}
    }
    if let Some(file) = html {
        let page = match &all[..] {
            [one] => hostftl_papers::page(one),
            all => hostftl_papers::pages(all),
        };
        file.write(page.as_bytes())?;
    }
    verdict(&all)?;
    broken.map_or(Ok(()), Err)
}

fn make(paper: &Paper, options: &Options, watch: &dyn Watch) -> Result<Findings, Failure> {
    paper.make(options, watch).map_err(|error| match error {
        Error::Cancelled => Failure::interrupted(format!("{}: interrupted", paper.name)),
        Error::Failed(text) => Failure::failed(format!("{}: {text}", paper.name)),
    })
}

/// Returns an error if a law is violated or a claim differs from its known result.
fn verdict(all: &[Findings]) -> Result<(), Failure> {
    let broken: Vec<&str> = all.iter().flat_map(|it| &it.violations).map(String::as_str).collect();
    if !broken.is_empty() {
        return Err(Failure::violation(broken.join("; ")));
    }
    let failed: Vec<String> = all.iter().flat_map(Findings::failed).map(Check::complaint).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::failed(format!("claims: {}", failed.join("; "))))
    }
}

fn list(console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(&ALL);
    }
    ALL.iter().try_for_each(|paper| console.line(format!("{:<12} {}", paper.name, paper.about)))
}

fn print(found: &Findings, console: &mut Console) -> Result<(), Failure> {
    console.lines(format!("{}\n", found.title))?;
    console.paragraph(&found.lead)?;
    for sheet in &found.sheets {
        let rows = sheet.rows.iter().map(|row| row.iter().map(|cell| cell.text()).collect());
        let table = table(&sheet.heads, &sheet.kinds, rows, 1);
        console.coloured(format!("\n{}\n{}", sheet.title, console.fit(table)))?;
    }
    if !found.checks.is_empty() {
        let heads = Check::HEADS.map(String::from);
        let rows = found.checks.iter().map(|check| check.cells().to_vec());
        let (held, of) = found.held();
        let table = table(&heads, &Check::KINDS, rows, heads.len());
        console.lines(format!("\nClaims: {held} of {of} hold\n{}", console.fit(table)))?;
    }
    for text in found.setting.iter().chain(&found.notes) {
        console.line("")?;
        console.paragraph(text)?;
    }
    match &found.made {
        Some(made) => console.lines(format!("\n{}\n", made.lines())),
        None => Ok(()),
    }
}

/// Creates a table. The first `words` columns are aligned left, the others right. The colour of a
/// column shows its kind.
fn table(
    heads: &[String],
    kinds: &[Kind],
    rows: impl Iterator<Item = Vec<String>>,
    words: usize,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border));
    let cell = |(at, text): (usize, String)| {
        let cell = match kinds[at] {
            Kind::Published => Cell::new(text).fg(Color::Blue),
            Kind::Computed => Cell::new(text).fg(Color::Magenta),
            Kind::Ours => Cell::new(text).fg(Color::Green),
            Kind::Input | Kind::Difference | Kind::Plain => Cell::new(text),
        };
        if at < words { cell } else { cell.set_alignment(CellAlignment::Right) }
    };
    let cells = |texts: Vec<String>| texts.into_iter().enumerate().map(cell).collect::<Vec<_>>();
    table.set_header(cells(heads.to_vec()));
    rows.for_each(|row| {
        table.add_row(cells(row));
    });
    table
}

/// Time before a progress bar appears.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval between progress lines if standard error is not a terminal.
const LINE: Duration = Duration::from_secs(30);

/// Progress on standard error: a bar on a terminal, otherwise a line every 30 s.
struct Waiting {
    watched: bool,
    begin: Instant,
    bar: Mutex<Option<ProgressBar>>,
    shown: Mutex<Instant>,
}

impl Waiting {
    fn new(watched: bool) -> Self {
        let begin = Instant::now();
        Waiting { watched, begin, bar: Mutex::new(None), shown: Mutex::new(begin) }
    }

    /// Prints a progress line, at most every [`LINE`].
    fn line(&self, part: &str, done: usize, of: usize) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.elapsed() >= LINE {
            *shown = Instant::now();
            let (percent, seconds) = (done * 100 / of.max(1), self.begin.elapsed().as_secs());
            eprintln!("hostftl: {percent} % done after {seconds} s, now {part}");
        }
    }

    /// Removes the bar until the next report.
    fn clear(&self) {
        self.bar().take().iter().for_each(ProgressBar::finish_and_clear);
    }

    fn bar(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Waiting {
    fn progress(&self, part: &str, done: usize, of: usize) {
        if !self.watched {
            return self.line(part, done, of);
        }
        if self.begin.elapsed() < PATIENCE {
            return;
        }
        let mut bar = self.bar();
        let bar = bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} %  {eta}");
            let style = style.expect("the template is well formed");
            ProgressBar::new(of as u64).with_style(style).with_elapsed(self.begin.elapsed())
        });
        bar.set_length(of as u64);
        bar.set_message(part.to_owned());
        bar.set_position(done as u64);
    }

    fn cancelled(&self) -> bool {
        interrupt::asked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_papers::Band;

    fn code_of(ours: f64, violation: Option<&str>) -> Option<u8> {
        let mut findings = Findings::new("A system");
        findings.checks.push(Check::new("gain", "gain", ours, Band::AtLeast(1.0)));
        findings.violations.extend(violation.map(String::from));
        verdict(&[Findings::new("Another"), findings]).err().map(|why| why.code)
    }

    #[test]
    fn failed_claims_and_broken_laws_fail_the_command() {
        assert_eq!(code_of(1.5, None), None);
        assert_eq!(code_of(0.5, None), Some(code::FAILED));
        assert_eq!(code_of(1.5, Some("a sector has no cause")), Some(code::VIOLATION));
    }
}
