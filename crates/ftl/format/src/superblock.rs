//! Superblock: the description of a device and of the volume that it belongs to.
//!
//! Each device has two copies, in its first and its last whole block of 4 KiB. Data starts 1 MiB
//! after the start of the device and ends at least 1 MiB before its end.
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | header, kind `SUPR`; the sequence number is the generation |
//! | 32..40 | the text `HostFTL` and a zero byte |
//! | 40..44 | format version |
//! | 44 | index of the device in the stack |
//! | 45 | devices in the stack |
//! | 46..48 | excluded devices, bit set by index |
//! | 48..64 | device UUID |
//! | 64..72 | zero |
//! | 72..76 | version of the layer's own format |
//! | 76..80 | zero |
//! | 80..88 | id of the last membership change; unique, not 0 |
//! | 88..96 | first sector of the data |
//! | 96..104 | sectors of data |
//! | 104..112 | sectors of the device |
//! | 112..120 | sectors that the volume exports |
//! | 120..128 | creation time, seconds since 1970 |
//! | 128..192 | label, UTF-8, padded with zeros |
//! | 192..448 | the layer and its parameters as canonical text, ASCII, padded with zeros |
//! | 448..704 | UUIDs of all devices of the stack, by index, padded with zeros |
//! | 704..832 | time of exclusion of each device, by index, seconds since 1970; 0 = not excluded |
//! | 832..840 | id of the previous change; 0 = none |
//! | 840..848 | time of the last change, seconds since 1970 |
//! | 848..850 | excluded devices that hold no data, bit set |
//! | 850..852 | members that hold no data yet, because they joined later, bit set |
//! | 852 | number of devices at creation; 0 = the current number |
//! | 853 | zero |
//! | 854..856 | indexes of removed devices, bit set |
//! | 856..858 | devices to be removed, bit set |
//! | 858..860 | hot spares, bit set |
//! | 860..862 | joining devices that returned with their data from the time of the loss, bit set |
//! | 862..864 | zero |
//! | 864..992 | sectors of data on each device, by index; they never change |
//! | 992..4096 | zero |

use hostftl_core::{Page, SECTORS_PER_BLOCK};

use crate::letters::is_unseen;
use crate::page::{self, Stamp, put_u32, put_u64, u32_at, u64_at};

/// Format version that this build reads and writes.
pub const VERSION: u32 = 6;
/// Sectors without data at each end of a device: 1 MiB.
pub const RESERVE: u64 = 2048;
/// Maximum length of a label in bytes.
pub const LABEL_BYTES: usize = 64;
/// Maximum length of the text of a layer with its parameters, in bytes.
pub const LAYER_BYTES: usize = 256;
/// Limit that exceeds the sectors of any device: their bytes are counted in 63 bits.
pub const MOST_SECTORS: u64 = 1 << 54;
/// Limit that no generation reaches, so that one more can always be counted.
const MOST_GENERATIONS: u64 = 1 << 62;
/// Maximum number of devices of a stack.
pub const MAX_DEVICES: u8 = 16;

const DEVICES: usize = MAX_DEVICES as usize;
const KIND: [u8; 4] = *b"SUPR";
const MAGIC: [u8; 8] = *b"HostFTL\0";

/// Contents of a superblock. The table above describes the fields; lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Superblock {
    pub generation: u64,
    pub volume: [u8; 16],
    pub device: [u8; 16],
    pub index: u8,
    pub count: u8,
    pub missing: u16,
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
    pub born: u8,
    pub removed: u16,
    pub leaving: u16,
    pub spare: u16,
    pub returning: u16,
    pub lengths: [u64; MAX_DEVICES as usize],
}

/// Text of at most `N` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Text([0; N])
    }
}

impl<const N: usize> Text<N> {
    /// Returns `text`, or `None` if it is longer than `N` bytes or contains a zero byte.
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        (!text.contains('\0')).then_some(Text(bytes))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(N);
        core::str::from_utf8(&self.0[..len]).expect("the value was checked at creation")
    }

    /// Returns the text with its padding.
    pub(crate) fn bytes(&self) -> [u8; N] {
        self.0
    }

    /// Parses a text with its padding.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
        let padded = bytes[len..].iter().all(|byte| *byte == 0);
        let text = core::str::from_utf8(&bytes[..len]).ok()?;
        if padded { Text::new(text) } else { None }
    }
}

/// Reason why a page is not a valid superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperFault {
    /// Not a superblock of HostFTL.
    Foreign,
    /// Wrong checksum: torn, corrupted or misplaced.
    Damaged,
    /// Unknown format version.
    Version(u32),
    /// Right checksum, but inconsistent values.
    Nonsense(&'static str),
}

impl core::fmt::Display for SuperFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SuperFault::Foreign => f.write_str("no HostFTL superblock"),
            SuperFault::Damaged => f.write_str("a damaged superblock"),
            SuperFault::Version(version) => {
                write!(f, "format version {version}; this build supports version {VERSION}")
            }
            SuperFault::Nonsense(why) => write!(f, "an invalid superblock: {why}"),
        }
    }
}

