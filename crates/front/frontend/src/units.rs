//! Parsing and formatting of sizes, shares and times. Sizes are formatted in binary units.

use hostftl_core::{BLOCK, Size};

/// Parses a size like `64k`, `256M`, `1.92TB` or `4096` into bytes, like [`Size`].
///
/// # Errors
/// The accepted form.
pub fn parse_size(text: &str) -> Result<u64, String> {
    size(text).map(Size::bytes)
}

/// Parses the size of something with whole blocks of 4 KiB. Sizes with a point or a decimal unit
/// are rounded down to whole blocks.
///
/// # Errors
/// The accepted form.
pub fn parse_blocks(text: &str) -> Result<u64, String> {
    let size = size(text)?;
    Ok(size.whole(BLOCK as u64).unwrap_or(size.bytes()))
}

fn size(text: &str) -> Result<Size, String> {
    let wrong = || {
        format!(
            "`{text}` is not a size; write bytes, binary units as in 256M or 1.5G, or decimal \
             units as in 960GB or 1.92TB"
        )
    };
    let size = Size::parse(text).ok_or_else(wrong)?;
    match size.bytes() {
        0 => Err(format!("`{text}`: a size must be above 0")),
        _ => Ok(size),
    }
}

/// Parses the capacity of a drive like `61.44TB` into bytes, with the units of drive vendors: 10^12
/// bytes, also without the `B`, and 2^40 with TiB.
///
/// # Errors
/// The accepted form.
pub fn parse_capacity(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a capacity; write it as in 61.44TB, 960GB or 3.5TiB");
    let size = Size::parse_sold(text).ok_or_else(wrong)?;
    let bytes = Some(size.bytes()).filter(|bytes| (MIN_CAPACITY..=MAX_CAPACITY).contains(bytes));
    bytes.ok_or_else(wrong)
}

/// Smallest accepted capacity of a drive, in bytes.
const MIN_CAPACITY: u64 = 1_000_000_000;
/// Largest accepted capacity of a drive, in bytes.
const MAX_CAPACITY: u64 = 1_000_000_000_000_000_000;

/// Parses a time like `5ms`, `300us` or `1.5s` into nanoseconds.
///
/// # Errors
/// The accepted form.
pub fn parse_nanos(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a time; write it as in 5ms, 300us or 1.5s");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let nanos = number.parse::<f64>().map_err(|_| wrong())? * unit;
    if (1.0..=1e13).contains(&nanos) { Ok(nanos.round() as u64) } else { Err(wrong()) }
}

/// Parses a number of years like `5y` or `2.5`.
///
/// # Errors
/// The accepted form.
pub fn parse_years(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('y').unwrap_or(text).parse::<f64>();
    let years = number.ok().filter(|years| (0.001..=1000.0).contains(years));
    years.ok_or_else(|| format!("`{text}` is not a number of years; write it as in 5y"))
}

/// Parses a share like `7%` or `7.5%` into thousandths.
///
/// # Errors
/// The accepted form.
pub fn parse_share(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is not a share; write a percentage from 1% to 90%, as in 7%");
    let percent: f64 =
        text.strip_suffix('%').unwrap_or(text).trim().parse().map_err(|_| wrong())?;
    if (1.0..=90.0).contains(&percent) { Ok((percent * 10.0).round() as u32) } else { Err(wrong()) }
}

/// Parses a factor like `1.5x`, or `90%`.
///
/// # Errors
/// The accepted form.
pub fn parse_factor(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a factor; write it as in 90% or 1.5x");
    let (number, unit) = match (text.strip_suffix('%'), text.strip_suffix('x')) {
        (Some(number), _) => (number, 0.01),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err(wrong()),
    };
    let factor = number.parse::<f64>().ok().map(|it| it * unit);
    factor.filter(|it| (0.0..=1000.0).contains(it)).ok_or_else(wrong)
}

/// Formats a size with three digits and a binary unit: `1.86 GiB`.
pub fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1024.0 {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(scaled), units[unit])
}

/// Formats a duration in nanoseconds with three digits and a unit: `812 µs`.
pub fn nanos(value: u64) -> String {
    let scaled = value as f64;
    let (scaled, unit) = match value {
        0 => (scaled, "s"),
        1..1_000 => (scaled, "ns"),
        1_000..1_000_000 => (scaled / 1e3, "µs"),
        1_000_000..1_000_000_000 => (scaled / 1e6, "ms"),
        _ => (scaled / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(scaled))
}

/// Formats a number with three significant digits: `1.86`, `18.6`, `186`. Whole numbers have no
/// point.
pub fn three_digits(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        100.0.. => 0,
        10.0..100.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Formats a whole number with thousands separators: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of things, in the singular or the plural: `1 request`, `1,100 requests`.
pub fn counted(value: u64, thing: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", count(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let good = [("4096", 4096), ("64k", 65536), ("1G", 1 << 30), ("2GB", 2_000_000_000)];
        good.iter().for_each(|&(text, wanted)| assert_eq!(parse_size(text), Ok(wanted), "{text}"));
        for bad in ["", "G", "1X", "-1", "0", "1.5", "99999999999T", "1e3", "NaN", "1.5.5k"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!((parse_blocks("2GB"), parse_blocks("1000")), (Ok(1_999_998_976), Ok(1000)));
    }

    #[test]
    fn capacities_are_read_as_drives_are_sold() {
        let good = [("61.44TB", 61_440_000_000_000), ("960gb", 960_000_000_000), ("1TiB", 1 << 40)];
        good.iter().for_each(|(text, it)| assert_eq!(parse_capacity(text), Ok(*it), "{text}"));
        for bad in ["", "TB", "61.44", "0TB", "1MB", "-1TB", "NaNTB", "9999999TB"] {
            assert!(parse_capacity(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_and_years_are_read() {
        let good = [("5ms", 5_000_000), ("300us", 300_000), ("1.5s", 1_500_000_000), ("7ns", 7)];
        good.iter().for_each(|(text, it)| assert_eq!(parse_nanos(text), Ok(*it), "{text}"));
        for bad in ["", "5", "ms", "0ms", "5m", "-5ms", "99999s", "NaNs"] {
            assert!(parse_nanos(bad).is_err(), "{bad}");
        }
        assert_eq!((parse_years("5y"), parse_years("2.5")), (Ok(5.0), Ok(2.5)));
        assert!(["", "y", "0y", "-1y", "5z", "NaN"].iter().all(|bad| parse_years(bad).is_err()));
    }

    #[test]
    fn factors_are_read() {
        assert_eq!((parse_factor("90%"), parse_factor("1.5x")), (Ok(0.9), Ok(1.5)));
        assert!(["", "1.5", "x", "-1x", "NaN%", "inf%"].iter().all(|it| parse_factor(it).is_err()));
    }

    #[test]
    fn shares_are_read() {
        assert_eq!(parse_share("7%"), Ok(70));
        assert_eq!(parse_share("7.5"), Ok(75));
        for bad in ["", "%", "0%", "91%", "seven", "NaN%"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(2 << 30), "2 GiB");
        assert_eq!(bytes(u64::MAX), "16 EiB");
        assert_eq!(nanos(0), "0 s");
        assert_eq!(nanos(812_400), "812 µs");
        assert_eq!(nanos(1_350_000_000), "1.35 s");
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(123_456), "123,456");
        assert_eq!(counted(0, "error"), "0 errors");
        assert_eq!(counted(1, "error"), "1 error");
        assert_eq!(counted(1_100, "error"), "1,100 errors");
    }
}
