//! Advice on the layer for a workload on a drive, or none.
//!
//! All layers run with the counting clock on a slice of the drive that was aged briefly, then
//! variants of the best ones. Only the best run again, with modelled times, on a slice that was
//! aged until write amplification settled. Further rounds examine other seeds and changed
//! conditions.

mod conditions;
mod finalists;
mod placement;
mod plan;
mod quick;
mod rounds;
#[cfg(test)]
mod tests;
mod variants;

use std::path::{Path, PathBuf};

use hostftl_sim::{
    Export, Hole, HostLoad, LayerSpec, Limit, Limits, Offer, Outcome, Row, Scaled, Study,
    StudyError, Warm, Why,
};
use serde::Serialize;
use tempfile::TempDir;

use crate::slice::Slice;
use crate::wrong::Wrong;
pub use conditions::Condition;
pub use placement::Placement;
use rounds::{Conditions, Studies};

/// Caution about placement ids without effect.
const IGNORED_IDS: &str = "the workload has placement ids, but the drive has none, so they have no \
                           effect; choose a model with handles, or add :placements=N to the drive";

/// A round of studies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// All layers with their defaults. The workload is read for the first time.
    Layers,
    /// Variants of the best layers.
    Variants,
    /// The best layers on drives that were aged until write amplification settled, with modelled
    /// times.
    Finalists,
    /// Other seeds and states of the drive, a smaller export and compressible data.
    Conditions,
}

impl Round {
    /// Returns the name of the round in progress reports.
    pub fn name(self) -> &'static str {
        match self {
            Round::Layers => "layers",
            Round::Variants => "variants",
            Round::Finalists => "finalists",
            Round::Conditions => "other conditions",
        }
    }
}

/// Runs the studies of a round at once, and returns an outcome for each. Returns an error when it
/// is cancelled.
pub type Run<'a> = &'a mut dyn FnMut(&[Study], Round) -> Result<Vec<Outcome>, Wrong>;

/// A request for advice.
#[derive(Clone, Debug)]
pub struct Request {
    /// Workload.
    pub trace: String,
    /// Drive. The study runs on a slice of it.
    pub drive: String,
    /// Share of the exported capacity that is data of the workload, in thousandths; by default all
    /// of the data on the drive.
    pub hot: Option<u16>,
    /// State of the drive before the workload: a share is filled, then the workload itself is
    /// repeated.
    pub fill: Warm,
    /// Exported capacity.
    pub export: Export,
    /// Limits that a layer must meet.
    pub limits: Limits,
    /// Capacity of the drive in bytes, if it is not that of the model.
    pub scale_to: Option<u64>,
    /// Amount of data that the host writes to it.
    pub load: HostLoad,
    /// Layers to compare besides none; by default all that support the drive.
    pub layers: Option<Vec<LayerSpec>>,
    /// Number of seeds for the decision between the first two.
    pub seeds: u16,
    /// First seed.
    pub seed: u64,
    /// Whether only the counted rounds run, with brief ageing.
    pub quick: bool,
    /// Folder for aged stacks; by default a temporary one.
    pub cache: Option<PathBuf>,
    /// Maximum number of rows in progress; by default the number of cores.
    pub threads: Option<u16>,
    /// Memory limit in bytes for all rows in progress.
    pub memory: Option<u64>,
}

