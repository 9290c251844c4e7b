//! Compares shadows with full counted studies: `cargo run --release -p hostftl-frontend --example
//! shadow_study -- DRIVE HOT FILL SHRINK WORKLOAD… [-- LAYER…]`.
//!
//! `HOT` and `FILL` are shares of the volume, and `SHRINK` is the number of times that the sample
//! is reduced. The workload is repeated until the shadow has settled, and twice more. Prints a line
//! for each workload and layer: both write amplifications, relative to no layer, and the
//! deviations.

use std::sync::Arc;
use std::time::Instant;

use hostftl_core::SECTOR;
use hostftl_frontend::{Question, Slice};
use hostftl_sim::{
    Candidate, Doubt, Export, LayerSpec, Outcome, Pace, Row, Shadow, ShadowReport, ShadowSpec,
    Study, Tap, Unobserved, compare,
};

/// Maximum number of repetitions of a workload.
const MOST_ROUNDS: u32 = 200;
/// Repetitions that are measured after the shadow settled.
const MEASURED: u32 = 2;

struct Case<'a> {
    drive: &'a str,
    hot: f64,
    fill: f64,
    shrinks: u32,
    load: &'a str,
    layers: Vec<LayerSpec>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [drive, hot, fill, shrinks, rest @ ..] = &words[..] else {
        panic!("DRIVE HOT FILL SHRINK WORKLOAD… [-- LAYER…]")
    };
    let mut parts = rest.split(|word| word == "--");
    let loads = parts.next().unwrap_or_default();
    let layer = |name: &str| LayerSpec::parse(name).expect("a layer");
    let layers: Vec<LayerSpec> = match parts.next() {
        Some(names) => names.iter().map(|name| layer(name)).collect(),
        None => vec![layer("hatl-auto"), layer("log")],
    };
    for load in loads {
        let [hot, fill] = [hot, fill].map(|share| share.parse().expect("a share"));
        let shrinks = shrinks.parse().expect("a number");
        Case { drive, hot, fill, shrinks, load, layers: layers.clone() }.run();
    }
}

impl Case<'_> {
    fn is_trace(&self) -> bool {
        !self.load.starts_with("synth")
    }

    fn run(&self) {
        let study = self.study();
        let begin = Instant::now();
        let Outcome { rows, holes } = compare(&study, &Unobserved).expect("a study");
        let took = begin.elapsed().as_secs_f64();
        holes.iter().for_each(|hole| println!("{}: {}", hole.layer, hole.reason()));
        let exported = study.export.sectors(&study.drives[0], 0);
        let begin = Instant::now();
        let (report, requests) = self.shadow(exported, rows[0].grain, &study);
        println!(
            "{} on {}: {} MiB, rate {:.3}; study {took:.1} s, shadow {:.2} µs a request",
            self.load,
            self.drive,
            exported >> 11,
            report.rate,
            begin.elapsed().as_secs_f64() / f64::from(requests) * 1e6,
        );
        let none = rows[0].waf_total.expect("it writes");
        for row in &rows {
            let mut all = report.candidates.iter();
            all.find(|it| it.layer == row.layer).into_iter().for_each(|it| line(row, none, it));
        }
        report.doubts.iter().for_each(|doubt| println!("    {doubt}"));
    }

    fn study(&self) -> Study {
        let question = Question { workloads: vec![self.load.to_owned()], ..Question::default() };
        let study = question.study(&|| false).expect("a study");
        let extent = study.workloads[0].extent(1, self.is_trace(), || false);
        let footprint = extent.expect("a workload").expect("it is read").sectors * SECTOR as u64;
        let slice = Slice::new(self.drive, footprint, self.hot, Export::Usual, None);
        let layers = [LayerSpec::parse("none").expect("a layer")].into_iter();
        Study {
            drives: vec![slice.expect("a drive").1],
            layers: layers.chain(self.layers.clone()).collect(),
            warm: vec![format!("self={}%", self.fill * 100.0).parse().expect("a state")],
            pace: Pace::Counted,
            compact: self.is_trace(),
            ..study
        }
    }

    /// Returns the report of a shadow, and the number of requests.
    fn shadow(&self, sectors: u64, granularity: u32, study: &Study) -> (ShadowReport, u32) {
        let drive = self.drive.to_owned();
        let slice = move |bytes| match Slice::new(&drive, bytes, 1.0, Export::Usual, None) {
            Ok((_, stack)) => Ok(stack),
            Err(wrong) => Err(wrong.text),
        };
        let (layers, slice) = (self.layers.clone(), Box::new(slice));
        let spec = ShadowSpec { sectors, layers, filled: self.fill, granularity, slice };
        let mut shadow = Shadow::new(spec, Arc::new(Tap::new().0)).expect("a shadow");
        (0..self.shrinks).for_each(|_| shadow.shrink());
        let mut requests = 0;
        let mut settled = 0;
        for _ in 0..MOST_ROUNDS {
            let records = study.workloads[0].source.open(1, self.is_trace());
            for record in records.expect("it opens") {
                shadow.observe(&record.expect("a request"));
                requests += 1;
            }
            let doubts = shadow.report().doubts;
            let is_early =
                |it: &Doubt| matches!(it, Doubt::FewWrites { .. } | Doubt::Unsettled { .. });
            settled += u32::from(!doubts.iter().any(is_early));
            if settled > MEASURED {
                break;
            }
        }
        (shadow.report(), requests)
    }
}

/// Prints the figures of a layer; `none` is the write amplification without a layer in the study.
fn line(row: &Row, none: f64, it: &Candidate) {
    let (Some(waf), Some(relative)) = (it.waf, it.relative) else {
        println!("    {}: {}", row.layer, it.failed.as_deref().unwrap_or("no figures"));
        return;
    };
    let study = row.waf_total.expect("it writes");
    println!(
        "    {:20} {study:.3} ×{:.3}  shadow {waf:.3} ±{:.3} ×{relative:.3} ±{:.3}  {:+.1} % \
         {:+.1} %",
        row.layer,
        study / none,
        it.error.unwrap_or(f64::NAN),
        it.relative_error.unwrap_or(f64::NAN),
        100.0 * (waf / study - 1.0),
        100.0 * (relative / (study / none) - 1.0),
    );
}
