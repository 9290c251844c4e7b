//! Name of a zoned device: `zoned:PATH` or `zoned:mem:SIZE`, with the shape of its segments and the
//! part of the device.

use hostftl_core::{SECTOR, Segments};
use hostftl_format::superblock::RESERVE;
use hostftl_format::zonefile;

use super::part::{self, PartName};
use crate::size::parse_bytes;

/// Prefix of the name of a zoned device.
pub(crate) const PREFIX: &str = "zoned:";
/// Default size and write unit of segments in a file or in memory, in sectors.
const SIZE: u32 = 8192;
const WRITE: u32 = 8;

/// Parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ZonedName {
    /// Path, or `mem:SIZE`.
    pub medium: String,
    /// Shape of the segments, `None` if not specified. Their number follows from the size.
    pub shape: Option<Segments>,
    /// Part of the device, `None` for all of it.
    pub part: Option<PartName>,
}

impl ZonedName {
    /// Parses `zoned:PATH?zone=4M&units=1&write=4K&best=4K&unreadable=0&open=0#zones=0-63`. Returns
    /// `None` if the name is not that of a zoned device.
    pub(crate) fn parse(name: &str) -> Option<Result<Self, String>> {
        Some(Self::read(name.strip_prefix(PREFIX)?))
    }

    fn read(rest: &str) -> Result<Self, String> {
        let (rest, part) = match part::split(rest) {
            Some((rest, part)) => (rest, Some(PartName::parse(part)?)),
            None => (rest, None),
        };
        let (medium, options) = match rest.split_once('?') {
            Some((medium, options)) => (medium, Some(options)),
            None => (rest, None),
        };
        let shape = options.map(parse_shape).transpose()?;
        let zoned = ZonedName { medium: medium.into(), shape, part };
        // Memory belongs to one device, so no other volume could use another part.
        if zoned.part.is_some() && zoned.memory().is_some() {
            Err("memory devices have no parts".into())
        } else {
            Ok(zoned)
        }
    }

    /// Returns the length of a memory device in bytes.
    pub(crate) fn memory(&self) -> Option<Result<u64, String>> {
        self.medium.strip_prefix("mem:").map(parse_bytes)
    }

    /// Returns the segments that fit into a device of `bytes` bytes, which has a head if `headed`.
    pub(crate) fn fit(&self, bytes: u64, headed: bool) -> Result<Segments, String> {
        let shape = self.shape.unwrap_or_else(default_shape);
        let all = bytes / SECTOR as u64;
        let step = count_step(&shape);
        let fits = |count: u64| {
            let head = if headed { zonefile::head_sectors(count as u32) } else { 0 };
            head + 2 * RESERVE + count * u64::from(shape.size) <= all
        };
        // The length of the head depends on the number of segments.
        let mut count = all / u64::from(shape.size) / step * step;
        while count > 0 && !fits(count) {
            count -= step;
        }
        let shape = Segments { count: u32::try_from(count).unwrap_or(0), ..shape };
        if shape.count > 0 && zonefile::is_possible(&shape) {
            return Ok(shape);
        }
        let least = step * u64::from(shape.size) * SECTOR as u64 + (3 << 20);
        Err(format!("{bytes} bytes are too few for these segments; use at least {least}"))
    }
}

/// Returns the name of a zoned file at `path` with segments of `shape`, and the length that such a
/// file needs in bytes. Segments beyond a multiple of whole MiB on all units are left out.
pub fn name_of(path: &str, shape: &Segments) -> (String, u64) {
    let bytes = |sectors: u32| u64::from(sectors) * SECTOR as u64;
    let name = format!(
        "{PREFIX}{path}?zone={}&units={}&write={}&best={}&unreadable={}&open={}",
        bytes(shape.size),
        shape.units,
        bytes(shape.write_unit),
        bytes(shape.write_best),
        bytes(shape.unreadable),
        shape.max_open,
    );
    let data = u64::from(shape.count) * u64::from(shape.size);
    (name, (zonefile::head_sectors(shape.count) + 2 * RESERVE + data) * SECTOR as u64)
}

/// Returns the unit of the number of segments: the same number on each unit, and whole MiB in
/// total.
fn count_step(shape: &Segments) -> u64 {
    let units = u64::from(shape.units);
    let mut step = units;
    while !(step * u64::from(shape.size)).is_multiple_of(RESERVE) {
        step += units;
    }
    step
}

