//! Stacks of several devices in a study: every law is checked on each device, and the results of
//! the devices add up to the row.

use std::path::PathBuf;

use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Stack, Study, Unobserved, Warm,
    compare,
};

fn study(workload: &str, stack: &str, layers: &[&str], warm: Warm) -> Study {
    hostftl_lab_devices::register();
    let layer = |text: &&str| LayerSpec::parse(text).expect("a layer");
    Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![Stack::find(stack).unwrap_or_else(|why| panic!("{why}"))],
        layers: layers.iter().map(layer).collect(),
        warm: vec![warm],
        export: Export::Share(600),
        cache: None,
        pace: Pace::Closed(16),
        most_spans: MOST_SPANS,
        compact: false,
        seed: 1,
        threads: 2,
        memory: 2 << 30,
    }
}

fn rows(study: &Study) -> Vec<Row> {
    compare(study, &Unobserved).and_then(Outcome::whole).unwrap_or_else(|why| panic!("{why}"))
}

/// Checks the sums that hold for every row.
fn adds_up(row: &Row) {
    let sum = |of: fn(&hostftl_sim::DeviceRow) -> u64| row.devices.iter().map(of).sum::<u64>();
    let (sent, programmed) = (sum(|it| it.sent_bytes), sum(|it| it.programmed_bytes));
    let host = row.host_write_bytes as f64;
    assert!((sent as f64 / host - row.waf_layer.unwrap()).abs() < 1e-9, "{}", row.layer);
    assert!((programmed as f64 / host - row.waf_total.unwrap()).abs() < 1e-9, "{}", row.layer);
    let own = row.devices.iter().filter(|device| device.role != "journal");
    assert_eq!(own.clone().map(|it| it.busy_ns).sum::<u64>(), row.busy_ns.total(), "{}", row.layer);
    let least = own.filter_map(|it| it.host_tb).min_by(f64::total_cmp);
    assert_eq!(least, row.life.host_tb, "the first that is worn out ends the stack");
}

const DRIVES: &str = "4*tlc:capacity=256m";

#[test]
fn an_array_is_shown_with_raid_5_and_per_device() {
    let work = "synth:uniform:size=4k,span=300m,count=30000,read=20,compress=3";
    let layers = ["raid5", "log:parity=yes", "log:parity=yes:journal=scm-m", "hard"];
    let study = study(work, DRIVES, &layers, Warm::FILL);
    let outcome = compare(&study, &Unobserved).expect("the study runs");
    let [raid5, log, journal] = &outcome.rows[..] else { panic!("{:?}", outcome.holes) };
    outcome.rows.iter().for_each(adds_up);
    assert_eq!((raid5.devices.len(), journal.devices.len()), (4, 5));
    assert_eq!((journal.devices[3].role, journal.devices[4].role), ("data", "journal"));
    assert!(journal.devices[4].sent_bytes == journal.journal_bytes);
    // A small write of RAID 5 writes its block and the parity.
    assert_eq!(raid5.waf_layer, Some(2.0));
    assert!(log.waf_layer.unwrap() < 1.0, "compressed, and a quarter of each row is parity");
    assert_eq!((raid5.busy_ratio, log.base.as_deref()), (Some(1.0), Some("raid5")));
    assert!(log.busy_ratio.unwrap() < 0.7, "{:?}", log.busy_ratio);
    let (least, most) = (
        log.devices.iter().map(|it| it.sent_bytes).min(),
        log.devices.iter().map(|it| it.sent_bytes).max(),
    );
    assert!(most.unwrap() * 10 < least.unwrap() * 11, "all devices get the same");
    let [hole] = &outcome.holes[..] else { panic!("hard works on one device only") };
    assert!(hole.reason().contains("takes one device"), "{}", hole.reason());
}

