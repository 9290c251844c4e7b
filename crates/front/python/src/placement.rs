//! `place`: the writes of a workload on a segment log. Its rules may be Python objects, which are
//! called in batches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hostftl_frontend::Wrong;
use hostftl_lab_placement::{
    ByFrequency, ByHazard, Choose, Collector, Future, LogCounts, LogSpec, Placement, Plain, Rates,
    Sealed, SegmentLog, SepBit,
};
use hostftl_layers::policy::GcPolicy;
use hostftl_trace::{Op, Source};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::{errors, outside};

/// Sectors per block.
const BLOCK: u64 = 8;

/// Arguments from Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    trace: String,
    seed: u64,
    /// Blocks per segment.
    segment: u32,
    /// Over-provisioning in thousandths.
    spare: u32,
    /// Number of repetitions of the workload; the last one is measured.
    rounds: u32,
    /// Maximum number of writes per call of a rule.
    batch: usize,
    /// Whether every block is written once before.
    fill: bool,
    /// `none`, `two`, `sepbit`, `frequency`, `hazard`, `rates`, `future`, or an object with
    /// `classes`, `_write`, `_copy` and `_collected`.
    placement: Rule,
    /// Name of a victim policy, or an object with `_choose`.
    gc: Rule,
}

#[derive(FromPyObject)]
enum Rule {
    Word(String),
    Own(Py<PyAny>),
}

/// First exception of a rule, and a flag that ends the work.
#[derive(Clone, Default)]
struct Broken(Arc<Mutex<Option<PyErr>>>, Arc<AtomicBool>);

impl Broken {
    fn note(&self, error: PyErr) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.1.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

/// A placement rule in Python. Arrays are passed as bytes, from which Python creates arrays without
/// a copy.
struct Own {
    rule: Py<PyAny>,
    classes: u8,
    broken: Broken,
}

impl Own {
    fn ask(
        &self,
        method: &str,
        (lbas, ages): (&[u32], &[u64]),
        from: Option<u8>,
        classes: &mut [u8],
    ) {
        if self.broken.is_set() {
            return classes.fill(0);
        }
        let asked = Python::attach(|py| -> PyResult<()> {
            let (lbas, ages) = (PyBytes::new(py, &bytes32(lbas)), PyBytes::new(py, &bytes64(ages)));
            let answer = match from {
                None => self.rule.call_method1(py, method, (lbas, ages))?,
                Some(from) => self.rule.call_method1(py, method, (lbas, ages, from))?,
            };
            let answer = answer.extract::<&[u8]>(py).map(<[u8]>::to_vec)?;
            let sound = answer.len() == classes.len() && answer.iter().all(|it| *it < self.classes);
            if !sound {
                let text = format!(
                    "a placement rule must return a class below {} for each of {} blocks",
                    self.classes,
                    classes.len()
                );
                return Err(errors::usage(py, text));
            }
            classes.copy_from_slice(&answer);
            Ok(())
        });
        if let Err(error) = asked {
            self.broken.note(error);
            classes.fill(0);
        }
    }
}

fn bytes32(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn bytes64(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

impl Placement for Own {
    fn classes(&self) -> u8 {
        self.classes
    }

    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]) {
        self.ask("_write", (lbas, ages), None, classes);
    }

    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], from: u8, classes: &mut [u8]) {
        if !lbas.is_empty() {
            self.ask("_copy", (lbas, ages), Some(from), classes);
        }
    }

    fn collected(&mut self, class: u8, lifespan: u64) {
        if self.broken.is_set() {
            return;
        }
        let told = Python::attach(|py| {
            self.rule.call_method1(py, "collected", (class, lifespan)).map(drop)
        });
        told.unwrap_or_else(|error| self.broken.note(error));
    }
}

/// A victim policy in Python.
struct Chooser {
    rule: Py<PyAny>,
    broken: Broken,
}

