//! Write pointers of zoned devices, which panic at writes out of order.

use hostftl_core::{About, Command, DeviceInfo, DeviceKind, Segments, Token, Verdict};
use hostftl_format::report::{self, SegmentReport, SegmentState};
use hostftl_layers::{LayerConfig, Mode};

use super::World;

/// Write pointers of devices of one shape. Positions are in sectors.
#[derive(Clone)]
pub(crate) struct Pointers {
    shape: Segments,
    devices: usize,
    /// Pointers of the first device, followed by those of the next one.
    list: Vec<u64>,
}

impl Pointers {
    /// Creates one device with free segments.
    pub(crate) fn new(shape: Segments) -> Self {
        Pointers::of_several(shape, 1)
    }

    /// Creates several devices with free segments.
    pub(crate) fn of_several(shape: Segments, devices: usize) -> Self {
        Pointers { shape, devices, list: vec![0; shape.count as usize * devices] }
    }

    /// Returns the description of a device.
    pub(crate) fn info(&self) -> DeviceInfo {
        let sectors = u64::from(self.shape.size) * u64::from(self.shape.count);
        let kind = DeviceKind::Zoned(self.shape);
        DeviceInfo { kind, ..DeviceInfo::block(sectors, self.shape.write_unit) }
    }

    /// Loses part of the data written since `before`. `keep` returns the units of `unit` sectors
    /// that remain in each segment, of the number passed to it.
    pub(crate) fn lose(&mut self, before: &Pointers, unit: u64, mut keep: impl FnMut(u64) -> u64) {
        for (pointer, before) in self.list.iter_mut().zip(&before.list) {
            let more = pointer.checked_sub(*before).expect("nothing was reset");
            *pointer = (before + keep(more / unit) * unit).min(*pointer);
        }
    }

    /// Loses all data written to a device since `before`. Returns whether there was any.
    pub(crate) fn lose_on(&mut self, device: usize, before: &Pointers) -> bool {
        let segments = self.device_segments(device);
        let lost = self.list[segments.clone()] != before.list[segments.clone()];
        self.list[segments.clone()].copy_from_slice(&before.list[segments]);
        lost
    }

    fn device_segments(&self, device: usize) -> core::ops::Range<usize> {
        let count = self.shape.count as usize;
        device * count..(device + 1) * count
    }

    /// Replaces a program at `pick` by the first program to the same segment.
    pub(crate) fn first(&self, flying: &[(Token, Command)], pick: usize) -> usize {
        let segment = |command: &Command| match command {
            Command::Program { device, lba, .. } => {
                Some((*device, lba / u64::from(self.shape.size)))
            }
            _ => None,
        };
        let wanted = segment(&flying[pick].1);
        let same = |it: &(Token, Command)| wanted.is_some() && segment(&it.1) == wanted;
        flying.iter().position(same).unwrap_or(pick)
    }

    /// Returns whether a read ends beyond the write pointer, so that the device fails it.
    pub(crate) fn is_beyond(&self, command: &Command) -> bool {
        let Command::Read { device, lba, into, .. } = command else { return false };
        let size = u64::from(self.shape.size);
        let pointer = self.list[self.device_segments((*device).into())][(*lba / size) as usize];
        *lba % size + u64::from(into.sectors()) > pointer
    }

    /// Moves write pointers, and answers reports.
    pub(crate) fn perform(&mut self, command: &mut Command) -> Option<Verdict> {
        let size = u64::from(self.shape.size);
        let segments = self.device_segments(command.device().unwrap_or(0).into());
        let list = &mut self.list[segments];
        match command {
            Command::Read { lba, into, .. } => {
                let end = *lba % size + u64::from(into.sectors());
                let pointer = list[(*lba / size) as usize];
                let hidden = if pointer == size { 0 } else { self.shape.unreadable.into() };
                assert!(end + hidden <= pointer, "a read of unwritten or unreadable sectors");
            }
            Command::Program { lba, tally, .. } => {
                let pointer = &mut list[(*lba / size) as usize];
                assert_eq!(*lba % size, *pointer, "a write at the pointer");
                *pointer += u64::from(tally.total());
                assert!(*pointer <= size, "a write within a segment");
                let open = list.iter().filter(|it| **it > 0 && **it < size).count() as u32;
                let most = self.shape.max_open;
                assert!(most == 0 || open <= most, "{open} segments are open");
            }
            Command::Reset { lba, sectors, .. } => {
                assert_eq!((*lba % size, *sectors), (0, size), "a reset of a segment");
                list[(*lba / size) as usize] = 0;
            }
            Command::Report { about: About::Segments(from), into, .. } => {
                let mut count = 0;
                for (index, pointer) in list.iter().enumerate().skip(*from as usize) {
                    let state = match *pointer {
                        0 => SegmentState::Free,
                        pointer if pointer == size => SegmentState::Closed,
                        _ => SegmentState::Open,
                    };
                    let start = index as u64 * size;
                    let (wear, length, pointer) = (0, size, *pointer);
                    let entry = SegmentReport { state, wear, start, length, pointer };
                    if !report::put_segment(into.pages_mut(), count, &entry) {
                        break;
                    }
                    count += 1;
                }
                return Some(Verdict { bytes: (count * report::SEGMENT_BYTES) as u32, crc: 0 });
            }
            _ => {}
        }
        None
    }
}

impl World {
    /// Starts the layer on zoned devices, until its first event.
    pub(crate) fn start_zoned(
        config: &LayerConfig,
        zoned: Pointers,
        disk: Vec<u8>,
        mode: Mode,
        seed: u64,
    ) -> Self {
        let devices = vec![zoned.info(); zoned.devices];
        Self::start_on(devices, Some(zoned), config, disk, mode, seed)
    }

    /// Stops cleanly. Returns the device, its contents and the CRC of the map.
    pub(crate) fn stop_zoned(mut self) -> (Pointers, Vec<u8>, Option<u32>) {
        self.end();
        let crc = self.layer.map_crc();
        (self.zoned.take().expect("a zoned device"), self.cut(), crc)
    }
}
