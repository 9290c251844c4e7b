//! Advice on the layer for a workload on a drive, or none. It runs studies of all layers once, then
//! further studies of the first two.

#[cfg(test)]
mod tests;
mod variants;

use std::path::PathBuf;

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use hostftl_sim::{
    Advice, Export, HostLoad, LayerSpec, Limit, Limits, Load, Offer, Outcome, Row, Scaled, Study,
    Warm, advise, default_memory,
};
use hostftl_trace::{Compressibility, Source};
use serde::Serialize;

use crate::question::{source, stack};
use crate::state;
use crate::wrong::{Wrong, WrongKind};

/// Default layers besides none.
const LAYERS: [&str; 7] = ["hard", "mhatl", "shatl", "hatl-auto", "log", "pblk", "rrpc"];

/// Compression ratio to try if nothing is known about the data.
const RATIO: Compressibility = Compressibility::Ratio(2000);

/// Runs a study. The flag is true for the first study of a request, in which the workload is read.
///
/// Returns an error when the study is cancelled.
pub type Run<'a> = &'a mut dyn FnMut(&Study, bool) -> Result<Outcome, Wrong>;

/// A request for advice.
#[derive(Clone, Debug)]
pub struct Request {
    /// Workload.
    pub trace: String,
    /// Drive.
    pub drive: String,
    /// State of the drive before the workload: a share is filled, then the workload itself is
    /// repeated.
    pub fill: Warm,
    /// Exported capacity.
    pub export: Export,
    /// Limits that a layer must meet.
    pub limits: Limits,
    /// Capacity of the real drive in bytes.
    pub scale_to: Option<u64>,
    /// Amount of data that the host writes to it.
    pub load: HostLoad,
    /// Layers to compare besides none; by default all that support the drive.
    pub layers: Option<Vec<LayerSpec>>,
    /// Number of seeds for the decision between the first two.
    pub seeds: u16,
    /// First seed.
    pub seed: u64,
    /// Folder for preconditioned stacks.
    pub cache: Option<PathBuf>,
    /// Maximum number of rows in progress; by default the number of cores.
    pub threads: Option<u16>,
    /// Memory limit in bytes for all rows in progress.
    pub memory: Option<u64>,
}

/// Parses the share of the exported capacity that holds data, and returns the state of the drive.
///
/// # Errors
/// The accepted form.
pub fn fill(text: &str) -> Result<Warm, String> {
    let filled = format!("self={text}").parse::<Warm>();
    filled.map_err(|_| format!("`{text}` is not a share; write a percentage up to 100%, as in 70%"))
}

/// The advice and the figures behind it.
#[derive(Serialize)]
pub struct Answer {
    /// Workload as the user named it.
    pub workload: String,
    /// Drive as the user named it.
    pub drive: String,
    /// State of the drive before the workload.
    pub state: String,
    /// Exported capacity.
    pub exported_bytes: u64,
    /// Capacity for which life and memory are stated.
    pub capacity_bytes: u64,
    /// Bytes per day that the host writes to it.
    pub load_bytes_per_day: Option<f64>,
    /// Limits that a layer must meet.
    pub limits: Limits,
    /// Recommended layer; `passthrough` means none.
    pub verdict: Option<String>,
    /// Second best.
    pub runner_up: Option<String>,
    /// Whether the recommended layer is better than the second best with every seed.
    pub is_sure: bool,
    /// Figures of each layer.
    pub offers: Vec<Told>,
    /// For each limit, the recommendation without it.
    pub without: Vec<(Limit, String)>,
    /// Runs of the first two and of none with other seeds and in other states.
    pub checks: Vec<Check>,
    /// Effect of more over-provisioning; `None` if the workload needs the whole exported capacity.
    pub roomier: Option<Roomier>,
    /// Best compressing layer if the data had a compression ratio of 2.
    pub compressed: Option<Check>,
    /// Reasons to doubt the advice, one sentence each.
    pub cautions: Vec<String>,
    /// Failed rows of all studies behind the advice.
    pub failures: Vec<Failed>,
    /// First and worst of these failures, which determines the exit code.
    #[serde(skip)]
    pub wrong: Option<Wrong>,
}

