//! Trace readers: valid records, or an error with its line.

use std::io::Write;

use anyhow::ensure;
use hostftl_trace::{Extras, Format, Op, Reader, Record, TraceError, TraceFile, Writer};

use super::fast_folder;

/// Returns traces of every format.
pub(super) fn traces() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 25] = [
        b"t_us,op,byte_off,byte_len\n0,W,0,4096\n10,R,4096,512\n20,F,0,0\n30,D,8192,65536\n",
        b"t_us,dev,op,byte_off,byte_len\n0,0,W,0,4096\n1,1,R,512,512\n",
        b"t_us,dev,op,byte_off,byte_len,saved\n0,0,W,0,4096,67\n1,1,R,512,512,\n2,0,W,8,9,\n",
        b"\xef\xbb\xbf0,W,0,4096\n9223372036854775807,D,9223372036854774784,512\n",
        b"0,W,100,50\n\n1.5,R,18446744073709551615,1\n",
        b"0,W,0,4096\r\n5,W,4096,4096",
        b"128166372003061629,web,0,Read,7014609920,24576,41286\n",
        b"0,303567,3584,w,0.000000\n1, 55590 ,3073 , R , 0.026214, more\n",
        b"0.5 0 8 16 0\n  1.25\t1 24 8 1\n",
        b"419,W,8792731648,16384,1577808144360767\n",
        b"1538323200,12910952,128,0,1063\n",
        b"8,0 3 1 0.5 697 D RA 8 + 8 [cat]\n8,0 3 2 0.6 697 D FWFSM 16 + 8 [jbd2]\n",
        b"fio-1 [001] ..... 8.5: block_rq_issue: 259,0 WS 4096 () 2056 + 8 [fio]\n",
        b"fio version 3 iolog\n1 /a add\n7 /a write 4096 8192\n500 /a sync 0 0\n",
        b"8,0 3 1 0.5 697 D ZA 8 + 8 [cat]\nCPU0 (sda):\n Reads Queued: 1\nSkips: 2 forward (3 -)\n\
          8,0 3 1 0.5 697 Q W 8 + 8 [cat]\n8,0 3 1 0.7 697 D R 36 (12 00) [sg]\n",
        b"fio-1 3d..1. 1000us+: block_rq_issue: 8,0 FWFS 4096 () 16 + 8 [fio]\n\
          CPU:2 [LOST 47 EVENTS]\n",
        b"Timestamp,Response,IOType,LUN,Offset,Size\n1455592870.037,,W,3,8192,8192\n",
        b"89966180000000 4890 sys logd 904265560 8 W 6 0 0123456789abcdef0123456789abcdef\n",
        b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.5 a b 19 sda FWS 130 4096 0.74\n",
        b"Tracing block I/O... Ctrl-C to end.\nCOMM PID TYPE DEV BLOCK BYTES LATms\n\
          a 1 RM 202,1 8 512 1\n",
        b"BeginHeader\nDiskRead, TimeStamp, P ( PID), T, I, ByteOffset, IOSize, E, DiskNum\n\
          EndHeader\nDiskRead, 1000, a ( 1), 4, 0xff, 0x1000, 0x200, 50, 2\n\
          DiskFlush, 5, a ( 1), 4, 0xff, 7, 2\n",
        b"version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,42,0,0\n",
        b"# time, obj_id, obj_size, op\n5, 1024, 4096, set\n",
        b"when;what;\"where\";length\n10.5;R;\"4096\";512\n20;1;8192;1024;x\n",
        b"0,W,0,4096\r5,R,0,512\r",
    ];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.to_vec()).collect();
    let mut vscsi = vec![0; 80];
    (vscsi[0], vscsi[3], vscsi[9], vscsi[40], vscsi[43], vscsi[49]) = (0x2a, 2, 16, 0x28, 2, 2);
    seeds.push(vscsi);
    let mut oracle = vec![0; 48];
    (oracle[13], oracle[37]) = (16, 2);
    oracle[16..24].fill(0xff);
    oracle[40..48].fill(0xff);
    seeds.push(oracle);
    seeds.extend([false, true].map(blktrace));
    let text = "0,W,0,4096\n5,R,0,512\n";
    seeds.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    seeds.push(b"HFTLTR\x00\x01\x04\0\0\0\x01\0\0\0\0\0\0\0\x09\x02\x10\x00".to_vec());
    seeds.push(packed());
    seeds
}

