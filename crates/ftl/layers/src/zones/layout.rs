//! Layout of a zoned device, and the capacity that is exported.
//!
//! A *line* is filled and reclaimed as a whole: one segment of each parallel unit in `pblk`, one
//! segment in `rrpc`. A *strip* is one program to one segment: pages of blocks, followed by a tail.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTORS_PER_BLOCK, Segments};
use hostftl_format::zones::{ENTRIES, RECORDS};

use crate::config::{LayerConfig, Plan, PlanError};
use crate::kind::LayerKind;

/// Maximum length of a transfer, in sectors (1 MiB).
pub(super) const MAX_TRANSFER: u32 = 2048;
/// Maximum number of blocks in a strip. It leaves room for trims in the tail.
const MOST_BLOCKS: u32 = 200;
/// Lines reserved for garbage collection, and for lines that never fill up.
const RESERVE: u32 = 3;
/// Minimum number of strips in a line per strip of its list; shorter lines have no list.
const LIST_SHARE: u32 = 64;
/// Divisor of the lines for the share that may fail.
const SPOILED: u32 = 32;
/// Maximum number of strips in flight to one segment.
pub(super) const IN_FLIGHT: u32 = 4;

/// Geometry of a volume. Lengths are in sectors unless a name implies otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Identity of the volume, which is in every tail.
    pub uuid: [u8; 16],
    /// Whether a line spans all units (`pblk`) or is one segment (`rrpc`).
    pub wide: bool,
    /// Geometry of the device.
    pub device: Segments,
    /// Length of a strip.
    pub strip: u32,
    /// Strips per segment.
    pub strips: u32,
    /// Segments per line.
    pub width: u32,
    /// Number of lines.
    pub lines: u32,
    /// Strips reserved at the end of a line of host blocks for its list. It is 0 in `rrpc`, which
    /// collects with its reverse map, and for short lines.
    pub list: u32,
    /// Number of lines that are filled in parallel with blocks of the host.
    pub fronts: u32,
    /// Lines reserved for map images.
    pub keep: u32,
    /// Free lines below which the host may not open another one.
    pub reserve: u32,
    /// Lines that may fail before writes run out of space.
    pub spoiled: u32,
    /// Exported blocks.
    pub blocks: u64,
    /// Number of map pages.
    pub pages: u32,
    /// Bytes of a map entry on media.
    pub entry: u32,
}

const NO_ZONES: PlanError = PlanError("pblk and rrpc need one zoned device; use hard or log");

impl Layout {
    /// Computes the layout over `devices`.
    pub(super) fn new(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        let [DeviceInfo { kind: DeviceKind::Zoned(device), .. }] = devices else {
            return Err(NO_ZONES);
        };
        let wide = config.kind == LayerKind::Pblk;
        let strip = strip(device, config.superpage).ok_or(PlanError(
            "no strip of whole pages of 4 KiB, up to 800 KiB, divides the device's segments",
        ))?;
        let (units, each) = (device.units, device.count / device.units);
        let mut layout = Layout {
            uuid: config.uuid,
            wide,
            device: *device,
            strip,
            strips: device.size / strip,
            width: if wide { units } else { 1 },
            lines: if wide { each } else { device.count },
            list: 0,
            fronts: if wide { 1 } else { units },
            keep: 0,
            reserve: if wide { RESERVE } else { RESERVE.max(2 * units) },
            spoiled: (if wide { each } else { device.count }).div_ceil(SPOILED),
            blocks: 0,
            pages: 0,
            entry: if wide && device_blocks(device) >> 31 == 0 { 4 } else { 8 },
        };
        if !wide && 4 * units > (each / 10).max(units) {
            return Err(PlanError(
                "rrpc would stop host writes before garbage collection (4 times the units exceed \
                 a tenth of the segments per unit); use fewer units, more segments or pblk",
            ));
        }
        // One line for each front, and one for images of the map.
        let open = layout.width * (layout.fronts + 1);
        if device.max_open > 0 && device.max_open < open {
            return Err(PlanError(
                "the device allows too few open segments; host data needs one per unit, and the \
                 map needs one per unit with pblk and one with rrpc",
            ));
        }
        if wide {
            layout.list = layout.list_strips();
        }
        layout.fit(config.spare_permille.min(900))?;
        Ok(layout)
    }

