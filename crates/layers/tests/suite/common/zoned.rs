//! The write pointers of a zoned device: it takes what is in order, and panics at all else.

use hostftl_core::{About, Command, DeviceInfo, DeviceKind, Segments, Token, Verdict};
use hostftl_format::report::{self, SegmentReport, SegmentState};
use hostftl_layers::{LayerConfig, Mode};

use super::World;

/// See the module text. Places are in sectors.
#[derive(Clone)]
pub struct Pointers {
    shape: Segments,
    list: Vec<u64>,
}

impl Pointers {
    /// Segments that are free.
    pub fn new(shape: Segments) -> Self {
        Pointers { shape, list: vec![0; shape.count as usize] }
    }

    /// The device.
    pub fn info(&self) -> DeviceInfo {
        let sectors = u64::from(self.shape.size) * u64::from(self.shape.count);
        let kind = DeviceKind::Zoned(self.shape);
        DeviceInfo { kind, ..DeviceInfo::block(sectors, self.shape.write_unit) }
    }

    /// Loses a part of what was written since `before`: in each segment what `keep` doesn't keep of
    /// so many times `unit` sectors.
    pub fn lose(&mut self, before: &Pointers, unit: u64, mut keep: impl FnMut(u64) -> u64) {
        for (pointer, before) in self.list.iter_mut().zip(&before.list) {
            let more = pointer.checked_sub(*before).expect("nothing was reset");
            *pointer = (before + keep(more / unit) * unit).min(*pointer);
        }
    }

    /// Instead of the command at `pick`, the first program to its segment.
    pub fn first(&self, flying: &[(Token, Command)], pick: usize) -> usize {
        let segment = |command: &Command| match command {
            Command::Program { lba, .. } => Some(lba / u64::from(self.shape.size)),
            _ => None,
        };
        let wanted = segment(&flying[pick].1);
        let same = |it: &(Token, Command)| wanted.is_some() && segment(&it.1) == wanted;
        flying.iter().position(same).unwrap_or(pick)
    }

    /// Moves pointers; answers a report.
    pub fn perform(&mut self, command: &mut Command) -> Option<Verdict> {
        let size = u64::from(self.shape.size);
        match command {
            Command::Read { lba, into, .. } => {
                let end = *lba % size + u64::from(into.sectors());
                let pointer = self.list[(*lba / size) as usize];
                let hidden = if pointer == size { 0 } else { self.shape.unreadable.into() };
                assert!(end + hidden <= pointer, "a read of what is not written, or too early");
            }
            Command::Program { lba, tally, .. } => {
                let pointer = &mut self.list[(*lba / size) as usize];
                assert_eq!(*lba % size, *pointer, "a write at the pointer");
                *pointer += u64::from(tally.total());
                assert!(*pointer <= size, "a write within a segment");
                let open = self.list.iter().filter(|it| **it > 0 && **it < size).count() as u32;
                let most = self.shape.max_open;
                assert!(most == 0 || open <= most, "{open} segments are open");
            }
            Command::Reset { lba, sectors, .. } => {
                assert_eq!((*lba % size, *sectors), (0, size), "a reset of a segment");
                self.list[(*lba / size) as usize] = 0;
            }
            Command::Report { about: About::Segments(from), into, .. } => {
                let mut count = 0;
                for (index, pointer) in self.list.iter().enumerate().skip(*from as usize) {
                    let state = match *pointer {
                        0 => SegmentState::Free,
                        pointer if pointer == size => SegmentState::Closed,
                        _ => SegmentState::Open,
                    };
                    let start = index as u64 * size;
                    let (wear, length, pointer) = (0, size, *pointer);
                    let told = SegmentReport { state, wear, start, length, pointer };
                    if !report::put_segment(into.pages_mut(), count, &told) {
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
    /// As [`World::start`], on a zoned device, and no further than to the first event.
    pub fn start_zoned(
        config: &LayerConfig,
        zoned: Pointers,
        disk: Vec<u8>,
        mode: Mode,
        seed: u64,
    ) -> Self {
        Self::start_on(vec![zoned.info()], Some(zoned), config, disk, mode, seed)
    }

    /// Stops cleanly; gives back the device, and the CRC of the map.
    pub fn stop_zoned(mut self) -> (Pointers, Vec<u8>, Option<u32>) {
        self.end();
        let crc = self.layer.map_crc();
        (self.zoned.take().expect("a zoned device"), self.cut(), crc)
    }
}
