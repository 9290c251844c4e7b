//! Decompression of zstd, gzip, xz, lzma, lzip, bzip2 and LZ4, with one or several members.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use liblzma::stream::Stream as Lzma;

use super::Stream;

/// Maximum memory for the dictionary of an xz, lzma or lzip file. `xz -9` needs 64 MiB.
const MOST_MEMORY: u64 = 256 << 20;
/// Bytes needed to recognise a further member.
const MOST: usize = 16;

/// A compression format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    /// Zstandard.
    Zstd,
    /// gzip.
    Gzip,
    /// xz, and its predecessors lzma and lzip.
    Xz,
    /// bzip2.
    Bzip2,
    /// LZ4 frames.
    Lz4,
}

impl Codec {
    /// Returns the compression of bytes that begin with `head`, or `None` if they are not
    /// compressed.
    pub(super) fn detect(head: &[u8]) -> Option<Self> {
        let has = |magic: &[u8]| head.starts_with(magic);
        let is_lzma = || has(&[0x5d, 0, 0]) && head.len() >= 13 && head[12] == head[5];
        let is_skipped =
            || head.len() >= 8 && head[0] & 0xf0 == 0x50 && head[1..4] == *b"\x2a\x4d\x18";
        if has(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skipped() {
            Some(Codec::Zstd)
        } else if has(&[0x1f, 0x8b]) {
            Some(Codec::Gzip)
        } else if has(b"\xfd7zXZ\0") || has(b"LZIP") || is_lzma() {
            Some(Codec::Xz)
        } else if has(b"BZh") && head.get(3).is_some_and(u8::is_ascii_digit) {
            Some(Codec::Bzip2)
        } else if has(&[0x04, 0x22, 0x4d, 0x18]) {
            Some(Codec::Lz4)
        } else {
            None
        }
    }

    fn open(self, stream: Stream) -> io::Result<Box<dyn Part>> {
        Ok(match self {
            Codec::Zstd => Box::new(zstd::Decoder::with_buffer(stream)?.single_frame()),
            Codec::Gzip => Box::new(flate2::bufread::GzDecoder::new(stream)),
            Codec::Xz => {
                let lzma = if stream.begins_with(b"LZIP") {
                    Lzma::new_lzip_decoder(MOST_MEMORY, 0)
                } else {
                    Lzma::new_auto_decoder(MOST_MEMORY, 0)
                };
                Box::new(liblzma::bufread::XzDecoder::new_stream(stream, lzma?))
            }
            Codec::Bzip2 => Box::new(bzip2::bufread::BzDecoder::new(stream)),
            Codec::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(stream)),
        })
    }
}

/// Decoder of one member.
trait Part: Read + Send {
    /// Returns the bytes after the member.
    fn rest(self: Box<Self>) -> Stream;
}

impl Part for zstd::Decoder<'static, Stream> {
    fn rest(self: Box<Self>) -> Stream {
        self.finish()
    }
}

impl Part for flate2::bufread::GzDecoder<Stream> {
    fn rest(self: Box<Self>) -> Stream {
        self.into_inner()
    }
}

impl Part for liblzma::bufread::XzDecoder<Stream> {
    fn rest(self: Box<Self>) -> Stream {
        self.into_inner()
    }
}

impl Part for bzip2::bufread::BzDecoder<Stream> {
    fn rest(self: Box<Self>) -> Stream {
        self.into_inner()
    }
}

impl Part for lz4_flex::frame::FrameDecoder<Stream> {
    fn rest(self: Box<Self>) -> Stream {
        self.into_inner()
    }
}

/// Decompressed bytes of all members, one after the other.
pub(super) struct Members {
    part: Option<Box<dyn Part>>,
    codec: Codec,
    trailing: Arc<AtomicU64>,
}

impl Members {
    /// Makes a decoder of `stream`. Other bytes after the last member are counted in `trailing`.
    pub(super) fn new(stream: Stream, codec: Codec, trailing: &Arc<AtomicU64>) -> io::Result<Self> {
        let part = Some(codec.open(stream)?);
        Ok(Members { part, codec, trailing: Arc::clone(trailing) })
    }

    /// Opens the next member after the present one, if there is one.
    fn follow(&mut self) -> io::Result<()> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let mut rest = part.rest();
        if Codec::detect(rest.head(MOST)?) == Some(self.codec) {
            self.part = Some(self.codec.open(rest)?);
            return Ok(());
        }
        let mut trailing = 0;
        loop {
            let bytes = rest.fill_buf()?.len();
            if bytes == 0 {
                break;
            }
            trailing += bytes as u64;
            rest.consume(bytes);
        }
        self.trailing.fetch_add(trailing, Ordering::Relaxed);
        Ok(())
    }
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = &mut self.part {
            let bytes = part.read(buffer)?;
            if bytes > 0 || buffer.is_empty() {
                return Ok(bytes);
            }
            self.follow()?;
        }
        Ok(0)
    }
}
