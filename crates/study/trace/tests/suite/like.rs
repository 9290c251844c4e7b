//! The figures of a workload that resembles a volume match the published ones within 10 %.

use hostftl_trace::{Info, Source, Stats, Volume};

fn info(text: &str, seed: u64) -> Info {
    let source: Source = text.parse().expect("the workload is well formed");
    let mut stats = Stats::default();
    for record in source.open(seed, false).expect("nothing is opened") {
        stats.count(&record.expect("nothing is read"));
    }
    stats.info()
}

fn is_like(text: &str, info: &Info) {
    let source: Source = text.parse().expect("the workload is well formed");
    let Source::Like(like) = source else { panic!("{text} is like no volume") };
    let figures = like.figures(info);
    assert_eq!(figures.len(), 13);
    figures.iter().for_each(|figure| assert!(figure.error() <= 0.1, "{text}: {figure:?}"));
}

/// Whole weeks: mostly writes, mostly reads, and one with very uneven writes per page.
#[test]
fn whole_weeks_are_reproduced() {
    for name in ["w106", "w105", "w103"] {
        let text = format!("synth:like:volume={name}");
        is_like(&text, &info(&text, 1));
    }
}

#[test]
fn a_part_of_a_week_keeps_its_shape() {
    let text = "synth:like:w66,scale=0.05,flush=100";
    let part = info(text, 7);
    is_like(text, &part);
    assert_eq!(part.flushes, part.writes.requests / 100);
    let week = 7.0 * 24.0 * 3600.0 * 1e9 * 0.05;
    assert!((part.duration_ns as f64 / week - 1.0).abs() < 0.02);
}

#[test]
fn equal_seeds_give_equal_workloads() {
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
    assert!(why("synth:like:w107").contains("no volume 'w107'; use w01 to w106"));
    assert!(why("synth:like:scale=0.5").contains("volume is missing"));
    assert!(why("synth:like:w66,scale=2").contains("expected a number up to 1"));
}
