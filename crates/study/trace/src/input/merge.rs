//! The files that blktrace writes for each CPU, `NAME.blktrace.0` and so on, merged by time.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{MOST_LAYERS, Stream};
use crate::binary::blktrace;

/// Infix in the names of these files.
const INFIX: &str = ".blktrace.";
/// Maximum length of a record.
const MOST_BYTES: usize = blktrace::SIZE + u16::MAX as usize;

/// Returns the files of all CPUs whose base name is `path`, with or without `.blktrace`.
pub(super) fn parts(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let base = name.strip_suffix(".blktrace").unwrap_or(name);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut parts: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let (of, cpu) = split(&path)?;
            (of == base).then_some((cpu, path))
        })
        .collect();
    parts.sort();
    parts.into_iter().map(|(_, path)| path).collect()
}

/// Returns the base name of a file that is one of several parts, and the number of the other parts.
pub(super) fn siblings(path: &Path) -> Option<(PathBuf, usize)> {
    let base = path.with_file_name(split(path)?.0);
    let others = parts(&base).len().saturating_sub(1);
    (others > 0).then_some((base, others))
}

/// Returns the base name of a part and its CPU.
fn split(path: &Path) -> Option<(String, u32)> {
    let (base, cpu) = path.file_name()?.to_str()?.rsplit_once(INFIX)?;
    Some((base.to_owned(), cpu.parse().ok()?))
}

/// The records of all files, ordered by time.
pub(super) struct Merge {
    parts: Vec<Stream>,
    /// Part whose record is being read, and the remaining bytes of the record.
    current: Option<(usize, usize)>,
}

impl Merge {
    /// Merges the files at `paths`, which may be compressed.
    pub(super) fn new(paths: &[PathBuf]) -> io::Result<Self> {
        let open = |path: &PathBuf| {
            let mut stream = Stream::new(Box::new(File::open(path)?));
            for _ in 0..MOST_LAYERS {
                let Some(codec) = super::Codec::detect(stream.head(super::HEAD)?) else { break };
                let members = super::expand::Members::new(stream, codec, &Default::default())?;
                stream = Stream::new(Box::new(members));
            }
            stream.grow(2 * MOST_BYTES);
            Ok(stream)
        };
        let parts = paths.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Merge { parts, current: None })
    }

    /// Returns the part with the earliest record, and the length of that record. Invalid bytes come
    /// first, so that the reader reports them.
    fn earliest(&mut self) -> io::Result<Option<(usize, usize)>> {
        let mut found: Option<(u64, usize, usize)> = None;
        for (index, part) in self.parts.iter_mut().enumerate() {
            let head = part.head(MOST_BYTES)?;
            if head.is_empty() {
                continue;
            }
            let (time, length) = blktrace::measure(head).unwrap_or((0, head.len()));
            if found.is_none_or(|(earliest, _, _)| time < earliest) {
                found = Some((time, index, length.min(head.len())));
            }
        }
        Ok(found.map(|(_, index, length)| (index, length)))
    }
}

impl Read for Merge {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.current.is_none() {
            self.current = self.earliest()?;
        }
        let Some((index, left)) = self.current else { return Ok(0) };
        let most = buffer.len().min(left);
        let bytes = self.parts[index].read(&mut buffer[..most])?;
        self.current = (left > bytes).then_some((index, left - bytes));
        Ok(bytes)
    }
}
