//! The trace readers: records that make sense, or one error that names the line.

use std::io::Write;

use anyhow::ensure;
use hostftl_trace::{Format, Op, Reader, Record, TraceError, TraceFile, Writer};

use super::fast_folder;

/// Traces of every format.
pub fn traces() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 14] = [
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
    seeds.push(b"HFTLTR\x00\x01\x04\0\0\0\x01\0\0\0\0\0\0\0\x09\x02\x10\x00".to_vec());
    seeds.push(packed());
    seeds
}

/// Our own binary format as it is written, with writes that say how well they compress.
fn packed() -> Vec<u8> {
    let folder = tempfile::tempdir_in(fast_folder()).expect("there is room for a small file");
    let path = folder.path().join("t.hft");
    let mut writer = Writer::create(&path, true).expect("the file is new");
    let write = Record { saved: Some(67), ..Record::new(5, Op::Write, 0, 8, 16) };
    for record in [write, Record::flush(6, 0), Record::new(7, Op::Read, 1, 1 << 40, 3)] {
        writer.write(&record).expect("the file takes it");
    }
    writer.finish().expect("the file takes it");
    std::fs::read(&path).expect("it was just written")
}

/// Reads the input to its end, and once more without its bad lines: as its content says, or in a
/// format that the seed chooses. What is read comes back after it was written.
pub fn check(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(fast_folder())?;
    file.write_all(input)?;
    let formats = Format::ALL.map(Some);
    let format = if seed.is_multiple_of(2) { None } else { formats[seed as usize / 2 % 12] };
    for skip_bad in [false, true] {
        let named = TraceFile { skip_bad, format, ..TraceFile::new(file.path()) };
        let Some(records) = read(&named, input)? else { return Ok(()) };
        if seed.is_multiple_of(8) && !skip_bad && !records.is_empty() {
            comes_back(&records, if seed.is_multiple_of(16) { "t.hft" } else { "t.csv" })?;
        }
    }
    Ok(())
}

/// The records before the first error; nothing when the format can't be that of the file.
fn read(named: &TraceFile, input: &[u8]) -> anyhow::Result<Option<Vec<Record>>> {
    let Ok(reader) = Reader::open(named) else { return Ok(None) };
    let lines = input.split(|&byte| byte == b'\n').count() as u64;
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

/// Writes records to a file of this name and reads them again.
fn comes_back(records: &[Record], name: &str) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let path = folder.path().join(name);
    let mut writer = Writer::create(&path, true)?;
    for record in records {
        writer.write(record)?;
    }
    writer.finish()?;
    let again: Vec<Record> = Reader::open(&TraceFile::new(&path))?.collect::<Result<_, _>>()?;
    ensure!(again == records, "{records:?} come back from {name} as {again:?}");
    Ok(())
}
