//! HARD compared with passthrough: the figures of its specification, and its own costs in the row.

use std::path::Path;

use hostftl_drives::DriveSpec;
use hostftl_layers::LayerKind;
use hostftl_sim::{Export, Load, MOST_SPANS, Outcome, Pace, Row, Study, Unobserved, Warm, compare};

fn rows(workload: &str, drive: &str, pace: Pace, warm: Warm) -> [Row; 2] {
    let study = Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![DriveSpec::find(drive).expect("a drive").into()],
        layers: vec![LayerKind::Passthrough.into(), LayerKind::Hard.into()],
        warm: vec![warm],
        export: Export::Most,
        cache: None,
        pace,
        most_spans: MOST_SPANS,
        compact: !workload.starts_with("synth:"),
        seed: 1,
        threads: 2,
        memory: 4 << 30,
    };
    let rows = compare(&study, &Unobserved).and_then(Outcome::whole).expect("the study runs");
    rows.try_into().expect("two layers, two rows")
}

/// Sixteen writes of 4 KiB take 800 us together, instead of 860 us each.
#[test]
fn small_random_writes_cost_a_seventeenth() {
    let work = "synth:uniform:size=4k,span=64m,count=200000";
    let [none, hard] = rows(work, "hatl-32g", Pace::Closed(16), Warm::NEW);
    assert_eq!((none.drive_gc_ns, hard.drive_gc_ns), (0, 0), "the drive has not collected");
    let ratio = hard.busy_ratio.expect("passthrough is there");
    assert!((ratio / 0.0581 - 1.0).abs() < 0.02, "{ratio}");
    assert_eq!(none.busy_ratio, Some(1.0));
}

/// Plays the shipped trace, packed, at its own times.
fn trace(drive: &str) -> [Row; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let trace = root.join("traces/mariadb-oltp-head.csv.zst");
    let drive = root.join("stacks/drives").join(drive);
    rows(trace.to_str().unwrap(), drive.to_str().unwrap(), Pace::Trace, Warm::NEW)
}

#[test]
fn the_shipped_trace_shows_padding_and_map_writes() {
    let [none, hard] = trace("hatl-2g.toml");
    assert_eq!((none.flushes, hard.flushes), (46_577, 46_577));
    assert_eq!(none.host_write_bytes, hard.host_write_bytes);
    assert_eq!((none.padding_bytes, none.map_bytes_written), (0, 0));
    assert!(hard.padding_bytes > 0 && hard.map_bytes_written > 0, "{hard:?}");
    assert!(hard.busy_ns.padding > 0 && hard.busy_ns.map > 0, "{hard:?}");
    assert_eq!(hard.busy_ns.copyback, hard.drive_gc_ns, "hard leaves nothing to read and modify");
    assert!(hard.busy_ratio < none.busy_ratio, "it pays when there is room");
    // Golden values of the drive model.
    assert_eq!((none.erases.max, none.simulated_ns), (12, 270_107_782_000));
    assert_eq!(none.digest, "f0321ebcabca86f4");
}

#[test]
fn on_a_small_drive_the_shipped_trace_shows_the_layer_s_collection() {
    let [none, hard] = trace("hatl-1g.toml");
    assert!(hard.gc_runs > 0 && hard.pages_copied > 0 && hard.busy_ns.vgc > 0, "{hard:?}");
    assert_eq!((none.gc_runs, none.pages_copied, none.busy_ns.vgc), (0, 0, 0));
    assert!(none.conserved && hard.conserved && none.saturated && hard.saturated);
}
