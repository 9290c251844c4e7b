//! Drive states side by side, exported capacity, and impossible combinations.

use hostftl_drives::DriveSpec;
use hostftl_sim::{
    Export, HostLoad, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Scaled, Study, StudyError,
    Unobserved, Warm, Why, compare,
};

fn study(workload: &str, drive: &str, layers: &[&str], states: &[&str]) -> Study {
    let layer = |text: &&str| LayerSpec::parse(text).expect("a layer");
    Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![DriveSpec::find(drive).expect("a drive").into()],
        layers: layers.iter().map(layer).collect(),
        warm: states.iter().map(|text| text.parse().expect("a state")).collect(),
        export: Export::Usual,
        cache: None,
        pace: Pace::Closed(16),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 2,
        memory: 2 << 30,
    }
}

fn outcome(study: &Study) -> Outcome {
    compare(study, &Unobserved).expect("the study runs")
}

const SMALL: &str = "qlc-16k:capacity=256m";

/// The row without a layer does not depend on the other layers, in any state.
#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    let work = "synth:hotcold:size=4k,span=96m,count=20000";
    let states = ["new", "fill=70%", "steady", "self=70%"];
    let alone = outcome(&study(work, SMALL, &["none"], &states)).rows;
    assert_eq!(alone.len(), 4);
    for neighbours in [&["none", "hard"][..], &["hatl-auto", "none"], &["none", "hard:spare=40"]] {
        let all = outcome(&study(work, SMALL, neighbours, &states));
        let found = all.rows.into_iter().filter(|row| row.layer == "passthrough");
        assert_eq!(found.collect::<Vec<Row>>(), alone, "{neighbours:?}");
    }
}

#[test]
fn states_are_side_by_side_and_older_drives_write_more() {
    let work = "synth:uniform:size=4k,span=160m,count=30000";
    let states = ["new", "fill", "steady", "self=70%"];
    let rows = outcome(&study(work, SMALL, &["none"], &states)).rows;
    let names: Vec<&str> = rows.iter().map(|row| row.warm.as_str()).collect();
    assert_eq!(names, states);
    let waf = |index: usize| rows[index].waf_total.expect("it wrote");
    println!("{:?}", rows.iter().map(|row| row.waf_total).collect::<Vec<_>>());
    assert!(waf(0) < waf(1) && waf(1) < waf(2), "{} {} {}", waf(0), waf(1), waf(2));
    assert!(waf(0) < waf(3) && rows[3].warm_rounds.is_some_and(|rounds| rounds >= 2));
    assert!(rows.iter().all(|row| row.exported_bytes == rows[0].exported_bytes && row.conserved));
    assert_eq!(rows[0].exported_bytes >> 20, 256 * 8 / 10, "less a fifth");
}

/// After `self`, the write amplification of the run equals that of the previous span.
#[test]
fn a_drive_aged_by_its_workload_is_steady() {
    let work = "synth:uniform:size=4k,span=160m,count=50000";
    let row = outcome(&study(work, SMALL, &["none"], &["self"])).rows.remove(0);
    let again = format!("{work}0");
    let longer = outcome(&study(&again, SMALL, &["none"], &["self"])).rows.remove(0);
    let (one, other) = (row.waf_total.unwrap(), longer.waf_total.unwrap());
    println!("{one} after {:?} rounds, {other} after {:?}", row.warm_rounds, longer.warm_rounds);
    assert_eq!((row.warm.as_str(), longer.warm.as_str()), ("self", "self"));
    assert!((one / other - 1.0).abs() < 0.05, "{one} and {other}");
    assert!(row.warm_overwrites.is_some_and(|all| all <= (MOST_SPANS + 1) as f64));
}

#[test]
fn read_only_workloads_change_no_state_and_rare_writes_do_not_settle() {
    let row = |work: &str| outcome(&study(work, SMALL, &["none"], &["self"])).rows.remove(0);
    let reads = row("synth:uniform:size=4k,span=1m,count=100,read=100");
    assert_eq!((reads.warm.as_str(), reads.warm_rounds), ("self", Some(1)));
    let little = row("synth:uniform:size=4k,span=1m,count=2");
    assert_eq!((little.warm.as_str(), little.warm_rounds), ("self (not reached)", Some(4096)));
}

#[test]
fn impossible_combinations_are_gaps_between_rows() {
    let work = "synth:uniform:size=4k,span=64m,count=2000";
    let mut study = study(work, SMALL, &["scrambler", "none", "hard:spare=40"], &["new"]);
    study.drives.push(DriveSpec::find("slc-1g:capacity=64m").expect("a drive").into());
    let found = outcome(&study);
    let layers: Vec<&str> = found.rows.iter().map(|row| row.layer.as_str()).collect();
    assert_eq!(layers, ["passthrough"]);
    let reasons: Vec<String> = found.holes.iter().map(|hole| hole.reason()).collect();
    assert!(matches!(found.holes[0].why, Why::Failed(StudyError::Plan { .. })), "{reasons:?}");
    assert!(matches!(found.holes[1].why, Why::Failed(StudyError::Exports { .. })), "{reasons:?}");
    assert!(reasons[1].starts_with("hard:spare=40 on qlc"), "{reasons:?}");
    assert!(matches!(found.holes[3].why, Why::Failed(StudyError::Beyond { .. })), "{reasons:?}");
    let order: Vec<bool> = found.each().map(|one| one.is_ok()).collect();
    assert_eq!(order, [false, true, false, false, false, false]);
    let json = serde_json::to_value(&found).expect("it is plain");
    assert_eq!((&json[1]["layer"], &json[1]["warm"]), (&"passthrough".into(), &"new".into()));
    assert_eq!(json[2]["failed"], reasons[1].as_str());
    assert!(found.whole().is_err(), "whole() refuses a partial set");
}

