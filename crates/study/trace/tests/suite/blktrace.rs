//! The binary format of blktrace: both byte orders, one file and the files of several CPUs.

use std::path::PathBuf;

use hostftl_trace::{Format, Op, Record};

use crate::help::{error, file, open, seen};

const SECTOR: u64 = 512;
const DEV: u32 = 8 << 20;
const WRITE: u32 = 1 << 17;
const READ: u32 = 1 << 16;
const FLUSH: u32 = 1 << 18;
const DISCARD: u32 = 1 << 29;
const NOTIFY: u32 = 1 << 26;

/// Makes a record from sequence number, ns, first sector, bytes, action, CPU and payload.
fn event(
    number: (u32, u64, u64, u32),
    action: u32,
    cpu: u32,
    behind: &[u8],
    is_big: bool,
) -> Vec<u8> {
    let (sequence, time, sector, bytes) = number;
    let mut all = Vec::new();
    let mut put = |value: u64, size: usize| {
        if is_big {
            all.extend_from_slice(&value.to_be_bytes()[8 - size..])
        } else {
            all.extend_from_slice(&value.to_le_bytes()[..size])
        }
    };
    put(0x6561_7407, 4);
    put(sequence.into(), 4);
    put(time, 8);
    put(sector, 8);
    for value in [bytes, action, 600, DEV, cpu] {
        put(value.into(), 4);
    }
    put(0, 2);
    put(behind.len() as u64, 2);
    all.extend_from_slice(behind);
    all
}

/// Makes queued, issued and completed requests, after an event with the name of a process.
fn events(count: u32, op: u32, cpu: u32, is_big: bool) -> Vec<u8> {
    let name = event((0, 0, 0, 0), NOTIFY, cpu, b"fio\0", is_big);
    let each = (0..count).flat_map(|n| {
        let number = (n + 1, u64::from(2 * n + cpu) * 1_000_000, u64::from(n) * 64, 4096);
        [1, 7, 8].map(|kind| event(number, op | kind, cpu, b"", is_big)).concat()
    });
    name.into_iter().chain(each).collect()
}

#[test]
fn both_byte_orders_are_read() {
    for is_big in [false, true] {
        let read = seen("sda.bin", events(40, WRITE, 0, is_big), "").unwrap();
        assert_eq!((read.format, read.mix()), (Format::Blktrace, [0, 40, 0, 0]));
        assert_eq!(read.records[1], Record::new(2_000_000, Op::Write, DEV, 64, 8));
        assert_eq!((read.span_us(), read.warnings()), (78_000, String::new()));
    }
}

#[test]
fn operations_are_those_of_blkparse() {
    let issue = 7;
    let kinds = [
        (WRITE | FLUSH | issue, 4096, &[Op::Flush, Op::Write][..]),
        (FLUSH | issue, 0, &[Op::Flush]),
        (READ | issue, 512, &[Op::Read]),
        (WRITE | DISCARD | issue, 1 << 20, &[Op::Discard]),
        (1 << 25 | READ | issue, 36, &[]),
        (1 << 8 | WRITE | issue, 4096, &[Op::Write]),
    ];
    let bytes: Vec<u8> = (1..)
        .zip(kinds)
        .flat_map(|(n, (action, bytes, _))| {
            event((n, n.into(), SECTOR, bytes), action, 0, b"", false)
        })
        .collect();
    let read = seen("kinds.bin", &bytes, "").unwrap();
    let ops: Vec<_> = read.records.iter().map(|record| record.op).collect();
    assert_eq!(ops, kinds.iter().flat_map(|(_, _, ops)| ops.to_vec()).collect::<Vec<_>>());
    assert!(read.warnings().contains("SCSI pass-through commands (1, first in line 5)"));
}

#[test]
fn gaps_truncation_and_other_versions_are_reported() {
    let two: Vec<u8> = [(5, 0), (5, 1), (9, 2)]
        .iter()
        .flat_map(|(n, time)| event((*n, *time, 8, 512), WRITE | 7, 1, b"", false))
        .collect();
    let gap = seen("gap.bin", &two, "").unwrap();
    assert_eq!((gap.mix(), gap.notes.lost), ([0, 3, 0, 0], 3));
    let cut = error("cut.bin", &two[..120], "");
    assert_eq!(cut, "FILE: record 3: expected a whole record of blktrace, found 24 of 48 bytes");
    let rest = seen("cut.bin", &two[..120], ":skip-bad").unwrap();
    assert_eq!((rest.records.len(), rest.notes.bad), (2, 1));
    let mut damaged = two.clone();
    damaged[48] = 0;
    assert_eq!(seen("damaged.bin", &damaged, ":skip-bad").unwrap().records.len(), 2);
    let mut newer = two;
    newer[0] = 8;
    assert!(error("newer.bin", newer, "").contains("blktrace of this version; run blkparse"));
    let completed = event((1, 1, 8, 512), WRITE | 8, 0, b"", false);
    let path = file("completed.bin", &completed);
    let source: hostftl_trace::Source = path.display().to_string().parse().unwrap();
    let why = source.scan(0, false).unwrap_err().to_string();
    assert!(why.contains("no issued (D) or queued (Q)"), "{why}");
}

#[test]
fn the_files_of_several_cpus_are_merged_by_time() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("field-cpus");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("sdb.blktrace.0"), events(200, WRITE, 0, false)).unwrap();
    let packed = zstd::encode_all(&events(100, READ, 1, false)[..], 3).unwrap();
    std::fs::write(folder.join("sdb.blktrace.1"), packed).unwrap();
    std::fs::write(folder.join("sdb.blktrace.10"), b"").unwrap();
    for base in ["sdb", "sdb.blktrace"] {
        let read = open(&folder.join(base).display().to_string()).unwrap();
        assert_eq!(read.mix(), [100, 200, 0, 0]);
        assert!(read.records.is_sorted_by_key(|record| record.t_ns));
        assert_eq!(read.warnings(), "3 files of blktrace are merged by time");
    }
    let one = open(&folder.join("sdb.blktrace.0").display().to_string()).unwrap();
    assert_eq!(one.mix(), [0, 200, 0, 0]);
    assert!(
        one.warnings()
            .contains("this file holds the requests of one CPU, and 2 more files exist; use")
    );
}
