//! Translating layers on raw drives with failing segments.

use std::path::{Path, PathBuf};

use hostftl_drives::DriveSpec;
use hostftl_sim::theory;
use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Study, Unobserved, Warm, compare,
};

const WORK: &str = "synth:uniform:size=4k,span=64m,count=30000,read=30,flush=100";

fn row(drive: &str, layer: &str, cache: Option<PathBuf>) -> Row {
    run_row(WORK, drive, layer, cache)
}

fn run_row(work: &str, drive: &str, layer: &str, cache: Option<PathBuf>) -> Row {
    let study = Study {
        workloads: vec![Load::parse(work).expect("a workload")],
        drives: vec![DriveSpec::find(drive).unwrap_or_else(|why| panic!("{why}")).into()],
        layers: vec![LayerSpec::parse(layer).expect("a layer")],
        warm: vec![Warm::STEADY],
        export: Export::Most,
        cache,
        pace: Pace::Closed(8),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 1,
        memory: 1 << 30,
    };
    compare(&study, &Unobserved)
        .and_then(Outcome::whole)
        .unwrap_or_else(|why| panic!("{layer} on {drive}: {why}"))
        .remove(0)
}

const DRIVE: &str = "open-channel:channels=2:ways=1:capacity=256m:pages=16";
const FAILING: &str = ":bad_percent=1:failing_programs_ppm=20:failing_erases_ppm=200";

#[test]
fn failed_segments_are_avoided() {
    for layer in ["pblk:spare=20", "rrpc:spare=20"] {
        let sound = row(DRIVE, layer, None);
        let failing = row(&format!("{DRIVE}{FAILING}"), layer, None);
        for (what, row) in [("sound", &sound), ("failing", &failing)] {
            println!("{layer} {what}: waf {:?}, {} runs", row.waf_total, row.gc_runs);
            assert!(row.conserved && row.gc_runs > 0, "{layer}, {what}");
            assert_eq!(row.requests, sound.requests, "no request failed: {layer}, {what}");
            assert_eq!(row.drive_gc_ns, 0, "the drive collects nothing");
        }
        assert_eq!(failing.exported_bytes, sound.exported_bytes, "what was promised stays");
        assert!(failing.waf_total > sound.waf_total, "{layer}: less room, more copies");
        assert_ne!(failing.digest, sound.digest);
    }
}

/// The writes of `log` equal those of the dies by cause, every rewritten segment was erased, and
/// the number of copies agrees with theory.
#[test]
fn log_on_a_raw_drive_agrees_with_theory_and_with_the_dies() {
    // This layer reads pages directly after they were written.
    let drive = format!("{DRIVE}:unreadable_pages=0");
    let layer = "log:compress=none:spare=35:separation=none:gc=greedy";
    let row = run_row("synth:uniform:size=4k,span=155m,count=40000", &drive, layer, None);
    let of = |cause: &str| -> u64 {
        let mut parts = row.programmed_bytes.parts();
        parts.find(|(name, _)| *name == cause).expect("a cause").1
    };
    let programmed: u64 = row.programmed_bytes.parts().map(|(_, bytes)| bytes).sum();
    let host = row.host_write_bytes as f64;
    let waf = row.waf_total.expect("the host writes");
    assert!(row.conserved);
    assert_eq!((row.waf_drive, row.drive_gc_ns), (Some(1.0), 0), "the drive itself does nothing");
    assert!((programmed as f64 / host - waf).abs() < 1e-9, "every byte has a cause");
    let capacity = (256 << 20) as f64;
    let erased = row.erases.mean * capacity;
    assert!((programmed as f64 - erased).abs() < 0.1 * capacity, "{programmed} and {erased}");
    // At most an eighth of the zones are roots, open, or reserved; a sixteenth of the rest is
    // heads.
    let alpha = capacity / row.exported_bytes as f64;
    let (least, most) = (theory::greedy(alpha, 128), theory::fifo(alpha * 7.0 / 8.0 * 15.0 / 16.0));
    let data = (of("host") + of("gc")) as f64 / host;
    println!("log: data {data:.3}, by theory {least:.3} to {most:.3}; all {waf:.3}");
    assert!((least..most).contains(&data), "{least} {data} {most}");
    assert!(waf < 1.15 * data, "heads, images, roots and pads are small: {waf} for {data}");
}

/// The choice of the next free line changes the distribution of wear only.
#[test]
fn filling_the_least_erased_line_narrows_the_wear() {
    let work = "synth:moving:size=4k,span=140m,count=150000,hot=10,share=90,every=20000";
    let [fifo, fewest] = ["pblk:spare=30:reuse=fifo", "pblk:spare=30"].map(|layer| {
        let row = run_row(work, DRIVE, layer, None);
        println!("{layer}: waf {:?}, {:?}", row.waf_total, row.erases);
        row
    });
    assert_eq!((fifo.waf_total, fifo.gc_runs), (fewest.waf_total, fewest.gc_runs));
    let over = |row: &Row| f64::from(row.erases.max) / row.erases.mean;
    assert!(over(&fewest) < 0.9 * over(&fifo), "{} and {}", over(&fewest), over(&fifo));
}

#[test]
fn a_saved_stack_on_a_raw_drive_continues() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("raw-warm");
    let _ = std::fs::remove_dir_all(&folder);
    let saved = row(DRIVE, "pblk", Some(folder.clone()));
    let loaded = row(DRIVE, "pblk", Some(folder));
    assert_eq!(loaded.digest, saved.digest);
}
