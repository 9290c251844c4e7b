//! `hostftl trace info`: shows the properties of a trace.

mod facts;
mod page;

use std::path::PathBuf;

use comfy_table::{Cell, CellAlignment, Table, TableStyle, presets};
use hostftl_trace::{Info, Stats, Stream};

use super::super::output::Output;
use super::progress::Progress;
use super::{interrupted, source, warn};
use crate::console::Console;
use crate::envelope::Envelope;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{bytes, count};

/// A line only between the header and the rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);

/// Show the properties of a trace: mix, sizes, working set, rewrites, rates
///
/// Needs 4 bytes of memory for each touched page of 4 KiB.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl trace info vol.csv.zst --html vol.html")]
pub(super) struct Args {
    /// Trace, with options as in FILE:format=msr,dev=0; `-` for standard input; or a workload,
    /// synth:...
    trace: String,
    /// Also write an HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Skip and count bad lines
    #[arg(long)]
    skip_bad: bool,
    /// Random seed of a synthetic workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let html = args.html.as_deref().map(Output::open).transpose()?;
    let mut source = source(&args.trace, args.skip_bad)?;
    source.read_once();
    let mut stream = source.open(args.seed, false)?;
    let format = hostftl_frontend::traces::format(&stream);
    let mut stats = Stats::default();
    let mut progress = Progress::new(console.is_watched());
    for record in &mut stream {
        stats.count(&record?);
        if progress.step() {
            break;
        }
    }
    drop(progress);
    let info = stats.info();
    if info.requests == 0 {
        let notes = stream.notes();
        warn(&args.trace, &notes);
        let why = notes.emptiness();
        return Err(Failure::failed(format!("{}: the trace has no requests{why}", args.trace)));
    }
    if console.is_json() {
        json(format, &info, &stream, console)?
    } else {
        print(args, format, &info, &stream, console)?
    }
    if let (Some(html), Some(path)) = (html, &args.html) {
        let page = page::page(args, format, &info, &stats.curves(), &stream.notes());
        html.write(page.finish().as_bytes())?;
        if !console.is_json() {
            console.line(format_args!("{}: the page", path.display()))?;
        }
    }
    warn(&args.trace, &stream.notes());
    if interrupt::asked() { Err(interrupted()) } else { Ok(()) }
}

fn json(format: &str, info: &Info, stream: &Stream, console: &mut Console) -> Result<(), Failure> {
    let value = hostftl_frontend::traces::info(format, info, &stream.notes(), interrupt::asked());
    console.value(&Envelope::new("trace-info", value.map_err(Failure::failed)?))
}

fn print(
    args: &Args,
    format: &str,
    info: &Info,
    stream: &Stream,
    console: &mut Console,
) -> Result<(), Failure> {
    console.line(format!("{} ({format})", args.trace))?;
    for (name, text) in facts::facts(info) {
        console.field(name, text)?;
    }
    console.field("skipped", facts::skipped(&stream.notes()))?;
    let kinds = table(&facts::KIND_HEADS, facts::kinds(info));
    let texts = |counts: [Option<u64>; 3]| counts.map(|it| it.map_or(facts::NOTHING.into(), count));
    let row = |(size, counts): (u64, _)| {
        std::iter::once(format!("up to {}", bytes(size))).chain(texts(counts)).collect()
    };
    let heads = ["size", "reads", "writes", "discards"];
    let sizes = table(&heads, facts::sizes(info).into_iter().map(row).collect());
    console.lines(format!("\n{}\n\n{}", console.fit(kinds), console.fit(sizes)))
}

fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let cells = |texts: Vec<String>| {
        let sides =
            std::iter::once(CellAlignment::Left).chain(std::iter::repeat(CellAlignment::Right));
        texts.into_iter().zip(sides).map(|(text, side)| Cell::new(text).set_alignment(side))
    };
    table.set_header(cells(heads.iter().map(|head| (*head).to_owned()).collect()));
    rows.into_iter().for_each(|row| {
        table.add_row(cells(row));
    });
    table
}
