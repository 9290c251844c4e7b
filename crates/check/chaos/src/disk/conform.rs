//! Conformance of the zoned disk to the rules of all raw devices.

use hostftl_core::{About, DeviceError, DeviceInfo, MetaBuf, SECTOR, Segments, Verdict};
use hostftl_drives::zoned::rules::{Raw, obey};

use super::{Disk, Kind, Survival};
use crate::dice::Dice;
use crate::draw::zones::info;

struct Model {
    disk: Disk,
    dice: Dice,
    shape: Segments,
    breaks: bool,
}

impl Raw for Model {
    fn info(&self) -> DeviceInfo {
        info(self.shape, true)
    }

    fn write(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        self.put(lba, &[(0, sectors)])
    }

    fn read(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        self.get(lba, sectors).map(drop)
    }

    fn reset(&mut self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        self.disk.wipe(lba, sectors, &mut self.dice).map_err(DeviceError::from)
    }

    fn mark(&mut self, lba: u64, bad: bool) -> Result<(), DeviceError> {
        self.disk.mark_segment(lba, bad).map_err(DeviceError::from)
    }

    fn ask(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        self.disk.report(about, into)
    }

    fn put(&mut self, lba: u64, pieces: &[(u8, u64)]) -> Result<(), DeviceError> {
        if std::mem::take(&mut self.breaks) {
            self.disk.break_segment(lba, false);
        }
        let piece = |&(byte, sectors): &(u8, u64)| vec![byte; sectors as usize * SECTOR];
        let bytes: Vec<u8> = pieces.iter().flat_map(piece).collect();
        self.disk.append(lba, &bytes, |_| Kind::Data).map_err(DeviceError::from)
    }

    fn get(&mut self, lba: u64, sectors: u64) -> Result<Option<Vec<u8>>, DeviceError> {
        self.disk.may_read(lba, sectors)?;
        Ok(self.disk.read(lba, sectors as u32).map(<[u8]>::to_vec))
    }

    fn break_next(&mut self) -> bool {
        self.breaks = true;
        true
    }

    fn restart(&mut self) -> bool {
        let stamp = self.disk.begin_flush();
        self.disk.flush(stamp);
        self.disk.cut(Survival::Nothing, &mut self.dice);
        true
    }
}

#[test]
fn every_shape_obeys_the_rules() {
    let free = Segments {
        size: 96,
        write_unit: 8,
        write_best: 8,
        unreadable: 0,
        max_open: 0,
        count: 200,
        units: 4,
    };
    let chunks = Segments { write_unit: 16, write_best: 32, unreadable: 48, max_open: 5, ..free };
    for (shape, volatile) in [(free, true), (chunks, true), (chunks, false)] {
        obey(|| {
            let mut disk = Disk::default();
            let sectors = u64::from(shape.size) * u64::from(shape.count);
            disk.reset(sectors, volatile, 500, Some(shape));
            Model { disk, dice: Dice::new(1, 1), shape, breaks: false }
        });
    }
}
