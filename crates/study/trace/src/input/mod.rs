//! The bytes of a trace: from a file, a pipe or blktrace's files of each CPU, decompressed if
//! necessary, and converted to UTF-8.

mod charset;
mod expand;
mod merge;
mod pipe;

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file::TraceFile;
use expand::Codec;
pub use pipe::Pipe;

/// Bytes read at once.
const CHUNK: usize = 1 << 16;
/// Bytes at the start that determine the encoding.
const HEAD: usize = 4096;
/// Maximum number of nested compressions.
const MOST_LAYERS: usize = 4;

/// The bytes of a trace.
pub(crate) struct Input {
    /// Decompressed bytes in UTF-8.
    pub bytes: Box<dyn Read + Send>,
    /// Whether these are the unchanged bytes of the file.
    pub is_plain: bool,
    /// Properties of the input.
    pub about: About,
}

/// Properties of an input that are reported with the results.
#[derive(Clone, Default)]
pub(crate) struct About {
    /// Bytes after the end of the compressed data.
    trailing: Arc<AtomicU64>,
    /// Other properties, one sentence each.
    texts: Vec<String>,
}

impl About {
    /// Returns all known properties, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut texts = self.texts.clone();
        if let bytes @ 1.. = self.trailing.load(Ordering::Relaxed) {
            texts.push(format!("{bytes} bytes after the end of the compressed data are ignored"));
        }
        texts
    }
}

/// Decompresses and converts the `raw` bytes of a trace. Compression is detected from the content,
/// not from the name of the file.
pub(crate) fn expand((raw, mut about): Raw) -> io::Result<Input> {
    let mut stream = Stream::new(raw);
    let mut is_plain = true;
    for _ in 0..MOST_LAYERS {
        let Some(codec) = Codec::detect(stream.head(HEAD)?) else { break };
        stream = Stream::new(Box::new(expand::Members::new(stream, codec, &about.trailing)?));
        is_plain = false;
    }
    let bytes: Box<dyn Read + Send> = match charset::Charset::detect(stream.head(HEAD)?) {
        Some(charset) => {
            is_plain = false;
            about.texts.extend(charset.remark().map(str::to_owned));
            Box::new(charset::Decoder::new(stream, charset))
        }
        None => Box::new(stream),
    };
    Ok(Input { bytes, is_plain, about })
}

/// The unconverted bytes of an input, and its properties.
pub(crate) type Raw = (Box<dyn Read + Send>, About);

/// Opens the file, the pipe, or the files of blktrace.
pub(crate) fn open(file: &TraceFile) -> io::Result<Raw> {
    let mut about = About::default();
    let path = &file.path;
    if pipe::is_stdin(path) {
        return Ok((file.pipe.open_stdin(file.once)?, about));
    }
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parts = merge::parts(path);
            if parts.is_empty() {
                return Err(error);
            }
            about.texts.push(format!("{} files of blktrace are merged by time", parts.len()));
            return Ok((Box::new(merge::Merge::new(&parts)?), about));
        }
        Err(error) => return Err(error),
    };
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    if !metadata.is_file() && !metadata.file_type().is_block_device() {
        return Ok((file.pipe.open(path, file.once)?, about));
    }
    if let Some((base, others)) = merge::siblings(path) {
        about.texts.push(format!(
            "this file holds the requests of one CPU, and {others} more files exist; use {} to \
             read all of them",
            base.display()
        ));
    }
    Ok((Box::new(File::open(path)?), about))
}

/// A buffered stream that allows a look at its next bytes before they are read.
pub(crate) struct Stream {
    inner: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
}

impl Stream {
    fn new(inner: Box<dyn Read + Send>) -> Self {
        Stream { inner, buffer: vec![0; CHUNK], at: 0, end: 0 }
    }

    /// Returns whether the buffered bytes begin with `magic`.
    fn begins_with(&self, magic: &[u8]) -> bool {
        self.buffer[self.at..self.end].starts_with(magic)
    }

    /// Grows the buffer to at least `bytes` bytes.
    fn grow(&mut self, bytes: usize) {
        self.buffer.resize(self.buffer.len().max(bytes), 0);
    }

    /// Returns the next bytes without reading them: `most` bytes, which must fit into the buffer,
    /// or fewer at the end.
    fn head(&mut self, most: usize) -> io::Result<&[u8]> {
        if self.at > 0 && self.at + most > self.buffer.len() {
            self.buffer.copy_within(self.at..self.end, 0);
            (self.at, self.end) = (0, self.end - self.at);
        }
        while self.end - self.at < most {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.at..self.end.min(self.at + most)])
    }
}

impl BufRead for Stream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.end {
            (self.at, self.end) = (0, self.inner.read(&mut self.buffer)?);
        }
        Ok(&self.buffer[self.at..self.end])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        assert!(self.at <= self.end);
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.end && buffer.len() >= CHUNK {
            return self.inner.read(buffer);
        }
        let bytes = self.fill_buf()?;
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        self.consume(length);
        Ok(length)
    }
}
