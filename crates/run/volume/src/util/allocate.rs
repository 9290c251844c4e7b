//! Room on the file system for the files that a volume is made of, all of it at once: a volume in a
//! sparse file finds out in the middle of a write that there is none.

use std::fs::File;
use std::path::Path;

use hostftl_io::cancel;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use crate::util::error::{Error, device, file};

/// How much is allocated at once, in bytes: a signal waits for no more.
const PIECE: u64 = 256 << 20;

/// Allocates all of a file. Returns a note when its file system can't; `instead` is the way out
/// where there is no room.
///
/// # Errors
/// When the file system has no room for it, or the process is to end: nothing, or a part, is
/// allocated then.
pub(crate) fn allocate(path: &Path, instead: &str) -> Result<Option<String>, Error> {
    let opened = File::options().write(true).open(path).map_err(file(path, "open it"))?;
    let size = opened.metadata().map_err(file(path, "look at it"))?.len();
    let name = path.display().to_string();
    let room = fstatvfs(&opened).map(|it| it.f_bavail.saturating_mul(it.f_frsize));
    let full = |room: u64| {
        let why = format!(
            "needs {size} bytes, and its file system has {room} left: {instead}, which takes room \
             when it is written"
        );
        device(&name, why)
    };
    if let Some(room) = room.ok().filter(|room| *room < size) {
        return Err(full(room));
    }
    let mut done = 0;
    while done < size {
        cancel::check(&name)?;
        let piece = PIECE.min(size - done);
        match fallocate(&opened, FallocateFlags::empty(), done, piece) {
            Ok(()) => done += piece,
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => return Err(full(room.unwrap_or(0))),
            Err(Errno::FBIG) => {
                let why = format!(
                    "needs {size} bytes, more than its file system or the process's limit of file \
                     sizes (RLIMIT_FSIZE, `ulimit -f`) allows: raise the limit, or {instead}"
                );
                return Err(device(&name, why));
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                return Ok(Some(format!(
                    "{name} is sparse, because its file system can't allocate: see that it does \
                     not become full"
                )));
            }
            Err(error) => return Err(file(path, "allocate it")(error.into())),
        }
    }
    Ok(None)
}
