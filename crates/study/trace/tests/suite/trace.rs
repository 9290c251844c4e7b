//! Reading, packing and generation of requests.

use std::path::PathBuf;

use hostftl_trace::{Compact, GRANULE, Op, Record, Source, Summary, TraceError, TraceFile};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Writes a file in the test's own folder.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("the test's folder is writable");
    path
}

fn all(name: &str, bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    Source::File(TraceFile::new(file(name, bytes))).open(0, false)?.collect()
}

fn complaint(name: &str, text: &str) -> String {
    let error = all(name, text.as_bytes()).expect_err("the file is wrong").to_string();
    error.rsplit_once(".csv").expect("the error names the file").1.to_owned()
}

const TEXT: &str = "t_us,op,byte_off,byte_len\n0,R,4096,512\n7,W,0,1024\r\n\n9.25,F,0,0\n9,D,512,5";

fn read_write_flush_discard() -> Vec<Record> {
    let record = |t_ns, op, lba, sectors| Record::new(t_ns, op, 0, lba, sectors);
    vec![
        record(0, Op::Read, 8, 1),
        record(7_000, Op::Write, 0, 2),
        record(9_250, Op::Flush, 0, 0),
        record(9_000, Op::Discard, 1, 1),
    ]
}

#[test]
fn plain_and_zstd_read_alike() {
    assert_eq!(all("plain.csv", TEXT.as_bytes()).unwrap(), read_write_flush_discard());
    let packed = zstd::encode_all(TEXT.as_bytes(), 3).unwrap();
    assert_eq!(all("packed.csv", &packed).unwrap(), read_write_flush_discard());
}

#[test]
fn a_headerless_file_is_recognised_by_its_commas() {
    let records = all("dev.csv", b"5,3,W,0,512\n").unwrap();
    assert_eq!(records, [Record::new(5_000, Op::Write, 3, 0, 1)]);
}

#[test]
fn lines_survive_every_refill() {
    let mut text = String::from("t_us,op,byte_off,byte_len\n");
    for i in 0..100_000u64 {
        text.push_str(&format!("{i},W,{},4096\n", i * 4096));
    }
    let records = all("long.csv", text.as_bytes()).unwrap();
    assert_eq!(records.len(), 100_000);
    assert!(records.iter().enumerate().all(|(i, r)| r.lba == i as u64 * 8 && r.sectors == 8));
}

#[test]
fn bad_lines_name_the_place() {
    let head = "t_us,op,byte_off,byte_len\n";
    let at = |name, line: &str| complaint(name, &format!("{head}1,R,0,512\n{line}"));
    assert_eq!(at("b1.csv", "2,X,0,512\n"), ":3:3: expected R, W, F or D, found 'X'");
    assert_eq!(at("b2.csv", "2,W,,512\n"), ":3:5: expected a byte offset, found ','");
    assert_eq!(at("b3.csv", "2,W,0\n"), ":3:6: expected a comma, found the end of the line");
    assert_eq!(at("b5.csv", "2,W,0,9,1\n"), ":3:8: expected the end of the line, found ','");
    assert_eq!(
        at("b6.csv", "2,W,0,"),
        ":3:7: expected a length in bytes, found the end of the file"
    );
    let long = format!("2,W,{},512\n", "9".repeat(20));
    assert!(at("b7.csv", &long).starts_with(":3:5: expected a number of at most 19 digits"));
    let named = Source::File(TraceFile {
        format: Some(hostftl_trace::Format::Own),
        ..TraceFile::new(file("b8.csv", b"time,kind\n"))
    });
    let error = named.scan(0, false).unwrap_err().to_string();
    assert!(error.ends_with(":1:1: expected a time in microseconds, found 'time'"), "{error}");
}

#[test]
fn a_cut_zstd_file_is_an_error() {
    let text = "0,R,4096,512\n".repeat(10_000);
    let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let error = all("cut.csv", &packed[..packed.len() / 2]).expect_err("half a file");
    assert!(matches!(error, TraceError::Read { .. }), "{error}");
}

#[test]
fn empty_and_missing_files_are_errors() {
    let empty = Source::File(TraceFile::new(file("empty.csv", b"t_us,op,byte_off,byte_len\n")));
    assert!(matches!(empty.scan(0, false), Err(TraceError::Empty { .. })));
    let missing: Source = "no/such/file.csv".parse().unwrap();
    assert!(
        missing
            .scan(0, false)
            .unwrap_err()
            .to_string()
            .starts_with("cannot open the trace no/such/file.csv")
    );
}

