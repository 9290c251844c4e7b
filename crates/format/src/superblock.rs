//! The superblock: what a device says of itself and of the volume that it belongs to.
//!
//! Each device has two copies, in its first and its last whole block of 4 KiB. Data begins 1 MiB
//! behind the first and ends at least 1 MiB before the end.
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | header, kind `SUPR`; the sequence number is the generation |
//! | 32..40 | the text `HostFTL` and a zero byte |
//! | 40..44 | format version |
//! | 44 | index of the device in the stack |
//! | 45 | devices in the stack |
//! | 46..48 | devices that do not belong any more, as a set of bits by index |
//! | 48..64 | device UUID |
//! | 64..72 | sectors of data on the smallest device of the stack; 0 = as on this one |
//! | 72..76 | version of the layer's own format |
//! | 76..80 | zero |
//! | 80..88 | the last change of the members: a number that no other change has |
//! | 88..96 | first sector of the data |
//! | 96..104 | sectors of data |
//! | 104..112 | sectors of the device |
//! | 112..120 | sectors that the volume exports |
//! | 120..128 | creation time, seconds since 1970 |
//! | 128..192 | label, UTF-8, padded with zeros |
//! | 192..448 | the layer and its parameters as canonical text, ASCII, padded with zeros |
//! | 448..704 | the UUIDs of all devices of the stack, by index, padded with zeros |
//! | 704..832 | when each device ceased to belong, by index, seconds since 1970; 0 = it belongs |
//! | 832..840 | the change before the last one; 0 = there was none |
//! | 840..848 | when the last change was made, seconds since 1970 |
//! | 848..850 | devices that do not belong and on which nothing lies any more, as bits |
//! | 850..852 | devices that belong and hold nothing yet, as they replaced others, as bits |
//! | 852..4096 | zero |

use hostftl_core::{Page, SECTORS_PER_BLOCK};

use crate::letters::is_unseen;
use crate::page::{self, Stamp, put_u32, put_u64, u32_at, u64_at};

/// The format version that this build reads and writes.
pub const VERSION: u32 = 4;
/// The sectors that are kept free of data at each end of a device: 1 MiB.
pub const RESERVE: u64 = 2048;
/// The longest label in bytes.
pub const LABEL_BYTES: usize = 64;
/// The longest text of a layer with its parameters, in bytes.
pub const LAYER_BYTES: usize = 256;
/// More sectors than any device has: their bytes are counted in 63 bits.
pub const MOST_SECTORS: u64 = 1 << 54;
/// No superblock is written so often: one more can always be counted.
const MOST_GENERATIONS: u64 = 1 << 62;
/// The most devices of a stack.
pub const MAX_DEVICES: u8 = 16;

const DEVICES: usize = MAX_DEVICES as usize;
const KIND: [u8; 4] = *b"SUPR";
const MAGIC: [u8; 8] = *b"HostFTL\0";

/// See the module text. Lengths are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Superblock {
    pub generation: u64,
    pub volume: [u8; 16],
    pub device: [u8; 16],
    pub index: u8,
    pub count: u8,
    pub missing: u16,
    pub smallest: u64,
    pub layer_format: u32,
    pub layer: Text<LAYER_BYTES>,
    pub data_start: u64,
    pub data_len: u64,
    pub device_sectors: u64,
    pub exported: u64,
    pub created: u64,
    pub label: Text<LABEL_BYTES>,
    pub change: u64,
    pub parent: u64,
    pub changed: u64,
    pub members: [[u8; 16]; MAX_DEVICES as usize],
    pub lost: [u64; MAX_DEVICES as usize],
    pub out: u16,
    pub fresh: u16,
}

/// A short text of at most `N` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// `text`, or `None` when it is longer than `N` bytes or has a zero byte.
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.contains('\0')).then_some(Text(bytes))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        core::str::from_utf8(&self.0[..len]).expect("checked when it was made")
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
        let padded = bytes[len..].iter().all(|byte| *byte == 0);
        let text = core::str::from_utf8(&bytes[..len]).ok()?;
        if padded { Text::new(text) } else { None }
    }
}

/// Why a page is not a superblock that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperFault {
    /// No superblock of HostFTL.
    Foreign,
    /// One whose checksum does not match: torn, rotten, or moved to another place.
    Damaged,
    /// One of a format version that this build does not know.
    Version(u32),
    /// A sound checksum over values that make no sense.
    Nonsense(&'static str),
}

impl core::fmt::Display for SuperFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SuperFault::Foreign => f.write_str("no HostFTL superblock"),
            SuperFault::Damaged => f.write_str("a damaged superblock"),
            SuperFault::Version(version) => {
                write!(f, "format version {version}; this build knows {VERSION}")
            }
            SuperFault::Nonsense(why) => write!(f, "a superblock that makes no sense: {why}"),
        }
    }
}

