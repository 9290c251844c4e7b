//! Writer of traces in this project's formats, compressed if the name ends in `.zst`.
//!
//! Invariant: the file has its name only when it is complete. Until then its name is `….partial`.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crc_fast::Digest;
use hostftl_core::SECTOR;

use crate::binary::flat;
use crate::binary::packed::{self, Base};
use crate::error::TraceError;
use crate::format::Format;
use crate::record::{Extras, Op, Record};
use crate::text::own::header;

/// zstd's default level.
const LEVEL: i32 = 3;
/// Size at which buffered text is written.
const TEXT: usize = 1 << 16;

/// A trace that is being written.
pub struct Writer {
    path: PathBuf,
    partial: PathBuf,
    sink: Option<Sink>,
    format: Format,
    /// Optional fields of writes that are stored.
    extras: Extras,
    /// Buffered bytes: lines, or the payload of a frame.
    buffer: Vec<u8>,
    base: Base,
    /// Records in the buffer.
    held: u32,
    /// Checksum of a flat file so far.
    digest: Digest,
    records: u64,
}

enum Sink {
    Plain(BufWriter<File>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
}

impl Writer {
    /// Creates the file `path`. Its name determines the format: `.csv`, `.hft` or `.flat`,
    /// optionally followed by `.zst`. `extras` are the optional fields of writes to store.
    ///
    /// # Errors
    /// When the name has no known format, the file exists, or the system refuses.
    pub fn create(path: &Path, extras: Extras) -> Result<Self, TraceError> {
        let name = path.to_string_lossy();
        let plain = name.strip_suffix(".zst").unwrap_or(&name);
        let format = if plain.ends_with(".csv") {
            Format::Own
        } else if plain.ends_with(".hft") {
            Format::Packed
        } else if plain.ends_with(".flat") {
            Format::Flat
        } else {
            return Err(TraceError::Name { path: path.to_owned() });
        };
        let partial = PathBuf::from(format!("{name}.partial"));
        let mut writer = Writer {
            path: path.to_owned(),
            partial,
            sink: None,
            format,
            extras,
            buffer: Vec::new(),
            base: Base::new(extras),
            held: 0,
            digest: flat::digest(),
            records: 0,
        };
        writer.begin(plain.len() < name.len()).map_err(|source| writer.failed(source))?;
        Ok(writer)
    }

    /// Restricts access to the file to its owner.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn keep_private(&mut self) -> Result<(), TraceError> {
        fs::set_permissions(&self.partial, Permissions::from_mode(0o600))
            .map_err(|source| self.failed(source))
    }

    /// Returns the bytes in the file so far. Buffers of less than 1 MiB are not included.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn file_bytes(&self) -> Result<u64, TraceError> {
        fs::metadata(&self.partial).map(|file| file.len()).map_err(|source| self.failed(source))
    }

    fn begin(&mut self, compress: bool) -> io::Result<()> {
        if self.path.exists() {
            let why = "the file exists; remove it or use another name";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let file = BufWriter::new(File::create(&self.partial)?);
        let mut sink = if compress {
            Sink::Zstd(Box::new(zstd::Encoder::new(file, LEVEL)?))
        } else {
            Sink::Plain(file)
        };
        match self.format {
            Format::Packed => sink.write(&packed::header(self.extras))?,
            Format::Flat => sink.write(&flat::header(self.extras))?,
            _ => sink.write(format!("{}\n", header(self.extras)).as_bytes())?,
        }
        self.sink = Some(sink);
        Ok(())
    }

    /// Appends `record`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<(), TraceError> {
        self.records += 1;
        self.held += 1;
        let is_full = match self.format {
            Format::Packed => {
                self.base.write(record, &mut self.buffer);
                !Base::fits(self.buffer.len())
            }
            Format::Flat => {
                self.buffer.extend(flat::pack(&self.extras.strip(record)));
                self.buffer.len() >= TEXT
            }
            _ => {
                line(record, self.extras, &mut self.buffer);
                self.buffer.len() >= TEXT
            }
        };
        if is_full { self.hand_on().map_err(|source| self.failed(source)) } else { Ok(()) }
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let sink = self.sink.as_mut().expect("the file is open until finish");
        if self.format == Format::Packed && self.held > 0 {
            sink.write(&packed::head(self.held, &self.buffer))?;
        }
        if self.format == Format::Flat {
            self.digest.update(&self.buffer);
        }
        sink.write(&self.buffer)?;
        self.buffer.clear();
        (self.base, self.held) = (Base::new(self.extras), 0);
        Ok(())
    }

    /// Completes the file, renames it, and returns the number of its records.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        self.end().map_err(|source| self.failed(source))?;
        Ok(self.records)
    }

    fn end(&mut self) -> io::Result<()> {
        self.hand_on()?;
        let mut sink = self.sink.take().expect("the file is open until finish");
        if self.format == Format::Packed {
            let total = self.records.to_le_bytes();
            sink.write(&packed::head(0, &total))?;
            sink.write(&total)?;
        }
        if self.format == Format::Flat {
            sink.write(&flat::last(self.records, self.digest.finalize() as u32))?;
        }
        match sink {
            Sink::Plain(file) => file,
            Sink::Zstd(encoder) => encoder.finish()?,
        }
        .into_inner()?
        .sync_all()?;
        fs::rename(&self.partial, &self.path)
    }

    fn failed(&self, source: io::Error) -> TraceError {
        TraceError::Write { path: self.path.clone(), source }
    }
}

impl Drop for Writer {
    /// Removes a file that was not completed.
    fn drop(&mut self) {
        if self.sink.take().is_some() {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Zstd(encoder) => encoder.write_all(bytes),
        }
    }
}

/// Appends `record` as a line of this project's text format.
fn line(record: &Record, extras: Extras, text: &mut Vec<u8>) {
    let op = match record.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Flush => 'F',
        Op::Discard => 'D',
    };
    let (micros, nanos) = (record.t_ns / 1000, record.t_ns % 1000);
    let (offset, bytes) = (record.lba * SECTOR as u64, record.sectors * SECTOR as u64);
    let dev = record.dev;
    let written = match nanos {
        0 => write!(text, "{micros},{dev},{op},{offset},{bytes}"),
        _ => write!(text, "{micros}.{nanos:03},{dev},{op},{offset},{bytes}"),
    };
    let saved = written.and_then(|()| match record.saved {
        _ if !extras.saved => Ok(()),
        None => write!(text, ","),
        Some(percent) => write!(text, ",{percent}"),
    });
    let placed = saved.and_then(|()| match record.placement {
        _ if !extras.placement => Ok(()),
        0 => write!(text, ","),
        placement => write!(text, ",{placement}"),
    });
    placed.and_then(|()| writeln!(text)).expect("a write to a vector succeeds");
}
