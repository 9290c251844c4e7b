//! Block events of the kernel as they occur in practice: concatenated outputs, zones, lost events,
//! other clocks, and files without the required event.

use hostftl_trace::Format;

use crate::help::{error, lines, seen};

fn blkparse(dev: &str, actions: &str, number: u64, rwbs: &str, range: &str) -> String {
    let line = |action: char| {
        format!(
            "  {dev}  {}  {number}  0.{number:03}000000   60{}  {action}  {rwbs} {range} [proc-1]",
            number % 4,
            number % 7
        )
    };
    actions.chars().map(line).collect::<Vec<_>>().join("\n")
}

fn writes(dev: &str, actions: &str, count: u64) -> String {
    lines(count, |n| blkparse(dev, actions, n, "WS", &format!("{} + 8", n * 64)))
}

const SUMMARY: &str = "CPU0 (sda):\n Reads Queued:           0,        0KiB\t Writes Queued: \
    40,      160KiB\n Read Dispatches:        0,        0KiB\t Write Dispatches:       40,      \
    160KiB\nCPU1 (sda):\n Reads Queued:           0,        0KiB\n\nTotal (sda):\n Reads Queued:   \
    0,        0KiB\n\nThroughput (R/W): 0KiB/s / 4102KiB/s\nEvents (sda): 120 entries\nSkips: ";

#[test]
fn joined_outputs_of_blkparse_are_read() {
    let one = format!("{}{SUMMARY}0 forward (0 -   0.0%)\n", writes("8,0", "QDC", 40));
    let plain = seen("bp-plain", &one, "").unwrap();
    assert_eq!((plain.format, plain.mix()), (Format::Blkparse, [0, 40, 0, 0]));
    assert_eq!((plain.notes.lost, plain.warnings()), (0, String::new()));
    let joined = seen("bp-joined", one.repeat(2), "").unwrap();
    assert_eq!(joined.mix(), [0, 80, 0, 0]);
    let warnings = joined.warnings();
    assert!(warnings.contains("the file joins 2 outputs of blkparse, the second from line 13"));
    let bad = one.repeat(2) + "garbage behind it all\n";
    assert!(error("bp-garbage", bad.replace("Skips", "8,0 x"), "").contains("expected"));
}

#[test]
fn events_that_blkparse_skipped_are_counted() {
    let text = format!("{}{SUMMARY}2 forward (1,031 -   0.4%)\n", writes("8,0", "D", 3));
    let skips = seen("bp-skips", text, "").unwrap();
    assert_eq!((skips.mix(), skips.notes.lost), ([0, 3, 0, 0], 1031));
    assert!(skips.warnings().contains("its recorder lost 1031 events"));
    let text = format!("You have 5 dropped events\n{}", writes("8,0", "D", 3));
    assert_eq!(seen("bp-dropped", text, "").unwrap().notes.lost, 5);
}

#[test]
fn zone_commands_are_no_reads() {
    let kinds = [
        ("ZR", "0 + 524288"),
        ("ZA", "64 + 64"),
        ("ZAS", "128 + 64"),
        ("ZF", "192 + 0"),
        ("ZO", "256 + 0"),
        ("ZC", "320 + 0"),
        ("ZRA", "384 + 0"),
        ("DE", "448 + 2048"),
        ("WS", "512 + 8"),
        ("WZ", "512 + 8"),
    ];
    let lines: Vec<_> =
        (0..).zip(kinds).map(|(n, (rwbs, range))| blkparse("8,0", "D", n, rwbs, range)).collect();
    let zoned = seen("bp-zoned", lines.join("\n"), "").unwrap();
    assert_eq!(zoned.mix(), [0, 3, 0, 1]);
    assert_eq!(zoned.records[0].sectors, 64);
    let left = "left out: zone resets (2, first in line 1), zone open, close and finish \
                commands (3, first in line 4), write-zeroes commands (1, first in line 10)";
    assert_eq!(zoned.warnings(), left);
    let wrong = blkparse("8,0", "D", 1, "QX", "0 + 8");
    let wrong = format!("{}{wrong}\n", writes("8,0", "D", 1));
    assert!(error("bp-wrong", wrong, "").starts_with("FILE:2:"));
    for range in ["-5 + 8", "0x10 + 8", "5.5 + 8", "16 + 8x", "16 - 8", "NaN + 8", ""] {
        let wrong = blkparse("8,0", "D", 1, "W", range);
        let wrong = format!("{}{wrong}\n", writes("8,0", "D", 1));
        let found = seen("bp-range", wrong, "");
        assert!(found.as_ref().is_ok_and(|it| it.mix() == [0, 1, 0, 0]) || found.is_err());
        let found = found.map(|it| it.warnings()).unwrap_or_else(|error| error);
        assert!(found.contains("FILE:2:") || found.contains("of length 0"), "{range}: {found}");
    }
}