/// The sectors where the two copies lie on a device of `device_sectors` sectors.
pub fn places(device_sectors: u64) -> [u64; 2] {
    let blocks = device_sectors / u64::from(SECTORS_PER_BLOCK);
    [0, blocks.saturating_sub(1) * u64::from(SECTORS_PER_BLOCK)]
}

/// The first sector and the length of the data on a device of `device_sectors` sectors; whole MiB.
pub fn data_window(device_sectors: u64) -> (u64, u64) {
    let room = device_sectors.saturating_sub(2 * RESERVE);
    (RESERVE, room - room % RESERVE)
}

/// Whether a page looks like a superblock of HostFTL, sound or not.
pub fn is_ours(page: &Page) -> bool {
    page.0[4..8] == KIND && page.0[32..40] == MAGIC
}

impl Superblock {
    /// The page for sector `at` of the device.
    pub fn emit(&self, at: u64) -> Page {
        let mut page = Page::default();
        page.0[32..40].copy_from_slice(&MAGIC);
        put_u32(&mut page, 40, VERSION);
        page.0[44] = self.index;
        page.0[45] = self.count;
        page.0[46..48].copy_from_slice(&self.missing.to_le_bytes());
        page.0[48..64].copy_from_slice(&self.device);
        put_u64(&mut page, 64, self.smallest);
        put_u32(&mut page, 72, self.layer_format);
        let longs = [self.data_start, self.data_len, self.device_sectors, self.exported];
        for (index, value) in longs.into_iter().chain([self.created]).enumerate() {
            put_u64(&mut page, 88 + 8 * index, value);
        }
        page.0[128..192].copy_from_slice(&self.label.0);
        page.0[192..448].copy_from_slice(&self.layer.0);
        put_u64(&mut page, 80, self.change);
        for index in 0..DEVICES {
            page.0[448 + 16 * index..][..16].copy_from_slice(&self.members[index]);
            put_u64(&mut page, 704 + 8 * index, self.lost[index]);
        }
        put_u64(&mut page, 832, self.parent);
        put_u64(&mut page, 840, self.changed);
        page.0[848..850].copy_from_slice(&self.out.to_le_bytes());
        page.0[850..852].copy_from_slice(&self.fresh.to_le_bytes());
        page::seal(&mut page, Stamp { kind: KIND, uuid: self.volume, at }, self.generation);
        page
    }

