//! Every format, with samples made for the test, and with the heads of real traces if they are
//! available.

use std::path::{Path, PathBuf};

use hostftl_test_skip::skipped;
use hostftl_trace::{Format, Op, Reader, Record, TraceError, TraceFile};

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("formats-{name}"));
    std::fs::write(&path, bytes).expect("the test's folder is writable");
    path
}

/// Returns the detected format of `bytes`, and the requests.
fn read(name: &str, bytes: &[u8]) -> (Format, Vec<Record>) {
    let reader = Reader::open(&TraceFile::new(file(name, bytes))).expect("the format is known");
    let format = reader.format();
    (format, reader.map(|record| record.expect("the sample is well formed")).collect())
}

fn complaint(name: &str, bytes: &[u8], options: &str) -> String {
    let path = file(name, bytes);
    let named: TraceFile = format!("{}{options}", path.display()).parse().expect("good options");
    let mut reader = match Reader::open(&named) {
        Ok(reader) => reader,
        Err(error) => return error.to_string(),
    };
    let error = reader.find_map(Result::err).expect("the sample is wrong").to_string();
    assert!(reader.next().is_none(), "nothing comes after an error");
    error.replace(&path.display().to_string(), "FILE")
}

fn request(t_ns: u64, dev: u32, op: Op, lba: u64, sectors: u64) -> Record {
    Record::new(t_ns, op, dev, lba, sectors)
}

const MSR: &[u8] = b"128166372003061629,web,0,Read,7014609920,24576,41286\n\
                     128166372016382155,web,1,Write,1317441536,512,1963\n\
                     128166372016382156,src,1,write,512,1024,1\n";

#[test]
fn msr_cambridge() {
    let (format, records) = read("msr", MSR);
    assert_eq!(format, Format::Msr);
    let expected = [
        request(12_816_637_200_306_162_900, 0, Op::Read, 13_700_410, 48),
        request(12_816_637_201_638_215_500, 1, Op::Write, 2_573_128, 1),
        request(12_816_637_201_638_215_600, 257, Op::Write, 1, 2),
    ];
    assert_eq!(records, expected);
}

#[test]
fn spc() {
    let sample = b"0,303567,3584,w,0.000000\n1, 55590 ,3073 , R , 0.026214, more\n";
    let (format, records) = read("spc", sample);
    assert_eq!(format, Format::Spc);
    let expected =
        [request(0, 0, Op::Write, 303_567, 7), request(26_214_000, 1, Op::Read, 55_590, 7)];
    assert_eq!(records, expected);
}

#[test]
fn disksim_counts_milliseconds_and_mqsim_nanoseconds() {
    let (format, records) = read("disksim", b"0.5 0 8 16 0\n  1.25\t1 24 8 1\n");
    assert_eq!(format, Format::DiskSim);
    let expected = [request(500_000, 0, Op::Write, 8, 16), request(1_250_000, 1, Op::Read, 24, 8)];
    assert_eq!(records, expected);
    let (_, records) = read("mqsim", b"500000 0 8 16 0\n1250000 1 24 8 1\n");
    assert_eq!(records, expected);
}

#[test]
fn alibaba() {
    let sample = b"device_id,opcode,offset,length,timestamp\n\
                   419,W,8792731648,16384,1577808144360767\n\
                   725,R,59110326272,4096,1577808144360768\n";
    let (format, records) = read("alibaba", sample);
    assert_eq!(format, Format::Alibaba);
    let expected = [
        request(1_577_808_144_360_767_000, 419, Op::Write, 17_173_304, 32),
        request(1_577_808_144_360_768_000, 725, Op::Read, 115_449_856, 8),
    ];
    assert_eq!(records, expected);
}

#[test]
fn tencent() {
    let (format, records) =
        read("tencent", b"1538323200,12910952,128,0,1063\n1538323201,8,1,1,2\n");
    assert_eq!(format, Format::Tencent);
    let expected = [
        request(1_538_323_200_000_000_000, 1063, Op::Read, 12_910_952, 128),
        request(1_538_323_201_000_000_000, 2, Op::Write, 8, 1),
    ];
    assert_eq!(records, expected);
}

