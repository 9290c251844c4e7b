//! Measures the speed of studies on this machine: `cargo run --release -p hostftl-sim --example
//! sim_speed [RUNS]`.
//!
//! The drive is `mlc-32g` at utilisation 0.742 with greedy garbage collection under `passthrough`,
//! on one core. It is aged in logical time (without modelled durations), then receives uniform
//! random writes of 8 KiB at queue depth 64. Each figure is a median with its spread. Times are
//! processor times of the working thread, which reduces the influence of other load on the machine.

use std::sync::Mutex;

use hostftl_core::Payload;
use hostftl_drives::DriveSpec;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{
    Ageing, Export, HostCosts, Load, MOST_SPANS, Outcome, Pace, PlayError, Records, Row, Study,
    Unobserved, Warm, Warmed, Watch, Work, World, compare, default_memory, warm,
};

const DRIVE: &str = "mlc-32g:over_provisioning_percent=25.8";
const SECTORS_PER_PAGE: u64 = 16;
const REQUESTS: u64 = 4_000_000;

/// Returns the processor time of this thread in seconds.
fn seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("this is Linux");
    let nanos = text.split(' ').next().and_then(|word| word.parse::<f64>().ok());
    nanos.expect("it begins with ns on a processor") / 1e9
}

/// Returns the resident memory of this process in bytes.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.expect("it is in kB") * 1024.0
}

/// Times of the first and the latest request of a study, and the number of the latest.
#[derive(Default)]
struct Clock(Mutex<Option<(f64, f64, u64)>>);

impl Watch for Clock {
    fn progress(&self, _row: usize, done: u64, total: u64) {
        let mut state = self.0.lock().expect("one thread");
        let now = seconds();
        match &mut *state {
            None => *state = Some((now, now, 0)),
            Some((_, last, at)) if done < total => (*last, *at) = (now, done),
            Some(_) => {}
        }
    }

    fn cancelled(&self) -> bool {
        false
    }
}

impl Clock {
    /// Returns the rate in requests per second.
    fn rate(&self) -> f64 {
        let (first, last, done) = self.0.lock().expect("one thread").expect("it ran");
        done as f64 / (last - first)
    }
}

fn study(spec: &DriveSpec, warm: Warm) -> Study {
    let span = spec.exported * 512 / 8192 * 8192;
    let load = format!("synth:uniform:size=8k,span={span},count={REQUESTS}");
    Study {
        workloads: vec![Load::parse(&load).expect("a workload")],
        drives: vec![spec.clone().into()],
        layers: vec![LayerKind::Passthrough.into()],
        warm: vec![warm],
        export: Export::Most,
        cache: None,
        pace: Pace::Closed(64),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 1,
        memory: default_memory(),
    }
}

/// The result of ageing a new drive.
struct Aged {
    seconds: f64,
    warmed: Warmed,
    /// Pages programmed.
    programmed: u64,
    /// Growth of the resident memory, in bytes.
    memory: f64,
}

fn age(spec: &DriveSpec, how: Warm) -> Aged {
    let before = resident();
    let (config, devices) = (LayerConfig::new(LayerKind::Passthrough), [spec.device_info()]);
    let plan = AnyLayer::plan(&config, &devices).expect("it works on any drive");
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
    let layer =
        AnyLayer::new(&config, &devices, buffers, Mode::Format).expect("the target was planned");
    let mut world = World::new(layer, std::slice::from_ref(spec), HostCosts::default()).unwrap();
    let start = seconds();
    let workload = || Ok(Box::new(std::iter::empty()) as Records);
    let (exported, map_unit) = (spec.exported, spec.map_unit);
    let (compress, workload) = (None, &workload);
    let ageing = Ageing {
        warm: how,
        exported,
        map_unit,
        most_spans: MOST_SPANS,
        seed: 1,
        compress,
        workload,
    };
    let warmed = warm(&mut world, &ageing, &mut |_| false);
    let seconds = seconds() - start;
    let named = |error: PlayError| error.named("passthrough", &spec.name);
    let warmed = warmed.map_err(named).unwrap_or_else(|error| panic!("{error}"));
    let programmed = Work::of(&world).programmed() / SECTORS_PER_PAGE;
    Aged { seconds, warmed, programmed, memory: resident() - before }
}

/// Formats the median, the minimum and the maximum with their unit.
fn spread(mut values: Vec<f64>, unit: &str) -> String {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    format!("{:.2} ({:.2}–{:.2}) {unit}", values[last / 2], values[0], values[last])
}

fn timed(spec: &DriveSpec, runs: usize) -> Row {
    let mut rates = Vec::new();
    let mut rows = Vec::new();
    for _ in 0..runs {
        let clock = Clock::default();
        rows = compare(&study(spec, Warm::STEADY), &clock)
            .and_then(Outcome::whole)
            .expect("the study runs");
        rates.push(clock.rate() * rows[0].page_operations as f64 / REQUESTS as f64 / 1e6);
    }
    println!("timed      {}", spread(rates, "M page operations/s"));
    rows.remove(0)
}

fn main() {
    let runs = std::env::args().nth(1).map_or(5, |runs| runs.parse().expect("a number of runs"));
    let spec = DriveSpec::find(DRIVE).expect("it is built in");
    let pages = spec.shape.pages() as f64;
    let (filled, own) = (age(&spec, Warm::FILL).memory, spec.memory() as f64);
    let row = timed(&spec, runs);
    println!(
        "memory     {:.2} B a page, {:.2} by the model's own account",
        filled / pages,
        own / pages
    );
    println!(
        "           WAF {:.4}, conserved {}, digest {}",
        row.waf_total.expect("it wrote"),
        row.conserved,
        row.digest
    );
    let (mut fills, mut steadies, mut rates, mut last) = (vec![], vec![], vec![], None);
    for _ in 0..runs {
        let (fill, steady) = (age(&spec, Warm::FILL), age(&spec, Warm::STEADY));
        fills.push(fill.seconds);
        steadies.push(steady.seconds);
        let programmed = (steady.programmed - fill.programmed) as f64;
        rates.push(programmed / (steady.seconds - fill.seconds) / 1e6);
        last = Some(steady.warmed);
    }
    let warmed = last.expect("there was a run");
    println!("counted    {}", spread(rates, "M flash writes/s through passthrough"));
    println!("fill       {}", spread(fills, "s"));
    println!(
        "steady     {}, reached {} after {:.3} overwrites",
        spread(steadies, "s"),
        warmed.reached,
        warmed.overwrites.unwrap_or(0.0)
    );
    let mut digests = Vec::new();
    for threads in [1, 2, 8] {
        let mut study = study(&spec, Warm::NEW);
        study.workloads = vec![Load::parse("synth:mix:count=100000").expect("a workload"); 4];
        study.threads = threads;
        let rows = compare(&study, &Unobserved).and_then(Outcome::whole).expect("the study runs");
        digests.push(rows.into_iter().map(|row| row.digest).collect::<Vec<_>>());
    }
    assert!(digests.iter().all(|rows| *rows == digests[0]), "threads change nothing");
    println!("threads    1, 2 and 8 give the same digests");
}
