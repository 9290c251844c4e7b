//! Statistics of a trace.

use hostftl_trace::{Info, Op, Record, Stats};

fn info(records: &[(u64, Op, u64, u64)]) -> Info {
    let mut stats = Stats::default();
    for &(t_ns, op, lba, sectors) in records {
        stats.count(&Record::new(t_ns, op, 0, lba, sectors));
    }
    stats.info()
}

#[test]
fn the_mix_sizes_and_places_are_counted() {
    let info = info(&[
        (1000, Op::Write, 0, 8),
        (2000, Op::Write, 8, 16),
        (2500, Op::Write, 12, 1),
        (4500, Op::Flush, 0, 0),
        (9000, Op::Read, 16, 8),
        (9000, Op::Read, 24, 8),
        (9000, Op::Discard, 800, 80),
    ]);
    assert_eq!((info.requests, info.flushes, info.duration_ns), (7, 1, 8000));
    assert_eq!((info.write_share, info.writes_per_flush), (0.6, Some(3.0)));
    assert_eq!((info.writes.sequential, info.writes.misaligned), (1.0 / 3.0, 1.0 / 3.0));
    assert_eq!((info.reads.sequential, info.reads.misaligned), (0.5, 0.0));
    assert_eq!(info.writes.size_histogram, [(512, 1), (4096, 1), (8192, 1)]);
    let sizes = info.writes.size_bytes.unwrap();
    assert_eq!((sizes.p50, sizes.p90, sizes.max), (4096, 8192, 8192));
    let set = info.working_set_bytes;
    assert_eq!((set.all, set.read, set.written), (4 * 4096, 2 * 4096, 3 * 4096));
    let per_page = info.writes_per_page.unwrap();
    assert_eq!((per_page.p50, per_page.p90, per_page.max), (1, 2, 2));
    assert_eq!(per_page.mean, 4.0 / 3.0);
    let gaps = info.interarrival_ns.unwrap();
    assert_eq!(gaps.p50, 500);
    assert!((4_500..=4_505).contains(&gaps.max), "{} to three digits", gaps.max);
}

#[test]
fn quantiles_are_over_pages() {
    let mut records = Vec::new();
    for page in 0..100u64 {
        let writes = if page < 90 { 2 } else { page };
        records.extend((0..writes).map(|_| (0, Op::Write, page * 8 * 1000, 8)));
    }
    let per_page = info(&records).writes_per_page.unwrap();
    assert_eq!((per_page.p50, per_page.p90, per_page.p95, per_page.max), (2, 2, 94, 99));
}

#[test]
fn empty_traces_cause_no_division_by_zero() {
    let info = info(&[]);
    assert_eq!((info.requests, info.write_share, info.writes_per_page), (0, 0.0, None));
}