const BLKPARSE: &[u8] = b"\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        0     0.000002000     0  m   N cfq697 insert_request
  8,0    3        3     0.000008000   697  D   W 223490 + 8 [(kjournald)]
  8,0    1        1     0.000009000     0  C   W 223490 + 8 [0]
  8,16   1        2     0.000010000   700  D  FN [kworker/1:1H]
  8,16   1        3     0.000011000   700  D FWFSM 16 + 8 [jbd2]
  8,16   1        4     1.000000000   700  D   D 1024 + 2048 [fstrim]
CPU0 (sda):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (sda):
";

#[test]
fn blkparse_issues() {
    let (format, records) = read("blkparse", BLKPARSE);
    assert_eq!(format, Format::Blkparse);
    let other = 8 << 20 | 16;
    let expected = [
        request(8_000, 8 << 20, Op::Write, 223_490, 8),
        request(10_000, other, Op::Flush, 0, 0),
        request(11_000, other, Op::Flush, 0, 0),
        request(11_000, other, Op::Write, 16, 8),
        request(1_000_000_000, other, Op::Discard, 1024, 2048),
    ];
    assert_eq!(records, expected);
    let (_, queued) = read("blkparse-q", b"8,0 3 1 0.5 697 Q RA 8 + 8 [cat]\n");
    assert_eq!(queued, [request(500_000_000, 8 << 20, Op::Read, 8, 8)]);
}

#[test]
fn the_kernels_events() {
    let sample = b"# tracer: nop\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n\
        fio (x)-1387  [001] .....  4178.123456: block_rq_issue: 259,0 WS 4096 () 2056 + 8 [fio]\n\
        fio-1387    [001] d..1.  4178.123500: block_rq_complete: 259,0 WS () 2056 + 8 [0]\n\
        kworker/0:1H-9 [000] ..... 4178.2: block_rq_issue: 259,0 FF 0 () 0 + 0 none,0,0 [kw]\n\
        swapper     0 [000]  4178.300000: block:block_rq_issue: 259,0 R 512 () 7 + 1 be,0,4 [sw]\n";
    let (format, records) = read("kernel", sample);
    assert_eq!(format, Format::Kernel);
    let dev = 259 << 20;
    let expected = [
        request(4_178_123_456_000, dev, Op::Write, 2056, 8),
        request(4_178_200_000_000, dev, Op::Flush, 0, 0),
        request(4_178_300_000_000, dev, Op::Read, 7, 1),
    ];
    assert_eq!(records, expected);
}

#[test]
fn fio_with_waits_and_with_times() {
    let waits = b"fio version 2 iolog\n/dev/a add\n/dev/b add\n/dev/a open\n/dev/b open\n\
        /dev/a write 4096 8192\n/dev/a wait 250 0\n/dev/b read 0 512\n/dev/b wait 250 0\n\
        /dev/a datasync 0 0\n/dev/a trim 0 1024\n/dev/a close\n";
    let (format, records) = read("fio2", waits);
    assert_eq!(format, Format::Fio);
    let expected = [
        request(0, 0, Op::Write, 8, 16),
        request(250_000, 1, Op::Read, 0, 1),
        request(500_000, 0, Op::Flush, 0, 0),
        request(500_000, 0, Op::Discard, 0, 2),
    ];
    assert_eq!(records, expected);
    let times = b"fio version 3 iolog\n1 /dev/a add\n2 /dev/a open\n7 /dev/a write 4096 8192\n\
        250 /dev/b read 0 512\n500 /dev/a sync 0 0\n501 /dev/a trim 0 1024\n9000 /dev/a close\n";
    let (_, records) = read("fio3", times);
    assert_eq!(records[0], request(7_000, 0, Op::Write, 8, 16));
    assert_eq!(records[2], request(500_000, 0, Op::Flush, 0, 0));
    assert_eq!(records.len(), 4);
}

fn bytes(fields: &[(u64, usize)]) -> Vec<u8> {
    fields.iter().flat_map(|(value, size)| value.to_le_bytes()[..*size].to_vec()).collect()
}

