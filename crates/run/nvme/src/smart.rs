//! SMART page (02h), which every drive provides.

use serde::{Deserialize, Serialize};

use crate::bytes::{count_at, u16_at};

/// Length of the page.
pub(crate) const BYTES: usize = 512;
/// Hours of a year.
pub(crate) const HOURS_A_YEAR: f64 = 8766.0;
/// Data units are multiples of 1000 blocks of 512 bytes.
const UNIT: u64 = 512_000;
/// 0 °C in kelvins.
const ICE: i32 = 273;

/// Health and lifetime totals of a drive. Bytes are rounded up to multiples of 512,000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smart {
    /// Critical warnings as bits; 0 for none.
    pub warning: u8,
    /// Temperature in degrees Celsius, `None` if not reported.
    pub celsius: Option<i32>,
    /// Remaining spare blocks in percent.
    pub spare_percent: u8,
    /// Threshold of the spare blocks below which the drive warns.
    pub spare_threshold_percent: u8,
    /// Used share of the rated life in percent; may exceed 100.
    pub used_percent: u8,
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Bytes written by hosts.
    pub written_bytes: u64,
    /// Hours of operation.
    pub hours: u64,
    /// Power losses without notice.
    pub unsafe_shutdowns: u64,
    /// Media errors.
    pub media_errors: u64,
}

impl Smart {
    /// Parses the page. Returns `None` if it is too short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let kelvin = u16_at(page, 1)?;
        Some(Smart {
            warning: *page.first()?,
            celsius: (kelvin > 0).then(|| i32::from(kelvin) - ICE),
            spare_percent: *page.get(3)?,
            spare_threshold_percent: *page.get(4)?,
            used_percent: *page.get(5)?,
            read_bytes: count_at(page, 32, UNIT)?,
            written_bytes: count_at(page, 48, UNIT)?,
            hours: count_at(page, 128, 1)?,
            unsafe_shutdowns: count_at(page, 144, 1)?,
            media_errors: count_at(page, 160, 1)?,
        })
    }

    /// Returns the years until the rated life is used, at the average rate so far. Returns `None`
    /// while less than one percent is used, because the rate is unknown.
    pub fn years_left(&self) -> Option<f64> {
        let used = f64::from(self.used_percent);
        let left = (100.0 - used).max(0.0);
        (used > 0.0 && self.hours > 0).then(|| self.hours as f64 / HOURS_A_YEAR * left / used)
    }

    /// Returns the meanings of the critical warnings.
    pub fn warnings(&self) -> Vec<&'static str> {
        const MEANINGS: [&str; 6] = [
            "the spare blocks are nearly used up",
            "the temperature is out of range",
            "the drive is no longer reliable",
            "the drive is read-only",
            "the protection of its volatile memory has failed",
            "its persistent memory region has become unreliable",
        ];
        let is_set = |bit: &usize| self.warning >> bit & 1 == 1;
        (0..MEANINGS.len()).filter(is_set).map(|bit| MEANINGS[bit]).collect()
    }
}
