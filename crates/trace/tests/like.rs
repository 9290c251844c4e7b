//! A workload like a volume comes out as the published figures say, within 10 %.

use hostftl_trace::{Info, Source, Stats, Volume};

fn info(text: &str, seed: u64) -> Info {
    let source: Source = text.parse().expect("the workload is well formed");
    let mut stats = Stats::default();
    for record in source.open(seed, false).expect("nothing is opened") {
        stats.count(&record.expect("nothing is read"));
    }
    stats.info()
}

fn is_like(volume: &Volume, info: &Info, scale: f64) {
    let writes = info.writes.size_bytes.as_ref().expect("it writes");
    let reads = info.reads.size_bytes.as_ref().expect("it reads");
    let pages = info.writes_per_page.as_ref().expect("it writes");
    let [p50, p90, p95, most] = volume.per_page;
    let set = &info.working_set_bytes;
    let figures = [
        ("requests", info.requests as f64, volume.requests as f64 * scale),
        ("write share", info.write_share, volume.write_share),
        ("mean write", writes.mean, volume.mean_write),
        ("median write", writes.p50 as f64, volume.median_write),
        ("p90 write", writes.p90 as f64, volume.p90_write),
        ("mean read", reads.mean, volume.mean_read),
        ("working set", set.all as f64, volume.touched * scale),
        ("read", set.read as f64, volume.read * scale),
        ("written", set.written as f64, volume.written * scale),
        ("writes per page p50", pages.p50 as f64, p50),
        ("writes per page p90", pages.p90 as f64, p90),
        ("writes per page p95", pages.p95 as f64, p95),
        ("writes per page max", pages.max as f64, most * scale),
    ];
    for (name, made, published) in figures {
        let ratio = made / published;
        assert!((0.9..=1.1).contains(&ratio), "{}: {name} {made}, not {published}", volume.name);
    }
}

/// Whole weeks: mostly writes, mostly reads, and one whose pages are written very unevenly.
#[test]
fn whole_weeks_come_out() {
    for name in ["w106", "w105", "w103"] {
        let volume = Volume::find(name).expect("the volume is in the table");
        is_like(volume, &info(&format!("synth:like:volume={name}"), 1), 1.0);
    }
}

#[test]
fn a_part_of_a_week_keeps_its_shape() {
    let volume = Volume::find("w66").expect("the volume is in the table");
    let part = info("synth:like:w66,scale=0.05,flush=100", 7);
    is_like(volume, &part, 0.05);
    assert_eq!(part.flushes, part.writes.requests / 100);
    let week = 7.0 * 24.0 * 3600.0 * 1e9 * 0.05;
    assert!((part.duration_ns as f64 / week - 1.0).abs() < 0.02);
}

#[test]
fn one_seed_is_one_workload() {
    let run = |seed| info("synth:like:w99,scale=0.01", seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).interarrival_ns, run(2).interarrival_ns);
}

#[test]
fn the_table_is_whole() {
    assert_eq!(Volume::all().len(), 106);
    let last = Volume::find("w54").expect("the volume is in the table");
    assert_eq!((last.requests, last.median_write), (8_802_776, 524_288.0));
    let why = |text: &str| text.parse::<Source>().unwrap_err().to_string();
    assert!(why("synth:like:w107").contains("no volume is called 'w107': use w01 to w106"));
    assert!(why("synth:like:scale=0.5").contains("name a volume"));
    assert!(why("synth:like:w66,scale=2").contains("expected a number up to 1"));
}