/// A row that failed: a law was violated, or this machine could not run it.
#[derive(Serialize)]
pub struct Failed {
    /// Layer.
    pub layer: String,
    /// State of the drive before the workload.
    pub state: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Reason.
    pub failed: String,
}

/// An offer with the limits that it exceeds, or the reason why there is none.
#[derive(Serialize)]
pub struct Told {
    #[serde(flatten)]
    /// Figures of the layer.
    pub offer: Option<Offer>,
    /// Layer.
    pub name: String,
    /// Limits that it exceeds.
    pub broken: Vec<Limit>,
    /// Reason why there is no offer.
    pub failed: Option<String>,
}

/// An additional run.
#[derive(Serialize)]
pub struct Check {
    /// Layer.
    pub layer: String,
    /// State of the drive before the workload.
    pub state: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Bytes programmed per byte written by the host.
    pub waf: f64,
}

/// Runs of the first two, of none, and of `log` with an automatic spare, with an exported capacity
/// that is smaller by a quarter.
#[derive(Serialize)]
pub struct Roomier {
    /// Exported capacity of these runs.
    pub exported_bytes: u64,
    /// Results.
    pub checks: Vec<Check>,
}

/// Runs the studies of an advice and collects their failures. A failed row does not affect the
/// others.
struct Studies<'a> {
    run: Run<'a>,
    failures: Vec<Failed>,
    wrong: Option<Wrong>,
}

impl Studies<'_> {
    /// Runs a study. `is_first` is true for the first study of a request.
    fn run(&mut self, study: &Study, is_first: bool) -> Result<Outcome, Wrong> {
        let outcome = (self.run)(study, is_first)?;
        let failed = outcome.holes.iter().filter(|it| it.is_violation() || it.is_of_machine());
        self.failures.extend(failed.map(|hole| Failed {
            layer: hole.layer.clone(),
            state: hole.warm.clone(),
            seed: hole.seed,
            failed: hole.reason(),
        }));
        if let Some(wrong) = Wrong::of_holes(&outcome.holes)
            && self.wrong.as_ref().is_none_or(|it| it.kind != WrongKind::Violation)
        {
            self.wrong = Some(wrong);
        }
        Ok(outcome)
    }
}

/// Runs all studies of a request with `run`.
///
/// # Errors
/// If the trace or the drive can't be used, no row succeeds, or `run` returns an error.
pub fn all(args: &Request, run: Run) -> Result<Answer, Wrong> {
    let mut study = study(args)?;
    let mut studies = Studies { run, failures: Vec::new(), wrong: None };
    let run = &mut studies;
    let mut outcome = run.run(&study, true)?;
    if args.layers.is_none() {
        refine(&mut study, &mut outcome, run)?;
    }
    if outcome.rows.is_empty() {
        outcome.whole()?;
        return Err(Wrong::failed("no layer could be simulated"));
    }
    if args.load.needs_clock() && outcome.rows.iter().any(|row| row.workload_ns == 0) {
        return Err(without_clock());
    }
    let scaled: Vec<Scaled> = outcome.rows.iter().map(|row| scaled(args, &study, row)).collect();
    let offers: Vec<Offer> = outcome.rows.iter().zip(&scaled).map(offer).collect();
    let advice = advise(&offers, &args.limits);
    let checks = checks(args, &study, &offers, &advice, run)?;
    let roomier = roomier(&study, &offers, &advice, run)?;
    let compressed = compressed(args, &study, &outcome.rows, run)?;
    let name = |index: usize| offers[index].layer.clone();
    let mut cautions = cautions(&scaled);
    if outcome.rows.iter().any(|row| row.waf_total.is_none()) {
        cautions.push("the workload does not write, so no layer can save writes".into());
    }
    let first = &outcome.rows[0];
    let mut answer = Answer {
        workload: args.trace.clone(),
        drive: args.drive.clone(),
        state: args.fill.to_string(),
        exported_bytes: first.exported_bytes,
        capacity_bytes: scaled[0].capacity_bytes,
        load_bytes_per_day: scaled[0].load_bytes_per_day,
        limits: args.limits,
        verdict: advice.verdict.map(name),
        runner_up: advice.runner_up.map(name),
        is_sure: false,
        without: advice.without.iter().map(|(limit, index)| (*limit, name(*index))).collect(),
        offers: told(&outcome, offers, advice.broken),
        checks,
        roomier,
        compressed,
        cautions,
        failures: studies.failures,
        wrong: studies.wrong,
    };
    answer.is_sure = answer.ahead().is_some_and(|(least, _)| least > 1.0);
    Ok(answer)
}

