//! Tables of other tools, tables that a user describes, and suspicious units.

use hostftl_trace::{Format, Op, Record};

use crate::help::{error, lines, seen};

const SECOND: u64 = 1_000_000_000;

fn kind(number: u64) -> &'static str {
    if number.is_multiple_of(2) { "R" } else { "W" }
}

#[test]
fn systor() {
    let row = |n: u64| {
        let response = if n.is_multiple_of(5) { "" } else { "0.000201" };
        format!("1455592870.{:03},{response},{},3,{},{}", n * 20, kind(n), n * 8192, 4096)
    };
    let head = "Timestamp,Response,IOType,LUN,Offset,Size\n";
    for text in [
        format!("{head}{}", lines(40, row)),
        lines(40, row),
        format!("{head}{}", lines(20, row)).repeat(2),
    ] {
        let read = seen("systor", text, "").unwrap();
        assert_eq!((read.format, read.mix()), (Format::Systor, [20, 20, 0, 0]));
        assert_eq!(read.records[1], Record::new(1_455_592_870_020_000_000, Op::Write, 3, 16, 8));
    }
    let wrong = format!("{head}{}1455592871.5,x,W,3,-4,4096\n", lines(2, row));
    assert_eq!(error("systor-bad", wrong, ""), "FILE:4:20: expected a byte offset, found '-4'");
}

#[test]
fn fiu() {
    let row = |n: u64| {
        let (time, sector) = (89_966_180_000_000 + n * 1_000_000, 904_265_560 + n * 8);
        format!(
            "{time} 4890 my syslogd {sector} 8 {} 6 0 {n:032x}",
            if n.is_multiple_of(2) { "W" } else { "R" }
        )
    };
    let read = seen("fiu", lines(40, row), "").unwrap();
    assert_eq!((read.format, read.mix(), read.span_us()), (Format::Fiu, [20, 20, 0, 0], 39_000));
    assert_eq!(
        read.records[0],
        Record::new(89_966_180_000_000, Op::Write, 6 << 20, 904_265_560, 8)
    );
    let short = lines(40, |n| row(n).replace(&format!(" {n:032x}"), ""));
    assert_eq!(seen("fiu-short", short, "").unwrap().mix(), [20, 20, 0, 0]);
}

#[test]
fn biosnoop_and_iosnoop() {
    let head = "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n";
    let row = |n: u64| {
        let disk = if n < 30 { "sda" } else { "nvme0n1" };
        format!(
            "0.{n:03}000    proc {n}        1950   {disk}     {} {}   4096  0.74",
            kind(n),
            n * 8
        )
    };
    let read = seen("biosnoop", format!("{head}{}", lines(40, row)), "").unwrap();
    assert_eq!((read.format, read.mix()), (Format::Biosnoop, [20, 20, 0, 0]));
    assert_eq!(read.span_us(), 39_000);
    assert_eq!(read.records[35], Record::new(35_000_000, Op::Write, 1, 280, 8));
    assert!(read.warnings().contains("0 is sda, 1 is nvme0n1"));
    let flush = "0.05 kworker 1 sda W 18446744073709551615 0 0.1\n0.06 kworker 1 sda FF 0 0 0.1\n";
    let queue = head.replace("LAT(ms)", "QUE(ms) LAT(ms)");
    let row = |n: u64| format!("{} 0.5", row(n));
    let read = seen("biosnoop-q", format!("{queue}{}", lines(10, row)), "").unwrap();
    assert_eq!(read.mix(), [5, 5, 0, 0]);
    let read = seen("biosnoop-f", format!("{head}{flush}"), "").unwrap();
    assert_eq!((read.mix(), read.notes.left_out[0].count), ([0, 0, 1, 0], 1));

    let begin = "Tracing block I/O... Ctrl-C to end.\n";
    let head = "COMM             PID    TYPE DEV      BLOCK        BYTES     LATms\n";
    let row =
        |n: u64| format!("my proc 1809 {}M    202,1    {}     4096       1.32", kind(n), n * 8);
    let text = format!("{begin}{head}{}\nEnding tracing...\n", lines(40, row));
    let read = seen("iosnoop", text, "").unwrap();
    assert_eq!((read.format, read.mix()), (Format::Iosnoop, [20, 20, 0, 0]));
    assert_eq!(read.records[1], Record::new(0, Op::Write, 202 << 20 | 1, 8, 8));
    assert!(read.warnings().contains("the trace has no times"));
    let head = format!("STARTs         ENDs           {head}");
    let text = format!("{begin}{head}{}", lines(40, |n| format!("5.{n:03} 6.5 {}", row(n))));
    assert_eq!(seen("iosnoop-s", text, "").unwrap().span_us(), 39_000);
}

