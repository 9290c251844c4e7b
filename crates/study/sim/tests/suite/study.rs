//! Studies: the drive's costs as the specification accounts for them, determinism, and invalid
//! input.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_drives::DriveSpec;
use hostftl_layers::LayerKind;
use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Study, StudyError, Unobserved, Warm,
    Watch, compare,
};

fn study(workload: &str) -> Study {
    Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![DriveSpec::find("hatl-2g").expect("it is built in").into()],
        layers: vec![LayerKind::Passthrough.into()],
        warm: vec![Warm::NEW],
        export: Export::Most,
        cache: None,
        pace: Pace::Closed(16),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 1,
        memory: 1 << 30,
    }
}

fn row(study: &Study) -> Row {
    compare(study, &Unobserved).and_then(Outcome::whole).expect("the study runs").remove(0)
}

#[test]
fn whole_superpages_cost_a_program_each() {
    let row = row(&study("synth:uniform:size=64k,span=256m,count=20000"));
    assert_eq!(row.busy_ns.request, 20_000 * 800_000);
    assert_eq!(row.busy_ns.total(), row.busy_ns.request);
    assert_eq!((row.waf_layer, row.waf_drive, row.waf_total), (Some(1.0), Some(1.0), Some(1.0)));
    assert_eq!(row.simulated_ns, 20_000 * 800_000, "one station is never idle in a closed loop");
    assert!(row.conserved && !row.saturated && !row.partial);
}

#[test]
fn small_writes_cost_a_read_modify_write_and_are_booked_by_share() {
    let mut study = study("synth:uniform:size=4k,span=64m,count=50000");
    study.warm = vec![Warm::FILL];
    let row = row(&study);
    assert_eq!(row.busy_ns.request, 50_000 * 50_000);
    assert_eq!(row.busy_ns.copyback - row.drive_gc_ns, 50_000 * (60_000 + 750_000));
    assert_eq!((row.waf_layer, row.warm.as_str()), (Some(1.0), "fill"));
    assert!(row.waf_drive.is_some_and(|waf| waf >= 16.0));
}

#[test]
fn reads_take_their_time_and_only_theirs() {
    let mut study = study("synth:uniform:size=4k,span=64m,count=10000,read=100");
    study.warm = vec![Warm::FILL];
    let row = row(&study);
    assert_eq!((row.busy_ns.read, row.busy_ns.total()), (600_000_000, 600_000_000));
    let latency = row.latency_ns.read.expect("there were reads");
    assert!(row.latency_ns.write.is_none(), "and no writes");
    // A single station of 60 us with 16 requests in progress: each waits for fifteen others.
    assert!(latency.p50.abs_diff(16 * 60_000) <= 960, "{latency:?}");
    assert!((row.iops.expect("time passed") / (1e9 / 60_000.0) - 1.0).abs() < 0.001);
}

#[test]
fn a_trace_faster_than_the_drive_is_saturated() {
    let mut study = study("synth:uniform:count=2000,iops=1000");
    study.pace = Pace::Trace;
    assert!(!row(&study).saturated, "1000 a second is within 1250");
    study.workloads = vec![Load::parse("synth:uniform:count=2000,iops=2000").unwrap()];
    assert!(row(&study).saturated);
    // 300 requests arrive at once, and a rate of 1250 per second suffices to catch up. A workload
    // without times can't be late.
    let burst = concat!(env!("CARGO_TARGET_TMPDIR"), "/burst.csv");
    let line = |at: u64| format!("{},W,{},4096\n", if at < 300 { 0 } else { at * 1000 }, at * 4096);
    let lines: String = (0..3000).map(line).collect();
    std::fs::write(burst, format!("t_us,op,byte_off,byte_len\n{lines}")).unwrap();
    for load in [burst, "synth:uniform:count=2000"] {
        study.workloads = vec![Load::parse(load).unwrap()];
        let row = row(&study);
        assert!(!row.saturated, "{load}: {} {}", row.simulated_ns, row.workload_ns);
    }
}

#[test]
fn a_counted_run_has_the_wear_of_a_timed_one_and_no_latencies() {
    let mut study = study("synth:uniform:size=4k,span=256m,count=40000");
    study.warm = vec!["steady=70%".parse().expect("a state")];
    study.layers = ["none", "hard"].map(|text| LayerSpec::parse(text).expect("a layer")).into();
    let waf = |study: &Study| {
        let rows = compare(study, &Unobserved).and_then(Outcome::whole).expect("rows");
        rows.into_iter().map(|row| (row.waf_total.expect("it writes"), row)).collect::<Vec<_>>()
    };
    let timed = waf(&study);
    study.pace = Pace::Counted;
    for ((timed, _), (counted, row)) in timed.into_iter().zip(waf(&study)) {
        // In a timed run `hard` pads: at times all requests wait for a part of a superpage.
        let is_near = (timed / counted - 1.0).abs() < 0.02;
        assert!(if row.layer == "hard" { timed > counted } else { is_near }, "{timed} {counted}");
        assert!(row.latency_ns.write.is_none() && row.iops.is_none(), "{}", row.layer);
        assert_eq!(row.requests, 40_000);
    }
}

