//! The rounds of an advice after the first: variants, other seeds and states, and changed
//! conditions.

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use hostftl_sim::{Advice, Export, LayerSpec, Load, Offer, Outcome, Row, Study, Warm, is_same};
use hostftl_trace::{Compressibility, Source};

use super::{Check, Failed, Request, Roomier, Round, Run, variants};
use crate::state;
use crate::wrong::{Wrong, WrongKind};

/// Compression ratio to try if nothing is known about the data.
const RATIO: Compressibility = Compressibility::Ratio(2000);

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
    pub(super) fn run(&mut self, study: &Study, round: Round) -> Result<Outcome, Wrong> {
        let outcome = (self.run)(study, round)?;
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

/// Runs variants of layers that are close to the best, and of layers that can't run with their
/// defaults. Impossible variants are dropped, and those whose parameter has no effect.
pub(super) fn refine(
    study: &mut Study,
    outcome: &mut Outcome,
    run: &mut Studies,
) -> Result<(), Wrong> {
    let mut layers = variants::after(outcome);
    layers.retain(|variant| {
        let mut known = study.layers.iter();
        !known.any(|known| is_same(&study.drives[0], study.export, known, variant))
    });
    let more = Study { layers, ..study.clone() };
    let mut asked = run.run(&more, Round::Variants)?;
    asked.holes.retain(|hole| !variants::can_not_be(hole));
    outcome.rows.extend(asked.rows);
    outcome.holes.extend(asked.holes);
    study.layers.extend(more.layers);
    Ok(())
}

/// Runs the recommended layer, the second best and none on a new drive, and with other seeds if the
/// workload depends on the seed.
pub(super) fn checks(
    args: &Request,
    study: &Study,
    offers: &[Offer],
    advice: &Advice,
    run: &mut Studies,
) -> Result<Vec<Check>, Wrong> {
    let layers = first_two(study, offers, advice);
    let is_drawn = study.workloads[0].source.is_drawn();
    let more = if is_drawn { 1..u64::from(args.seeds) } else { 0..0 };
    let seeds = more.map(|more| Study { seed: args.seed.wrapping_add(more), ..study.clone() });
    let new = Study { warm: vec![Warm::NEW], ..study.clone() };
    let mut checks = Vec::new();
    for study in [new].into_iter().chain(seeds) {
        let study = Study { layers: layers.clone(), ..study };
        let outcome = run.run(&study, Round::Checks)?;
        checks.extend(outcome.rows.iter().map(|row| check(row, study.seed)));
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
pub(super) fn roomier(
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
    let outcome = run.run(&study, Round::Spare)?;
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
pub(super) fn compressed(
    args: &Request,
    study: &Study,
    offers: &[Offer],
    run: &mut Studies,
) -> Result<Option<Check>, Wrong> {
    let mut source = study.workloads[0].source.clone();
    let stream = source.open(args.seed, study.compact)?;
    let logs = offers
        .iter()
        .filter(|it| it.layer.starts_with("log") && !it.layer.contains("compress=none"));
    let best = logs.min_by(|one, other| one.waf.total_cmp(&other.waf));
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
    let outcome = run.run(&study, Round::Compression)?;
    Ok(outcome.rows.first().map(|row| check(row, args.seed)))
}
