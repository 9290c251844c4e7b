//! Files that hold what is on a volume, or say where that is: only their owner reads them.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes the file `path`, which must not exist, to read and write, with mode 0600.
///
/// # Errors
/// When it exists, or can't be made.
pub fn new_private(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}
