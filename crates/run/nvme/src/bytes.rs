//! Little-endian fields of a page.

/// Returns the field of two bytes at `at`.
pub(crate) fn u16_at(page: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(page.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the field of four bytes at `at`.
pub(crate) fn u32_at(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?))
}

/// Returns the field of eight bytes at `at`.
pub(crate) fn u64_at(page: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?))
}

/// Returns the counter of sixteen bytes at `at` times `unit`, limited to `u64::MAX`.
pub(crate) fn count_at(page: &[u8], at: usize, unit: u64) -> Option<u64> {
    let count = u128::from_le_bytes(page.get(at..at + 16)?.try_into().ok()?);
    Some(u64::try_from(count.saturating_mul(unit.into())).unwrap_or(u64::MAX))
}

/// Returns the text at `at` without padding. Unprintable bytes become question marks.
pub(crate) fn text_at(page: &[u8], at: usize, bytes: usize) -> Option<String> {
    let text = page.get(at..at + bytes)?;
    let letter = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '?' };
    let text: String = text.iter().take_while(|byte| **byte != 0).map(letter).collect();
    Some(text.trim().to_owned())
}