#[test]
fn requests_arrive_at_regular_intervals() {
    let mut study = study("synth:uniform:size=4k,span=64m,count=1000,read=100");
    study.pace = Pace::Every(2_000_000);
    let row = row(&study);
    assert!(row.simulated_ns.abs_diff(999 * 2_000_000) < 1_000_000, "{}", row.simulated_ns);
    let latency = row.latency_ns.read.expect("there were reads");
    assert!(latency.max < 1_000_000, "no read waits for another: {latency:?}");
}

#[test]
fn equal_seeds_give_equal_digests() {
    let mut study = study("synth:mix:count=5000,flush=50");
    study.warm = vec![Warm::FILL];
    let (one, same) = (row(&study), row(&study));
    assert_eq!(one, same);
    study.seed = 2;
    assert_ne!(row(&study).digest, one.digest);
}

#[test]
fn long_requests_are_split_and_joined() {
    let row = row(&study("synth:sequential:size=3m,span=96m,count=64"));
    assert_eq!((row.requests, row.host_write_bytes), (64, 64 * (3 << 20)));
    assert_eq!(row.waf_total, Some(1.0), "split at superpages");
}

#[test]
fn errors_for_a_too_large_footprint_suggest_a_size() {
    let text = "0,W,1000000000000,4096\n1,W,4096,4096\n2,R,1000000000000,512\n";
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("far.csv");
    std::fs::write(&path, text).expect("the test's folder is writable");
    let mut study = study(path.to_str().expect("a plain path"));
    let error = compare(&study, &Unobserved).and_then(Outcome::whole).unwrap_err();
    assert!(matches!(error, StudyError::Beyond { .. }) && error.to_string().contains("--compact"));
    study.compact = true;
    assert_eq!(row(&study).host_read_bytes, 512);
    study.workloads = vec![Load::parse("synth:uniform:span=8g").unwrap()];
    let rows = |study: &Study| compare(study, &Unobserved).and_then(Outcome::whole);
    assert!(matches!(rows(&study), Err(StudyError::TooLarge { .. })));
    study.pace = Pace::Closed(0);
    assert!(matches!(compare(&study, &Unobserved), Err(StudyError::QueueDepth(0))));
}

/// Cancels after a number of requests.
struct Impatient {
    after: u64,
    done: AtomicU64,
}

impl Impatient {
    fn new(after: u64) -> Self {
        Impatient { after, done: AtomicU64::new(0) }
    }
}

impl Watch for Impatient {
    fn progress(&self, _row: usize, done: u64, _total: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.done.load(Ordering::Relaxed) >= self.after
    }
}

#[test]
fn a_cancelled_study_shows_partial_results() {
    let mut study = study("synth:uniform:count=100000");
    study.layers = vec![LayerKind::Passthrough.into(); 3];
    let outcome = compare(&study, &Impatient::new(50_000)).unwrap();
    let (rows, holes) = (&outcome.rows, &outcome.holes);
    assert_eq!((rows.len(), holes.len()), (1, 2));
    assert!(rows[0].partial && (50_000..60_000).contains(&rows[0].requests));
    assert!(holes.iter().all(|hole| hole.after == 1 && hole.reason().contains("interrupted")));
    study.workloads = vec![Load::parse("synth:uniform:count=100000000000").unwrap()];
    let outcome = compare(&study, &Impatient::new(0)).unwrap();
    assert_eq!((outcome.rows.len(), outcome.holes.len()), (0, 3), "stopped while it was counted");
}

