//! Sizes in the form that users write: `4096`, `64k`, `1.5G`, `1.92TB`.
//!
//! A letter alone or with `iB` is binary: `1k` and `1KiB` are 1024 bytes. A letter with `B` is
//! decimal, as drives are sold: `1.92TB` is 1,920,000,000,000 bytes.

use alloc::format;
use alloc::string::String;

/// Size, with the information whether it is exact.
///
/// Invariant: an exact size was written as a whole number of bytes or of binary units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    bytes: u64,
    is_exact: bool,
}

/// Meaning of a letter without `B` or `iB`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letters {
    Binary,
    Decimal,
}

impl Size {
    /// Parses a size with one of the letters k, M, G, T and P, in either case. Returns `None` when
    /// `text` is not a size, or is 2^64 bytes or more.
    pub fn parse(text: &str) -> Option<Self> {
        read(text, Letters::Binary)
    }

    /// Parses the capacity of a drive. Unlike in [`Size::parse`], a letter alone is decimal too, as
    /// drives are sold.
    pub fn parse_sold(text: &str) -> Option<Self> {
        read(text, Letters::Decimal)
    }

    /// Returns an exact size of `bytes` bytes.
    pub const fn exact(bytes: u64) -> Self {
        Size { bytes, is_exact: true }
    }

    /// Returns the size in bytes, rounded down.
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// Returns the size in bytes as a multiple of `unit`. A size with a decimal point or a decimal
    /// unit is approximate and is rounded down.
    ///
    /// # Errors
    /// The nearest valid sizes, as text.
    ///
    /// # Panics
    /// When `unit` is 0.
    pub fn whole(self, unit: u64) -> Result<u64, String> {
        let below = self.bytes / unit * unit;
        let fits = below > 0 && (!self.is_exact || below == self.bytes);
        match (fits, below) {
            (true, _) => Ok(below),
            (false, 0) => Err(format!("at least {unit} bytes are needed")),
            (false, _) => Err(format!(
                "{} bytes are not a multiple of {unit}; the nearest are {below} and {}",
                self.bytes,
                below.saturating_add(unit)
            )),
        }
    }
}

fn read(text: &str, letters: Letters) -> Option<Size> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (unit, is_binary) = unit_bytes(unit.trim_start(), letters)?;
    let (whole, parts) = number.split_once('.').map_or((number, None), |(a, b)| (a, Some(b)));
    // A fraction of a byte is a typing error.
    let is_part = parts.is_some();
    if whole.is_empty() || parts == Some("") || is_part && unit == 1 {
        return None;
    }
    let parts = parts.unwrap_or_default();
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(parts) || parts.len() > MOST_DIGITS {
        return None;
    }
    let whole = u128::from(whole.parse::<u64>().ok()?);
    let part = u128::from(if parts.is_empty() { 0 } else { parts.parse::<u64>().ok()? });
    let bytes = whole * u128::from(unit) + part * u128::from(unit) / 10u128.pow(parts.len() as u32);
    Some(Size { bytes: u64::try_from(bytes).ok()?, is_exact: is_binary && !is_part })
}

/// Maximum number of decimals: one more would be less than a byte in every unit.
const MOST_DIGITS: usize = 18;

/// Returns the bytes of a unit, and whether it is binary.
fn unit_bytes(text: &str, letters: Letters) -> Option<(u64, bool)> {
    let mut chars = text.chars();
    let power = match chars.next().map(|letter| letter.to_ascii_lowercase()) {
        None => 0,
        Some('b') if chars.as_str().is_empty() => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        Some(_) => return None,
    };
    let rest = chars.as_str();
    let is_binary = match rest {
        "" => power == 0 || letters == Letters::Binary,
        _ if rest.eq_ignore_ascii_case("ib") => true,
        _ if rest.eq_ignore_ascii_case("b") => false,
        _ => return None,
    };
    let base: u64 = if is_binary { 1024 } else { 1000 };
    Some((base.pow(power), is_binary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_binary_and_with_b_decimal() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("64k", 65536),
            ("1G", 1 << 30),
            ("1.5GiB", 3 << 29),
            ("2 gib", 2 << 30),
            ("2GB", 2_000_000_000),
            ("1.92TB", 1_920_000_000_000),
            ("0.05tb", 50_000_000_000),
            ("61.44T", 67_553_994_410_557),
            ("2p", 2 << 50),
        ] {
            assert_eq!(Size::parse(text).map(Size::bytes), Some(bytes), "{text}");
        }
        let sold = |text| Size::parse_sold(text).map(Size::bytes);
        assert_eq!((sold("1.92T"), sold("1TiB")), (Some(1_920_000_000_000), Some(1 << 40)));
        let bad = "|G|.5G|1.G|1X|-1|1e3|NaN|1.5.5k|99999999999T|1.5|1.5b|1bb|1kbb|1kk|+1k|1ki|µ";
        bad.split('|').for_each(|bad| assert_eq!(Size::parse(bad), None, "{bad}"));
    }

    #[test]
    fn decimal_sizes_are_rounded_down_and_exact_ones_are_not() {
        let whole = |text: &str| Size::parse(text).expect("a size").whole(4096);
        assert_eq!(whole("2GB"), Ok(1_999_998_976));
        assert_eq!(whole("61.44T"), Ok(67_553_994_407_936));
        assert_eq!(whole("64k"), Ok(65536));
        let nearest = "5120 bytes are not a multiple of 4096; the nearest are 4096 and 8192";
        assert_eq!(whole("5k"), Err(nearest.into()));
        assert_eq!(whole("1KB"), Err("at least 4096 bytes are needed".into()));
        assert_eq!(whole("0"), Err("at least 4096 bytes are needed".into()));
    }
}
