//! The checksummed pages of an image. The checksum is in the page itself, or in other pages that
//! refer to it. A changed page is sealed again, and so is every page that refers to it.

use hostftl_chaos::fault_free::Image;
use hostftl_core::{BLOCK, MetaBuf, Page, SECTOR};
use hostftl_format::page::crc32c;
use hostftl_format::{log, zones};

/// Maximum length of a chain of references, from a map page to the directory and the root.
const DEPTH: u32 = 4;

/// The content of devices.
pub(crate) trait Media {
    /// Returns the number of devices.
    fn devices(&self) -> usize;
    /// Returns the content of a device.
    fn bytes(&self, device: usize) -> &[u8];
    /// Replaces the content from byte `at` on.
    fn patch(&mut self, device: usize, at: usize, bytes: &[u8]);
}

impl Media for Image {
    fn devices(&self) -> usize {
        Image::devices(self)
    }

    fn bytes(&self, device: usize) -> &[u8] {
        Image::bytes(self, device)
    }

    fn patch(&mut self, device: usize, at: usize, bytes: &[u8]) {
        Image::patch(self, device, at, bytes);
    }
}

/// Parameters of a volume that are needed to find its pages.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Bytes of a strip on zoned devices.
    pub strip: usize,
    /// First byte of each device's part that the layer uses.
    pub starts: Vec<usize>,
    /// First byte of the part with the superblocks.
    pub shown: usize,
}

/// Position of a page's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// In the page's header.
    Own,
    /// In the pages that refer to it; the value is the seed of the checksum.
    Others(u64),
}

/// A page with a valid checksum, or a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Kind, in four letters.
    pub kind: [u8; 4],
    /// Device.
    pub device: usize,
    /// First byte on the device.
    pub at: usize,
    /// Length in bytes.
    pub len: usize,
    /// Byte of the device to which its address is relative.
    start: usize,
    proof: Proof,
}

impl Found {
    /// Returns the first byte that a change may modify.
    pub(crate) fn first(&self) -> usize {
        if self.proof == Proof::Own { 24 } else { 0 }
    }

    /// Returns its content on the devices.
    pub(crate) fn of<'a>(&self, media: &'a impl Media) -> &'a [u8] {
        &media.bytes(self.device)[self.at..self.at + self.len]
    }

    /// Returns the address that is the seed of its checksum.
    fn sector(&self) -> u64 {
        ((self.at - self.start) / SECTOR) as u64
    }

    fn page(&self, media: &impl Media) -> Page {
        Page(self.of(media).try_into().expect("a whole page"))
    }
}

/// All pages, by kind.
#[derive(Debug)]
pub(crate) struct Pages(Vec<Vec<Found>>);

impl Pages {
    /// Finds the pages of a volume.
    pub(crate) fn find(media: &impl Media, volume: &Volume) -> Self {
        let mut pages = Pages(Vec::new());
        for device in 0..media.devices() {
            let bytes = media.bytes(device);
            for at in (0..bytes.len()).step_by(BLOCK) {
                let kind: [u8; 4] = bytes[at + 4..at + 8].try_into().expect("four bytes");
                if !kind.iter().all(u8::is_ascii_uppercase) {
                    continue;
                }
                let starts = [0, volume.shown, volume.starts[device]].into_iter();
                let starts = starts.filter(|start| *start <= at);
                let mut all = starts.map(|start| Found {
                    kind,
                    device,
                    at,
                    len: BLOCK,
                    start,
                    proof: Proof::Own,
                });
                if let Some(found) = all.find(|it| sum(bytes, it) == word(bytes, at)) {
                    pages.add(found);
                }
            }
        }
        for head in pages.0.concat() {
            match &head.kind {
                b"LROW" => pages.add_of_row(media, volume, &head),
                b"ZTAL" => pages.add_of_strip(media, volume, &head),
                _ => {}
            }
        }
        pages
    }

    /// Returns whether there are no pages.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the pages of kind `index`, modulo the number of kinds.
    pub(crate) fn of_kind(&self, index: usize) -> &[Found] {
        &self.0[index % self.0.len()]
    }

    /// Returns the number of kinds.
    pub(crate) fn kinds(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, found: Found) {
        match self.0.iter_mut().find(|list| list[0].kind == found.kind) {
            Some(list) => list.push(found),
            None => self.0.push(vec![found]),
        }
    }

