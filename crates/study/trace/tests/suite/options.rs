//! Invalid options are refused, and omissions are reported.

use hostftl_trace::{Format, Source};

use crate::help::{error, file, lines, open, seen};

fn msr() -> String {
    lines(40, |n| format!("12816637{n:010},srv{},{},Write,{},4096,1000", n % 2, n % 3, n * 4096))
}

#[test]
fn unused_options_of_a_format_are_refused() {
    let refused = [
        (":id=bytes", "id= has no effect with the format msr; use format, dev, time, skip"),
        (":op=W", "op= has no effect with the format msr"),
        (":addr=bytes", "addr= has no effect with the format msr"),
        (":read=R", "read, write, flush and discard= has no effect with the format msr"),
    ];
    for (options, why) in refused {
        let error = error("msr", msr(), options);
        assert!(error.contains(why), "{options}: {error}");
    }
    let oracle: Vec<u8> =
        [7u32.to_le_bytes().as_slice(), &8u64.to_le_bytes(), &512u32.to_le_bytes(), &[0xff; 8]]
            .concat();
    assert!(error("oracle", &oracle, ":dev=1").contains("use format, time, op, id,"));
    assert!(seen("oracle", &oracle, ":op=W,id=bytes").is_ok());
    let path = file("flat.hft", b"HFTLTR\0\x01");
    let why = open(&format!("{}:time=us", path.display())).err().unwrap();
    assert!(why.contains("time= has no effect with the format hft"), "{why}");
}

#[test]
fn errors_for_an_unknown_device_list_the_devices() {
    let why = |name: &str, text: &str, options: &str| {
        let path = file(name, text.as_bytes());
        let source: Source = format!("{}{options}", path.display()).parse().unwrap();
        source.scan(0, false).unwrap_err().to_string()
    };
    let text = why("msr-dev", &msr(), ":dev=5");
    let devices = "none is for dev=5; its devices are 0 (7), 2 (7), 256 (7), 257 (7), 1 (6)";
    assert!(text.contains(devices), "{text}");
    let blkparse = lines(3, |n| format!("8,16 0 {n} 0.{n} 1 D W {n} + 8 [x]"));
    let text = why("bp-dev", &blkparse, ":dev=8:0");
    assert!(text.ends_with("none is for dev=8:0; its devices are 8:16 (3)"), "{text}");
}

#[test]
fn options_hold_while_a_format_is_detected() {
    let text = lines(2000, |n| {
        format!("1,W,{},4096,{}", n * 4096, 1_577_808_000_000_543_488 + n * 1_985_000)
    });
    let nanos = seen("alibaba", &text, ":time=ns").unwrap();
    assert_eq!((nanos.format, nanos.mix()), (Format::Alibaba, [0, 2000, 0, 0]));
    assert_eq!(nanos.span_us(), 3_968_015);
    let error = error("alibaba", &text, "");
    assert!(
        error.starts_with("FILE:1:12: expected a time below 584 years, or another unit"),
        "{error}"
    );
}

#[test]
fn empty_requests_are_skipped_and_counted() {
    let samples = [
        ("own", "t_us,op,byte_off,byte_len\n0,W,0,4096\n5,W,0,0\n"),
        ("msr", "1,h,0,Write,0,512,1\n2,h,0,Write,0,0,1\n"),
        ("spc", "0,8,512,w,0.5\n0,8,0,w,0.6\n"),
        ("disksim", "0.5 0 8 16 0\n0.6 0 8 0 0\n"),
        ("alibaba", "1,W,0,512,5\n1,W,0,0,6\n"),
        ("tencent", "5,0,8,1,7\n6,0,0,1,7\n"),
        ("fio", "fio version 3 iolog\n1 /a write 0 512\n2 /a write 0 0\n"),
        ("blkparse", "8,0 0 1 0.5 1 D W 8 + 8 [x]\n8,0 0 2 0.6 1 D W 8 + 0 [x]\n"),
        ("columns", "5,8,1\n6,8,0\n"),
    ];
    for (name, text) in samples {
        let table = ":columns=time:s,offset:sectors,length:sectors,op=W";
        let read = seen(name, text, if name == "columns" { table } else { "" }).unwrap();
        assert_eq!(read.mix(), [0, 1, 0, 0], "{name}");
        let line = text.lines().count();
        let left = format!("left out: requests of length 0 (1, first in line {line})");
        assert_eq!(read.warnings(), left, "{name}");
    }
}

