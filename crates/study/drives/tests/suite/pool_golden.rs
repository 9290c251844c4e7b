//! Golden counters of each policy on fixed workloads, with one write point and with two.
//!
//! `HOSTFTL_GOLDEN=write cargo test --release -p hostftl-drives --test pool_golden` renews the
//! table. The whole trace is replayed if `HOSTFTL_TRACES` names its folder; otherwise its rows are
//! kept.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hostftl_drives::pool::{Frontiers, Pool, PoolSpec};
use hostftl_trace::{Op, Source};

const PAGES: u32 = 256;
/// Sectors of a page.
const PAGE: u64 = 8;
const POLICIES: [&str; 6] =
    ["greedy", "fifo", "random", "d-choices:10", "cost-benefit", "declining-cost"];
const HEAD: &str = "workload policy frontiers: host pages, copied pages, erases\n";

/// A change of a page: written or trimmed.
struct Change {
    page: u32,
    trimmed: bool,
}

fn table() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/pool.txt")
}

/// Returns the available workloads by name.
fn workloads() -> Vec<(&'static str, String)> {
    let head =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces/mariadb-oltp-head.csv.zst");
    let mut found = vec![
        ("zipf", "synth:zipf:size=4k,span=256m,count=600000".to_owned()),
        ("moving", "synth:moving:size=4k,span=256m,count=600000,every=20000".to_owned()),
        ("mariadb-oltp-head", head.to_str().expect("a path in UTF-8").to_owned()),
    ];
    match std::env::var("HOSTFTL_TRACES") {
        Ok(folder) => found.push(("mariadb-oltp", format!("{folder}/mariadb-oltp.csv.zst"))),
        Err(_) => {
            hostftl_test_skip::skipped("mariadb-oltp: HOSTFTL_TRACES names no folder of traces")
        }
    }
    found
}

/// Returns every page that a workload changes, with its addresses packed, and the number of pages.
fn changes(source: &str) -> (Vec<Change>, u32) {
    let source: Source = source.parse().expect("a workload");
    let (mut changes, mut end) = (Vec::new(), 0);
    for record in source.open(1, true).expect("it can be opened") {
        let record = record.expect("a sound record");
        let trimmed = match record.op {
            Op::Write => false,
            Op::Discard => true,
            _ => continue,
        };
        // A write to a part of a page changes it; only a trim of the whole page trims it.
        let (first, last) = if trimmed {
            (record.lba.div_ceil(PAGE), record.end() / PAGE)
        } else {
            (record.lba / PAGE, record.end().div_ceil(PAGE))
        };
        changes.extend((first..last).map(|page| Change { page: page as u32, trimmed }));
        end = end.max(last as u32);
    }
    (changes, end)
}

/// Fills a pool with a quarter more pages than the workload has, and replays the workload.
fn play(changes: &[Change], logical: u32, gc: &str, frontiers: Frontiers) -> String {
    let segments = (logical + logical / 4).div_ceil(PAGES).max(logical.div_ceil(PAGES) + 4);
    let spec = PoolSpec::new(segments, PAGES, logical);
    let spec = PoolSpec { gc: gc.parse().expect("a policy"), frontiers, seed: 3, ..spec };
    let mut pool = Pool::new(spec).expect("a possible pool");
    (0..logical).for_each(|page| pool.write(page, &mut |_| {}));
    for &Change { page, trimmed } in changes {
        if trimmed { pool.trim(page) } else { pool.write(page, &mut |_| {}) }
    }
    let work = pool.work();
    format!("{}, {}, {}", work.host, work.copies, work.erases)
}

#[test]
fn every_policy_reproduces_its_golden_counts() {
    let golden = std::fs::read_to_string(table()).unwrap_or_default();
    let (mut found, mut played) = (HEAD.to_owned(), Vec::new());
    for (name, source) in workloads() {
        played.push(name);
        let (changes, logical) = changes(&source);
        for gc in POLICIES {
            for frontiers in [Frontiers::Shared, Frontiers::Separate] {
                let row = play(&changes, logical, gc, frontiers);
                writeln!(found, "{name} {gc} {frontiers}: {row}").expect("a string grows");
            }
        }
    }
    let of_others = |row: &&str| {
        let name = row.split(' ').next().unwrap_or_default();
        !row.is_empty() && !HEAD.starts_with(row) && !played.contains(&name)
    };
    golden.lines().filter(of_others).for_each(|row| found += &format!("{row}\n"));
    if std::env::var_os("HOSTFTL_GOLDEN").is_some_and(|it| it == "write") {
        std::fs::create_dir_all(table().parent().expect("a folder")).expect("it can be made");
        return std::fs::write(table(), found).expect("the table can be written");
    }
    let rows = found.lines().zip(golden.lines());
    let changed: Vec<_> = rows.filter(|(now, then)| now != then).collect();
    assert!(changed.is_empty(), "now and then: {changed:#?}");
    assert_eq!(found.lines().count(), golden.lines().count(), "rows were added or are missing");
}
