//! Allocation of the files of a volume. Without it, a write to a sparse file may fail later because
//! the file system is full.

use std::fs::File;
use std::path::Path;

use hostftl_io::cancel;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;

use crate::util::error::{Error, device, file};

/// Bytes per allocation call. A signal waits for one call at most.
const PIECE: u64 = 256 << 20;

/// Allocates a file completely. Returns a note if its file system does not support that; `instead`
/// is the remedy in the error about missing space.
pub(crate) fn allocate(path: &Path, instead: &str) -> Result<Option<String>, Error> {
    let opened = File::options().write(true).open(path).map_err(file(path, "open it"))?;
    let size = opened.metadata().map_err(file(path, "examine it"))?.len();
    let name = path.display().to_string();
    let room = fstatvfs(&opened).map(|it| it.f_bavail.saturating_mul(it.f_frsize));
    let full = |room: u64| {
        let why = format!("needs {size} bytes, but its file system has {room} left; {instead}");
        device(&name, why)
    };
    // Check first, so that the file system is not filled in vain.
    if let Some(room) = room.ok().filter(|room| *room < size) {
        return Err(full(room));
    }
    let mut done = 0;
    while done < size {
        cancel::check(&name)?;
        let piece = PIECE.min(size - done);
        match fallocate(&opened, FallocateFlags::empty(), done, piece) {
            Ok(()) => done += piece,
            // The check above ends the loop if the process is to end.
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::DQUOT) => return Err(full(room.unwrap_or(0))),
            Err(Errno::FBIG) => {
                let why = format!(
                    "needs {size} bytes, more than its file system or RLIMIT_FSIZE (`ulimit -f`) \
                     allows; raise the limit, or {instead}"
                );
                return Err(device(&name, why));
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                return Ok(Some(format!(
                    "{name} is sparse, because its file system cannot allocate; keep space free \
                     there"
                )));
            }
            Err(error) => return Err(file(path, "allocate it")(error.into())),
        }
    }
    Ok(None)
}