#[test]
fn devices_that_are_only_queued_are_named() {
    let text = writes("253,0", "Q", 20) + &writes("8,0", "QD", 20);
    let mixed = seen("bp-mixed", &text, "").unwrap();
    assert_eq!(mixed.mix(), [0, 20, 0, 0]);
    assert!(mixed.warnings().contains("device 253:0 has 20 queued requests (Q) but no issued"));
    assert_eq!(seen("bp-mixed", &text, ":dev=253:0").unwrap().mix(), [0, 20, 0, 0]);
}

fn scan(name: &str, text: &str, options: &str) -> String {
    let path = crate::help::file(name, text.as_bytes());
    let source: hostftl_trace::Source = format!("{}{options}", path.display()).parse().unwrap();
    source.scan(0, false).unwrap_err().to_string()
}

#[test]
fn files_without_the_counted_event_are_reported() {
    let text = writes("8,0", "C", 20);
    let why = scan("bp-complete", &text, "");
    assert!(why.contains("no D (issued) or Q (queued) events, only 20 × C; record"), "{why}");
    for event in ["block_rq_complete: 8,0 WS ()", "block_rq_insert: 8,0 WS 4096 ()"] {
        let text = lines(40, |n| format!("  fio-1 [000] d.h1. 12.3{n:02}: {event} 0 + 8 [0]"));
        let why = scan("ke-complete", &text, "");
        let name = event.split(':').next().unwrap();
        assert!(why.contains(&format!("no block_rq_issue events, only 40 × {name}")), "{why}");
        assert!(why.contains("trace-cmd record -e block:block_rq_issue"), "{why}");
    }
}

fn issue(prefix: &str, number: u64) -> String {
    format!("  {prefix}: block_rq_issue: 8,0 WS 4096 () {} + 8 [fio]", number * 64)
}

#[test]
fn lost_events_of_every_recorder_are_a_warning() {
    let traced = |n: u64| issue(&format!("fio-1 [000] d..1. 12.3{n:02}000"), n);
    let messages = [
        ("CPU:2 [LOST 4711 EVENTS]", 4711),
        ("CPU:2 [4711 EVENTS DROPPED]", 4711),
        ("LOST 512 events!", 512),
        ("swapper 0 [000] 12.35: PERF_RECORD_LOST lost 31", 31),
        ("# entries-in-buffer/entries-written: 40/90   #P:4", 50),
    ];
    for (message, lost) in messages {
        let text = format!("{}{message}\n{}", lines(20, traced), lines(20, |n| traced(n + 20)));
        let seen = seen("ke-lost", text, "").unwrap();
        assert_eq!((seen.mix(), seen.notes.lost), ([0, 40, 0, 0], lost), "{message}");
        let expected = format!("its recorder lost {lost} events, the first message is in line 21");
        assert!(seen.warnings().contains(&expected), "{}", seen.warnings());
    }
    let text = lines(20, |n| format!("{n},W,0,4096")) + "Possibly lost 12 samples\n";
    let table = seen("csv-lost", text, ":format=csv").unwrap();
    assert_eq!((table.mix(), table.notes.lost), ([0, 20, 0, 0], 12));
}

#[test]
fn clocks_of_the_kernel_are_read_right_or_refused() {
    let marks = ["us+", "us", "us!", "us "];
    for mark in marks {
        let text = lines(40, |n| issue(&format!("fio-1234    3d..1. {}{mark}", n * 1000), n));
        let latency = seen("ke-latency", text, "").unwrap();
        assert_eq!((latency.mix(), latency.span_us()), ([0, 40, 0, 0], 39_000), "{mark}");
    }
    let counter = |n: u64| issue(&format!("fio [003] d..1. {}", 88_123_456_789_000 + n * 2_400), n);
    let refused = error("ke-tsc", lines(40, counter), "");
    assert!(
        refused.contains("a time below 584 years, or another unit as in :time=ns"),
        "{refused}"
    );
    let ticks = seen("ke-tsc", lines(40, counter), ":time=ns").unwrap();
    assert_eq!((ticks.mix(), ticks.span_us()), ([0, 40, 0, 0], 93));
    for time in ["12.5x", "0x12", "-1.5", "NaN", "1e6", "12.", "12.5ms", "12,5", ""] {
        let good = issue("fio [003] d..1. 12.5", 0);
        let text = format!("{good}\n{}\n", issue(&format!("fio [003] d..1. {time}"), 1));
        assert!(error("ke-time", text, "").starts_with("FILE:2:"), "{time}");
    }
}
