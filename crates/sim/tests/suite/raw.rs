//! Layers that translate, on raw drives, some of whose segments fail.

use hostftl_drives::DriveSpec;
use hostftl_sim::{LayerChoice, Load, Row, Silent, Snapshots, Study, Warm, compare};

const WORK: &str = "synth:uniform:size=4k,span=64m,count=30000,read=30,flush=100";

fn row(drive: &str, layer: &str, snapshots: Snapshots) -> Row {
    let study = Study {
        workloads: vec![Load::parse(WORK).expect("a workload")],
        drives: vec![DriveSpec::find(drive).unwrap_or_else(|why| panic!("{why}"))],
        layers: vec![LayerChoice::parse(layer).expect("a layer")],
        warm: Warm::Steady,
        snapshots,
        closed_loop: Some(8),
        compact: false,
        seed: 1,
        threads: 1,
        memory: 1 << 30,
    };
    compare(&study, &Silent).unwrap_or_else(|why| panic!("{layer} on {drive}: {why}")).remove(0)
}

const DRIVE: &str = "open-channel:channels=2:ways=1:capacity=256m:pages=16";
const FAILING: &str = ":bad_percent=1:failing_programs_ppm=20:failing_erases_ppm=200";

#[test]
fn segments_that_fail_are_done_without() {
    for layer in ["pblk:spare=20", "rrpc:spare=20"] {
        let sound = row(DRIVE, layer, Snapshots::None);
        let failing = row(&format!("{DRIVE}{FAILING}"), layer, Snapshots::None);
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

#[test]
fn a_saved_stack_on_a_raw_drive_goes_on() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("raw-warm");
    let saved = row(DRIVE, "pblk", Snapshots::Save(folder.clone()));
    let loaded = row(DRIVE, "pblk", Snapshots::Load(folder));
    assert_eq!(loaded.digest, saved.digest);
}
