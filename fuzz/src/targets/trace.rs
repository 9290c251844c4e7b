//! The trace reader: records that make sense, or one error that names the line.

use std::io::Write;

use anyhow::ensure;
use hostftl_trace::{CsvReader, TraceError};

/// Traces with and without a header and a device column.
pub fn traces() -> Vec<Vec<u8>> {
    [
        "t_us,op,byte_off,byte_len\n0,W,0,4096\n10,R,4096,512\n20,F,0,0\n30,D,8192,65536\n",
        "t_us,dev,op,byte_off,byte_len\n0,0,W,0,4096\n1,1,R,512,512\n",
        "0,W,100,50\n\n1.5,R,18446744073709551615,1\n",
        "0,W,0,4096\r\n5,W,4096,4096",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Reads the input to its end.
pub fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(fast_folder())?;
    file.write_all(input)?;
    let lines = input.split(|&byte| byte == b'\n').count() as u64;
    let mut records = 0;
    let reader = match CsvReader::open(file.path()) {
        Ok(reader) => reader,
        Err(_) => return Ok(()),
    };
    for record in reader {
        match record {
            Ok(record) => {
                records += 1;
                ensure!(record.lba.checked_add(record.sectors).is_some(), "{record:?}");
                ensure!(records <= lines, "{records} records in {lines} lines");
            }
            Err(TraceError::Line { line, .. }) => {
                ensure!((1..=lines).contains(&line), "line {line} of {lines}");
                break;
            }
            Err(_) => break,
        }
    }
    Ok(())
}

/// A folder in memory where there is one.
fn fast_folder() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}
