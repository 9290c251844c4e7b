//! Part of a zoned device: a volume may use some of its zones, and other volumes others.
//!
//! Zones have the numbers of the device. Each part keeps zones of its own at both ends for
//! superblocks, so it uses nothing outside.
//!
//! Invariants
//! - The limit of open zones is shared in proportion to the number of zones, rounded down. Whatever
//!   parts a device has, they do not exceed the device's limit together.

use std::fmt;
use std::ops::Range;

use hostftl_core::Segments;
use hostftl_format::superblock::RESERVE;

/// Part in a name: `#zones=FIRST-LAST`, or `#units=FIRST-LAST` by parallel units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartName {
    by: By,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Zones,
    Units,
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            By::Zones => "zones",
            By::Units => "units",
        };
        write!(f, "{by}={}-{}", self.first, self.last)
    }
}

/// Splits a name at the `#` of a part, if it has one.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('#').filter(|(_, part)| part.contains('='))
}

impl PartName {
    /// Parses the text after the `#`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"#{text}\" is not a part; write #zones=0-63 or #units=0-3");
        let (key, range) = text.split_once('=').ok_or_else(wrong)?;
        let by = match key {
            "zones" => By::Zones,
            "units" => By::Units,
            _ => return Err(wrong()),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| {
            // `parse` would also accept a sign.
            if text.bytes().all(|byte| byte.is_ascii_digit()) {
                text.parse::<u32>().map_err(|_| wrong())
            } else {
                Err(wrong())
            }
        };
        let (first, last) = (number(first)?, number(last)?);
        if last < first || last == u32::MAX {
            return Err(format!("\"#{text}\" is empty; its last number is less than its first"));
        }
        Ok(PartName { by, first, last })
    }
}

/// Zones of a device that a volume uses, and the segments among them. Without a part it uses all
/// zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// All zones of the part.
    pub zones: Range<u32>,
    /// Segments that the layer sees.
    pub shape: Segments,
    /// Number of zones kept at each end, and at both ends of each parallel unit.
    pub kept: u32,
}

impl Part {
    /// Returns a part that is the whole device.
    pub(crate) fn whole(shape: &Segments) -> Self {
        Part { zones: 0..shape.count, shape: *shape, kept: 0 }
    }

    /// Returns the part `name` of a device with the segments `all`, with `kept` zones kept at each
    /// end.
    pub(crate) fn from_name(name: &PartName, all: &Segments, kept: u32) -> Result<Self, String> {
        let (zones, units) = find(name, all)?;
        let (count, each) = (zones.len() as u32, zones.len() as u32 / units);
        if each <= 2 * kept {
            return Err(format!(
                "{each} zones per unit are too few; {kept} are reserved for superblocks at each end"
            ));
        }
        // The length of the data must be whole MiB, so some small zones may remain unused.
        let whole = |step: &u32| (u64::from(*step) * u64::from(all.size)).is_multiple_of(RESERVE);
        let step = (1..).map(|zones| zones * units).find(whole).unwrap_or(units) / units;
        let own = (each - 2 * kept) / step * step * units;
        if own == 0 {
            return Err(format!("its {count} zones are too few; use {step} more in each unit"));
        }
        // A limit of 0 means no limit, and stays 0.
        let max_open = (u64::from(all.max_open) * u64::from(count) / u64::from(all.count)) as u32;
        if all.max_open > 0 && max_open == 0 {
            return Err(format!(
                "the device allows {} open zones, and {count} of {} zones have no share of them; \
                 use more zones",
                all.max_open, all.count
            ));
        }
        let shape = Segments { count: own, units, max_open, ..*all };
        Ok(Part { zones, shape, kept })
    }

    /// Returns whether it is the whole device.
    pub(crate) fn is_whole(&self) -> bool {
        self.kept == 0
    }

    /// Returns the zone of a segment.
    pub(crate) fn zone(&self, segment: u32) -> u32 {
        let Segments { count, units, .. } = self.shape;
        let (own, all) = (count / units, self.zones.len() as u32 / units);
        // Segments are numbered unit by unit, without the kept zones.
        self.zones.start + segment / own * all + self.kept + segment % own
    }
}