impl Answer {
    /// Returns the bytes programmed by the second best relative to the recommended layer, as
    /// minimum and maximum over the seeds.
    pub fn ahead(&self) -> Option<(f64, f64)> {
        let (verdict, runner_up) = (self.verdict.as_ref()?, self.runner_up.as_ref()?);
        let waf = |layer: &str, seed: Option<u64>| match seed {
            None => self.offer(layer).map(|offer| offer.waf),
            Some(seed) => {
                let mut all = self.checks.iter();
                let is_it =
                    |it: &&Check| it.layer == layer && it.seed == seed && it.state == self.state;
                all.find(is_it).map(|it| it.waf)
            }
        };
        let others = self.checks.iter().filter(|it| it.state == self.state);
        let seeds = [None].into_iter().chain(others.map(|it| Some(it.seed)));
        let ratios: Vec<f64> =
            seeds.filter_map(|seed| Some(waf(runner_up, seed)? / waf(verdict, seed)?)).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        Some((least, ratios.into_iter().fold(least, f64::max)))
    }

    /// Returns the offer of a layer.
    pub fn offer(&self, layer: &str) -> Option<&Offer> {
        self.offers.iter().filter_map(|it| it.offer.as_ref()).find(|offer| offer.layer == layer)
    }
}

/// Returns the error for a workload without a clock where its own rate is needed.
fn without_clock() -> Wrong {
    Wrong::usage(
        "the workload has no clock, so its writes per day are unknown; state them, as in --load \
         12TB/day or --load 0.3dwpd, or add iops= to synth:…",
    )
}

