//! The rounds of an advice after the first: variants, other seeds and states, and changed
//! conditions.

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use hostftl_sim::{Advice, Export, LayerSpec, Load, Offer, Outcome, Row, Study, Warm, is_same};
use hostftl_trace::{Compressibility, Source};

use super::placement::{Placement, without_ids};
use super::{Check, Failed, Request, Roomier, Round, Run, variants};
use crate::state;
use crate::wrong::{Wrong, WrongKind};

/// Compression ratio to try if nothing is known about the data.
const RATIO: Compressibility = Compressibility::Ratio(2000);

/// Maximum spans of ageing under conditions that do not decide the verdict.
const BRIEF: u64 = 1;

/// Runs the studies of an advice and collects their failures. A failed row does not affect the
/// others.
pub(super) struct Studies<'a> {
    run: Run<'a>,
    pub(super) failures: Vec<Failed>,
    pub(super) wrong: Option<Wrong>,
}

impl<'a> Studies<'a> {
    pub(super) fn new(run: Run<'a>) -> Self {
        Studies { run, failures: Vec::new(), wrong: None }
    }

    /// Runs a study of `round`.
    pub(super) fn one(&mut self, study: &Study, round: Round) -> Result<Outcome, Wrong> {
        let mut outcomes = self.all(std::slice::from_ref(study), round)?;
        Ok(outcomes.pop().expect("an outcome for each study"))
    }

    /// Runs several studies of `round` at once.
    pub(super) fn all(&mut self, studies: &[Study], round: Round) -> Result<Vec<Outcome>, Wrong> {
        let outcomes = (self.run)(studies, round)?;
        outcomes.iter().for_each(|outcome| self.record(outcome));
        Ok(outcomes)
    }

    /// Records the failed rows of an outcome.
    fn record(&mut self, outcome: &Outcome) {
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
    }
}

/// Runs variants of layers that are close to the best, and of layers that can't run with their
/// defaults, for a drive of `bytes`. Impossible variants are dropped, and those whose parameter has
/// no effect.
pub(super) fn refine(
    study: &mut Study,
    outcome: &mut Outcome,
    run: &mut Studies,
    bytes: u64,
) -> Result<(), Wrong> {
    let mut layers = variants::after(outcome, bytes);
    layers.retain(|variant| {
        let mut known = study.layers.iter();
        !known.any(|known| is_same(&study.drives[0], study.export, known, variant))
    });
    let more = Study { layers, ..study.clone() };
    let mut asked = run.one(&more, Round::Variants)?;
    asked.holes.retain(|hole| !variants::can_not_be(hole));
    outcome.rows.extend(asked.rows);
    outcome.holes.extend(asked.holes);
    study.layers.extend(more.layers);
    Ok(())
}

/// Results under other conditions.
#[derive(Default)]
pub(super) struct Conditions {
    pub checks: Vec<Check>,
    pub roomier: Option<Roomier>,
    pub placement: Option<Placement>,
    pub compressed: Option<Check>,
}