    /// Adds a page whose checksum is in another page, if that checksum is right.
    fn add_pointed(&mut self, media: &impl Media, found: Found, crc: u32) {
        let Proof::Others(seed) = found.proof else { unreachable!("it has no header") };
        let is_there = found.device < media.devices()
            && found.at + found.len <= media.bytes(found.device).len()
            && crc32c(seed, found.of(media)) == crc;
        let mut known = self.0.iter().flatten();
        if is_there && !known.any(|it| (it.device, it.at) == (found.device, found.at)) {
            self.add(found);
        }
    }

    /// Adds the map images listed by a stripe of `log`, and its packed records.
    fn add_of_row(&mut self, media: &impl Media, volume: &Volume, head: &Found) {
        let uuid = &volume.uuid;
        let mut buf = MetaBuf::new(1);
        buf.pages_mut()[0] = head.page(media);
        let opened = log::open(&buf, uuid, head.sector());
        let entries = opened.map_or(0, |it| it.entries);
        for entry in (0..entries).filter_map(|index| log::entry(&buf, index)) {
            let place = entry.place;
            let of_map = u64::from_le_bytes(uuid[..8].try_into().expect("eight bytes"));
            let (kind, seed) = match entry.kind {
                log::Kind::Map => (*b"-map", of_map),
                log::Kind::Directory => (*b"-dir", of_map),
                log::Kind::Counts => (*b"-cnt", of_map),
                log::Kind::Data if place.len() < BLOCK as u32 => {
                    (*b"-rec", log::seed(entry.block, place.generation()))
                }
                log::Kind::Data | log::Kind::Trim => continue,
            };
            let (device, at, len) = (place.device(), place.byte(), place.len());
            let (device, at, len) = (usize::from(device), at as usize, len as usize);
            let Some(start) = volume.starts.get(device).copied() else { continue };
            let proof = Proof::Others(seed);
            let found = Found { kind, device, at: at + start, len, start, proof };
            self.add_pointed(media, found, entry.crc);
        }
    }

    /// Adds the map images and the list pages that a tail lists.
    fn add_of_strip(&mut self, media: &impl Media, volume: &Volume, head: &Found) {
        let tail = head.page(media);
        let opened = zones::open(&tail, &volume.uuid, head.sector());
        let entries = opened.map_or(0, |it| it.entries);
        let first = (head.at + BLOCK).saturating_sub(volume.strip);
        for entry in (0..entries).filter_map(|index| zones::entry(&tail, index.into())) {
            let kind = match entry.kind {
                zones::Kind::Image => *b"-map",
                zones::Kind::Page => *b"-lst",
                _ => continue,
            };
            let at = first + entry.value as usize * BLOCK;
            let proof = Proof::Others(entry.block);
            let found = Found { kind, at, proof, ..*head };
            self.add_pointed(media, found, entry.crc);
        }
    }

    /// Writes a page and seals it, and updates and seals the pages that refer to it.
    pub(crate) fn write(&self, media: &mut impl Media, found: &Found, bytes: &[u8]) {
        self.write_and_follow(media, found, bytes, 0);
    }

    fn write_and_follow(&self, media: &mut impl Media, found: &Found, bytes: &[u8], depth: u32) {
        let Proof::Others(seed) = found.proof else {
            media.patch(found.device, found.at, bytes);
            media.patch(found.device, found.at + 4, &found.kind);
            let sum = sum(media.bytes(found.device), found);
            return media.patch(found.device, found.at, &sum.to_le_bytes());
        };
        let [old, new] = [found.of(media), bytes].map(|it| crc32c(seed, it).to_le_bytes());
        media.patch(found.device, found.at, bytes);
        if depth == DEPTH || old == new {
            return;
        }
        let pages = self.0.iter().flatten();
        for holder in pages.filter(|it| it.len == BLOCK && it.kind != *b"-lst") {
            let (words, _) = holder.of(media).as_chunks::<4>();
            if words.contains(&old) {
                let words = words.iter().map(|word| if *word == old { new } else { *word });
                let bytes: Vec<u8> = words.flatten().collect();
                self.write_and_follow(media, holder, &bytes, depth + 1);
            }
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the checksum of a page that has it in its header: over the whole page, or over a head
/// with its entries.
fn sum(bytes: &[u8], found: &Found) -> u32 {
    let entries = match &found.kind {
        b"LROW" => Some(word(bytes, found.at + 48)),
        b"LJRN" => Some(word(bytes, found.at + 52)),
        _ => None,
    };
    let len = entries.map_or(BLOCK, |entries| 64 + 20 * (entries as usize).min(4096));
    let end = (found.at + len).min(bytes.len());
    crc32c(found.sector(), &bytes[found.at + 4..end])
}