#[test]
fn widened_records_are_counted() {
    let source = Source::File(TraceFile::new(file("odd.csv", b"0,W,100,1000\n1,W,512,512\n")));
    let sum = source.scan(0, false).unwrap();
    assert_eq!((sum.widened, sum.written, sum.records), (1, 4, 2));
}

#[test]
fn compact_packs_in_first_touch_order() {
    let write = |dev, lba, sectors| Ok(Record::new(0, Op::Write, dev, lba, sectors));
    let far = 1000 * GRANULE;
    let input = [
        write(0, far + 5, 8),
        write(0, 3, 8),
        write(1, far + 5, 8),
        write(0, far + GRANULE - 1, 2),
        write(0, far, 1),
        write(0, 50 * GRANULE, 3 * GRANULE),
    ];
    let records: Vec<_> = Compact::new(input.into_iter()).map(Result::unwrap).collect();
    let places: Vec<_> = records.iter().map(|r| (r.lba, r.sectors)).collect();
    let expected = [
        (5, 8),
        (GRANULE + 3, 8),
        (2 * GRANULE + 5, 8),
        (GRANULE - 1, 1),
        (3 * GRANULE, 1),
        (0, 1),
        (4 * GRANULE, 3 * GRANULE),
    ];
    assert_eq!(places, expected);
}

#[test]
fn workloads_match_their_descriptions() {
    let source: Source = "synth:skew:size=4k,span=64m,count=20000,flush=64".parse().unwrap();
    let sum = source.scan(7, false).unwrap();
    assert_eq!((sum.writes, sum.flushes, sum.written), (20_000, 312, 160_000));
    let hot_end = 64 * 2048 / 20;
    let records = source.open(7, false).unwrap().map(Result::unwrap);
    let hot = records.filter(|r| r.op == Op::Write && r.lba < hot_end).count();
    assert!((17_800..18_200).contains(&hot), "{hot} of 20000 are hot");

    let mix: Source = "synth:mix:count=20000,iops=1000".parse().unwrap();
    let sum = mix.scan(1, false).unwrap();
    assert!((9_700..10_300).contains(&sum.reads), "{} of 20000 read", sum.reads);
    assert_eq!(sum.last_ns, 19_999 * 1_000_000);
}

#[test]
fn zipf_prefers_few_units_everywhere_in_the_span() {
    let source: Source = "synth:zipf:theta=0.99,span=64m,count=100000".parse().unwrap();
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    for record in source.open(3, false).unwrap() {
        *counts.entry(record.unwrap().lba / 8).or_default() += 1;
    }
    let mut sorted: Vec<u64> = counts.values().copied().collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    // The harmonic sum of 16384 terms with exponent 0.99 is about 10.8.
    assert!((8_500..10_000).contains(&sorted[0]), "{} go to the first", sorted[0]);
    assert!((1.8..2.2).contains(&(sorted[0] as f64 / sorted[1] as f64)));
    let busiest = counts.iter().filter(|(_, count)| **count > 100).map(|(unit, _)| *unit);
    let (first, last) = busiest.fold((u64::MAX, 0), |(a, b), unit| (a.min(unit), b.max(unit)));
    assert!(last - first > 12_000, "hot units lie from {first} to {last}");
}

#[test]
fn a_hot_part_is_fixed_or_moves() {
    let share = |text: &str, range: std::ops::Range<u64>, from: usize, to: usize| {
        let source: Source = text.parse().unwrap();
        let records = source.open(5, false).unwrap().map(Result::unwrap);
        let within = |record: &Record| range.contains(&(record.lba / 8));
        records.skip(from).take(to - from).filter(within).count() as f64 / (to - from) as f64
    };
    let still = "synth:hotcold:span=40m,hot=10,share=80,count=40000";
    assert!((0.78..0.82).contains(&share(still, 0..1024, 0, 40_000)));
    let moving = "synth:moving:span=40m,hot=10,share=80,every=20000,count=40000";
    assert!((0.78..0.82).contains(&share(moving, 0..1024, 0, 20_000)));
    assert!((0.78..0.82).contains(&share(moving, 1024..2048, 20_000, 40_000)));
}