#[test]
fn vscsi_of_both_versions() {
    let commands = [(0x2a, 4096), (0x28, 512), (0x35, 0), (0x12, 36)];
    let first: Vec<u8> = (commands.iter().zip(1..))
        .flat_map(|((command, length), n)| {
            bytes(&[(n, 4), (*length, 4), (1, 4), (*command, 2), (0x100, 2), (n * 8, 8), (n, 8)])
        })
        .collect();
    let second: Vec<u8> = (commands.iter().zip(1..))
        .flat_map(|((command, length), n)| {
            let front = [(*command, 2), (0x200, 2), (n, 4), (*length, 4), (1, 4)];
            [bytes(&front), bytes(&[(n * 8, 8), (n, 8), (77, 8)])].concat()
        })
        .collect();
    let expected = [
        request(1_000, 0, Op::Write, 8, 8),
        request(2_000, 0, Op::Read, 16, 1),
        request(3_000, 0, Op::Flush, 0, 0),
    ];
    for (name, sample) in [("vscsi1", &first), ("vscsi2", &second)] {
        let (format, records) = read(name, sample);
        assert_eq!((format, records.as_slice()), (Format::Vscsi, &expected[..]));
    }
    let cut = complaint("vscsi-cut", &second[..100], "");
    assert_eq!(cut, "FILE: record 3: expected a whole record, found 20 of 40 bytes");
}

#[test]
fn oracle_general() {
    let access = |s, id, size, next: i64| bytes(&[(s, 4), (id, 8), (size, 4), (next as u64, 8)]);
    let sample = [access(7, 1024, 4096, 3), access(7, 99, 700, -1), access(9, 1024, 512, -1)];
    let (format, records) = read("oracle", &sample.concat());
    assert_eq!(format, Format::Oracle);
    let expected = [
        request(7_000_000_000, 0, Op::Read, 1024, 8),
        request(7_000_000_000, 0, Op::Read, 99, 2),
        request(9_000_000_000, 0, Op::Read, 1024, 1),
    ];
    assert_eq!(records, expected);
    let path = file("oracle", &sample.concat());
    let named: TraceFile = format!("{}:op=W,id=bytes", path.display()).parse().unwrap();
    let first = Reader::open(&named).unwrap().next().unwrap().unwrap();
    assert_eq!(first, request(7_000_000_000, 0, Op::Write, 2, 8));
}

#[test]
fn compression_is_detected_by_content() {
    use std::io::Write;
    let (_, expected) = read("plain", MSR);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(MSR).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(MSR).unwrap();
    let zstd = zstd::encode_all(MSR, 3).unwrap();
    for packed in [gzip.finish().unwrap(), xz.finish().unwrap(), zstd] {
        assert_eq!(read("packed", &packed), (Format::Msr, expected.clone()));
        let half = complaint("half", &packed[..packed.len() / 2], ":format=msr");
        assert!(half.starts_with("FILE") || half.contains("cannot read the trace"), "{half}");
    }
}

#[test]
fn a_bad_line_is_named_or_counted() {
    let bad = b"fio version 3 iolog\n1 /dev/a write 0 512\n2 /dev/a scrub 0 512\n3 /dev/a sync\n";
    let text = complaint("bad-fio", bad, "");
    let expected = "read, write, trim, sync, datasync, add, open or close";
    assert_eq!(text, format!("FILE:3:10: expected {expected}, found 'scrub'"));
    let spc = complaint("bad-spc", b"0,8,512,w,0.5\n0,8,512,w,soon\n", "");
    assert_eq!(spc, "FILE:2:11: expected a time in seconds, found 'soon'");

    let far = complaint("far", b"0,99999999999999999,512,w,0.5\n0,8,512,w,1\n", ":format=spc");
    assert!(far.starts_with("FILE:1:1: expected a range below 8 EiB"), "{far}");
    let long = complaint("long", b"0.5 0 8 99999999 0\n", ":format=disksim");
    assert!(long.starts_with("FILE:1:1: expected a length of at most 4 GiB"), "{long}");

    let path = file("bad-fio", bad);
    let named: TraceFile = format!("{}:skip-bad", path.display()).parse().unwrap();
    let mut reader = Reader::open(&named).unwrap();
    let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(records.len(), 2);
    let warnings = reader.notes().warnings();
    let wanted =
        format!("invalid lines omitted: 1; the first is line 3:10, where {expected} was expected");
    assert_eq!(warnings, [wanted]);
}

