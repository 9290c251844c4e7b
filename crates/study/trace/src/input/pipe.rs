//! Pipes, which can be read only once: standard input, FIFOs, process substitution, tapes.
//!
//! If several passes are needed, the bytes are also stored in an unlinked temporary file, and every
//! reader has its own position in it. A pipe can then be read again, or by several readers at once.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes stored at once.
const CHUNK: usize = 1 << 16;

/// Names of standard input.
const STDIN: [&str; 3] = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// Standard input, shared by all traces with that name.
static SHARED: OnceLock<Arc<Mutex<Kept>>> = OnceLock::new();

/// The pipe of one trace and its stored bytes; empty for a file.
#[derive(Clone, Default)]
pub struct Pipe(Arc<OnceLock<Arc<Mutex<Kept>>>>);

/// State of a pipe.
struct Kept {
    pipe: File,
    /// Temporary file, or `None` if the bytes are not stored.
    copy: Option<File>,
    /// Bytes read from the pipe so far.
    length: u64,
    is_over: bool,
}

/// Reader of a pipe from its beginning.
struct Reader {
    kept: Arc<Mutex<Kept>>,
    at: u64,
}

/// Returns whether `path` is standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    STDIN.iter().any(|name| path == Path::new(name))
}

impl Pipe {
    /// Opens the pipe at `path`. `once` means that it is not read again.
    pub(crate) fn open(&self, path: &Path, once: bool) -> io::Result<Box<dyn Read + Send>> {
        reader(&self.0, || File::open(path), once)
    }

    /// Opens standard input. `once` means that it is not read again. A regular file at its
    /// beginning is read as a file.
    pub(crate) fn open_stdin(&self, once: bool) -> io::Result<Box<dyn Read + Send>> {
        let stdin = || io::stdin().as_fd().try_clone_to_owned().map(File::from);
        if SHARED.get().is_none() {
            let mut file = stdin()?;
            let is_file = file.metadata()?.is_file();
            if is_file
                && file.stream_position()? == 0
                && let Ok(own) = File::open(STDIN[0])
            {
                return Ok(Box::new(own));
            }
        }
        reader(&SHARED, stdin, once)
    }
}

/// Returns a reader of the pipe in `slot`, which the first call opens with `open`.
fn reader(
    slot: &OnceLock<Arc<Mutex<Kept>>>,
    open: impl FnOnce() -> io::Result<File>,
    once: bool,
) -> io::Result<Box<dyn Read + Send>> {
    if let Some(kept) = slot.get() {
        let kept = Arc::clone(kept);
        let state = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if state.copy.is_none() {
            return Err(io::Error::other("cannot read the pipe again: its bytes were not kept"));
        }
        drop(state);
        return Ok(Box::new(Reader { kept, at: 0 }));
    }
    let pipe = open()?;
    let copy = if once { None } else { Some(tempfile::tempfile().map_err(no_room)?) };
    let kept = Arc::new(Mutex::new(Kept { pipe, copy, length: 0, is_over: false }));
    let kept = Arc::clone(slot.get_or_init(|| kept));
    Ok(Box::new(Reader { kept, at: 0 }))
}

/// Returns the error for bytes of a pipe that cannot be stored.
fn no_room(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let text = format!(
        "cannot keep the bytes of a pipe in {}: {error}; set TMPDIR to a folder with free space",
        folder.display()
    );
    io::Error::new(error.kind(), text)
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        if self.at < kept.length {
            let Some(copy) = &kept.copy else {
                return Err(io::Error::other("a pipe can be read only once"));
            };
            let here = usize::try_from(kept.length - self.at).unwrap_or(usize::MAX);
            let most = buffer.len().min(here);
            let bytes = copy.read_at(&mut buffer[..most], self.at)?;
            self.at += bytes as u64;
            return Ok(bytes);
        }
        if kept.is_over {
            return Ok(0);
        }
        let most = buffer.len().min(CHUNK);
        let bytes = kept.pipe.read(&mut buffer[..most])?;
        kept.is_over = bytes == 0 && most > 0;
        if let Some(copy) = &mut kept.copy {
            copy.write_all(&buffer[..bytes]).map_err(no_room)?;
        }
        kept.length += bytes as u64;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "a pipe" } else { "no pipe" })
    }
}

/// Pipes are always equal: the pipe is not part of a trace's description.
impl PartialEq for Pipe {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Pipe {}