/// A compressing layer benefits from the stated compressibility, including during ageing; the drive
/// without a layer does not.
#[test]
fn compressible_data_costs_a_compressing_layer_less() {
    let waf = |option: &str| {
        let work = format!("synth:uniform:size=4k,span=96m,count=20000{option}");
        let mut study = study(&work, SMALL, &["none", "log:spare=30"], &["fill=70%"]);
        study.export = Export::Share(500);
        let rows = outcome(&study).rows;
        [0, 1].map(|index: usize| rows[index].waf_total.expect("it wrote"))
    };
    let (plain, one, ratio) = (waf(""), waf(",compress=1"), waf(",compress=2.9"));
    println!("{plain:?} {one:?} {ratio:?}");
    assert_eq!((plain[0], plain), (ratio[0], one));
    assert!(ratio[1] < 0.5 * plain[1], "{ratio:?} {plain:?}");
}

#[test]
fn the_export_has_the_requested_size() {
    let work = "synth:uniform:size=4k,span=16m,count=1000";
    let mut study = study(work, SMALL, &["none", "hard"], &["new"]);
    for (export, mib) in [(Export::Bytes(100 << 20), 100), (Export::Share(500), 128)] {
        study.export = export;
        let rows = outcome(&study).rows;
        assert!(rows.len() == 2 && rows.iter().all(|row| row.exported_bytes == mib << 20));
    }
    study.export = Export::Most;
    let rows = outcome(&study).rows;
    assert!(rows[1].exported_bytes < rows[0].exported_bytes);
}

#[test]
fn unwritten_shared_states_are_new() {
    assert_eq!("new".parse::<Warm>(), Ok(Warm::NEW));
    let rows = outcome(&study("synth:mix:count=500", SMALL, &["none"], &["new", "self=1%"])).rows;
    assert!(rows[0].warm_overwrites.is_none() && rows[1].warm_overwrites.is_some());
}

/// Extrapolation to a drive 1000 times as large: ratios are equal, totals scale, and a layer that
/// can't run at that size is refused.
#[test]
fn a_row_is_scaled_to_a_drive_of_real_size() {
    let work = "synth:uniform:size=4k,span=160m,count=60000,iops=1000";
    let study = study(work, SMALL, &["none", "hard"], &["fill"]);
    let rows = outcome(&study).rows;
    let of = |row: usize, factor: u64| {
        let capacity = factor * (256 << 20);
        let load = HostLoad::default();
        Scaled::of(&rows[row], &study.drives[0], &study.layers[row], capacity, load)
    };
    let (one, large) = (of(0, 1), of(0, 1000));
    let within = |one: Option<f64>, other: Option<f64>, factor: f64| {
        let ratio = other.unwrap() / one.unwrap() / factor;
        assert!((ratio - 1.0).abs() < 1e-9, "{one:?} {other:?} {factor}");
    };
    within(one.tbw, large.tbw, 1000.0);
    within(one.dwpd, large.dwpd, 1.0);
    // Load does not scale with capacity: a drive 1000 times as large lives 1000 times as long.
    within(one.load_bytes_per_day, large.load_bytes_per_day, 1.0);
    within(one.years, large.years, 1000.0);
    assert_eq!(one.tbw_uneven, None, "too short to tell");
    // 1000 writes of 4 KiB per second.
    let asked = 4096.0 * 1000.0 * 86_400.0;
    assert!((one.load_bytes_per_day.unwrap() / asked - 1.0).abs() < 1e-3, "{one:?} {asked}");
    let years = one.tbw.unwrap() * 1e12 / (one.load_bytes_per_day.unwrap() * 365.25);
    assert!((one.years.unwrap() / years - 1.0).abs() < 1e-9);
    assert!(one.cautions.iter().any(|text| text.contains("lasts 60 s")), "{:?}", one.cautions);
    let hard = of(1, 100);
    assert!(hard.memory_bytes.is_some_and(|bytes| bytes > 90 * rows[1].layer_bytes()));
    let refused = of(1, 100_000);
    assert!(refused.memory_bytes.is_some() != refused.impossible.is_some());
}

/// A drive without placement ids mixes the streams of `log` in its reclaim units. With phases there
/// is one stream, which leaves the drive nothing to copy.
#[test]
fn a_drive_without_placement_ids_copies_nothing_under_phases() {
    let work = "synth:zipf:size=4k,span=360m,count=200000";
    let layers = ["log", "log:separation=none", "log:separation=lifetime"];
    let drive = "qlc-64k:capacity=1g:pages=4";
    let study = Study { pace: Pace::Closed(32), ..study(work, drive, &layers, &["self=70%"]) };
    let rows = outcome(&study).rows;
    let [phases, mixed, streams] = [0, 1, 2].map(|row| {
        let Row { waf_layer, waf_drive, .. } = &rows[row];
        (waf_layer.expect("it writes"), waf_drive.expect("it writes"))
    });
    assert!(phases.1 < 1.01 && streams.1 > 1.02, "{phases:?} {streams:?}");
    assert!(phases.0 < 0.9 * mixed.0, "phases separate lifetimes: {phases:?} {mixed:?}");
}