#[test]
fn commands_of_vscsi_without_a_counterpart_are_counted() {
    let commands =
        [0x28, 0x2a, 0x88, 0x8a, 0x35, 0x42, 0x12, 0x41, 0x93, 0x08, 0x0a, 0x2e, 0x89u16, 0x2a];
    let record = |(n, command): (u32, u16)| {
        let bytes = if n == 13 { 0u32 } else { 4096 };
        let mut all = Vec::new();
        [n, bytes, 1].iter().for_each(|it| all.extend(it.to_le_bytes()));
        [command, 0x100].iter().for_each(|it| all.extend(it.to_le_bytes()));
        [u64::from(n) * 8, u64::from(n) * 1000].iter().for_each(|it| all.extend(it.to_le_bytes()));
        all
    };
    let bytes: Vec<u8> = (0..).zip(commands).flat_map(record).collect();
    let read = seen("vscsi", bytes, "").unwrap();
    assert_eq!(read.mix(), [3, 3, 1, 0]);
    let counts: Vec<_> =
        read.notes.left_out.iter().map(|left| (left.count, left.what.as_ref())).collect();
    let expected = [
        (1, "UNMAP commands"),
        (1, "INQUIRY commands"),
        (2, "WRITE SAME commands"),
        (1, "WRITE AND VERIFY commands"),
        (1, "COMPARE AND WRITE commands"),
        (1, "requests of length 0"),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn logs_of_fio_are_named_by_their_header() {
    let spaces = "fio version 2 iolog\n/mnt/my disk/f.0 add\n/mnt/my disk/f.0 write 0 4096\n";
    let error = error("fio-spaces", spaces, "");
    assert!(error.starts_with("FILE:2:9: expected read, write, trim"), "{error}");
    let joined = "fio version 3 iolog\n5 /a write 0 512\nfio version 2 iolog\n/a read 0 512\n";
    assert_eq!(seen("fio-joined", joined, "").unwrap().mix(), [1, 1, 0, 0]);
    let short =
        seen("fio-noopen", "fio version 3 iolog\n100 /dev/sdx read 1000 4096\n", "").unwrap();
    assert_eq!((short.mix(), short.notes.widened), ([1, 0, 0, 0], 1));
}

#[test]
fn numbers_with_text_behind_them_are_errors() {
    let samples = [
        ("128166372003061629,web,0,Read,7014609920,24576x,41286\n", ":format=msr", "1:47"),
        ("fio version 2 iolog\n/a write 0 512\n/a wait 250x\n", "", "3:12"),
        ("0,8,512,w,0.5s\n", ":format=spc", "1:14"),
        ("0.5 0 8 16 0x1\n", ":format=disksim", "1:13"),
        ("1,W,0,512,5us\n", ":format=alibaba", "1:12"),
        ("5.5.5,0,8,1,7\n", ":format=tencent", "1:4"),
        ("5,R,0,512k\n", ":format=csv", "1:10"),
    ];
    for (text, options, place) in samples {
        let error = error("behind", text, options);
        assert!(error.starts_with(&format!("FILE:{place}: ")), "{text}: {error}");
    }
}

#[test]
fn headers_of_joined_files_are_skipped() {
    let samples = [
        "t_us,op,byte_off,byte_len\n0,W,0,4096\n",
        "device_id,opcode,offset,length,timestamp\n1,W,0,512,5\n",
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,h,0,Write,0,512,1\n",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,,W,0,0,512\n",
        "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.5 a 1 sda W 8 512 0.1\n",
        "fio version 3 iolog\n1 /a write 0 512\n",
    ];
    for text in samples {
        assert_eq!(seen("joined", text.repeat(3), "").unwrap().mix(), [0, 3, 0, 0], "{text}");
    }
    let other = "0,W,0,4096\nt_us,dev,op,byte_off,byte_len\n0,1,W,0,4096\n";
    let other = format!("t_us,op,byte_off,byte_len\n{other}");
    assert_eq!(seen("joined-own", other, "").unwrap().records[1].dev, 1);
}
