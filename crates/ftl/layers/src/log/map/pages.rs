//! Reads images into memory: map pages on demand, and the images that the root points at.
//!
//! Invariants
//! - A page in state Coming has one load, after which it is Here or Bad.
//! - The segment of an image that is being read is not reused.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceSet, MetaBuf, Page, SECTOR, Target};
use hostftl_format::log::{self, COUNTS, Counted, Kind, PAIRS, Place};

use crate::log::devices::Devices;
use crate::log::layout::{LOADS, Layout};
use crate::log::map::directory::Directory;
use crate::log::map::{Map, Where};
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::segments::Segments;
use crate::log::volume::Generation;

/// Purpose of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The page is used.
    Use,
    /// The image is written elsewhere unchanged.
    Carry,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    kind: Kind,
    page: u32,
    /// Place of the image, and its CRC.
    place: Place,
    crc: u32,
    purpose: Purpose,
}

#[derive(Debug)]
pub(crate) struct Loads {
    layout: Layout,
    uuid: [u8; 16],
    bufs: Vec<Option<MetaBuf>>,
    asked: [Asked; LOADS],
    free: Vec<u8>,
    /// Completed loads: operations that wait for a page may continue.
    arrivals: u64,
    /// Next page for warming.
    warm: u32,
}

impl Loads {
    pub(crate) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        let none = Asked {
            kind: Kind::Map,
            page: 0,
            place: Place::NOWHERE,
            crc: 0,
            purpose: Purpose::Use,
        };
        Loads {
            layout: *layout,
            uuid,
            bufs: (0..LOADS).map(|_| Some(MetaBuf::new(1))).collect(),
            asked: [none; LOADS],
            free: (0..LOADS as u8).rev().collect(),
            arrivals: 0,
            warm: 0,
        }
    }

    /// Returns the number of map pages that warming has passed, which is the number of the next
    /// one.
    pub(crate) fn warmed(&self) -> u32 {
        self.warm
    }

    /// Returns the number of images being read.
    pub(crate) fn busy(&self) -> usize {
        LOADS - self.free.len()
    }

    /// Returns the number of completed loads. Operations that wait for a page may continue when it
    /// changes.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Returns the place of the image of load `index`.
    pub(crate) fn place(&self, index: u8) -> Place {
        self.asked[index as usize].place
    }

    /// Returns the last image read by load `index`.
    pub(crate) fn image(&self, index: u8) -> &Page {
        let buf = self.bufs[usize::from(index)].as_ref().expect("a finished load");
        &buf.pages()[0]
    }

    /// Returns whether no image is being read.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == LOADS
    }

    /// Returns whether `buf` contains the image that load `index` requested.
    pub(crate) fn is_image(&self, index: u8, buf: &MetaBuf) -> bool {
        let (Asked { kind, page, crc, .. }, image) = (self.asked[index as usize], &buf.pages()[0]);
        let places = || (0..PAIRS).map(|pair| log::pair(image, pair).0);
        // A forged image may have the right checksum and impossible places.
        log::is_page(image, kind, page)
            && log::page_crc(image, &self.uuid) == crc
            && (kind != Kind::Map || self.layout.admits_places(places()))
    }
}

/// Result of a load.
#[derive(Debug)]
pub(crate) enum Image {
    /// The image was applied.
    Here,
    /// A map page is unrecoverable; its image was on this device.
    Lost(u32, u8),
    /// A map page is to be written elsewhere unchanged; [`Loads::image`] has it.
    Carry(u32),
    /// A map page that was to be written elsewhere is unrecoverable; its image was on this device.
    NotCarried(u32, u8),
    /// The volume cannot be opened for this reason.
    Damaged(&'static str),
}

/// The whole L2P map: its pages in frames, the places of all images, the loads in progress, and the
/// last version number of a block.
#[derive(Debug)]
pub(crate) struct Pages {
    layout: Layout,
    map: Map,
    directory: Directory,
    loads: Loads,
    generation: Generation,
}

impl Pages {
    /// Returns a map of unmapped blocks.
    pub(crate) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Pages {
            layout: *layout,
            map: Map::new(layout),
            directory: Directory::new(layout.tree.pages),
            loads: Loads::new(layout, uuid),
            generation: Generation::default(),
        }
    }

    /// Returns the map of blocks.
    #[inline]
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the map of blocks for modification.
    #[inline]
    pub(crate) fn map_mut(&mut self) -> &mut Map {
        &mut self.map
    }

    /// Returns the directory of the images.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the directory of the images for modification.
    pub(crate) fn directory_mut(&mut self) -> &mut Directory {
        &mut self.directory
    }

    /// Returns the loads in progress.
    pub(crate) fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Returns whether a load can be started now.
    pub(crate) fn may_load(&self, cx: &Cx) -> bool {
        !self.loads.free.is_empty() && cx.commands_left() > 0 && cx.outputs_left() > 8
    }