/// Effects of editors, other systems and broken copies on a text.
#[test]
fn odd_texts_are_read_or_named() {
    let expected = [request(0, 0, Op::Write, 0, 8), request(5_000, 0, Op::Read, 0, 1)];
    let text = "t_us,op,byte_off,byte_len\n0,W,0,4096\n\n5,R,0,512";
    for odd in [text.replace('\n', "\r\n"), format!("\u{feff}{text}"), format!("{text}\n\n\n")] {
        let (format, records) = read("odd", odd.as_bytes());
        assert_eq!((format, records.as_slice()), (Format::Own, &expected[..]), "{odd:?}");
    }
    let huge = format!("0,W,0,4096\n{}\n5,R,0,512\n", "1".repeat(3_000_000));
    let path = file("huge", huge.as_bytes());
    let named: TraceFile = format!("{}:skip-bad", path.display()).parse().unwrap();
    let mut reader = Reader::open(&named).unwrap();
    assert!(reader.by_ref().map(Result::unwrap).eq(expected));
    assert_eq!(reader.notes().bad, 1);
    let places = [
        ("-5,R,0,512", "1: expected a time in microseconds, found '-5'"),
        ("NaN,R,0,512", "1: expected a time in microseconds, found 'NaN'"),
        ("1e6,R,0,512", "2: expected a comma, found 'e6'"),
        (
            "18446744073709552,R,0,512",
            "1: expected a time below 584 years, or another unit as in :time=ns, found",
        ),
        ("5,R,-512,512", "5: expected a byte offset, found '-512'"),
        ("5,R,0,99999999999", "1: expected a length of at most 4 GiB, found '5'"),
        ("5,R,9223372036854775808,512", "1: expected a range below 8 EiB, found '5'"),
        ("5,R,18446744073709551615,512", "5: expected a number of at most 19 digits"),
        ("5,R\u{0},0,512", "4: expected a comma, found '\\x00'"),
    ];
    for (line, expected) in places {
        let error =
            complaint("odd-line", format!("0,W,0,4096\n{line}\n").as_bytes(), ":format=csv");
        assert!(error.starts_with(&format!("FILE:2:{expected}")), "{line}: {error}");
    }
}

#[test]
fn one_of_several_devices_is_selected() {
    let path = file("devices", BLKPARSE);
    for (dev, wanted) in [("8:0", 1), ("8388624", 4)] {
        let named: TraceFile = format!("{}:dev={dev}", path.display()).parse().unwrap();
        let mut reader = Reader::open(&named).unwrap();
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert!(records.iter().all(|record| record.dev == 0));
        assert_eq!((records.len(), reader.notes().others), (wanted, 5 - wanted as u64));
    }
}

#[test]
fn addresses_shift_and_traces_repeat() {
    let path = file("loop.csv", b"10,W,512,4096\n20,F,0,0\n30,R,0,512\n");
    let named: TraceFile = format!("{}:shift=3584,loop=3", path.display()).parse().unwrap();
    let mut reader = Reader::open(&named).unwrap();
    let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let lbas: Vec<_> = records.iter().map(|record| record.lba).collect();
    assert_eq!(lbas, [8, 0, 7].repeat(3));
    let times: Vec<_> = records.iter().map(|record| record.t_ns).collect();
    assert_eq!(times[..3], [10_000, 20_000, 30_000]);
    assert!(times.is_sorted(), "{times:?}");
    let rounds: Vec<_> = times.chunks(3).map(|round| round[2] - round[0]).collect();
    assert_eq!(rounds, [20_000; 3]);
    assert!(times[3] > times[2] && times[3] - times[2] <= 10_000, "{times:?}");
    let expected = ["all addresses are shifted by 3584 bytes", "the trace is repeated 3 times"];
    assert_eq!(reader.notes().warnings(), expected);
}

