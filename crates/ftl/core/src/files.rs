//! Reading of whole small files, with a size limit because a path may refer to any file.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::string::String;
use std::vec::Vec;

/// Maximum size in bytes of a file written by hand: of a volume, a drive or a plan.
pub const MAX_TEXT: u64 = 16 << 20;

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// When the file cannot be read, or is longer.
pub fn read_whole(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_opened(File::open(path)?, most)
}

/// Reads a text file of at most [`MAX_TEXT`] bytes.
///
/// # Errors
/// When the file cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let text = String::from_utf8(read_whole(path, MAX_TEXT)?);
    text.map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads the rest of an open file, at most `most` bytes.
///
/// # Errors
/// When the file cannot be read, or is longer.
pub fn read_opened(file: File, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        let why = std::format!("it is longer than {} MiB, the limit for such files", most >> 20);
        Err(io::Error::new(ErrorKind::FileTooLarge, why))
    } else {
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no devices")]
    fn a_file_is_read_up_to_its_limit() {
        let name = std::format!("hostftl-files-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "1234").expect("a file");
        assert_eq!(read_text(&path).expect("it is short"), "1234");
        assert_eq!(read_whole(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::remove_file(&path).expect("it is ours");
        let endless = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::FileTooLarge);
    }
}
