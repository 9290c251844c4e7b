//! Golden counters of rows for several drives and layers, which protect against unintended changes.
//!
//! `HOSTFTL_GOLDEN=write cargo test -p hostftl-sim --test golden` accepts the current results.

use std::fs;
use std::path::Path;

use hostftl_drives::DriveSpec;
use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Study, Unobserved, Warm, compare,
};

const DRIVES: [&str; 4] =
    ["hatl-1g", "mlc-32g:capacity=256m", "qlc-16k:capacity=512m", "tlc:capacity=512m"];
const LOADS: [&str; 3] = [
    "synth:moving:size=16k,span=64m,count=30000",
    "synth:uniform:size=4k,span=64m,count=30000,flush=50",
    "synth:hotcold:size=4k,span=64m,count=30000",
];

/// Formats the counters of a row. They do not depend on time, because the layer sends commands in
/// the order of requests.
fn line(row: &Row) -> String {
    format!(
        "{} | {} | waf {:.4} | rmw {} | erases {:.4}, at most {}\n",
        row.workload,
        row.drive,
        row.waf_drive.unwrap_or(0.0),
        row.rmw_units,
        row.erases.mean,
        row.erases.max,
    )
}

#[test]
fn rows_equal_the_golden_values() {
    let study = Study {
        workloads: LOADS.map(|text| Load::parse(text).expect("a workload")).to_vec(),
        drives: DRIVES.map(|name| DriveSpec::find(name).expect("a drive").into()).to_vec(),
        layers: vec![LayerSpec::parse("none").expect("a layer")],
        warm: vec![Warm::FILL],
        export: Export::Most,
        cache: None,
        pace: Pace::Closed(8),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 2,
        memory: 2 << 30,
    };
    let rows = compare(&study, &Unobserved).and_then(Outcome::whole).expect("the study runs");
    let found: String = rows.iter().map(line).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    if std::env::var_os("HOSTFTL_GOLDEN").is_some_and(|word| word == "write") {
        fs::write(&path, &found).expect("the folder is writable");
    }
    let golden = fs::read_to_string(&path).expect("the table is there");
    for (found, golden) in found.lines().zip(golden.lines()) {
        assert_eq!(found, golden);
    }
    assert_eq!(found.lines().count(), golden.lines().count());
}
