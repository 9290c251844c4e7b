//! Sizes as people write them: `64M`, `1G`, `4096`.

/// The bytes that `text` means: a number with an optional K, M, G or T (powers of 1024), in either
/// case and with an optional `iB` or `B` behind the letter.
///
/// # Errors
/// In words, with the text that was not understood.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; write a number such as 512M or 4G");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let shift = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("0", 0), ("512", 512), ("4k", 4096), ("1MiB", 1 << 20)] {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["", "G", "1.5G", "-1", "12x", "99999999999T"] {
            assert!(parse_bytes(text).unwrap_err().contains(text), "{text}");
        }
    }
}
