//! Every possible record survives a round trip through this project's formats.

use std::path::{Path, PathBuf};

use hostftl_trace::{Extras, Op, Reader, Record, Source, Stats, TraceFile, Writer};
use proptest::prelude::*;

/// Maximum sectors of a device and of a request, as in `Record`.
const MOST_SECTORS: u64 = 1 << 54;
const MOST_AT_ONCE: u64 = 1 << 23;
const MOST_DISCARDED: u64 = 1 << 35;

fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

fn write(path: &Path, records: &[Record], extras: Extras) {
    let mut writer = Writer::create(path, extras).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    assert!(!path.exists(), "a file has its name only when it is whole");
    assert_eq!(writer.finish().unwrap(), records.len() as u64);
}

fn read(path: &Path) -> Vec<Record> {
    let reader = Reader::open(&TraceFile::new(path)).unwrap();
    reader.map(|record| record.unwrap()).collect()
}

/// Generates numbers of any magnitude up to `most`, limits included.
fn up_to(most: u64) -> impl Strategy<Value = u64> {
    let short = (0..64u32, any::<u64>()).prop_map(move |(shift, it)| (it >> shift).min(most));
    prop_oneof![Just(0), Just(most), 0..=most, short]
}

prop_compose! {
    fn record()(
        kind in 0..4,
        t_ns in up_to(u64::MAX),
        dev in up_to(u64::from(u32::MAX)),
        lba in up_to(MOST_SECTORS),
        length in up_to(MOST_DISCARDED),
        saved in prop::option::of(0..=100u8),
        placement in any::<u8>(),
    ) -> Record {
        let dev = dev as u32;
        let (op, most) = match kind {
            0 => (Op::Read, MOST_AT_ONCE),
            1 => (Op::Write, MOST_AT_ONCE),
            2 => (Op::Discard, MOST_DISCARDED),
            _ => return Record::flush(t_ns, dev),
        };
        let sectors = length.clamp(1, most);
        let saved = saved.filter(|_| op == Op::Write);
        let placement = if op == Op::Write { placement } else { 0 };
        let lba = lba.min(MOST_SECTORS - sectors);
        Record { saved, placement, ..Record::new(t_ns, op, dev, lba, sectors) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_record_round_trips(records in prop::collection::vec(record(), 1..60)) {
        for name in ["every.csv", "every.hft", "every.flat"] {
            for (saved, placement) in [(true, true), (true, false), (false, true), (false, false)] {
                let path = fresh(name);
                write(&path, &records, Extras { saved, placement });
                let known = |it: &Record| {
                    let id = if placement { it.placement } else { 0 };
                    Record { saved: it.saved.filter(|_| saved), placement: id, ..*it }
                };
                let expected: Vec<Record> = records.iter().map(known).collect();
                prop_assert_eq!(read(&path), expected, "{} {} {}", name, saved, placement);
            }
        }
    }
}

#[test]
fn compressed_records_round_trip_and_damage_is_detected() {
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Discard];
    let records: Vec<Record> = (0..50_000u64)
        .map(|i| {
            let sectors = if i % 3 == 0 { 8 * (i % 40 + 1) } else { i % 77 + 1 };
            let (t_ns, dev) = (i * 1_234 % 1_000_003, (i / 100 % 3) as u32);
            match ops[(i * 7 % 4) as usize] {
                Op::Flush => Record::flush(t_ns, dev),
                op => Record::new(t_ns, op, dev, i * i * 12_345 % (1 << 40), sectors),
            }
        })
        .collect();
    for name in ["w.csv", "w.csv.zst", "w.hft", "w.hft.zst", "w.flat", "w.flat.zst"] {
        let path = fresh(name);
        write(&path, &records, Extras::default());
        assert!(read(&path) == records, "{name}");
        assert!(Writer::create(&path, Extras::default()).is_err(), "an existing file is kept");
    }
    damage_is_found("w.hft.zst", "damaged.hft", "the final frame");
    damage_is_found("w.flat.zst", "damaged.flat", "the last record");
}

/// Checks that a truncated copy of the decompressed file `whole`, and a copy with a flipped bit,
/// are reported as damaged.
fn damage_is_found(whole: &str, damaged: &str, last: &str) {
    let path = fresh(damaged);
    let whole = std::fs::read(path.with_file_name(whole)).unwrap();
    let whole = zstd::decode_all(&whole[..]).unwrap();
    let complaint = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let mut reader = Reader::open(&TraceFile::new(&path)).unwrap();
        reader.find_map(Result::err).expect("the file is damaged").to_string()
    };
    let cut = complaint(&whole[..whole.len() - 20]);
    let expected = format!("expected {last}, found the end of the file (truncated)");
    assert!(cut.ends_with(&expected), "{cut}");
    for at in (0..whole.len()).step_by(9_973).filter(|at| *at >= 8) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        assert!(complaint(&bytes).contains(&format!("{damaged}: record ")), "{at}");
    }
}