    /// Computes the exported capacity. The number of map images depends on it, and the lines
    /// reserved for images reduce it; the bound used here is that of a full device.
    fn fit(&mut self, permille: u32) -> Result<(), PlanError> {
        let too_small = PlanError(
            "the device has too few segments for pblk or rrpc, or its segments are too \
             short",
        );
        let blocks = |lines: u64, strips: u64| lines * strips * u64::from(self.strip_blocks());
        let (lines, strips) = (u64::from(self.lines), u64::from(self.row_strips()));
        let most = blocks(lines, strips);
        let pages = most.div_ceil(u64::from(self.page_entries()));
        let cp_strips = pages.div_ceil(self.strip_blocks().into()) + 1;
        let keep = 2 * cp_strips.div_ceil(strips) + 2;
        // Whenever space is short there must be a victim that frees at least two strips.
        let valid =
            lines.checked_sub(keep + u64::from(self.reserve + self.spoiled)).ok_or(too_small)?;
        let valid = blocks(valid, strips.saturating_sub(2));
        let spared = if self.wide {
            most - most * u64::from(permille) / 1000
        } else {
            // `rrpc` reserves four segments of each unit, then a share of the rest.

            let rest = lines.saturating_sub(4 * u64::from(self.device.units));
            blocks(rest, strips) * u64::from(1000 - permille) / 1000
        };
        self.blocks = valid.min(spared);
        if self.blocks == 0 {
            return Err(too_small);
        }
        self.keep = keep as u32;
        self.pages = u32::try_from(self.blocks.div_ceil(u64::from(self.page_entries())))
            .map_err(|_| PlanError("pblk and rrpc map at most 2^32 pages"))?;
        Ok(())
    }

    /// Returns the number of blocks in a strip.
    pub(super) fn strip_blocks(&self) -> u32 {
        self.strip / SECTORS_PER_BLOCK - 1
    }

    /// Returns the strips of a line's list if each strip is full of blocks. All are in one segment.
    /// Returns 0 if the list would take too much of the line.
    fn list_strips(&self) -> u32 {
        let blocks = self.strip_blocks();
        let rows = RECORDS as u32 * blocks / (blocks + 1);
        let list = self.line_strips().div_ceil(rows + 1);
        if list * LIST_SHARE <= self.line_strips() && list < self.strips { list } else { 0 }
    }

    /// Returns the number of strips of a line that take blocks of the host.
    pub(super) fn row_strips(&self) -> u32 {
        self.line_strips() - self.list
    }

    /// Returns the number of strips in a line.
    pub(super) fn line_strips(&self) -> u32 {
        self.width * self.strips
    }

    /// Returns the number of blocks on the device.
    pub(super) fn device_blocks(&self) -> u64 {
        device_blocks(&self.device)
    }

    /// Returns the number of map entries in a page.
    pub(super) fn page_entries(&self) -> u32 {
        hostftl_core::BLOCK as u32 / self.entry
    }

    /// Returns the segment of a line in one of its columns.
    pub(super) fn segment(&self, line: u32, column: u32) -> u32 {
        // The segments of a unit are consecutive, so a wide line has one in each unit.
        if self.wide { column * self.lines + line } else { line }
    }

    /// Returns the column of a segment in its line.
    pub(super) fn column(&self, segment: u32) -> u32 {
        if self.wide { segment / self.lines } else { 0 }
    }

    /// Returns the line of a segment.
    pub(super) fn line(&self, segment: u32) -> u32 {
        if self.wide { segment % self.lines } else { segment }
    }

    /// Returns the front that fills a line with blocks of the host: one per unit in `rrpc`, else
    /// one.
    pub(super) fn front(&self, line: u32) -> u32 {
        if self.wide { 0 } else { line / (self.device.count / self.device.units) }
    }

    /// Returns the first sector of a strip.
    pub(super) fn lba(&self, segment: u32, strip: u32) -> u64 {
        u64::from(segment) * u64::from(self.device.size) + u64::from(strip * self.strip)
    }

    /// Returns the first sector of a strip's tail.
    pub(super) fn tail_at(&self, segment: u32, strip: u32) -> u64 {
        self.lba(segment, strip) + u64::from(self.strip - SECTORS_PER_BLOCK)
    }

    /// Returns the device block of page `slot` of a strip.
    pub(super) fn place(&self, segment: u32, strip: u32, slot: u32) -> u64 {
        self.lba(segment, strip) / u64::from(SECTORS_PER_BLOCK) + u64::from(slot)
    }

    /// Returns the segment of a device block.
    pub(super) fn segment_at(&self, place: u64) -> u32 {
        (place * u64::from(SECTORS_PER_BLOCK) / u64::from(self.device.size)) as u32
    }

    /// Returns the number of pages from device block `place` up to the tail of its strip.
    pub(super) fn left_in_strip(&self, place: u64) -> u32 {
        let within = place % u64::from(self.strip / SECTORS_PER_BLOCK);
        self.strip_blocks() - within as u32
    }