/// Two workloads, two drives and three layers yield the same rows for any number of threads.
#[test]
fn results_do_not_depend_on_threads() {
    let mut study = study("synth:mix:count=4000,flush=20");
    study.export = Export::Usual;
    study.workloads.push(Load::parse("synth:zipf:count=5000").unwrap());
    study.drives.push(DriveSpec::find("hatl-1g").unwrap().into());
    study.layers.push(LayerSpec::parse("hard").unwrap());
    study.layers.push(LayerSpec::parse("hard:spare=12").unwrap());
    let one = compare(&study, &Unobserved).and_then(Outcome::whole).unwrap();
    let name = |row: &Row| format!("{} {} {}", row.workload, row.drive, row.layer);
    assert_eq!(one.len(), study.rows());
    assert_eq!(name(&one[1]), "synth:mix:count=4000,flush=20 hatl-2g hard");
    assert_eq!(name(&one[11]), "synth:zipf:count=5000 hatl-1g hard:spare=12");
    for group in one.chunks(3) {
        assert!(group.iter().all(|row| row.exported_bytes == group[2].exported_bytes));
        assert_eq!(group[0].busy_ratio, Some(1.0));
        assert_ne!(group[1].digest, group[2].digest);
    }
    for threads in [2, 8] {
        study.threads = threads;
        assert_eq!(
            compare(&study, &Unobserved).and_then(Outcome::whole).unwrap(),
            one,
            "{threads} threads"
        );
    }
}

#[test]
fn a_row_that_needs_too_much_memory_is_refused_before_anything_runs() {
    let mut study = study("synth:uniform:count=100000");
    study.memory = 4 << 20;
    let error = compare(&study, &Unobserved).and_then(Outcome::whole).unwrap_err();
    assert!(matches!(error, StudyError::Memory { .. }), "{error}");
    assert!(error.to_string().starts_with("passthrough on hatl-2g needs "), "{error}");
}

#[test]
fn an_aged_stack_is_kept_and_used_again() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("warm");
    let _ = std::fs::remove_dir_all(&folder);
    let mut study = study("synth:mix:size=4k,span=48m,count=20000,flush=40");
    let drive = |name: &str| DriveSpec::find(name).expect("a drive").into();
    study.drives = ["hatl-1g", "qlc-16k:capacity=512m", "tlc:capacity=512m"].map(drive).to_vec();
    study.layers.push(LayerSpec::parse("hard").unwrap());
    study.warm = vec![Warm::FILL];
    study.cache = Some(folder.clone());
    let rows = |study: &Study| compare(study, &Unobserved).and_then(Outcome::whole);
    let files = || {
        let files = std::fs::read_dir(&folder).expect("it was made");
        files.map(|file| file.expect("it is there").path()).collect::<Vec<_>>()
    };
    let made = rows(&study).unwrap();
    assert_eq!((made.len(), files().len()), (6, 6));
    assert!(made.iter().all(|row| row.conserved && row.warm == "fill"));
    assert_eq!(rows(&study).unwrap(), made, "taken from the folder");
    study.seed = 2;
    study.drives.truncate(1);
    study.workloads.push(Load::parse("synth:uniform:count=500").unwrap());
    study.threads = 4;
    assert_eq!(rows(&study).unwrap().len(), 4, "two rows keep one stack at the same time");
    assert_eq!(files().len(), 8, "another seed is another stack");
    for path in files() {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
    }
    let error = rows(&study).unwrap_err().to_string();
    assert!(error.contains("the snapshot is damaged; remove the file"), "{error}");
}

/// With ids, the random stream does not disturb the sequential one. `none` sends the ids of the
/// workload; without them the drive receives one stream.
#[test]
fn a_drive_reports_the_wear_of_each_placement_id() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("placement-warm");
    let _ = std::fs::remove_dir_all(&folder);
    let run = |ids: [u8; 2], cache: bool| {
        let [one, other] = ids;
        let mut study = study(&format!(
            "synth:sequential:span=128m,count=300k,placement={one}\
             +uniform:span=64m,count=300k,placement={other}"
        ));
        let drive =
            "tlc:capacity=256m:over_provisioning_percent=25:placements=3:frontiers=isolated";
        study.drives = vec![DriveSpec::find(drive).expect("a drive").into()];
        (study.warm, study.pace) = (vec!["self".parse().expect("a state")], Pace::Counted);
        study.cache = cache.then(|| folder.clone());
        row(&study)
    };
    let mixed = run([0, 0], false);
    assert_eq!(mixed.devices[0].placements.len(), 1);
    let apart = run([1, 2], true);
    let [sequential, random] = &apart.devices[0].placements[..] else {
        panic!("{:?}", apart.devices[0].placements)
    };
    assert_eq!((sequential.id, random.id, sequential.sent_bytes), (1, 2, 307_200 * 4096));
    let [one, other] = [sequential, random].map(|it| it.waf.expect("it was used"));
    assert!(one < 1.01 && other > 1.02, "{one} {other}");
    assert!(apart.waf_total < mixed.waf_total, "{:?} {:?}", apart.waf_total, mixed.waf_total);
    let again = run([1, 2], true);
    assert_eq!(again.devices, apart.devices, "an aged stack keeps the id of each unit");
}
