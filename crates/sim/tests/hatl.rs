//! The layers of the HATL papers beside each other: the orderings of the specification's cells, and
//! what `hatl-auto` promises, on cells of half the size.

use hostftl_drives::DriveSpec;
use hostftl_sim::{LayerChoice, Load, Row, Silent, Snapshots, Study, Warm, compare};

const LAYERS: [&str; 5] = ["none", "hard", "shatl:hidden=8m", "mhatl:leaves=4096", "hatl-auto"];

/// Busy time of each layer, as a share of the drive's without one.
fn ratios(workload: &str) -> [f64; 5] {
    let study = Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![DriveSpec::find("hatl-1g").expect("a drive")],
        layers: LAYERS.iter().map(|text| LayerChoice::parse(text).expect("a layer")).collect(),
        warm: Warm::None,
        snapshots: Snapshots::None,
        closed_loop: Some(16),
        compact: false,
        seed: 1,
        threads: 2,
        memory: 4 << 30,
    };
    let rows: Vec<Row> = compare(&study, &Silent).expect("the study runs");
    let ratios = rows.iter().map(|row| row.busy_ratio.expect("passthrough is there"));
    ratios.collect::<Vec<_>>().try_into().expect("a row for each layer")
}

/// What the specification says of sHATL's cost: 860 us for each LSP that is moved, 50 us for each
/// write, and as many hidden units of an LSP go home together as there are on average.
fn bound(hidden_units: f64, lsps: f64) -> f64 {
    let density = hidden_units / lsps;
    (50.0 + 860.0 * (1.0 - (-density).exp()) / density) / 860.0
}

#[test]
fn shatl_stays_below_its_bound_and_above_hard() {
    for (span, lsps) in [("64m", 1024.0), ("256m", 4096.0)] {
        let [_, hard, shatl, ..] =
            ratios(&format!("synth:uniform:size=4k,span={span},count=100000"));
        let most = bound(2048.0, lsps);
        assert!(hard < shatl && shatl < most, "{span}: hard {hard}, shatl {shatl}, bound {most}");
    }
}

#[test]
fn hatl_auto_is_never_much_worse_than_the_better_of_the_others() {
    for workload in [
        "uniform:size=4k,span=8m",
        "uniform:size=4k,span=32m",
        "uniform:size=4k,span=128m",
        "uniform:size=4k,span=512m",
        "skew:size=4k,span=128m,hot=5,share=90",
        "moving:size=4k,span=256m,every=5000,flush=100",
        "uniform:size=64k,span=512m",
    ] {
        let [_, hard, shatl, mhatl, auto] = ratios(&format!("synth:{workload},count=100000"));
        let best = shatl.min(mhatl);
        println!("{workload}: auto {auto:.4}, shatl {shatl:.4}, mhatl {mhatl:.4}, hard {hard:.4}");
        assert!(auto <= 1.05 * best, "{workload}: {auto}, and the better of the others {best}");
        let least = 0.98 * hard.min(1.0);
        assert!(auto >= least, "{workload}: {auto} beats hard's {hard}: is all counted?");
    }
}