#[test]
fn xperf() {
    let head = "BeginHeader\nDiskWrite, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, \
                ByteOffset, IOSize, ElapsedTime, DiskNum\nEndHeader\n";
    let row = |n: u64| {
        let event = if n % 4 == 3 { "DiskRead" } else { "DiskWrite" };
        let time = 1000 + n * 100;
        format!(
            " {event}, {time}, svc.exe ( 123), 456, 0xffff0000{n:04}, 0x{:012x}, 0x00001000, 50, 2",
            n * 4096
        )
    };
    let others = "CSwitch, 5, x\nDiskReadInit, 6, svc.exe ( 123), 456, 0xff\n\
                  DiskFlush, 5100, svc.exe ( 123), 456, 0xff, 70, 2, 0x0\n";
    let read = seen("xperf", format!("{head}{}{others}", lines(40, row)), "").unwrap();
    assert_eq!((read.format, read.mix()), (Format::Xperf, [10, 30, 1, 0]));
    assert_eq!(read.records[1], Record::new(1_100_000, Op::Write, 2, 8, 8));
    assert_eq!(seen("xperf-bare", lines(40, row), "").unwrap().mix(), [10, 30, 0, 0]);
    let bad = format!("{head}{}", lines(2, row).replace("0x000000001000", "4096"));
    assert!(error("xperf-bad", bad, "").starts_with("FILE:5:"));
}

#[test]
fn libcachesim_csv() {
    let text = "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,4096,8\n\
                1,5633899,42,0,0\n";
    let read = seen("cache-vscsi", text, "").unwrap();
    assert_eq!((read.format, read.mix()), (Format::CacheCsv, [1, 1, 0, 0]));
    assert_eq!(read.records[1], Record::new(5_633_899 * SECOND, Op::Read, 0, 8, 8));
    assert!(read.warnings().contains("UNMAP commands (1"));
    let text = "# time, obj_id, obj_size, next_access_vtime\n5, 1024, 4096, 7\n6, 2048, 512, -1\n";
    let read = seen("cache", text, ":op=W,id=bytes").unwrap();
    assert_eq!(read.records[0], Record::new(5 * SECOND, Op::Write, 0, 2, 8));
}

const ROWS: [(&str, &str); 6] = [
    ("comma", "10.5,R,4096,512\n20,write,8192,1024\n"),
    ("header", "t,kind,off,len\n10.5,r,4096,512,x\n20,W,8192,1024,y\n"),
    ("semicolon", "10.5;Read;4096;512\n20;WRITE;8192;1024\n"),
    ("tab", "10.5\tR\t4096\t512\n20\tWS\t8192\t1024\n"),
    ("space", "# made by us\n  10.5  R   4096 512\n20 W 8192  1024 and more\n"),
    ("quoted", "\"10.5\",\"R\",\"4096\",\"512\"\n\"20\", \"W\" ,8192,1024\n"),
];

#[test]
fn described_tables() {
    let expected =
        [Record::new(10_500, Op::Read, 0, 8, 1), Record::new(20_000, Op::Write, 0, 16, 2)];
    for (name, text) in ROWS {
        let options = ":columns=time:us,op,offset:bytes,length:bytes";
        let read = seen(name, text, options).unwrap();
        assert_eq!((read.format, read.records), (Format::Columns, expected.to_vec()), "{name}");
    }
    let text = "sda|7|1|2|a,b\nsdb|8|3|1|c\n";
    let read = seen("bar", text, ":columns=dev,time:ms,offset:4k,length:sectors,op=W").unwrap();
    let expected =
        [Record::new(7_000_000, Op::Write, 0, 8, 2), Record::new(8_000_000, Op::Write, 1, 24, 1)];
    assert_eq!(read.records, expected);
    let one = ":columns=dev,time:ms,offset:4k,length:sectors,dev=1,op=W,skip-bad";
    assert_eq!(seen("bar", text, one).unwrap().records.len(), 1);
}

#[test]
fn operations_of_tables_are_never_guessed_in_silence() {
    let columns = ":columns=time:s,op,offset:sectors,length:sectors";
    let read = seen("digits", "1,0,8,8\n2,1,16,8\n", columns).unwrap();
    assert_eq!((read.mix(), read.records[0].op), ([1, 1, 0, 0], Op::Read));
    assert!(read.warnings().contains("0 is read as a read and 1 as a write"));
    let read = seen("digits", "1,0,8,8\n2,1,16,8\n", &format!("{columns},read=1,write=0")).unwrap();
    assert_eq!((read.records[0].op, read.warnings()), (Op::Write, String::new()));
    let words = "1,LOAD,8,8\n2,STORE,16,8\n3,SYNC,0,0\n";
    assert!(error("words", words, columns).starts_with("FILE:1:3: expected R, W, F, D or a word"));
    let read = seen("words", words, &format!("{columns},read=load,write=store|save")).unwrap();
    assert_eq!(read.mix(), [1, 1, 1, 0]);
}