/// Returns the sectors of the two copies on a device of `device_sectors` sectors.
pub fn places(device_sectors: u64) -> [u64; 2] {
    let blocks = device_sectors / u64::from(SECTORS_PER_BLOCK);
    [0, blocks.saturating_sub(1) * u64::from(SECTORS_PER_BLOCK)]
}

/// Returns the first sector and the length of the data on a device of `device_sectors` sectors;
/// whole MiB.
pub fn data_window(device_sectors: u64) -> (u64, u64) {
    let room = device_sectors.saturating_sub(2 * RESERVE);
    (RESERVE, room - room % RESERVE)
}

/// Returns whether a page has the kind and magic of a superblock, valid or not.
pub fn is_ours(page: &Page) -> bool {
    page.0[4..8] == KIND && page.0[32..40] == MAGIC
}

impl Superblock {
    /// Returns the page for sector `at` of the device.
    pub fn emit(&self, at: u64) -> Page {
        let mut page = Page::default();
        page.0[32..40].copy_from_slice(&MAGIC);
        put_u32(&mut page, 40, VERSION);
        page.0[44] = self.index;
        page.0[45] = self.count;
        page.0[46..48].copy_from_slice(&self.missing.to_le_bytes());
        page.0[48..64].copy_from_slice(&self.device);
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
            put_u64(&mut page, 864 + 8 * index, self.lengths[index]);
        }
        put_u64(&mut page, 832, self.parent);
        put_u64(&mut page, 840, self.changed);
        page.0[848..850].copy_from_slice(&self.out.to_le_bytes());
        page.0[850..852].copy_from_slice(&self.fresh.to_le_bytes());
        page.0[852] = self.born;
        page.0[854..856].copy_from_slice(&self.removed.to_le_bytes());
        page.0[856..858].copy_from_slice(&self.leaving.to_le_bytes());
        page.0[858..860].copy_from_slice(&self.spare.to_le_bytes());
        page.0[860..862].copy_from_slice(&self.returning.to_le_bytes());
        page::seal(&mut page, Stamp { kind: KIND, uuid: self.volume, at }, self.generation);
        page
    }

    /// Parses the superblock in a page that was read from sector `at`.
    ///
    /// # Errors
    /// [`SuperFault`], the reason why it is not valid.
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
            born: page.0[852],
            removed: u16::from_le_bytes([page.0[854], page.0[855]]),
            leaving: u16::from_le_bytes([page.0[856], page.0[857]]),
            spare: u16::from_le_bytes([page.0[858], page.0[859]]),
            returning: u16::from_le_bytes([page.0[860], page.0[861]]),
            lengths: core::array::from_fn(|at| u64_at(page, 864 + 8 * at)),
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
        let (lengths, beyond) = self.lengths.split_at(self.count.into());
        let are_lengths = lengths.iter().all(|it| (1..MOST_SECTORS).contains(it));
        if !are_lengths || beyond.iter().any(|it| *it > 0) || self.own_length() != self.data_len {
            return Err("the lengths of the devices");
        }
        if !self.layer.as_str().bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the layer");
        }
        // A label is printed, so one from a foreign device must not control the terminal.
        if self.label.as_str().chars().any(is_unseen) {
            return Err("the label");
        }
        self.check_members()
    }

    fn check_members(&self) -> Result<(), &'static str> {
        let count = usize::from(self.count);
        if u32::from(self.missing) >> count != 0 || self.belongs(self.index) == Some(false) {
            return Err("the set of devices that are not members");
        }
        let is_lost = |at: &usize| self.missing >> at & 1 == 1;
        if (0..DEVICES).any(|at| (self.lost[at] != 0) != is_lost(&at)) {
            return Err("the times at which devices left the volume");
        }
        let beyond = u32::from(self.fresh) >> count != 0;
        if beyond || self.out & !self.missing != 0 || self.fresh & self.missing != 0 {
            return Err("the devices that are unused or new");
        }
        let leave_beyond = u32::from(self.leaving) >> count != 0;
        if leave_beyond || self.removed & !self.out != 0 || self.removed & self.leaving != 0 {
            return Err("the devices that were or will be removed");
        }
        let other = self.removed | self.leaving;
        if u32::from(self.spare) >> count != 0 || self.spare & other != 0 {
            return Err("the spare devices");
        }
        if self.returning & !self.fresh != 0 {
            return Err("the returned devices");
        }
        if self.born > self.count {
            return Err("the number of devices at creation");
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

    /// Returns this superblock for the device that `own` describes.
    pub fn for_device_of(&self, own: &Superblock) -> Superblock {
        Superblock {
            device: own.device,
            index: own.index,
            data_start: own.data_start,
            data_len: own.data_len,
            device_sectors: own.device_sectors,
            ..*self
        }
    }

    fn own_length(&self) -> u64 {
        self.lengths[usize::from(self.index)]
    }

    /// Returns whether device `index` of the stack is not excluded; `None` if it does not exist.
    pub fn belongs(&self, index: u8) -> Option<bool> {
        (index < self.count).then_some(self.missing >> index & 1 == 0)
    }
}

#[cfg(test)]
mod tests;