#[test]
fn equal_seeds_give_equal_workloads() {
    let source: Source = "synth:uniform:count=1000".parse().unwrap();
    let run = |seed| source.open(seed, false).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_drawn_mixture_depends_on_its_own_seed() {
    let sum = |draw: u64, seed: u64| {
        let source: Source =
            format!("synth:drawn:seed={draw},span=32m,count=20000").parse().unwrap();
        source.scan(seed, false).unwrap()
    };
    assert_eq!(sum(1, 5), sum(1, 5));
    let all: Vec<_> = (0..40).map(|draw| (sum(draw, 1), sum(draw, 2))).collect();
    for (one, other) in &all {
        assert_eq!(one.reads + one.writes + one.discards, 20_000);
        assert!(one.end <= 32 * 2048 && other.end <= 32 * 2048);
        // The mixture is the same, so the bytes differ little.
        let ratio = one.written as f64 / other.written as f64;
        assert!((0.7..1.4).contains(&ratio), "{one:?} {other:?}");
    }
    assert!(all.iter().any(|(one, other)| one != other));
    let with = |is: fn(&Summary) -> bool| all.iter().filter(|(sum, _)| is(sum)).count();
    assert!(with(|sum| sum.flushes > 100) > 10 && with(|sum| sum.discards > 100) > 5);
}

#[test]
fn errors_for_bad_workloads_suggest_valid_ones() {
    let why = |text: &str| text.parse::<Source>().unwrap_err().to_string();
    assert!(why("synth:unifrom").contains("use uniform, zipf, hotcold, moving"));
    assert!(
        why("synth:uniform:sise=4k").contains("use size, span, count, flush, read, iops, comp")
    );
    assert!(why("synth:zipf:hot=5").contains("'hot' is not an option of zipf; use size"));
    assert!(why("synth:drawn:size=4k").contains("use seed, span, count, iops, compress"));
    assert!(why("synth:drawn:span=15m").contains("span must be at least 16m"));
    assert!(why("synth:uniform:size=4q").contains("expected a size"));
    assert!(why("synth:uniform:span=5k").contains("span must be a multiple of size"));
}

/// Any content gives whole records, or an error that names a position in the file.
#[test]
fn damaged_files_give_records_or_one_error() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let clean = TEXT.repeat(20).replace("t_us,op,byte_off,byte_len\n", "\n");
    let packed = zstd::encode_all(clean.as_bytes(), 3).unwrap();
    let (mut good, mut bad) = (0, 0);
    for round in 0..3_000 {
        let mut bytes = if round % 4 == 0 { packed.clone() } else { clean.clone().into_bytes() };
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..4) {
                0 => bytes[at] = rng.random_range(0..=255),
                1 => bytes[at] = b"0123456789,.\n\rRWFD"[rng.random_range(0..18)],
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let lines = 2 + bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        match all("damaged.csv", &bytes) {
            Ok(records) => {
                good += 1;
                assert!(records.iter().all(|it| it.sectors > 0 || it.op == Op::Flush));
            }
            Err(TraceError::Line { line, column, .. }) => {
                bad += 1;
                assert!(round % 4 == 0 || line <= lines, "line {line} of {lines}");
                assert!((1..=1024).contains(&column));
            }
            Err(
                TraceError::Read { .. } | TraceError::Record { .. } | TraceError::Unknown { .. },
            ) => bad += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(good > 300 && bad > 300, "{good} good, {bad} bad");
}

#[test]
fn a_permutation_writes_each_unit_once_per_pass() {
    let text = "permutation:size=128k,span=128m,count=2048";
    let work = text.parse().expect("the workload is valid");
    let records: Vec<Record> =
        Source::Synth(work).open(7, false).unwrap().map(Result::unwrap).collect();
    let (first, second) = records.split_at(1024);
    for pass in [first, second] {
        let mut lbas: Vec<u64> = pass.iter().map(|record| record.lba).collect();
        lbas.sort_unstable();
        assert!(lbas.into_iter().eq((0..1024).map(|unit| unit * 256)));
        assert!(pass.iter().all(|record| record.op == Op::Write && record.sectors == 256));
    }
    assert_ne!(first, second);
    let why = "permutation:read=10".parse::<hostftl_trace::Workload>().unwrap_err().to_string();
    assert!(why.contains("'read' is not an option of permutation"), "{why}");
}