impl Request {
    /// Returns the rounds that will run, each with its share of the whole time.
    pub fn rounds(&self) -> Vec<(Round, f64)> {
        let weight = |round: &Round| match round {
            Round::Layers => 0.35,
            Round::Variants => 0.2,
            Round::Finalists => 0.25,
            Round::Conditions => 0.2,
        };
        let mut rounds = vec![Round::Layers, Round::Variants, Round::Finalists, Round::Conditions];
        rounds.retain(|round| match round {
            Round::Variants => self.layers.is_none() && !self.quick,
            Round::Conditions => !self.quick,
            _ => true,
        });
        let whole: f64 = rounds.iter().map(weight).sum();
        rounds.into_iter().map(|round| (round, weight(&round) / whole)).collect()
    }
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
    /// Slice of the drive on which the studies ran.
    pub slice: Slice,
    /// State of the drive before the workload.
    pub state: String,
    /// Exported capacity of the slice.
    pub exported_bytes: u64,
    /// Capacity of the drive, for which life and memory are stated.
    pub capacity_bytes: u64,
    /// Bytes per day that the host writes to it.
    pub load_bytes_per_day: Option<f64>,
    /// Whether only the counted rounds ran, with brief ageing.
    pub quick: bool,
    /// Whether the requests of the workload depend on the seed.
    pub depends_on_seed: bool,
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
    /// Effect of placement ids; `None` if the workload or the drive has none.
    pub placement: Option<Placement>,
    /// Best compressing layer if the data had a compression ratio of 2.
    pub compressed: Option<Check>,
    /// Reasons to doubt the advice, one sentence each.
    pub cautions: Vec<String>,
    /// Rows of the offers that were examined in full.
    #[serde(skip)]
    pub rows: Vec<Row>,
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

impl Told {
    /// Creates the entry of a layer without an offer.
    fn failed(name: &str, why: String) -> Self {
        Told { offer: None, name: name.to_owned(), broken: Vec::new(), failed: Some(why) }
    }
}

/// An additional run.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

/// Runs all studies of a request with `run`.
///
/// # Errors
/// If the trace or the drive can't be used, no row succeeds, `cancelled` returns true while the
/// trace is read, or `run` returns an error.
pub fn all(args: &Request, cancelled: &dyn Fn() -> bool, run: Run) -> Result<Answer, Wrong> {
    let kept = Folder::new(args)?;
    let (mut study, slice, impossible) = plan::study(args, kept.path(), cancelled)?;
    let mut studies = Studies::new(run);
    let run = &mut studies;
    let mut outcome = run.one(&study, Round::Layers)?;
    if args.layers.is_none() && !args.quick {
        rounds::refine(&mut study, &mut outcome, run, slice.drive_bytes)?;
    }
    if outcome.rows.is_empty() {
        outcome.whole()?;
        return Err(Wrong::failed("no layer can run on this drive"));
    }
    let screened = study.clone();
    // Brief ageing shows neither the rate that a layer sustains nor its latencies.
    let make = |row: &Row| {
        let offer = Offer::of(row, Some(&scaled(args, &slice, &screened, row)));
        Offer { is_screened: true, requests_per_s: None, p99_ns: None, ..offer }
    };
    let mut offers: Vec<Offer> = outcome.rows.iter().map(make).collect();
    if !args.quick {
        study.cache = Some(kept.path().to_owned());
    }
    let both = (&mut outcome.rows[..], &mut offers[..]);
    let (advice, conditions) = if args.quick {
        quick::find(&study, both, &args.limits, &make, run)?
    } else {
        let advice = finalists::find(&mut study, both, &args.limits, &make, run)?;
        let conditions = rounds::conditions(args, &study, &offers, &advice, run)?;
        (advice, conditions)
    };
    let Conditions { checks, roomier, placement, compressed } = conditions;
    let name = |index: usize| offers[index].layer.clone();
    // The ageing of the other rows is short on purpose.
    let finalists = outcome.rows.iter().zip(&offers).filter(|(_, offer)| !offer.is_screened);
    let finalists: Vec<Row> = finalists.map(|(row, _)| row.clone()).collect();
    let about = if args.quick { &outcome.rows[..1] } else { &finalists };
    let scaled: Vec<Scaled> = about.iter().map(|row| scaled(args, &slice, &study, row)).collect();
    let mut cautions = cautions(args, &scaled, &outcome);
    if placement.is_none() && placement::has_ids(&study)? {
        cautions.push(IGNORED_IDS.to_owned());
    }
    let mut answer = Answer {
        workload: args.trace.clone(),
        drive: args.drive.clone(),
        state: args.fill.to_string(),
        exported_bytes: outcome.rows[0].exported_bytes,
        capacity_bytes: slice.drive_bytes,
        slice,
        load_bytes_per_day: scaled.first().and_then(|it| it.load_bytes_per_day),
        quick: args.quick,
        depends_on_seed: study.workloads[0].source.is_drawn(),
        limits: args.limits,
        verdict: advice.verdict.map(name),
        runner_up: advice.runner_up.map(name),
        is_sure: false,
        without: advice.without.iter().map(|(limit, index)| (*limit, name(*index))).collect(),
        offers: told(&outcome, offers, advice.broken).chain(impossible).collect(),
        checks,
        roomier,
        placement,
        compressed,
        cautions,
        rows: finalists,
        failures: studies.failures,
        wrong: studies.wrong,
    };
    answer.is_sure = answer.ahead().is_some_and(|(least, _)| least > 1.0);
    Ok(answer)
}

/// Returns the error for a request that was interrupted while its trace was read.
pub(crate) fn interrupted() -> Wrong {
    Wrong::interrupted("interrupted before there was a result")
}

/// The folder for stacks that were aged in full, which several rounds use, or for the head of the
/// workload.
enum Folder {
    Given(PathBuf),
    /// Removed at the end.
    Temporary(TempDir),
}

impl Folder {
    fn new(args: &Request) -> Result<Self, Wrong> {
        if let Some(path) = args.cache.as_ref().filter(|_| !args.quick) {
            return Ok(Folder::Given(path.clone()));
        }
        let made = tempfile::Builder::new().prefix("hostftl-advise-").tempdir();
        let why = |error| {
            let folder = std::env::temp_dir();
            Wrong::failed(format!(
                "cannot keep aged drives in {}: {error}; set TMPDIR or --warm-cache",
                folder.display()
            ))
        };
        made.map(Folder::Temporary).map_err(why)
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Given(path) => path,
            Folder::Temporary(folder) => folder.path(),
        }
    }
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

fn scaled(args: &Request, slice: &Slice, study: &Study, row: &Row) -> Scaled {
    let layer = study.layers.iter().find(|layer| layer.name == row.layer);
    let layer = layer.expect("a row belongs to the study");
    Scaled::of(row, &study.drives[0], layer, slice.drive_bytes, args.load)
}

/// Returns every offer in order, then the layers without one.
fn told(
    outcome: &Outcome,
    offers: Vec<Offer>,
    broken: Vec<Vec<Limit>>,
) -> impl Iterator<Item = Told> {
    let made = offers.into_iter().zip(broken).map(|(offer, broken)| {
        let name = offer.layer.clone();
        Told { offer: Some(offer), name, broken, failed: None }
    });
    // The entry has the layer, and the answer the drive.
    let reason = |hole: &Hole| match &hole.why {
        Why::Failed(StudyError::Plan { why, .. }) => why.clone(),
        _ => hole.reason(),
    };
    made.chain(outcome.holes.iter().map(move |hole| Told::failed(&hole.layer, reason(hole))))
}

/// Returns the reasons to doubt the advice, each once.
fn cautions(args: &Request, scaled: &[Scaled], outcome: &Outcome) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in scaled.iter().flat_map(|it| &it.cautions) {
        // A quick answer is never based on a settled state.
        let is_known = texts.contains(text) || args.quick && text.contains("(not reached)");
        if !is_known {
            texts.push(text.clone());
        }
    }
    if args.quick {
        texts.push(format!(
            "--quick: the first {},000 requests and default parameters only; write amplification \
             had not settled, and neither speed nor latency was timed, so their limits were not \
             checked",
            quick::HEAD / 1000
        ));
    }
    if outcome.rows.iter().any(|row| row.waf_total.is_none()) {
        texts.push("the workload writes nothing, so no layer can reduce writes".into());
    }
    texts
}