impl Choose for Chooser {
    fn choose(&mut self, sealed: &Sealed) -> Vec<usize> {
        let ask = |py: Python<'_>| -> PyResult<Vec<usize>> {
            let (valid, ages) = (
                PyBytes::new(py, &bytes32(&sealed.valid)),
                PyBytes::new(py, &bytes64(&sealed.ages)),
            );
            let classes = PyBytes::new(py, &sealed.classes);
            let chosen = self.rule.call_method1(py, "_choose", (valid, ages, classes))?;
            let chosen: Vec<usize> = chosen.extract(py)?;
            if !chosen.is_empty() && chosen.iter().all(|at| *at < sealed.segments.len()) {
                Ok(chosen)
            } else {
                Err(errors::usage(
                    py,
                    "a victim policy must return at least one index of the arrays".to_owned(),
                ))
            }
        };
        let chosen = if self.broken.is_set() { None } else { Some(Python::attach(ask)) };
        match chosen {
            Some(Ok(chosen)) => chosen,
            Some(Err(error)) => {
                self.broken.note(error);
                emptiest(sealed)
            }
            None => emptiest(sealed),
        }
    }
}

/// Returns the emptiest segment, which is collected after an exception until the work has ended.
fn emptiest(sealed: &Sealed) -> Vec<usize> {
    let all = sealed.valid.iter().enumerate();
    all.min_by_key(|(_, valid)| **valid).map(|(at, _)| at).into_iter().collect()
}

/// Returns the blocks that the workload writes, with packed addresses, and the number of blocks.
fn writes(asked: &Asked) -> Result<(Vec<u32>, u32), Wrong> {
    let source: Source = asked.trace.parse().map_err(Wrong::usage)?;
    let (mut lbas, mut end) = (Vec::new(), 0u64);
    for record in source.open(asked.seed, true).map_err(Wrong::failed)? {
        let record = record.map_err(Wrong::failed)?;
        if record.op != Op::Write {
            continue;
        }
        let blocks = record.lba / BLOCK..record.end().div_ceil(BLOCK);
        end = end.max(blocks.end);
        if end >= u64::from(u32::MAX) {
            return Err(Wrong::failed("the workload writes more than 2^32 blocks of 4 KiB"));
        }
        lbas.extend(blocks.map(|block| block as u32));
    }
    if lbas.is_empty() {
        Err(Wrong::failed(format!("{}: the workload has no writes", asked.trace)))
    } else {
        Ok((lbas, end as u32))
    }
}

/// A ready placement rule.
type Made = Box<dyn Placement + Send>;

/// A placement rule, or its constructor if it depends on the written blocks.
enum Placer {
    Made(Made),
    Of(fn(asked: &Asked, lbas: &[u32], blocks: u32) -> Made),
}

fn made(placement: impl Placement + Send + 'static) -> PyResult<Placer> {
    Ok(Placer::Made(Box::new(placement)))
}

/// Returns all writes to `blocks` blocks, including the fill.
fn all_writes(asked: &Asked, lbas: &[u32], blocks: u32) -> Vec<u32> {
    let fill = 0..if asked.fill { blocks } else { 0 };
    fill.chain((0..asked.rounds).flat_map(|_| lbas).copied()).collect()
}