#[test]
fn values_outside_their_columns_are_errors() {
    let columns = ":columns=time:us,op,offset:bytes,length:bytes";
    let wrong = [
        "5x,R,0,512",
        "-5,R,0,512",
        "NaN,R,0,512",
        "0x5,R,0,512",
        "1e3,R,0,512",
        ",R,0,512",
        "5,R,0x10,512",
        "5,R,1.5,512",
        "5,R,-1024,512",
        "5,R,0,512.0",
        "5,R,0,51 2",
        "5,R,99999999999999999999,512",
        "5,R,18446744073709551616,512",
        "5,R,0,9999999999999",
        "5,Q,0,512",
        "5,R,0",
        "18446744073709551615,R,0,512",
        "5,R,9223372036854775807,512",
    ];
    for line in wrong {
        let error = error("values", format!("1,W,0,512\n{line}\n2,W,0,512\n"), columns);
        assert!(error.starts_with("FILE:2:"), "{line}: {error}");
        let text = format!("1,W,0,512\n{line}\n2,W,0,512\n");
        let rest = seen("values", text, &format!("{columns},skip-bad")).unwrap();
        assert_eq!((rest.records.len(), rest.notes.bad), (2, 1), "{line}");
    }
}

#[test]
fn invalid_descriptions_are_refused() {
    let why = |options: &str| error("why", "1,W,0,512\n", options);
    assert!(why(":columns=time,op,offset:bytes,length:bytes").contains("time:us"));
    assert!(why(":columns=time:us,op,offset,length:bytes").contains("offset:bytes"));
    assert!(why(":columns=time:us,op,offset:bytes").contains("length is missing"));
    assert!(why(":columns=time:us,op,offset:bytes,offset:bytes,length:bytes").contains("twice"));
    assert!(why(":columns=time:us,offset:bytes,length:bytes").contains("state op=R or op=W"));
    assert!(
        why(":columns=colour,op,offset:bytes,length:bytes").contains("'colour' is not a column")
    );
    let both = why(":format=msr,columns=time:us,op,offset:bytes,length:bytes");
    assert!(both.contains("omit format="), "{both}");
    assert!(why(":format=columns").contains("needs columns="));
    let twice = why(":columns=time:us,op,offset:bytes,length:bytes,time=ms");
    assert!(twice.contains("time= has no effect with the format columns"), "{twice}");
}

#[test]
fn the_whole_beginning_decides_the_unit_of_disksim() {
    let text =
        format!("0 0 8 8 0\n{}", lines(40, |n| format!("{}.{}00 0 {} 8 1", n / 10, n % 10, n * 8)));
    let mixed = seen("ds-mix", &text, "").unwrap();
    assert_eq!((mixed.format, mixed.span_us()), (Format::DiskSim, 3_900));
    let whole = lines(40, |n| format!("{} 0 {} 8 1", n * 1000, n * 8));
    assert_eq!(seen("ds-whole", &whole, "").unwrap().span_us(), 39);
    let late = format!("{}5.5 0 8 8 0\n", lines(30_000, |n| format!("{n} 0 {} 8 1", n * 8)));
    let error = error("ds-late", &late, "");
    assert!(error.starts_with("FILE:30001:1: expected whole nanoseconds, as before"), "{error}");
    assert_eq!(seen("ds-late", &late, ":time=ms").unwrap().records.len(), 30_001);
}

#[test]
fn addresses_that_look_like_bytes_cause_a_warning() {
    let text = lines(200, |n| {
        format!("{}.500 0 {} {} {}", n / 2, (n * 7919 + 3) * 4096, 4096 * (n % 4 + 1), n % 2)
    });
    let doubted = seen("ioda", &text, "").unwrap();
    assert!(
        doubted.warnings().contains("state :addr=bytes if they are bytes, otherwise :addr=sectors")
    );
    let bytes = seen("ioda", &text, ":addr=bytes").unwrap();
    assert_eq!((bytes.mix(), bytes.warnings()), ([100, 100, 0, 0], String::new()));
    let length = |op| -> u64 {
        bytes.records.iter().filter(|it| it.op == op).map(|it| it.sectors * 512).sum()
    };
    assert_eq!((length(Op::Read), length(Op::Write)), (1_228_800, 819_200));
    assert_eq!(seen("ioda", &text, ":addr=sectors").unwrap().warnings(), "");
    let objects = lines(20, |n| format!("{n}, {}, 4096", n * 4096));
    let objects = format!("# time, obj_id, obj_size\n{objects}");
    assert!(seen("objects", &objects, "").unwrap().warnings().contains("state :id=bytes"));
    assert_eq!(seen("objects", &objects, ":id=bytes").unwrap().warnings(), "");
    let small = lines(200, |n| format!("{n}.5 0 {} 8 0", n * 8));
    assert_eq!(seen("small", &small, "").unwrap().warnings(), "");
}