/// Returns the zones of a part, and the number of parallel units to which they belong.
fn find(name: &PartName, all: &Segments) -> Result<(Range<u32>, u32), String> {
    let PartName { by, first, last } = *name;
    let each = all.count / all.units;
    let (kind, there) = match by {
        By::Zones => ("zones", all.count),
        By::Units => ("parallel units", all.units),
    };
    if last >= there {
        return Err(format!("{name} is beyond the end of the device ({kind} 0 to {})", there - 1));
    }
    if by == By::Units {
        return Ok((first * each..(last + 1) * each, last + 1 - first));
    }
    let zones = first..last + 1;
    // Zones within one unit need not cover all of it.
    if first / each == last / each {
        return Ok((zones, 1));
    }
    let is_whole = first.is_multiple_of(each) && (last + 1).is_multiple_of(each);
    let why = || format!("{name} splits a parallel unit of {each} zones; use #units=");
    is_whole.then(|| (zones.clone(), zones.len() as u32 / each)).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 units of 16 zones of 1 MiB, with at most 10 open zones.
    const ALL: Segments = Segments {
        size: 2048,
        write_unit: 8,
        write_best: 8,
        unreadable: 0,
        max_open: 10,
        count: 64,
        units: 4,
    };

    fn part(text: &str) -> Result<Part, String> {
        Part::from_name(&PartName::parse(text)?, &ALL, 1)
    }

    #[test]
    fn segments_exclude_the_reserved_zones_of_each_unit() {
        let zones = |part: &Part| (0..part.shape.count).map(|at| part.zone(at)).collect::<Vec<_>>();
        let one = part("zones=4-11").unwrap();
        assert_eq!((one.zones.clone(), one.shape.units), (4..12, 1));
        assert_eq!(zones(&one), (5..11).collect::<Vec<_>>());
        let three = part("units=1-3").unwrap();
        assert_eq!((three.zones.clone(), three.shape.units, three.shape.count), (16..64, 3, 42));
        let expected = (17..31).chain(33..47).chain(49..63);
        assert_eq!(zones(&three), expected.collect::<Vec<_>>());
        assert_eq!(part("zones=16-63").unwrap(), three);
        let whole = Part::whole(&ALL);
        assert_eq!(zones(&whole), (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn shares_of_open_zones_fit_for_any_parts() {
        for cuts in [vec![16, 32, 48, 64], vec![8, 16, 64], vec![64], vec![9, 16, 32, 40, 48, 64]] {
            let (mut from, mut sum) = (0, 0);
            for end in cuts {
                sum += part(&format!("zones={from}-{}", end - 1)).unwrap().shape.max_open;
                from = end;
            }
            assert!(sum <= ALL.max_open);
        }
    }

    #[test]
    fn invalid_parts_are_refused_with_a_reason() {
        for (text, why) in [
            ("zones=", "not a part"),
            ("zones=-1", "not a part"),
            ("zones=1-x", "not a part"),
            ("zones=+1-2", "not a part"),
            ("zones=99999999999", "not a part"),
            ("zone=1-2", "not a part"),
            ("zones=5-4", "empty"),
            ("zones=0-64", "beyond the end of the device (zones 0 to 63"),
            ("units=4", "beyond the end of the device (parallel units 0 to 3"),
            ("zones=8-23", "splits a parallel unit"),
            ("zones=2-3", "too few"),
            ("zones=2-5", "use more zones"),
        ] {
            let refused = part(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let odd = Segments { size: 1024, max_open: 0, units: 1, ..ALL };
        let odd = |text: &str| Part::from_name(&PartName::parse(text).unwrap(), &odd, 1);
        assert_eq!(odd("zones=0-4").unwrap().shape.count, 2, "one is left over");
        let refused = odd("zones=0-2").unwrap_err();
        assert!(refused.contains("use 2 more"), "{refused}");
        assert_eq!(PartName::parse("zones=007").unwrap().to_string(), "zones=7-7");
    }
}