/// Returns the requested placement rule.
fn placer(py: Python<'_>, rule: &Rule, broken: &Broken) -> PyResult<Placer> {
    match rule {
        Rule::Word(word) => match word.as_str() {
            "none" => made(Plain { parted: false }),
            "two" => made(Plain { parted: true }),
            "sepbit" => made(SepBit::default()),
            "frequency" => Ok(Placer::Of(|_, _, blocks| Box::new(ByFrequency::new(blocks)))),
            "hazard" => Ok(Placer::Of(|_, _, blocks| Box::new(ByHazard::new(blocks)))),
            "rates" => Ok(Placer::Of(|_, lbas, blocks| Box::new(Rates::of(lbas, blocks)))),
            "future" => Ok(Placer::Of(|asked, lbas, blocks| {
                Box::new(Future::of(&all_writes(asked, lbas, blocks), blocks))
            })),
            other => {
                let text = format!(
                    "unknown placement `{other}`; use none, two, \
                     sepbit, frequency, hazard, rates, future"
                );
                Err(errors::usage(py, text))
            }
        },
        Rule::Own(rule) => {
            let classes = rule.getattr(py, "classes")?.extract::<u8>(py)?;
            if !(1..=32).contains(&classes) {
                let text = "a placement rule must have 1 to 32 classes".to_owned();
                return Err(errors::usage(py, text));
            }
            made(Own { rule: rule.clone_ref(py), classes, broken: broken.clone() })
        }
    }
}

/// The requested victim policy.
enum Choice {
    Known(GcPolicy),
    Own(Chooser),
}

fn choice(py: Python<'_>, rule: &Rule, broken: &Broken) -> PyResult<Choice> {
    match rule {
        Rule::Word(word) => {
            let policy = word.parse::<GcPolicy>();
            policy.map(Choice::Known).map_err(|why| errors::usage(py, why.to_string()))
        }
        Rule::Own(rule) => {
            Ok(Choice::Own(Chooser { rule: rule.clone_ref(py), broken: broken.clone() }))
        }
    }
}

/// Results of a replay, as returned by [`place`].
type Played = (u64, u64, u64, u32, f64);

/// Plays until the end, or until `is_over` reports a cancellation or an exception of a rule.
fn played(
    asked: &Asked,
    placer: Placer,
    choice: Choice,
    is_over: &dyn Fn() -> bool,
) -> Result<Played, Wrong> {
    let (lbas, blocks) = writes(asked)?;
    let mut placement = match placer {
        Placer::Made(placement) => placement,
        Placer::Of(of) => of(asked, &lbas, blocks),
    };
    let spec = LogSpec { blocks, segment: asked.segment, spare_permille: asked.spare };
    spec.check().map_err(Wrong::usage)?;
    let classes = placement.classes();
    let collector = match choice {
        Choice::Known(policy) => Collector::known(policy, &spec, classes, asked.seed),
        Choice::Own(chooser) => Collector::Asked(Box::new(chooser)),
    };
    let begin = std::time::Instant::now();
    let mut log = SegmentLog::new(spec, classes, collector);
    let mut before = LogCounts::default();
    let fill: Vec<u32> = if asked.fill { (0..blocks).collect() } else { Vec::new() };
    for round in std::iter::once(&fill).chain((0..asked.rounds).map(|_| &lbas)) {
        before = log.counts();
        for batch in round.chunks(asked.batch) {
            log.write(batch, &mut *placement);
            if is_over() {
                return Err(Wrong::interrupted("cancelled before the end of the workload"));
            }
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    log.check().map_err(Wrong::violation)?;
    let after = log.counts();
    let (written, copied) = (after.written - before.written, after.copied - before.copied);
    Ok((written, copied, after.collected - before.collected, blocks, seconds))
}

/// Plays the writes of a workload on a log. Returns the blocks written, the blocks copied and the
/// segments collected in the last repetition, the number of blocks, and the duration in seconds.
#[pyfunction]
pub(crate) fn place(py: Python<'_>, asked: Asked) -> PyResult<Played> {
    let broken = Broken::default();
    let placement = placer(py, &asked.placement, &broken)?;
    let choice = choice(py, &asked.gc, &broken)?;
    let stop = AtomicBool::new(false);
    let is_over = || broken.is_set() || stop.load(Ordering::Relaxed);
    let work = || played(&asked, placement, choice, &is_over);
    let played = outside::run(py, &stop, |_| Ok(()), work)?;
    let error = broken.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    match error {
        Some(error) => Err(error),
        None => played.map_err(|why| errors::wrong(py, why)),
    }
}