/// Runs the recommended layer, the second best and none under other conditions, all at once: on a
/// new drive, with other seeds if the workload depends on the seed, with a smaller export, and with
/// compressible data.
pub(super) fn conditions(
    args: &Request,
    study: &Study,
    offers: &[Offer],
    advice: &Advice,
    run: &mut Studies,
) -> Result<Conditions, Wrong> {
    let layers = first_two(study, offers, advice);
    let is_drawn = study.workloads[0].source.is_drawn();
    let more = if is_drawn { 1..u64::from(args.seeds) } else { 0..0 };
    let seeds = more.map(|more| args.seed.wrapping_add(more));
    let new = Study { warm: vec![Warm::NEW], ..study.clone() };
    let mut studies: Vec<Study> =
        [new].into_iter().chain(seeds.map(|seed| Study { seed, ..study.clone() })).collect();
    studies.iter_mut().for_each(|study| study.layers.clone_from(&layers));
    let count = studies.len();
    studies.push(roomier(study, layers)?);
    let is_final = |offer: &Offer| !offer.is_screened;
    let is_finalist = |name: &str| offers.iter().any(|it| it.layer == name && is_final(it));
    let without_ids = without_ids(study, is_finalist)?;
    let has_ids = without_ids.is_some();
    studies.extend(without_ids);
    studies.extend(compressed(args, study, offers)?);
    let outcomes = run.all(&studies, Round::Conditions)?;
    let checks = |(outcome, study): (&Outcome, &Study)| -> Vec<Check> {
        outcome.rows.iter().map(|row| check(row, study.seed)).collect()
    };
    let mut all = outcomes.iter().zip(&studies).peekable();
    let of_states = all.by_ref().take(count).flat_map(checks).collect();
    let roomier = all.next().and_then(|(outcome, study)| {
        let exported_bytes = outcome.rows.first()?.exported_bytes;
        Some(Roomier { exported_bytes, checks: checks((outcome, study)) })
    });
    let placement = all.next_if(|_| has_ids).and_then(|(outcome, study)| {
        let state = study.warm[0].to_string();
        Placement::of(&outcome.rows, study.seed, (offers, &state), is_final)
    });
    let compressed = all.next().and_then(|it| checks(it).pop());
    Ok(Conditions { checks: of_states, roomier, placement, compressed })
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

/// Returns the study of `layers`, the first two, and of the first `log` with an automatic spare,
/// with an exported capacity that is smaller by a quarter.
fn roomier(study: &Study, mut layers: Vec<LayerSpec>) -> Result<Study, Wrong> {
    let is_log = |layer: &&LayerSpec| layer.kind() == Some(LayerKind::Log);
    if let Some(log) = study.layers.iter().find(is_log) {
        layers.retain(|layer| !is_log(&layer));
        let has_spare = log.name.contains("spare=");
        let name = if has_spare { log.name.clone() } else { format!("{}:spare=auto", log.name) };
        layers.push(LayerSpec::parse(&name).map_err(Wrong::usage)?);
    }
    let sectors = study.export.sectors(&study.drives[0], 0) / 4 * 3;
    let export = Export::Bytes(sectors * SECTOR as u64);
    Ok(Study { layers, export, most_spans: BRIEF, ..study.clone() })
}

pub(super) fn check(row: &Row, seed: u64) -> Check {
    let (layer, state) = (row.layer.clone(), state(row).to_owned());
    Check { layer, state, seed, waf: row.waf_total.unwrap_or(1.0) }
}

/// Returns the study of the best compressing layer with compressible data; `None` if the
/// compressibility is given by the user or the trace, or if no layer compresses.
fn compressed(args: &Request, study: &Study, offers: &[Offer]) -> Result<Option<Study>, Wrong> {
    let mut source = study.workloads[0].source.clone();
    let stream = source.open(args.seed, study.compact)?;
    let logs = offers
        .iter()
        .filter(|it| it.layer.starts_with("log") && !it.layer.contains("compress=none"));
    let best = logs.min_by(|one, other| one.waf.total_cmp(&other.waf));
    let Some(best) = best.filter(|_| !stream.extras().saved) else { return Ok(None) };
    match source.plain_mut() {
        Source::File(file) => file.compress = Some(RATIO),
        Source::Synth(work) => work.compress = Some(RATIO),
        Source::Mixture(mixture) => mixture.set_compressibility(RATIO),
        Source::Like(like) => like.compress = Some(RATIO),
        Source::KvCache(kv) => kv.compress = Some(RATIO),
        Source::Told(_) => unreachable!("a plain source has no announcement"),
    }
    let layers = study.layers.iter().filter(|layer| layer.name == best.layer).cloned().collect();
    let workloads = vec![Load { name: args.trace.clone(), source }];
    Ok(Some(Study { workloads, layers, most_spans: BRIEF, ..study.clone() }))
}
