//! Private keys, which only their owner may be able to read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hostftl_core::files::read_opened;

/// Maximum length of a key file, in bytes.
const LONGEST: u64 = 1 << 20;

/// Reads a file with a private key.
///
/// # Errors
/// When the file cannot be read, is too long for a key, or is accessible to all users of the
/// machine.
pub fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    refuse_open_to_all(&file.metadata()?)?;
    read_opened(file, LONGEST)
}

/// Refuses access for all users. Access for a group is allowed, such as Debian's `ssl-cert`.
fn refuse_open_to_all(found: &Metadata) -> io::Result<()> {
    match found.mode() & 0o007 {
        0 => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "all users can read the private key (mode {:04o}); replace it if it may have been \
                 read, and run `chmod 0600`",
                found.mode() & 0o7777
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no modes of files")]
    fn a_world_readable_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key.pem");
        fs::write(&path, "secret").expect("a file");
        for (mode, good) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(read_secret(&path).is_ok(), good, "{mode:o}");
        }
        let why = read_secret(&path).unwrap_err().to_string();
        assert!(why.contains("0602") && why.contains("chmod 0600"), "{why}");
    }
}
