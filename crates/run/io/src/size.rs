//! Sizes of devices.

use hostftl_core::{BLOCK, Size};

use crate::error::IoError;

/// Parses a size as [`Size`] does, in bytes. A size with a decimal point or a decimal unit is
/// rounded down to whole blocks of 4 KiB.
///
/// # Errors
/// A message with the text that could not be parsed.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; write 512M, 4G or 1.92TB");
    let size = Size::parse(text).ok_or_else(wrong)?;
    Ok(size.whole(BLOCK as u64).unwrap_or(size.bytes()))
}

/// Parses the size of the memory device `name`, in bytes.
pub(crate) fn memory_bytes(name: &str, size: &str) -> Result<u64, IoError> {
    parse_bytes(size).map_err(|why| IoError::Name { name: name.into(), why })
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("0", 0), ("512", 512), ("4k", 4096), ("1MiB", 1 << 20)] {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        assert_eq!(parse_bytes("2GB"), Ok(1_999_998_976));
        for text in ["", "G", "1.5", "-1", "12x", "99999999999T"] {
            assert!(parse_bytes(text).unwrap_err().contains(text), "{text}");
        }
    }
}