#[test]
fn errors_for_wrong_options_list_valid_ones() {
    let why = |options: &str| {
        let parsed: Result<TraceFile, TraceError> = format!("x.csv:{options}").parse();
        parsed.unwrap_err().to_string()
    };
    assert!(why("format=mrs").contains("'mrs' is not a trace format; use csv, hft, flat, msr"));
    assert!(why("dev=sda").contains("expected a number, or major:minor"));
    assert!(why("time=min").contains("use s, ms, us, 100ns or ns"));
    assert!(why("shift=100").contains("a multiple of 512"));
    assert!(why("loop=0").contains("expected a number above 0"));
    assert!(
        why("skip-bad,colour=red").contains("'colour' is not an option; use format, columns, dev")
    );
    let plain: TraceFile = "C:odd:name.csv".parse().unwrap();
    assert_eq!(plain, TraceFile::new("C:odd:name.csv"));
}

#[test]
fn doubtful_times_are_evidenced() {
    let warnings = |name: &str, options: &str, lines: &dyn Fn(u64) -> u64| {
        let text: String = (0..200).map(|i| format!("{},W,0,512\n", lines(i))).collect();
        let path = file(name, text.as_bytes());
        let named: TraceFile = format!("{}{options}", path.display()).parse().unwrap();
        let mut reader = Reader::open(&named).unwrap();
        assert_eq!(reader.by_ref().map(Result::unwrap).count(), 200);
        reader.notes().warnings()
    };
    assert!(warnings("sorted", "", &|i| i * 100).is_empty());
    let unsorted = warnings("unsorted", "", &|i| if i == 100 { 50 } else { i * 1000 });
    assert_eq!(
        unsorted,
        ["the times are not sorted: 1 of 200 requests are earlier than their predecessor, the \
          first in line 101, the worst by 0.09895 s"]
    );
    let slow = warnings("slow", "", &|i| i * 100_000_000);
    assert_eq!(slow, ["200 requests in 19900 s: if the times are not in us, state :time=ns"]);
    assert!(warnings("slow", ":time=ns", &|i| i * 100_000_000).is_empty());
}

#[test]
fn unknown_formats_are_reported() {
    let error = complaint("unknown", b"hello world\n", "");
    assert!(error.contains(
        "unknown trace format, the file begins with 'hello world'; state the format, as in FILE:"
    ));
    assert!(error.ends_with("as in FILE:columns=time:us,op,offset:bytes,length:bytes"), "{error}");
    let binary = complaint("binary", b"\xff\x00\x01", "");
    assert!(binary.contains(r"the file begins with '\xff\x00\x01'"), "{binary}");
    let error = complaint("no-vscsi", b"hello world\n", ":format=vscsi");
    assert!(error.ends_with("not a vscsi file"), "{error}");
}

#[test]
fn real_heads_are_detected_and_read() {
    let Some(folder) = std::env::var_os("HOSTFTL_TRACES") else {
        return skipped("HOSTFTL_TRACES names no folder of traces");
    };
    let heads = [
        ("msr-hm_0-head.csv", Format::Msr, 1_000, 492),
        ("financial1-head.ascii", Format::DiskSim, 10_000, 5_922),
        ("mqsim-tpcc-head.trace", Format::DiskSim, 6_999, 2_618),
        ("cloudphysics-vm.csv.zst", Format::Own, 113_872, 66_898),
        ("mariadb-oltp.csv.zst", Format::Own, 1_778_057, 498_806),
    ];
    for (name, format, requests, writes) in heads {
        let reader = Reader::open(&TraceFile::new(Path::new(&folder).join(name))).unwrap();
        assert_eq!(reader.format(), format, "{name}");
        let records = reader.map(Result::unwrap);
        let seen = records.fold((0, 0), |(all, writes), record| {
            (all + 1, writes + u32::from(record.op == Op::Write))
        });
        assert_eq!(seen, (requests, writes), "{name}");
    }
}