/// Returns the study of all layers, none first.
fn study(args: &Request) -> Result<Study, Wrong> {
    let source = source(&args.trace, false)?;
    let has_clock = !matches!(source.plain(), Source::Synth(work) if work.iops == 0);
    if args.load.needs_clock() && !has_clock {
        return Err(without_clock());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stack = stack(&args.drive)?;
    if stack.devices.len() > 1 {
        let why = "advise takes one drive; use compare for stacks of several drives";
        return Err(Wrong::usage(format!("{}: {why}", stack.name)));
    }
    // Some layers support only one kind of drive. Layers that the user named are included anyway.
    let of_raw = [LayerKind::Log, LayerKind::Pblk, LayerKind::Rrpc];
    let suits = |layer: &LayerSpec| match (layer.kind(), stack.is_raw()) {
        (Some(kind), true) => of_raw.contains(&kind),
        (Some(kind), false) => !of_raw[1..].contains(&kind),
        (None, _) => false,
    };
    let usual = || LAYERS.map(|name| LayerSpec::parse(name).expect("a built-in entry"));
    let usual = || usual().into_iter().filter(suits).collect();
    let mut layers: Vec<LayerSpec> = args.layers.clone().unwrap_or_else(usual);
    if !stack.is_raw() {
        layers.retain(|layer| layer.kind() != Some(LayerKind::Passthrough));
        layers.insert(0, LayerKind::Passthrough.into());
    }
    Ok(Study {
        compact: matches!(source.plain(), Source::File(_)),
        workloads: vec![Load { name: args.trace.clone(), source }],
        drives: vec![stack],
        layers,
        warm: vec![args.fill],
        export: args.export,
        cache: args.cache.clone(),
        closed_loop: None,
        seed: args.seed,
        threads: args.threads.map_or(cores, usize::from),
        memory: args.memory.unwrap_or_else(default_memory),
    })
}

/// Runs variants of layers that are close to the best, and of layers that can't run with their
/// defaults. Impossible variants are dropped.
fn refine(study: &mut Study, outcome: &mut Outcome, run: &mut Studies) -> Result<(), Wrong> {
    let more = Study { layers: variants::after(outcome), ..study.clone() };
    let mut asked = run.run(&more, false)?;
    asked.holes.retain(|hole| !variants::can_not_be(hole));
    outcome.rows.extend(asked.rows);
    outcome.holes.extend(asked.holes);
    study.layers.extend(more.layers);
    Ok(())
}

fn scaled(args: &Request, study: &Study, row: &Row) -> Scaled {
    let drive = &study.drives[0];
    let layer = study.layers.iter().find(|layer| layer.name == row.layer);
    let capacity = args.scale_to.unwrap_or(drive.sectors() * 512);
    Scaled::of(row, drive, layer.expect("a row belongs to the study"), capacity, args.load)
}

fn offer((row, scaled): (&Row, &Scaled)) -> Offer {
    let latency = &row.latency_ns;
    Offer {
        layer: row.layer.clone(),
        is_none: row.layer == LayerKind::Passthrough.name(),
        waf: row.waf_total.unwrap_or(1.0),
        memory_bytes: scaled.memory_bytes.unwrap_or(row.layer_bytes()),
        p99_ns: latency.read.iter().chain(&latency.write).map(|it| it.p99).max(),
        years: scaled.years,
        years_uneven: scaled.years_uneven,
        impossible: scaled.impossible.clone().filter(|_| row.layer_bytes() > 0),
    }
}

/// Returns every offer in order, then the layers without one.
fn told(outcome: &Outcome, offers: Vec<Offer>, broken: Vec<Vec<Limit>>) -> Vec<Told> {
    let made = offers.into_iter().zip(broken).map(|(offer, broken)| {
        let name = offer.layer.clone();
        Told { offer: Some(offer), name, broken, failed: None }
    });
    let holes = outcome.holes.iter().map(|hole| Told {
        offer: None,
        name: hole.layer.clone(),
        broken: Vec::new(),
        failed: Some(hole.reason()),
    });
    made.chain(holes).collect()
}

/// Runs the recommended layer, the second best and none: with other seeds, and with the first seed
/// on a new drive and on one that was overwritten at random.
fn checks(
    args: &Request,
    study: &Study,
    offers: &[Offer],
    advice: &Advice,
    run: &mut Studies,
) -> Result<Vec<Check>, Wrong> {
    let layers = first_two(study, offers, advice);
    let steady = args.fill.steady();
    let mut checks = Vec::new();
    let mut ask = |study: Study| -> Result<bool, Wrong> {
        let study = Study { layers: layers.clone(), ..study };
        let outcome = run.run(&study, false)?;
        checks.extend(outcome.rows.iter().map(|row| check(row, study.seed)));
        let waf = |row: &Row| offers.iter().find(|it| it.layer == row.layer).map(|it| it.waf);
        Ok(outcome.rows.iter().any(|row| row.waf_total.is_some() && row.waf_total != waf(row)))
    };
    ask(Study { warm: vec![Warm::NEW, steady], ..study.clone() })?;
    for more in 1..u64::from(args.seeds) {
        // If one seed changes nothing, the run has no random part, so the other seeds are skipped.
        if !ask(Study { seed: args.seed.wrapping_add(more), ..study.clone() })? {
            break;
        }
    }
    Ok(checks)
}

/// Returns none, the recommended layer and the second best.
fn first_two(study: &Study, offers: &[Offer], advice: &Advice) -> Vec<LayerSpec> {
    let is_asked = |layer: &&LayerSpec| {
        let index = offers.iter().position(|offer| offer.layer == layer.name);
        let is_first = index.is_some() && [advice.verdict, advice.runner_up].contains(&index);
        is_first || layer.kind() == Some(LayerKind::Passthrough)
    };
    study.layers.iter().filter(is_asked).cloned().collect()
}

/// Runs the first two, and the first `log` with an automatic spare, with an exported capacity that
/// is smaller by a quarter.
fn roomier(
    study: &Study,
    offers: &[Offer],
    advice: &Advice,
    run: &mut Studies,
) -> Result<Option<Roomier>, Wrong> {
    let is_log = |layer: &&LayerSpec| layer.kind() == Some(LayerKind::Log);
    let mut layers = first_two(study, offers, advice);
    if let Some(log) = study.layers.iter().find(is_log) {
        layers.retain(|layer| !is_log(&layer));
        let suited = LayerSpec::parse(&format!("{}:spare=auto", log.name));
        layers.push(suited.map_err(Wrong::usage)?);
    }
    let sectors = study.export.sectors(&study.drives[0], 0) / 4 * 3;
    let export = Export::Bytes(sectors * SECTOR as u64);
    let study = Study { layers, export, ..study.clone() };
    let outcome = run.run(&study, false)?;
    let Some(first) = outcome.rows.first() else { return Ok(None) };
    let checks = outcome.rows.iter().map(|row| check(row, study.seed)).collect();
    Ok(Some(Roomier { exported_bytes: first.exported_bytes, checks }))
}

fn check(row: &Row, seed: u64) -> Check {
    let (layer, state) = (row.layer.clone(), state(row).to_owned());
    Check { layer, state, seed, waf: row.waf_total.unwrap_or(1.0) }
}

/// Runs the best of the compressing layers with compressible data. Returns `None` if the
/// compressibility is given by the user or the trace, or if no layer compresses.
fn compressed(
    args: &Request,
    study: &Study,
    rows: &[Row],
    run: &mut Studies,
) -> Result<Option<Check>, Wrong> {
    let mut source = study.workloads[0].source.clone();
    let stream = source.open(args.seed, study.compact)?;
    let logs = rows
        .iter()
        .filter(|row| row.layer.starts_with("log") && !row.layer.contains("compress=none"));
    let best = logs.min_by(|one, other| {
        one.waf_total.unwrap_or(1.0).total_cmp(&other.waf_total.unwrap_or(1.0))
    });
    let Some(best) = best.filter(|_| !stream.has_saved()) else { return Ok(None) };
    match source.plain_mut() {
        Source::File(file) => file.compress = Some(RATIO),
        Source::Synth(work) => work.compress = Some(RATIO),
        Source::Like(like) => like.compress = Some(RATIO),
        Source::Told(_) => unreachable!("a plain source has no announcement"),
    }
    let layers = study.layers.iter().filter(|layer| layer.name == best.layer).cloned();
    let (name, layers) = (args.trace.clone(), layers.collect());
    let workloads = vec![Load { name, source }];
    let study = Study { workloads, layers, ..study.clone() };
    let outcome = run.run(&study, false)?;
    Ok(outcome.rows.first().map(|row| check(row, args.seed)))
}

/// Returns the reasons to doubt the advice, each once.
fn cautions(scaled: &[Scaled]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in scaled.iter().flat_map(|it| &it.cautions) {
        if !texts.contains(text) {
            texts.push(text.clone());
        }
    }
    texts
}
