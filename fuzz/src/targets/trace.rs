//! The trace readers: records that make sense, or one error that names the line.

use std::io::Write;

use anyhow::ensure;
use hostftl_trace::{Reader, TraceError, TraceFile};

/// Traces of every format.
pub fn traces() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 12] = [
        b"t_us,op,byte_off,byte_len\n0,W,0,4096\n10,R,4096,512\n20,F,0,0\n30,D,8192,65536\n",
        b"t_us,dev,op,byte_off,byte_len\n0,0,W,0,4096\n1,1,R,512,512\n",
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
    seeds
}

/// Reads the input to its end, and once more without its bad lines.
pub fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(fast_folder())?;
    file.write_all(input)?;
    let lines = input.split(|&byte| byte == b'\n').count() as u64;
    for skip_bad in [false, true] {
        let named = TraceFile { skip_bad, ..TraceFile::new(file.path()) };
        let Ok(reader) = Reader::open(&named) else { return Ok(()) };
        let mut records = 0;
        for record in reader {
            match record {
                Ok(record) => {
                    records += 1;
                    ensure!(record.lba.checked_add(record.sectors).is_some(), "{record:?}");
                    ensure!(records <= input.len(), "{records} records");
                }
                Err(TraceError::Line { line, .. }) => {
                    ensure!(!skip_bad && (1..=lines).contains(&line), "line {line} of {lines}");
                }
                Err(TraceError::Record { .. }) => ensure!(!skip_bad, "a record was not left out"),
                Err(_) => {}
            }
        }
    }
    Ok(())
}

/// A folder in memory where there is one.
fn fast_folder() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}