#[test]
fn compressibility_is_kept_with_the_writes() {
    let source: Source = "synth:mix:count=2000,flush=10,compress=20-80%".parse().unwrap();
    assert_eq!(source.compressibility().map(|it| it.to_string()), Some("20-80%".to_owned()));
    let records: Vec<Record> = source.open(7, false).unwrap().map(Result::unwrap).collect();
    assert!(records.iter().all(|it| it.saved.is_some() == (it.op == Op::Write)));
    for name in ["saved.csv", "saved.hft", "saved.flat"] {
        let path = fresh(name);
        write(&path, &records, Extras { saved: true, placement: false });
        assert_eq!(read(&path), records, "{name}");

        let named: Source = format!("{}:compress=50%", path.display()).parse().unwrap();
        let mut stream = named.open(1, true).unwrap();
        let mut stats = Stats::default();
        stream.by_ref().for_each(|record| stats.count(&record.unwrap()));
        let saved = stats.info().saved_percent.unwrap();
        assert_eq!((saved.mean, saved.p10, saved.p90, saved.known), (50.0, 50, 50, 1.0));
        let warnings = stream.notes().warnings().join("; ");
        assert!(
            warnings.contains("are packed") && warnings.ends_with("compress by 50%"),
            "{warnings}"
        );

        let named: Source = format!("{}:compress=2.9", path.display()).parse().unwrap();
        let mut stream = named.open(1, true).unwrap();
        let saved: Vec<u8> = stream.by_ref().filter_map(|record| record.unwrap().saved).collect();
        assert!(saved.contains(&65) && saved.contains(&66) && saved.iter().all(|it| it / 2 >= 32));
        let warnings = stream.notes().warnings().join("; ");
        assert!(warnings.ends_with("is assumed to compress to a ratio of 2.9"), "{warnings}");
    }
    let plain: Source = "synth:mix:count=2000,flush=10".parse().unwrap();
    let plain = plain.open(7, false).unwrap().map(Result::unwrap);
    assert!(plain.eq(records.iter().map(|it| Record { saved: None, ..*it })), "same requests");
}

#[test]
fn errors_name_the_wrong_percentage() {
    let complaint = |lines: &str| {
        let path = fresh("percent.csv");
        std::fs::write(&path, format!("t_us,dev,op,byte_off,byte_len,saved\n{lines}")).unwrap();
        let mut reader = Reader::open(&TraceFile::new(&path)).unwrap();
        reader.find_map(Result::err).expect("a line is wrong").to_string()
    };
    let most = complaint("1,0,W,0,512,67\n2,0,W,0,512,101\n");
    assert!(
        most.ends_with(
            ":3:13: expected the percentage that compression saves, 0 to 100, found '101'"
        )
    );
    let read = complaint("1,0,R,0,512,\n2,0,R,0,512,5\n");
    assert!(read.contains(":3:13: expected nothing, because only writes are compressed"), "{read}");
    let short = complaint("1,0,W,0,512\n");
    assert!(short.ends_with(":2:12: expected a comma, found the end of the line"), "{short}");
}

#[test]
fn placement_ids_are_read_from_columns() {
    let path = fresh("placement.csv");
    let read = |text: &str, options: &str| -> Result<Vec<u8>, String> {
        std::fs::write(&path, text).unwrap();
        let source: Source = format!("{}{options}", path.display()).parse().unwrap();
        let records = source.open(1, false).map_err(|why| why.to_string())?;
        records.map(|it| it.map(|it| it.placement).map_err(|why| why.to_string())).collect()
    };
    let header = "t_us,dev,op,byte_off,byte_len,placement\n";
    let all = read(&format!("{header}1,0,W,0,512,3\n2,0,R,0,512,\n3,0,W,0,512,\n"), "");
    assert_eq!(all, Ok(vec![3, 0, 0]));
    assert_eq!(read("1,0,W,0,512,50,255\n2,0,W,0,512,,7\n", ""), Ok(vec![255, 7]), "no header");
    let table = ":columns=op,offset:sectors,length:sectors,placement";
    assert_eq!(read("W,0,8,2\nR,8,8,1\nW,0,8,\n", table), Ok(vec![2, 0, 0]));
    let high = read(&format!("{header}1,0,W,0,512,256\n"), "").unwrap_err();
    assert!(high.ends_with(":2:13: expected a placement id, 0 to 255, found '256'"), "{high}");
    let of_read = read(&format!("{header}1,0,R,0,512,1\n"), "").unwrap_err();
    assert!(of_read.contains("only writes have a placement id"), "{of_read}");
    let later = read(&format!("1,0,W,0,512\n{header}1,0,W,0,512,1\n"), "").unwrap_err();
    assert!(later.contains("no column for placement ids"), "{later}");
}

#[test]
fn a_workload_has_its_placement_ids_in_every_format() {
    let text = "synth:sequential:placement=2,count=300+mix:placement=1,count=100,flush=7";
    let source: Source = text.parse().unwrap();
    let stream = source.open(7, false).unwrap();
    let extras = stream.extras();
    assert_eq!(extras, Extras { saved: false, placement: true });
    let records: Vec<Record> = stream.map(Result::unwrap).collect();
    assert!(records.iter().any(|it| it.placement == 1) && records[0].placement == 2);
    assert!(records.iter().all(|it| it.op == Op::Write || it.placement == 0));
    for name in ["ids.csv", "ids.hft", "ids.flat"] {
        let path = fresh(name);
        write(&path, &records, extras);
        assert_eq!(read(&path), records, "{name}");
        assert_eq!(Reader::open(&TraceFile::new(&path)).unwrap().extras(), extras);
    }
}