/// Returns two records of blktrace in either byte order: the name of a process, and a write with a
/// flush.
fn blktrace(is_big: bool) -> Vec<u8> {
    let words = |action: u32, behind: u32| {
        [0x6561_7407, 1, 0, 5, 0, 8, 4096, action, 600, 8 << 20, 0, behind]
    };
    // A 64-bit number is two words, the upper one first. The last word is two 16-bit numbers.
    let put = |words: [u32; 12]| {
        if is_big {
            words.into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>()
        } else {
            let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            for number in [8..16, 16..24, 44..48] {
                let half = number.len() / 2;
                bytes[number].rotate_left(half);
            }
            bytes
        }
    };
    let name = [put(words(1 << 26, 4)), b"fio\0".to_vec()].concat();
    [name, put(words(6 << 16 | 7, 0))].concat()
}

/// Returns a trace in our binary format, with compressible writes and placement ids.
fn packed() -> Vec<u8> {
    let folder = tempfile::tempdir_in(fast_folder()).expect("there is room for a small file");
    let path = folder.path().join("t.hft");
    let extras = Extras { saved: true, placement: true };
    let mut writer = Writer::create(&path, extras).expect("the file is new");
    let write = Record { saved: Some(67), placement: 3, ..Record::new(5, Op::Write, 0, 8, 16) };
    for record in [write, Record::flush(6, 0), Record::new(7, Op::Read, 1, 1 << 40, 3)] {
        writer.write(&record).expect("the file takes it");
    }
    writer.finish().expect("the file takes it");
    std::fs::read(&path).expect("it was just written")
}

/// Reads the input to its end, then a second time without its invalid lines. The format is detected
/// or chosen by the seed. For some seeds, the records are also written and read back.
pub(super) fn check(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(fast_folder())?;
    file.write_all(input)?;
    let chosen = Format::ALL[seed as usize / 2 % Format::ALL.len()];
    let format = if seed.is_multiple_of(2) { None } else { Some(chosen) };
    let is_table = format == Some(Format::Columns);
    let columns = "time:us,op,offset:bytes,length:4k".parse().expect("it is well formed");
    let columns = is_table.then_some(columns);
    for skip_bad in [false, true] {
        let columns = columns.clone();
        let named = TraceFile { skip_bad, format, columns, ..TraceFile::new(file.path()) };
        let Some(records) = read(&named, input)? else { return Ok(()) };
        if seed.is_multiple_of(8) && !skip_bad && !records.is_empty() {
            comes_back(&records, if seed.is_multiple_of(16) { "t.hft" } else { "t.csv" })?;
        }
    }
    Ok(())
}

/// Returns the valid records, or `None` if the file cannot have the format.
fn read(named: &TraceFile, input: &[u8]) -> anyhow::Result<Option<Vec<Record>>> {
    let Ok(reader) = Reader::open(named) else { return Ok(None) };
    let lines = input.split(|&byte| byte == b'\n' || byte == b'\r').count() as u64;
    let mut records = Vec::new();
    for record in reader {
        match record {
            Ok(record) => {
                ensure!(record.lba.checked_add(record.sectors).is_some(), "{record:?}");
                records.push(record);
                ensure!(records.len() <= input.len(), "{} records", records.len());
            }
            Err(TraceError::Line { line, .. }) => {
                ensure!(!named.skip_bad && (1..=lines).contains(&line), "line {line} of {lines}");
            }
            Err(TraceError::Record { .. }) => ensure!(!named.skip_bad, "a record was not left out"),
            Err(_) => {}
        }
    }
    Ok(Some(records))
}

/// Checks that records survive being written to a file with this name and read back.
fn comes_back(records: &[Record], name: &str) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let path = folder.path().join(name);
    let mut writer = Writer::create(&path, Extras { saved: true, placement: true })?;
    for record in records {
        writer.write(record)?;
    }
    writer.finish()?;
    let again: Vec<Record> = Reader::open(&TraceFile::new(&path))?.collect::<Result<_, _>>()?;
    ensure!(again == records, "{records:?} come back from {name} as {again:?}");
    Ok(())
}