#[test]
fn a_tier_is_shown_per_device_on_flash_and_memories() {
    let work = "synth:zipf:size=4k,span=200m,count=30000,read=50";
    for stack in
        ["slc-1g:capacity=64m + qlc-64k:capacity=512m", "scm-m:capacity=32m+scm-s:capacity=512m"]
    {
        let rows = rows(&study(work, stack, &["tier", "tier:policy=writes"], Warm::NEW));
        rows.iter().for_each(adds_up);
        for row in &rows {
            let [fast, slow] = &row.devices[..] else { panic!("two devices") };
            assert_eq!((fast.role, slow.role), ("fast", "slow"));
            assert!(fast.sent_bytes > row.host_write_bytes, "all writes come to the fast one");
            assert!(fast.worn_max > 0 || stack.starts_with("slc"), "its wear is counted");
            assert!(slow.sent_bytes > 0, "evictions");
        }
        assert_eq!(rows[0].energy.mj_per_host_gb.is_some(), stack.starts_with("slc"));
    }
}

#[test]
fn unknown_chips_are_shown_without_a_life() {
    let work = "synth:uniform:size=64k,span=200m,count=2000,read=30";
    let speed = |stack: &str| {
        let rows = rows(&study(work, stack, &["none", "hard"], Warm::NEW));
        rows.iter().for_each(adds_up);
        assert_eq!((rows[0].life.host_tb, rows[0].energy.mj_per_host_gb), (None, None));
        rows[0].iops.expect("time passed")
    };
    let four = speed("olive:capacity=1g");
    assert!(speed("olive:capacity=1g:chips=1") < four / 2.0, "requests wait for one chip");
    assert!(speed("olive:capacity=1g:port=hp") < four, "caches are flushed");
    let raw = rows(&study(work, "olive:capacity=2g:access=raw", &["rrpc", "pblk"], Warm::NEW));
    raw.iter().for_each(adds_up);
    assert!(raw.iter().all(|row| row.waf_layer.is_some_and(|waf| waf < 1.3)), "little but tails");
    assert!(Stack::find("olive:port=usb").unwrap_err().to_string().contains("acp or hp"));
}

#[test]
fn several_raw_drives_are_an_array_too() {
    let work = "synth:uniform:size=4k,span=200m,count=30000";
    let stack = "3*open-channel:capacity=256m:channels=2:ways=1:unreadable_pages=0";
    let rows = rows(&study(work, stack, &["log:parity=yes:compress=none"], Warm::NEW));
    adds_up(&rows[0]);
    assert!(rows[0].devices.iter().all(|it| it.waf == Some(1.0)), "the drives write nothing more");
}

#[test]
fn a_file_describes_a_stack_and_its_layers() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join("stack.toml");
    std::fs::write(&path, "devices = [\"2*hatl-1g\", \"slc-1g\"]\nlayers = [\"log:parity=yes\"]\n")
        .expect("the folder can be written");
    let stack = Stack::find(path.to_str().expect("plain")).expect("a stack");
    assert_eq!((stack.devices.len(), stack.layers[0].name.as_str()), (3, "log:parity=yes"));
    for (text, part) in [
        ("devices = [\"nosuch\"]", "no drive 'nosuch'"),
        ("devices = []", "devices is empty"),
        ("devices = [\"tlc\"]\nlayers = [\"soft\"]", "no layer 'soft'"),
        ("devices = [\"tlc\"]\nlayer = \"log\"", ":2: unknown field"),
    ] {
        std::fs::write(&path, text).expect("the folder can be written");
        let why = Stack::find(path.to_str().expect("plain")).expect_err(text).to_string();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn an_aged_stack_with_a_memory_is_kept_and_used_again() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("warm-stacks");
    let _ = std::fs::remove_dir_all(&folder);
    let work = "synth:zipf:size=4k,span=100m,count=8000";
    let stack = "scm-m:capacity=16m+hatl-1g:capacity=256m";
    let mut study = study(work, stack, &["tier"], Warm::FILL);
    study.cache = Some(folder.clone());
    let first = rows(&study);
    let again = rows(&study);
    assert_eq!(first, again);
    assert_eq!(std::fs::read_dir(&folder).expect("it was made").count(), 1);
    adds_up(&first[0]);
}