    /// Returns the number of strips at the end of an open segment that can't be read yet.
    pub(super) fn unreadable(&self) -> u32 {
        self.device.unreadable.div_ceil(self.strip)
    }

    /// Returns the number of rows in memory: those being filled or written, and those that can't be
    /// read yet.
    pub(super) fn rows(&self) -> u32 {
        // Per open segment: the rows that cannot be read yet, one that is written and one that is
        // filled.
        self.width * self.fronts * (self.unreadable() + 2) + 4
    }

    /// Returns the plan of the layer, with `meta_bytes` in addition to the map.
    pub(super) fn plan(&self, meta_bytes: u64) -> Plan {
        let limits = Limits {
            exported: self.blocks * u64::from(SECTORS_PER_BLOCK),
            max_transfer: MAX_TRANSFER,
            align: SECTORS_PER_BLOCK,
            ack: Ack::Buffer,
        };
        let map_bytes = super::map::Map::memory(self);
        let (buffers, buffer_sectors) = (self.rows(), self.strip);
        Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes }
    }
}

fn device_blocks(device: &Segments) -> u64 {
    u64::from(device.size) * u64::from(device.count) / u64::from(SECTORS_PER_BLOCK)
}

/// Returns the shortest valid strip of at least `wanted` sectors, or the longest shorter one. A
/// valid strip is a program unit of the device and divides a segment.
fn strip(device: &Segments, wanted: u32) -> Option<u32> {
    let best = device.write_best.max(device.write_unit);
    let fits = |strip: u32| {
        strip.is_multiple_of(best)
            && strip.is_multiple_of(SECTORS_PER_BLOCK)
            && device.size.is_multiple_of(strip)
            && strip >= 2 * SECTORS_PER_BLOCK
            && strip / SECTORS_PER_BLOCK - 1 <= MOST_BLOCKS.min(ENTRIES as u32)
    };
    let most = device.size.min((MOST_BLOCKS + 1) * SECTORS_PER_BLOCK);
    let strips = || (1..=most / best).map(|times| times * best).filter(|strip| fits(*strip));
    // Strips ascend, so the first that is long enough is the shortest.
    strips().find(|strip| *strip >= wanted).or_else(|| strips().next_back())
}

#[cfg(test)]
impl Layout {
    /// Creates a layout for tests: `count` segments of `strips` strips of 64 KiB, in `units` units.
    pub(super) fn trial(kind: LayerKind, strips: u32, count: u32, units: u32) -> Self {
        let device = Segments {
            size: 128 * strips,
            write_unit: 8,
            write_best: 8,
            unreadable: 0,
            max_open: 0,
            count,
            units,
        };
        let sectors = u64::from(device.size) * u64::from(count);
        let kind_of = DeviceKind::Zoned(device);
        let info = DeviceInfo { kind: kind_of, ..DeviceInfo::block(sectors, 8) };
        let config = LayerConfig { superpage: 128, ..LayerConfig::new(kind) };
        Layout::new(&config, &[info]).expect("it fits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the strips of the list in a line of `strips` strips of 64 KiB.
    fn list(strips: u32) -> u32 {
        Layout::trial(LayerKind::Pblk, strips, 64, 1).list
    }

    /// Segments of 64 MiB on devices of 16, 64 and 256 TiB.
    #[test]
    fn the_last_strip_has_a_place_beyond_16_tib() {
        for (kind, lines) in [(LayerKind::Pblk, 1), (LayerKind::Rrpc, 4)] {
            for count in [1 << 18, 1 << 20, 1 << 22] {
                let layout = Layout::trial(kind, 1024, count, 4);
                assert_eq!(layout.lines, lines * count / 4);
                let (segment, strip) = (count - 1, 1023);
                let end = u64::from(count) * u64::from(layout.device.size);
                assert_eq!(layout.tail_at(segment, strip), end - 8);
                let last = layout.place(segment, strip, layout.strip_blocks() - 1);
                assert_eq!(last, end / 8 - 2);
                assert_eq!((layout.segment_at(last), layout.left_in_strip(last)), (segment, 1));
                let (line, column) = (layout.line(segment), layout.column(segment));
                assert_eq!(layout.segment(line, column), segment);
                assert!(layout.blocks > 0 && layout.blocks < last);
            }
        }
    }

    #[test]
    fn only_long_lines_have_lists() {
        assert_eq!([16, 63, 64, 241, 242, 256].map(list), [0, 0, 1, 1, 2, 2]);
    }
}
