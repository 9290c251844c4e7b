//! Rows compared with closed forms: queueing on timed dies, wear, and life.

use hostftl_drives::DriveSpec;
use hostftl_layers::LayerKind;
use hostftl_sim::{
    Export, Latency, Load, MOST_SPANS, Outcome, Pace, Row, Study, Unobserved, Warm, compare, theory,
};

/// Four dies without a bus. Each serves reads with exponential times of mean 100 us.
const CHIPS: &str = r#"
cell = "slc"
channels = 4
ways = 1
planes = 1
blocks = 64
pages = 64
page_kib = 4
over_provisioning_percent = 25
pools = "plane"
service = "exponential"
read_us = 100
bus_us = 0
"#;

fn row(drive: DriveSpec, workload: &str, depth: u32, warm: Warm) -> Row {
    let study = Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![drive.into()],
        layers: vec![LayerKind::Passthrough.into()],
        warm: vec![warm],
        export: Export::Most,
        cache: None,
        pace: Pace::Closed(depth),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 1,
        memory: 1 << 30,
    };
    compare(&study, &Unobserved).and_then(Outcome::whole).expect("the study runs").remove(0)
}

#[track_caller]
fn within(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found}, not {expected}");
}

/// A balanced closed network has X = μNQ/(N + Q − 1). At each die, R = D(1 + L), where L is the
/// queue length at an arrival: a share of Q − 1.
#[test]
fn reads_over_four_dies_agree_with_mean_value_analysis() {
    for depth in [1, 2, 4, 8, 16] {
        let drive = DriveSpec::parse(CHIPS, "chips").expect("a possible drive");
        let work = "synth:uniform:size=4k,span=32m,count=200000,read=100";
        let row = row(drive, work, depth, Warm::FILL);
        let rate = theory::balanced_throughput(4, depth) / 100e-6;
        within(row.iops.expect("time passed"), rate, 0.02);
        let latency: Latency = row.latency_ns.read.expect("there were reads");
        let (_, times) = theory::mean_value(&[25_000.0; 4], depth);
        within(latency.mean as f64, times.iter().sum(), 0.02);
        within(latency.legs.die as f64, 100_000.0, 0.02);
        // The rest is the waiting time for a die, which is zero with a single request in progress.
        let waiting = times.iter().sum::<f64>() - 100_000.0;
        assert!((latency.legs.queue as f64 - waiting).abs() <= 0.02 * (waiting + 100_000.0));
        assert_eq!(latency.legs.total(), latency.mean);
    }
}

/// Every programmed page is erased again, and life follows from wear.
#[test]
fn wear_and_life_follow_from_amplification() {
    let drive = DriveSpec::parse(CHIPS, "chips").expect("a possible drive");
    let (blocks, pages, cycles) = (4 * 64, 64, drive.cycles);
    let capacity = f64::from(blocks * pages) * 4096.0;
    let work = "synth:uniform:size=4k,span=48m,count=120000";
    let row = row(drive, work, 8, Warm::STEADY);
    assert_eq!((row.warm.as_str(), row.conserved), ("steady", true));
    let waf = row.waf_total.expect("it wrote");
    within(row.erases.mean, theory::mean_erases(120_000.0, waf, pages, blocks), 0.02);
    let life = theory::life_bytes(capacity, f64::from(cycles), waf) / 1e12;
    within(row.life.host_tb.expect("it wrote"), life, 1e-12);
    within(row.life.host_tb_by_erases.expect("it erased"), life, 0.02);
    assert!(row.life.host_tb_by_most_erased < row.life.host_tb_by_erases);
    assert_eq!(row.erases.histogram.iter().map(|bar| bar.segments).sum::<u64>(), 256);
    let joules: u64 = row.energy.nj_by_cause.parts().map(|(_, nj)| nj).sum();
    within(row.energy.mj, joules as f64 / 1e6, 1e-12);
}

/// The totals of the series equal those of the row.
#[test]
fn a_series_adds_up_to_its_row() {
    let drive = DriveSpec::find("hatl-2g").expect("it is built in");
    let row = row(drive, "synth:mix:count=30000", 8, Warm::FILL);
    let width = row.series[1].at_ns as f64;
    let last = row.series.len() - 1;
    let end = row.simulated_ns as f64 - row.series[last].at_ns as f64;
    let spans = row.series.iter().enumerate().map(|(i, _)| if i == last { end } else { width });
    let answered: f64 = row.series.iter().zip(spans).map(|(it, ns)| it.iops * ns / 1e9).sum();
    assert!(row.series.len() <= 256);
    within(answered, 30_000.0, 1e-6);
    assert!(row.series.iter().all(|it| it.p99_ns.is_none_or(|ns| ns > 0)));
}
