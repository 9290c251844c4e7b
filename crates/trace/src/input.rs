//! The bytes of a trace file, expanded when they are zstd, gzip or xz.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const XZ_MAGIC: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Bytes that tell.
const MOST: u64 = 6;

/// The file's bytes, and whether they are as they lie there; its content, not its name, decides
/// whether it is compressed.
pub fn open(path: &Path) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let mut magic = Vec::new();
    (&mut file).take(MOST).read_to_end(&mut magic)?;
    file.rewind()?;
    let buffered = BufReader::with_capacity(1 << 16, file.try_clone()?);
    let expanded: Box<dyn Read + Send> = if magic.starts_with(ZSTD_MAGIC) {
        Box::new(zstd::Decoder::with_buffer(buffered)?)
    } else if magic.starts_with(GZIP_MAGIC) {
        Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
    } else if magic.starts_with(XZ_MAGIC) {
        Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(buffered))
    } else {
        return Ok((Box::new(file), true));
    };
    Ok((expanded, false))
}