    /// Starts a load of the image at `place` with this CRC. [`Pages::may_load`] must hold.
    pub(crate) fn load(
        &mut self,
        (kind, page): (Kind, u32),
        (place, crc): (Place, u32),
        purpose: Purpose,
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let index = self.loads.free.pop().expect("a load can start");
        let buf = self.loads.bufs[index as usize].take().expect("a free load has its buffer");
        self.loads.asked[index as usize] = Asked { kind, page, place, crc, purpose };
        // The segment must not be reused while the image is being read.
        media.segments.pin(self.layout.segment_at(place.byte()));
        let command = Command::Read {
            device: place.device(),
            lba: place.byte() / SECTOR as u64,
            into: Target::Meta { buf, pages: 1 },
            cause: Cause::Checkpoint,
        };
        media.devices.submit(Op::Load { index }, command, cx);
    }

    /// Handles an image that was read from its device, rebuilt from the others, or is unreadable.
    pub(crate) fn image_read(
        &mut self,
        index: u8,
        buf: MetaBuf,
        well: bool,
        media: &mut Media,
        cx: &mut Cx,
    ) -> Image {
        let Media { segments, devices, .. } = media;
        let Asked { kind, page, place, purpose, .. } = self.loads.asked[index as usize];
        segments.unpin(self.layout.segment_at(place.byte()));
        cx.touch(PAIRS);
        let image = &buf.pages()[0];
        let came = match (kind, purpose) {
            (Kind::Map, Purpose::Carry) if well => Image::Carry(page),
            (Kind::Map, Purpose::Carry) => Image::NotCarried(page, place.device()),
            (Kind::Map, Purpose::Use) if well => {
                self.map.came(page, Some(image));
                Image::Here
            }
            (Kind::Map, Purpose::Use) => {
                self.map.failed(page);
                Image::Lost(page, place.device())
            }
            _ if !well => Image::Damaged("an image that the root points at can't be read"),
            (Kind::Counts, _) => self.counts_read(page, image, segments, devices),
            _ => self.directory_read(page, image, segments),
        };
        self.loads.bufs[index as usize] = Some(buf);
        self.loads.free.push(index);
        // Failed loads count as well: operations that wait for the page must fail.
        self.loads.arrivals += 1;
        cx.wake();
        came
    }

    /// Loads a page of the directory, and marks the segments of its images as in use.
    fn directory_read(&mut self, number: u32, image: &Page, segments: &mut Segments) -> Image {
        for page in self.directory.load(number, image) {
            let place = self.directory.place(page);
            if !place.is_nowhere() && !self.claim_image(place, segments) {
                return Image::Damaged("the directory refers to an address beyond the devices");
            }
        }
        Image::Here
    }

    /// Counts an image at `place`. Returns false if that place is impossible.
    pub(crate) fn claim_image(&self, place: Place, segments: &mut Segments) -> bool {
        let sound = self.layout.admits_image(place);
        if sound {
            let segment = self.layout.segment_at(place.byte());
            segments.claim(segment, true);
            segments.add(segment, place);
        }
        sound
    }

    fn counts_read(
        &self,
        number: u32,
        image: &Page,
        segments: &mut Segments,
        devices: &mut Devices,
    ) -> Image {
        let first = number * COUNTS as u32;
        for segment in first..(first + COUNTS as u32).min(self.layout.segments) {
            let counted = log::count(image, (segment - first) as usize);
            let Counted { grains, members, lacking, newest } = counted;
            devices.membership_mut().note_stripe(segment, newest);
            let (members, lacking) = (DeviceSet::from_bits(members), DeviceSet::from_bits(lacking));
            if !members.is_empty() && !devices.membership_mut().claim(segment, members, lacking) {
                return Image::Damaged("a segment uses devices that do not exist");
            }
            if grains > 0 && !segments.set_count(segment, grains) {
                return Image::Damaged("the valid count of a segment exceeds its size");
            }
        }
        Image::Here
    }

    /// Returns whether a page has no frame and no image, so that all of its blocks are unmapped.
    #[inline]
    pub(crate) fn is_blank(&self, page: u32) -> bool {
        self.map.state(page) == Where::Away && self.directory.place(page).is_nowhere()
    }

    /// Returns the place and CRC of a block, if they are known without a read.
    #[inline]
    pub(crate) fn pair(&mut self, block: u64) -> Option<(Place, u32)> {
        let known = self.map.get(block);
        // A page without an image needs no frame to be known.
        known.or_else(|| self.is_blank(self.map.map_page(block)).then_some((Place::NOWHERE, 0)))
    }

    /// Returns whether warming has passed all pages.
    pub(crate) fn is_warm(&self) -> bool {
        self.loads.warm == self.layout.tree.pages
    }

    /// Advances warming to the next page.
    pub(crate) fn warm_next(&mut self) {
        self.loads.warm += 1;
    }

    /// Ends warming.
    pub(crate) fn end_warming(&mut self) {
        self.loads.warm = self.layout.tree.pages;
    }

    /// Returns the last version number given to a block.
    pub(crate) fn generation(&self) -> u8 {
        self.generation.last()
    }

    /// Returns the version numbers for modification.
    #[inline]
    pub(crate) fn generation_mut(&mut self) -> &mut Generation {
        &mut self.generation
    }
}