    /// The superblock in a page that was read from sector `at`.
    ///
    /// # Errors
    /// [`SuperFault`] says what is there instead.
    pub fn parse(page: &Page, at: u64) -> Result<Self, SuperFault> {
        if !is_ours(page) {
            return Err(SuperFault::Foreign);
        }
        let volume: [u8; 16] = page.0[8..24].try_into().expect("sixteen bytes");
        let stamp = Stamp { kind: KIND, uuid: volume, at };
        let generation = page::open(page, stamp).map_err(|_| SuperFault::Damaged)?;
        let version = u32_at(page, 40);
        if version != VERSION {
            return Err(SuperFault::Version(version));
        }
        let superblock = Superblock {
            generation,
            volume,
            device: page.0[48..64].try_into().expect("sixteen bytes"),
            index: page.0[44],
            count: page.0[45],
            missing: u16::from_le_bytes([page.0[46], page.0[47]]),
            smallest: u64_at(page, 64),
            layer_format: u32_at(page, 72),
            layer: Text::parse(&page.0[192..448]).ok_or(SuperFault::Nonsense("the layer"))?,
            data_start: u64_at(page, 88),
            data_len: u64_at(page, 96),
            device_sectors: u64_at(page, 104),
            exported: u64_at(page, 112),
            created: u64_at(page, 120),
            label: Text::parse(&page.0[128..192]).ok_or(SuperFault::Nonsense("the label"))?,
            change: u64_at(page, 80),
            parent: u64_at(page, 832),
            changed: u64_at(page, 840),
            members: core::array::from_fn(|at| {
                page.0[448 + 16 * at..][..16].try_into().expect("sixteen bytes")
            }),
            lost: core::array::from_fn(|at| u64_at(page, 704 + 8 * at)),
            out: u16::from_le_bytes([page.0[848], page.0[849]]),
            fresh: u16::from_le_bytes([page.0[850], page.0[851]]),
        };
        superblock.check().map_err(SuperFault::Nonsense)?;
        Ok(superblock)
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.generation >= MOST_GENERATIONS {
            return Err("the generation");
        }
        if self.count == 0 || self.count > MAX_DEVICES || self.index >= self.count {
            return Err("the number of the device");
        }
        // A journal's device may be shorter than the smallest of the others.
        if self.smallest >= MOST_SECTORS {
            return Err("the length of the smallest device");
        }
        if self.device_sectors >= MOST_SECTORS || self.exported >= MOST_SECTORS {
            return Err("a length");
        }
        let end = self.data_start.checked_add(self.data_len);
        let beyond =
            end.is_none_or(|end| end > self.device_sectors - RESERVE.min(self.device_sectors));
        let aligned = self.data_start.is_multiple_of(u64::from(SECTORS_PER_BLOCK));
        if self.data_len == 0 || self.data_start < RESERVE || !aligned || beyond {
            return Err("the place of the data");
        }
        if !self.layer.as_str().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the layer");
        }
        // A label is printed: one from a foreign disk must not command the terminal.
        if self.label.as_str().chars().any(is_unseen) {
            return Err("the label");
        }
        self.check_members()
    }

    fn check_members(&self) -> Result<(), &'static str> {
        let count = usize::from(self.count);
        if u32::from(self.missing) >> count != 0 || self.belongs(self.index) == Some(false) {
            return Err("the set of devices that do not belong");
        }
        let is_lost = |at: &usize| self.missing >> at & 1 == 1;
        if (0..DEVICES).any(|at| (self.lost[at] != 0) != is_lost(&at)) {
            return Err("the times at which devices ceased to belong");
        }
        let beyond = u32::from(self.fresh) >> count != 0;
        if beyond || self.out & !self.missing != 0 || self.fresh & self.missing != 0 {
            return Err("the devices that are not needed, or new");
        }
        let own = self.members[usize::from(self.index)] == self.device;
        if !own || self.members[count..].iter().any(|uuid| *uuid != [0; 16]) {
            return Err("the list of devices");
        }
        if self.change == 0 || self.change == self.parent {
            return Err("the number of the last change");
        }
        Ok(())
    }

    /// What this one says of the volume, for the device that `own` describes.
    pub fn on_device_of(&self, own: &Superblock) -> Superblock {
        Superblock {
            device: own.device,
            index: own.index,
            data_start: own.data_start,
            data_len: own.data_len,
            device_sectors: own.device_sectors,
            ..*self
        }
    }

    /// Whether device `index` of the stack belongs to it; `None` when there is no such device.
    pub fn belongs(&self, index: u8) -> Option<bool> {
        (index < self.count).then_some(self.missing >> index & 1 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_superblock()(
            generation in 0..MOST_GENERATIONS, volume: [u8; 16], device: [u8; 16],
            count in 1..=MAX_DEVICES,
            smallest in 0..MOST_SECTORS, layer_format: u32,
            index: u8, missing: u16, layer in "[a-z]{1,16}(:[a-z]{1,9}=[0-9a-z.]{1,20}){0,7}",
            data_start in RESERVE / 8..1_u64 << 50, data_len in 1..1_u64 << 53,
            exported in 0..MOST_SECTORS, created: u64,
            label in "[ -~]{0,60}é?", more in 0..9_u64, change in 1..u64::MAX, parent: u64,
            changed: u64, members: [[u8; 16]; DEVICES], lost in prop::array::uniform16(1..u64::MAX),
            out: u16, fresh: u16,
        ) -> Superblock {
            let index = index % count;
            let missing = missing & ((1_u32 << count) - 1) as u16 & !(1 << index);
            let mut members = members;
            members[usize::from(index)] = device;
            members[usize::from(count)..].fill([0; 16]);
            let lost = core::array::from_fn(|at| if missing >> at & 1 == 1 { lost[at] } else { 0 });
            let parent = if parent == change { 0 } else { parent };
            let data_start = 8 * data_start;
            let device_sectors = data_start + data_len + RESERVE + more;
            Superblock {
                generation, volume, device, index, count, missing, change, parent, changed, members,
                lost, layer_format, out: missing & out,
                fresh: fresh & !missing & ((1_u32 << count) - 1) as u16,
                smallest, layer: Text::new(&layer).unwrap(), data_start, data_len,
                device_sectors, exported, created, label: Text::new(&label).unwrap(),
            }
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(superblock in any_superblock(), at: u64) {
            prop_assert_eq!(Superblock::parse(&superblock.emit(at), at), Ok(superblock));
        }

        #[test]
        fn a_flipped_bit_is_refused(superblock in any_superblock(), bit in 0..4096_usize * 8) {
            let mut page = superblock.emit(0);
            page.0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Superblock::parse(&page, 0).is_err());
        }

        #[test]
        fn another_place_is_refused(superblock in any_superblock(), at: u64, there: u64) {
            prop_assume!(at != there);
            let parsed = Superblock::parse(&superblock.emit(at), there);
            prop_assert_eq!(parsed, Err(SuperFault::Damaged));
        }

        #[test]
        fn the_window_keeps_clear_of_both_copies(sectors in 3 * RESERVE..1 << 40) {
            let (start, len) = data_window(sectors);
            prop_assert!(start >= RESERVE && len > 0 && len % RESERVE == 0);
            prop_assert!(start + len + RESERVE <= sectors);
            prop_assert!(start + len <= places(sectors)[1]);
        }
    }

    #[test]
    fn lengths_that_can_not_be_are_refused() {
        let text = Text::new("x").unwrap();
        let sound = Superblock {
            generation: 1,
            volume: [1; 16],
            device: [2; 16],
            index: 0,
            count: 1,
            missing: 0,
            smallest: 0,
            layer_format: 1,
            layer: text,
            data_start: 2048,
            data_len: 2048,
            device_sectors: 8192,
            exported: 2048,
            created: 0,
            label: Text::new("").unwrap(),
            change: 1,
            parent: 0,
            changed: 0,
            members: core::array::from_fn(|at| if at == 0 { [2; 16] } else { [0; 16] }),
            lost: [0; DEVICES],
            out: 0,
            fresh: 0,
        };
        let parse = |one: Superblock| Superblock::parse(&one.emit(0), 0);
        assert_eq!(parse(sound), Ok(sound));
        let most = u64::MAX;
        for odd in [
            Superblock { device_sectors: most, ..sound },
            Superblock { device_sectors: 1 << 54, ..sound },
            Superblock { exported: most, ..sound },
            Superblock { smallest: most, ..sound },
            Superblock { data_len: most, ..sound },
            Superblock { data_len: 4097, ..sound },
            Superblock { data_start: 0, ..sound },
            Superblock { data_start: 2049, ..sound },
            Superblock { data_start: most, ..sound },
            Superblock { device_sectors: 0, ..sound },
            Superblock { layer: Text::new("ha\x1b[2J").unwrap(), ..sound },
            Superblock { label: Text::new("a\x1b[2Jb").unwrap(), ..sound },
            Superblock { label: Text::new("a\u{9b}b").unwrap(), ..sound },
        ] {
            assert!(matches!(parse(odd), Err(SuperFault::Nonsense(_))), "{odd:?}");
        }
    }

    #[test]
    fn nonsense_and_other_versions_are_told_apart() {
        let zero = Page::default();
        assert_eq!(Superblock::parse(&zero, 0), Err(SuperFault::Foreign));
        let text = Text::new("x").unwrap();
        let superblock = Superblock {
            generation: 1,
            volume: [1; 16],
            device: [2; 16],
            index: 3,
            count: 3,
            missing: 0,
            smallest: 0,
            layer_format: 1,
            layer: text,
            data_start: 2048,
            data_len: 2048,
            device_sectors: 8192,
            exported: 2048,
            created: 0,
            label: Text::new("").unwrap(),
            change: 1,
            parent: 0,
            changed: 0,
            members: [[0; 16]; DEVICES],
            lost: [0; DEVICES],
            out: 0,
            fresh: 0,
        };
        let parsed = Superblock::parse(&superblock.emit(0), 0);
        assert_eq!(parsed, Err(SuperFault::Nonsense("the number of the device")));
        let mut good = Superblock { index: 2, ..superblock };
        good.members[..3].copy_from_slice(&[[7; 16], [8; 16], good.device]);
        assert_eq!(Superblock::parse(&good.emit(0), 0), Ok(good));
        let wrong = |change: &dyn Fn(&mut Superblock)| {
            let mut one = good;
            change(&mut one);
            match Superblock::parse(&one.emit(0), 0) {
                Err(SuperFault::Nonsense(why)) => why,
                other => panic!("{other:?}"),
            }
        };
        let set = "the set of devices that do not belong";
        assert_eq!(wrong(&|one| one.missing = 0b100), set);
        assert_eq!(wrong(&|one| one.missing = 0b1000), set);
        let times = "the times at which devices ceased to belong";
        assert_eq!(wrong(&|one| one.missing = 0b10), times);
        assert_eq!(wrong(&|one| one.lost[1] = 5), times);
        assert_eq!(wrong(&|one| one.members[2] = [1; 16]), "the list of devices");
        assert_eq!(wrong(&|one| one.members[3] = [1; 16]), "the list of devices");
        assert_eq!(wrong(&|one| one.change = 0), "the number of the last change");
        assert_eq!(wrong(&|one| one.parent = 1), "the number of the last change");
        let mut page = superblock.emit(0);
        put_u32(&mut page, 40, VERSION + 1);
        page::seal(&mut page, Stamp { kind: KIND, uuid: superblock.volume, at: 0 }, 1);
        assert_eq!(Superblock::parse(&page, 0), Err(SuperFault::Version(VERSION + 1)));
    }
}
