//! Parameters of a raw drive, and the check that such a drive is possible.

use hostftl_core::{DeviceInfo, DeviceKind, Segments};
use thiserror::Error;

/// Parameters of a raw drive. In the terms of Open-Channel 2.0: parallel units of chunks, with
/// `ws_min`, `ws_opt`, `mw_cunits` and `maxoc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedSpec {
    /// Parallel units.
    pub units: u32,
    /// Segments per unit, numbered over all units, unit by unit.
    pub segments: u32,
    /// Pages of a segment.
    pub pages: u32,
    /// Sectors of a page.
    pub page_sectors: u32,
    /// Smallest write in pages; every write is a multiple of it (`ws_min`).
    pub write: u32,
    /// Optimal write size in pages (`ws_opt`).
    pub write_best: u32,
    /// Pages before the write pointer of an open segment that cannot be read (`mw_cunits`).
    pub unreadable: u32,
    /// Number of segments that may be open at once (`maxoc`); 0 means no limit.
    pub max_open: u32,
    /// Resets that a segment survives; the next one takes it offline. 0 means no limit.
    pub cycles: u32,
    /// Faults before a segment is worn out.
    pub faults: ZonedFaults,
}

/// Random faults of a raw drive, fixed by a seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonedFaults {
    /// Segments that are offline from the start, per thousand.
    pub bad_permille: u32,
    /// Programs that fail, per million.
    pub programs_ppm: u32,
    /// Resets that fail, per million.
    pub resets_ppm: u32,
    /// Seed of the faults.
    pub seed: u64,
}

/// Reason why a raw drive is impossible.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "error texts describe the fields")]
pub enum ZonedSpecError {
    #[error("{0} = 0 is invalid; use at least 1")]
    Nothing(&'static str),
    #[error("{key} = {value} pages must divide the {of} pages {whole}")]
    Uneven { key: &'static str, value: u32, of: u32, whole: &'static str },
    #[error("{0} pages exceed 32-bit page numbers (at most 4,294,967,294)")]
    ManyPages(u64),
    #[error("a segment of {0} sectors is too large; use less than 2^32")]
    LongSegment(u64),
}

impl ZonedSpec {
    /// Makes a spec without limits: any page can be written and read at once, and no segment wears
    /// out.
    pub fn new(units: u32, segments: u32, pages: u32, page_sectors: u32) -> Self {
        let (write, write_best, unreadable, max_open, cycles) = (1, 1, 0, 0, 0);
        let faults = ZonedFaults::default();
        ZonedSpec {
            faults,
            units,
            segments,
            pages,
            page_sectors,
            write,
            write_best,
            unreadable,
            max_open,
            cycles,
        }
    }

    /// Checks that such a drive is possible.
    ///
    /// # Errors
    /// The impossible parameter.
    pub fn check(&self) -> Result<(), ZonedSpecError> {
        let counts = [
            ("units", self.units),
            ("segments", self.segments),
            ("pages", self.pages),
            ("page_sectors", self.page_sectors),
            ("write", self.write),
            ("write_best", self.write_best),
        ];
        if let Some((key, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(ZonedSpecError::Nothing(key));
        }
        let even = [
            ("write", self.write, self.write_best, "of write_best"),
            ("write_best", self.write_best, self.pages, "of a segment"),
        ];
        for (key, value, of, whole) in even {
            if !of.is_multiple_of(value) {
                return Err(ZonedSpecError::Uneven { key, value, of, whole });
            }
        }
        let sectors = u64::from(self.pages) * u64::from(self.page_sectors);
        if u32::try_from(sectors).is_err() {
            return Err(ZonedSpecError::LongSegment(sectors));
        }
        let segments = u64::from(self.units) * u64::from(self.segments);
        match segments.checked_mul(self.pages.into()) {
            Some(pages) if pages < u64::from(u32::MAX) => Ok(()),
            pages => Err(ZonedSpecError::ManyPages(pages.unwrap_or(u64::MAX))),
        }
    }

    /// Returns the segments of all units.
    pub fn count(&self) -> u32 {
        self.units * self.segments
    }

    /// Returns the sectors of a segment.
    pub fn size(&self) -> u32 {
        self.pages * self.page_sectors
    }

    /// Returns the drive's interface as the host sees it.
    pub fn device_info(&self) -> DeviceInfo {
        let sectors = u64::from(self.count()) * u64::from(self.size());
        let kind = DeviceKind::Zoned(Segments {
            size: self.size(),
            write_unit: self.write * self.page_sectors,
            write_best: self.write_best * self.page_sectors,
            unreadable: self.unreadable * self.page_sectors,
            max_open: self.max_open,
            count: self.count(),
            units: self.units,
        });
        let block = DeviceInfo::block(sectors, self.page_sectors);
        DeviceInfo { volatile_cache: false, kind, ..block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_refused_with_a_reason() {
        let spec = ZonedSpec::new(4, 8, 64, 8);
        assert_eq!(spec.check(), Ok(()));
        for (spec, part) in [
            (ZonedSpec { units: 0, ..spec }, "units = 0"),
            (ZonedSpec { write: 3, ..spec }, "must divide the 1 pages of write_best"),
            (ZonedSpec { write_best: 24, ..spec }, "must divide the 64 pages of a segment"),
            (ZonedSpec { page_sectors: 1 << 26, ..spec }, "4294967296 sectors"),
            (ZonedSpec { segments: 1 << 29, ..spec }, "exceed 32-bit page numbers"),
        ] {
            let error = spec.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