fn default_shape() -> Segments {
    let (size, unit) = (SIZE, WRITE);
    Segments {
        size,
        write_unit: unit,
        write_best: unit,
        unreadable: 0,
        max_open: 0,
        count: 0,
        units: 1,
    }
}

fn parse_shape(options: &str) -> Result<Segments, String> {
    let mut shape = default_shape();
    let mut best = None;
    for option in options.split('&') {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let number = || value.parse().map_err(|_| format!("{option}: \"{value}\" is not a number"));
        let sectors = || {
            let bytes = parse_bytes(value)?;
            let whole = bytes.is_multiple_of(SECTOR as u64);
            let sectors = u32::try_from(bytes / SECTOR as u64).ok().filter(|_| whole);
            sectors.ok_or_else(|| format!("{option}: use whole sectors, less than 2 TiB"))
        };
        match key {
            "zone" => shape.size = sectors()?,
            "write" => shape.write_unit = sectors()?,
            "best" => best = Some(sectors()?),
            "unreadable" => shape.unreadable = sectors()?,
            "units" => shape.units = number()?,
            "open" => shape.max_open = number()?,
            _ => {
                let known = "zone, units, write, best, unreadable, open";
                return Err(format!(
                    "a zoned device has no option \"{key}\"; known options are \
                                    {known}"
                ));
            }
        }
    }
    shape.write_best = best.unwrap_or(shape.write_unit);
    // The number of segments is not known yet; one per unit is sufficient for the check.
    let one = Segments { count: shape.units, ..shape };
    if zonefile::is_possible(&one) && shape.size <= 1 << 30 {
        Ok(shape)
    } else {
        Err("write must divide best, best must divide zone, write must divide \
                      unreadable, which is less than zone, and nothing else may be 0"
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<ZonedName, String> {
        ZonedName::parse(name).expect("it is zoned")
    }

    #[test]
    fn names_are_read() {
        let name = parse("zoned:/a/b?zone=1m&units=4&write=4k&best=64k&open=12").unwrap();
        assert_eq!(name.medium, "/a/b");
        let shape = name.shape.unwrap();
        assert_eq!((shape.size, shape.write_unit, shape.write_best), (2048, 8, 128));
        assert_eq!((shape.units, shape.max_open), (4, 12));
        let plain = ZonedName { medium: "x".into(), shape: None, part: None };
        assert_eq!(parse("zoned:x").unwrap(), plain);
        let part = parse("zoned:/a#b?zone=1m#units=2").unwrap();
        assert_eq!(
            (part.medium.as_str(), part.part.unwrap().to_string()),
            ("/a#b", "units=2-2".into())
        );
        assert_eq!(ZonedName::parse("/a/b"), None);
        for (text, part) in [
            ("zoned:x?size=1m", "no option \"size\""),
            ("zoned:x?zone=lots", "\"lots\" is not a size"),
            ("zoned:x?zone=1m&best=3k", "write must divide best"),
            ("zoned:x?units=0", "nothing else may be 0"),
            ("zoned:x#zone=1-2", "is not a part"),
            ("zoned:mem:64m#zones=0-7", "no parts"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn a_name_and_a_length_give_the_shape_back() {
        let shape = Segments {
            size: 6144,
            write_unit: 32,
            write_best: 64,
            unreadable: 96,
            max_open: 24,
            count: 1000,
            units: 8,
        };
        let (name, bytes) = name_of("/a/b", &shape);
        assert_eq!(parse(&name).unwrap().fit(bytes, true).unwrap(), shape, "{name}");
        let one_more = Segments { count: 1008, ..shape };
        assert_eq!(parse(&name).unwrap().fit(name_of("", &one_more).1 - 1, true).unwrap(), shape);
    }

    #[test]
    fn segments_fill_the_device() {
        let name = parse("zoned:x?zone=1m&units=4").unwrap();
        assert_eq!(name.fit(64 << 20, true).unwrap().count, 60, "1 + 2 MiB are not theirs");
        assert_eq!(name.fit(64 << 20, false).unwrap().count, 60, "a multiple of 4");
        let odd = parse("zoned:x?zone=96k&write=32k").unwrap();
        assert_eq!(odd.fit(10 << 20, false).unwrap().count, 64, "6 MiB, whole");
        let why = name.fit(4 << 20, true).unwrap_err();
        assert!(why.contains("too few"), "{why}");
    }
}
