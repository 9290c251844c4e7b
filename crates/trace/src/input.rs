//! The bytes of a trace file, expanded when they are zstd.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The file's bytes; its content, not its name, decides whether it is compressed.
pub fn open(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mut magic = Vec::with_capacity(ZSTD_MAGIC.len());
    (&mut file).take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    if magic == ZSTD_MAGIC {
        return Ok(Box::new(zstd::Decoder::with_buffer(BufReader::new(file))?));
    }
    Ok(Box::new(file))
}
