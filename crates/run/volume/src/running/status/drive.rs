//! Reports of the drives of a volume on their flash.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hostftl_io::{Device, NvmeDrive};
use hostftl_nvme::Facts;
use serde::{Deserialize, Serialize};

use crate::util::lock;

/// Minimum interval between two queries of a drive.
const PAUSE: Duration = Duration::from_secs(2);

/// Report of a drive. Bytes are of the whole drive, for all its users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct DriveStatus {
    pub model: String,
    pub celsius: Option<i32>,
    /// Used part of the rated life in percent.
    pub used_percent: Option<u8>,
    /// Years until the rated life is used up, at the average rate so far.
    pub years_left: Option<f64>,
    /// Bytes written by hosts over the life of the drive.
    pub written_bytes: Option<u64>,
    /// Bytes written to the medium, since a start chosen by the drive.
    pub media_written_bytes: Option<u64>,
    /// Log page with that count: `OCP C0h`, `FDP statistics` or `endurance group`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Bytes written to the medium since the volume was started; `None` when it is not served.
    pub flash_bytes: Option<u64>,
    /// Warnings of the drive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Values that are not available, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<String>,
}

impl DriveStatus {
    fn from_facts(facts: &Facts, start: Option<&Facts>) -> Self {
        let media = facts.media_written();
        let smart = facts.smart.as_ref();
        let before = start.and_then(Facts::media_written);
        // A counter that decreased was reset.
        let since = media.zip(before).filter(|(now, then)| now.source == then.source);
        DriveStatus {
            model: facts.controller.model.clone(),
            celsius: smart.and_then(|smart| smart.celsius),
            used_percent: smart.map(|smart| smart.used_percent),
            years_left: facts.years_left(),
            written_bytes: smart.map(|smart| smart.written_bytes),
            media_written_bytes: media.map(|media| media.bytes),
            source: media.map_or(String::new(), |media| media.source.name().into()),
            flash_bytes: since.and_then(|(now, then)| now.bytes.checked_sub(then.bytes)),
            warnings: smart.map_or(Vec::new(), |smart| {
                smart.warnings().into_iter().map(String::from).collect()
            }),
            unavailable: facts.refused.clone(),
        }
    }
}

/// Drives of a volume, in the order of its devices.
#[derive(Debug)]
pub(crate) struct Drives(Vec<Option<Drive>>);

#[derive(Debug)]
struct Drive {
    nvme: NvmeDrive,
    start: Option<Facts>,
    last: Mutex<Option<(Instant, DriveStatus)>>,
}

impl Drives {
    /// Reads the initial counters of the drives of these devices.
    pub(crate) fn open(devices: &[Device]) -> Self {
        Drives(devices.iter().map(Drive::open).collect())
    }

    /// Adds a device.
    pub(crate) fn add(&mut self, device: &Device) {
        self.0.push(Drive::open(device));
    }

    /// Replaces the drive of device `index`.
    pub(crate) fn replace(&mut self, index: usize, device: &Device) {
        self.0[index] = Drive::open(device);
    }

    /// Queries the drives; `None` for a drive without reports.
    pub(crate) fn ask(&self) -> Vec<Option<DriveStatus>> {
        self.0.iter().map(|drive| drive.as_ref().and_then(Drive::ask)).collect()
    }

    /// Queries the drives of a volume that is not served.
    pub(crate) fn ask_at_rest(devices: &[Device]) -> Vec<Option<DriveStatus>> {
        let facts = |device: &Device| device.nvme().and_then(|drive| drive.facts().ok());
        let status = |facts: Facts| DriveStatus::from_facts(&facts, None);
        devices.iter().map(|device| facts(device).map(status)).collect()
    }
}

impl Drive {
    /// Returns the drive of a device; `None` if it can't be queried.
    fn open(device: &Device) -> Option<Self> {
        let nvme = device.nvme()?;
        // Without the initial counters only the writes since the start are unknown.
        let start = nvme.facts().ok();
        Some(Drive { nvme, start, last: Mutex::default() })
    }

    /// Queries the drive; `None` if it reports nothing.
    fn ask(&self) -> Option<DriveStatus> {
        let mut last = lock(&self.last);
        if let Some((when, status)) = last.as_ref()
            && when.elapsed() < PAUSE
        {
            // Log pages cost the drive time, and several front ends may poll the status.
            return Some(status.clone());
        }
        let facts = self.nvme.facts().ok()?;
        let status = DriveStatus::from_facts(&facts, self.start.as_ref());
        *last = Some((Instant::now(), status.clone()));
        Some(status)
    }
}

#[cfg(test)]
mod tests {
    use hostftl_nvme::{Ocp, Smart};

    use super::*;

    fn facts(media: u64) -> Facts {
        let smart =
            Smart { used_percent: 10, hours: 8766, written_bytes: 1000, ..Smart::default() };
        let ocp = Ocp { media_written_bytes: media, ..Ocp::default() };
        Facts { smart: Some(smart), ocp: Some(ocp), ..Facts::default() }
    }

    #[test]
    fn drive_writes_since_the_start_are_the_difference() {
        let status = DriveStatus::from_facts(&facts(5000), Some(&facts(2000)));
        assert_eq!((status.flash_bytes, status.media_written_bytes), (Some(3000), Some(5000)));
        assert_eq!((status.used_percent, status.years_left), (Some(10), Some(9.0)));
        assert_eq!(DriveStatus::from_facts(&facts(5000), None).flash_bytes, None);
        // The counter was reset, so the difference is unknown.
        assert_eq!(DriveStatus::from_facts(&facts(1), Some(&facts(2000))).flash_bytes, None);
        let unreported = Facts { ocp: None, ..facts(0) };
        assert_eq!(DriveStatus::from_facts(&unreported, Some(&facts(2))).flash_bytes, None);
    }
}
