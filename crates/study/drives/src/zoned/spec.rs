//! What a raw device is made of, and whether there can be such a device.

use hostftl_core::{DeviceInfo, DeviceKind, Segments};
use thiserror::Error;

/// What a raw device is made of. In the words of Open-Channel 2.0: parallel units of chunks, with
/// `ws_min`, `ws_opt`, `mw_cunits` and `maxoc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZonedSpec {
    /// Parallel units.
    pub units: u32,
    /// Segments of each, numbered through all units, unit by unit.
    pub segments: u32,
    /// Pages of a segment.
    pub pages: u32,
    /// Sectors of a page.
    pub page_sectors: u32,
    /// Every write is a multiple of so many pages (`ws_min`).
    pub write: u32,
    /// The multiple, in pages, in which writes are best (`ws_opt`).
    pub write_best: u32,
    /// So many pages before the write pointer of an open segment can't be read (`mw_cunits`).
    pub unreadable: u32,
    /// How many segments may be open at once (`maxoc`); 0 = all.
    pub max_open: u32,
    /// Resets that a segment survives; the next one takes it offline. 0 = all.
    pub cycles: u32,
    /// What fails before it is worn out.
    pub faults: ZonedFaults,
}

/// What fails of a raw device, by chance: a seed fixes which of its commands do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonedFaults {
    /// Of a thousand segments, so many are offline from the beginning.
    pub bad_permille: u32,
    /// Of a million programs, so many fail.
    pub programs_ppm: u32,
    /// Of a million resets, so many fail.
    pub resets_ppm: u32,
    /// Fixes the chances.
    pub seed: u64,
}

/// Why there can't be such a device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the text of each names its fields")]
pub enum ZonedSpecError {
    #[error("{0} = 0: it must be at least 1")]
    Nothing(&'static str),
    #[error("{what} = {value} pages: it must divide the {of} pages {whole}")]
    Uneven { what: &'static str, value: u32, of: u32, whole: &'static str },
    #[error("{0} pages are more than 32 bits can name (4,294,967,294)")]
    ManyPages(u64),
    #[error("a segment of {0} sectors: it must have less than 2^32")]
    LongSegment(u64),
}

impl ZonedSpec {
    /// A device without limits: any page can be written and read at once, and none wears out.
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

    /// Whether there can be such a device.
    ///
    /// # Errors
    /// What is impossible.
    pub fn check(&self) -> Result<(), ZonedSpecError> {
        let counts = [
            ("units", self.units),
            ("segments", self.segments),
            ("pages", self.pages),
            ("page_sectors", self.page_sectors),
            ("write", self.write),
            ("write_best", self.write_best),
        ];
        if let Some((what, _)) = counts.into_iter().find(|&(_, count)| count == 0) {
            return Err(ZonedSpecError::Nothing(what));
        }
        let even = [
            ("write", self.write, self.write_best, "of write_best"),
            ("write_best", self.write_best, self.pages, "of a segment"),
        ];
        for (what, value, of, whole) in even {
            if !of.is_multiple_of(value) {
                return Err(ZonedSpecError::Uneven { what, value, of, whole });
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

    /// Segments of all units.
    pub fn count(&self) -> u32 {
        self.units * self.segments
    }

    /// Sectors of a segment.
    pub fn size(&self) -> u32 {
        self.pages * self.page_sectors
    }

    /// What the host sees of the device.
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
    fn what_is_impossible_is_said_in_words() {
        let spec = ZonedSpec::new(4, 8, 64, 8);
        assert_eq!(spec.check(), Ok(()));
        for (spec, part) in [
            (ZonedSpec { units: 0, ..spec }, "units = 0"),
            (ZonedSpec { write: 3, ..spec }, "must divide the 1 pages of write_best"),
            (ZonedSpec { write_best: 24, ..spec }, "must divide the 64 pages of a segment"),
            (ZonedSpec { page_sectors: 1 << 26, ..spec }, "4294967296 sectors"),
            (ZonedSpec { segments: 1 << 29, ..spec }, "are more than 32 bits"),
        ] {
            let error = spec.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
