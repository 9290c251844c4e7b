//! Reads images into memory: map pages when they are needed, and what the root points at.
//!
//! Invariants
//! - A page that is coming has one load, which ends with it here or bad.
//! - The segment of an image that is being read stays as it is.

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

/// What an image is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be used.
    Use,
    /// To be written elsewhere as it is.
    Carry,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    kind: Kind,
    page: u32,
    /// Where it is read, and its CRC.
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
    /// Loads that are over: what waits for a page may go on.
    arrivals: u64,
    /// The next page that warming looks at.
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

    /// Returns how many map pages warming has passed, which is the number of the next one.
    pub(crate) fn warmed(&self) -> u32 {
        self.warm
    }

    /// Returns how many images are being read.
    pub(crate) fn busy(&self) -> usize {
        LOADS - self.free.len()
    }

    /// Loads that are over: what waits for a page may go on.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Where the image is read that was asked for as number `index`.
    pub(crate) fn place(&self, index: u8) -> Place {
        self.asked[index as usize].place
    }

    /// The image that was read last as number `index`.
    pub(crate) fn image(&self, index: u8) -> &Page {
        let buf = self.bufs[usize::from(index)].as_ref().expect("a load that is over");
        &buf.pages()[0]
    }

    /// Whether nothing is being read.
    pub(crate) fn is_idle(&self) -> bool {
        self.free.len() == LOADS
    }

    /// Whether `buf` has the image that was asked for as number `index`.
    pub(crate) fn is_image(&self, index: u8, buf: &MetaBuf) -> bool {
        let (Asked { kind, page, crc, .. }, image) = (self.asked[index as usize], &buf.pages()[0]);
        let places = || (0..PAIRS).map(|pair| log::pair(image, pair).0);
        log::is_page(image, kind, page)
            && log::page_crc(image, &self.uuid) == crc
            && (kind != Kind::Map || self.layout.admits_places(places()))
    }
}

/// What became of an image that was read.
#[derive(Debug)]
pub(crate) enum Image {
    /// It is where it was wanted.
    Here,
    /// A map page is nowhere to be had; its image was on this device.
    Gone(u32, u8),
    /// A map page is to be written elsewhere as it is; [`Loads::image`] has it.
    Carry(u32),
    /// It was to be, and is nowhere to be had either.
    NotCarried(u32, u8),
    /// The volume can't be opened, and why.
    Damaged(&'static str),
}

/// The L2P map as a whole: its pages in frames, where the images of all pages are, those that are
/// being read, and the version that a block was given last.
#[derive(Debug)]
pub(crate) struct Pages {
    layout: Layout,
    map: Map,
    directory: Directory,
    loads: Loads,
    generation: Generation,
}

impl Pages {
    /// A map of blocks that are nowhere.
    pub(crate) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        Pages {
            layout: *layout,
            map: Map::new(layout),
            directory: Directory::new(layout.tree.pages),
            loads: Loads::new(layout, uuid),
            generation: Generation::default(),
        }
    }

    /// The map of blocks.
    #[inline]
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// The map of blocks, to be changed.
    #[inline]
    pub(crate) fn map_mut(&mut self) -> &mut Map {
        &mut self.map
    }

    /// Where the images of the map's pages are.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The same, to be changed.
    pub(crate) fn directory_mut(&mut self) -> &mut Directory {
        &mut self.directory
    }

    /// The images that are being read.
    pub(crate) fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Whether the image of a page can be asked for now.
    pub(crate) fn may_load(&self, cx: &Cx) -> bool {
        !self.loads.free.is_empty() && cx.command_room() > 0 && cx.room() > 8
    }

    /// Reads the image of a page, which lies at `place` and has this CRC, when [`Pages::may_load`]
    /// says so.
    pub(crate) fn load(
        &mut self,
        (kind, page): (Kind, u32),
        (place, crc): (Place, u32),
        purpose: Purpose,
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let index = self.loads.free.pop().expect("a load may begin");
        let buf = self.loads.bufs[index as usize].take().expect("a free load has its buffer");
        self.loads.asked[index as usize] = Asked { kind, page, place, crc, purpose };
        media.segments.pin(self.layout.segment_of(place.byte()));
        let command = Command::Read {
            device: place.device(),
            lba: place.byte() / SECTOR as u64,
            into: Target::Meta { buf, pages: 1 },
            cause: Cause::Checkpoint,
        };
        media.devices.submit(Op::Load { index }, command, cx);
    }

    /// An image was read from its device, or made from the others, or can't be.
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
        segments.unpin(self.layout.segment_of(place.byte()));
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
                Image::Gone(page, place.device())
            }
            _ if !well => Image::Damaged("an image that the root points at can't be read"),
            (Kind::Counts, _) => self.counts_read(page, image, segments, devices),
            _ => self.directory_read(page, image, segments),
        };
        self.loads.bufs[index as usize] = Some(buf);
        self.loads.free.push(index);
        self.loads.arrivals += 1;
        cx.wake();
        came
    }

    /// A page of the directory is here: the segments with images are in use.
    fn directory_read(&mut self, number: u32, image: &Page, segments: &mut Segments) -> Image {
        for page in self.directory.load(number, image) {
            let place = self.directory.place(page);
            if !place.is_nowhere() && !self.claim_image(place, segments) {
                return Image::Damaged("the directory points beyond the devices");
            }
        }
        Image::Here
    }

    /// Notes that an image lies at `place`. False when nothing can.
    pub(crate) fn claim_image(&self, place: Place, segments: &mut Segments) -> bool {
        let sound = self.layout.admits_image(place);
        if sound {
            let segment = self.layout.segment_of(place.byte());
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
            let told = log::count(image, (segment - first) as usize);
            let Counted { grains, members, lacking, newest } = told;
            devices.membership_mut().has_row(segment, newest);
            let (members, lacking) = (DeviceSet::from_bits(members), DeviceSet::from_bits(lacking));
            if !members.is_empty() && !devices.membership_mut().claim(segment, members, lacking) {
                return Image::Damaged("a segment lies on devices that are not there");
            }
            if grains > 0 && !segments.set_count(segment, grains) {
                return Image::Damaged("the count of a segment is more than there is room for");
            }
        }
        Image::Here
    }

    /// Whether all of a page is nowhere, and it has no frame.
    #[inline]
    pub(crate) fn is_blank(&self, page: u32) -> bool {
        self.map.state(page) == Where::Away && self.directory.place(page).is_nowhere()
    }

    /// The place and CRC of a block, if they can be known without reading.
    #[inline]
    pub(crate) fn pair(&mut self, block: u64) -> Option<(Place, u32)> {
        let known = self.map.get(block);
        known.or_else(|| self.is_blank(self.map.page_of(block)).then_some((Place::NOWHERE, 0)))
    }

    /// Whether warming has passed all pages.
    pub(crate) fn is_warm(&self) -> bool {
        self.loads.warm == self.layout.tree.pages
    }

    /// Passes the next page in warming.
    pub(crate) fn warm_next(&mut self) {
        self.loads.warm += 1;
    }

    /// Ends warming.
    pub(crate) fn end_warming(&mut self) {
        self.loads.warm = self.layout.tree.pages;
    }

    /// Returns the version that a block was given last.
    pub(crate) fn generation(&self) -> u8 {
        self.generation.last()
    }

    /// Returns the versions of blocks, to be changed.
    #[inline]
    pub(crate) fn generation_mut(&mut self) -> &mut Generation {
        &mut self.generation
    }
}
