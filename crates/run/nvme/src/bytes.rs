//! Little-endian fields of a page.

/// The field of two bytes at `at`.
pub(crate) fn u16_at(page: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(page.get(at..at + 2)?.try_into().ok()?))
}

/// The field of four bytes at `at`.
pub(crate) fn u32_at(page: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?))
}

/// The field of eight bytes at `at`.
pub(crate) fn u64_at(page: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?))
}

/// The counter of sixteen bytes at `at`, times `unit`; what 64 bits can't hold is their most.
pub(crate) fn count_at(page: &[u8], at: usize, unit: u64) -> Option<u64> {
    let count = u128::from_le_bytes(page.get(at..at + 16)?.try_into().ok()?);
    Some(u64::try_from(count.saturating_mul(unit.into())).unwrap_or(u64::MAX))
}

/// The text at `at`, without the blanks that fill it up; what is not printable is a question mark.
pub(crate) fn text_at(page: &[u8], at: usize, bytes: usize) -> Option<String> {
    let text = page.get(at..at + bytes)?;
    let letter = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '?' };
    let text: String = text.iter().take_while(|byte| **byte != 0).map(letter).collect();
    Some(text.trim().to_owned())
}
