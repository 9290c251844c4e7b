//! Reads images into memory: map pages when they are needed, and what the root points at.
//!
//! Invariants
//! - A page that is coming has one load, which ends with it here or bad.
//! - The segment of an image that is being read stays as it is.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, SECTOR, Target, Verdict};
use hostftl_format::log::{self, COUNTS, Kind, PAIRS, Place};

use crate::kit::Life;
use crate::log::Engine;
use crate::log::map::Where;
use crate::log::ops::{Cx, Op, give_up, works};
use crate::log::redundancy::metadata::Wanted;

/// Images that are read at once.
pub const LOADS: usize = 32;
/// Of these, how many may be read before anybody needs them.
const WARMING: usize = 4;
/// Map pages that warming looks at in one go.
const WARM_STEP: u32 = 256;

/// What an image is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
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

/// See the module text.
#[derive(Debug)]
pub struct Loads {
    uuid: [u8; 16],
    bufs: Vec<Option<MetaBuf>>,
    asked: [Asked; LOADS],
    free: Vec<u8>,
    /// Loads that are over: what waits for a page may go on.
    pub arrivals: u64,
    /// The next page that warming looks at.
    warm: u32,
}

impl Loads {
    pub fn new(uuid: [u8; 16]) -> Self {
        let none = Asked {
            kind: Kind::Map,
            page: 0,
            place: Place::NOWHERE,
            crc: 0,
            purpose: Purpose::Use,
        };
        Loads {
            uuid,
            bufs: (0..LOADS).map(|_| Some(MetaBuf::new(1))).collect(),
            asked: [none; LOADS],
            free: (0..LOADS as u8).rev().collect(),
            arrivals: 0,
            warm: 0,
        }
    }

    /// Map pages that warming has looked at.
    pub fn warmed(&self) -> u64 {
        self.warm.into()
    }

    /// Where the image is read that was asked for as number `index`.
    pub fn place(&self, index: u8) -> Place {
        self.asked[index as usize].place
    }

    /// Whether nothing is being read.
    pub fn is_idle(&self) -> bool {
        self.free.len() == LOADS
    }

    /// Whether `buf` has the image that was asked for as number `index`.
    pub fn is_image(&self, index: u8, buf: &MetaBuf) -> bool {
        let (Asked { kind, page, crc, .. }, image) = (self.asked[index as usize], &buf.pages()[0]);
        log::is_page(image, kind, page) && log::page_crc(image, &self.uuid) == crc
    }
}

impl Engine {
    /// Where the image of a page is, and its CRC.
    pub(in crate::log) fn image_of(&self, kind: Kind, page: u32) -> (Place, u32) {
        match kind {
            Kind::Directory => self.checkpoint.top(page),
            Kind::Counts => self.checkpoint.top(self.layout.directories + page),
            _ => self.directory.get(page),
        }
    }

    /// Whether the image of a page can be asked for now.
    pub(in crate::log) fn may_load(&self, cx: &Cx) -> bool {
        !self.loads.free.is_empty() && cx.command_room() > 0 && cx.room() > 8
    }

    /// Reads the image of a page, which there is, when [`Engine::may_load`] says so.
    pub(in crate::log) fn load(
        &mut self,
        (kind, page): (Kind, u32),
        purpose: Purpose,
        cx: &mut Cx,
    ) {
        let (place, crc) = self.image_of(kind, page);
        let index = self.loads.free.pop().expect("a load may begin");
        let buf = self.loads.bufs[index as usize].take().expect("a free load has its buffer");
        self.loads.asked[index as usize] = Asked { kind, page, place, crc, purpose };
        self.segments.pin(self.layout.segment_of(place.byte()));
        let command = Command::Read {
            device: place.device(),
            lba: place.byte() / SECTOR as u64,
            into: Target::Meta { buf, pages: 1 },
            cause: Cause::Checkpoint,
        };
        self.devices.submit(Op::Load { index }, command, cx);
    }

    /// The device has answered: is that the image, or what it should have been?
    pub(in crate::log) fn load_done(
        &mut self,
        index: u8,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("an image comes back")
        };
        let well = result.is_ok() && self.loads.is_image(index, &buf);
        match !well && self.layout.parity {
            true => self.salvage.ask(Wanted::Image(index), (device, lba, pages), buf, cx),
            false => self.image_read(index, buf, well, cx),
        }
    }

    /// An image was read from its device, or made from the others, or can't be.
    pub(in crate::log) fn image_read(&mut self, index: u8, buf: MetaBuf, well: bool, cx: &mut Cx) {
        let Asked { kind, page, place, purpose, .. } = self.loads.asked[index as usize];
        self.segments.unpin(self.layout.segment_of(place.byte()));
        cx.touch(PAIRS);
        let image = &buf.pages()[0];
        if kind == Kind::Map && !well {
            self.page_is_gone(page, place.device(), cx);
        }
        match (kind, purpose) {
            (Kind::Map, Purpose::Carry) => self.carry_image(page, well.then_some(image)),
            (Kind::Map, Purpose::Use) if well => self.map.came(page, Some(image)),
            (Kind::Map, Purpose::Use) => self.map.failed(page),
            _ if !well => give_up("an image that the root points at can't be read", cx),
            (Kind::Counts, _) => self.counts_read(page, image, cx),
            _ => self.directory_read(page, &buf, cx),
        }
        self.loads.bufs[index as usize] = Some(buf);
        self.loads.free.push(index);
        self.loads.arrivals += 1;
        cx.wake();
    }

    /// A page of the directory is here: the segments with images are in use.
    fn directory_read(&mut self, number: u32, buf: &MetaBuf, cx: &mut Cx) {
        for page in self.directory.load(number, &buf.pages()[0]) {
            let place = self.directory.place(page);
            if !place.is_nowhere() && !self.claim_image(place) {
                return give_up("the directory points beyond the devices", cx);
            }
        }
    }

    /// Notes that an image lies at `place`. False when nothing can.
    pub(in crate::log) fn claim_image(&mut self, place: Place) -> bool {
        let sound = self.layout.admits_image(place);
        if sound {
            let segment = self.layout.segment_of(place.byte());
            self.segments.claim(segment, true);
            self.segments.add(segment, place);
        }
        sound
    }

    fn counts_read(&mut self, number: u32, image: &hostftl_core::Page, cx: &mut Cx) {
        let first = number * COUNTS as u32;
        for segment in first..(first + COUNTS as u32).min(self.layout.segments) {
            let grains = log::count(image, (segment - first) as usize);
            if grains > 0 && !self.segments.set_count(segment, grains) {
                return give_up("the count of a segment is more than there is room for", cx);
            }
        }
    }

    /// Whether all of a page is nowhere, and it has no frame.
    pub(in crate::log) fn is_blank(&self, page: u32) -> bool {
        self.map.state(page) == Where::Away && self.directory.place(page).is_nowhere()
    }

    /// The place and CRC of a block, if they can be known without reading.
    pub(in crate::log) fn pair(&mut self, block: u64) -> Option<(Place, u32)> {
        let known = self.map.get(block);
        known.or_else(|| self.is_blank(self.map.page_of(block)).then_some((Place::NOWHERE, 0)))
    }

    /// Gets a page into a frame: away means that this is to be tried again.
    pub(in crate::log) fn fetch_page(&mut self, page: u32, cx: &mut Cx) -> Where {
        let state = self.map.state(page);
        if state != Where::Away {
            return state;
        }
        if self.checkpoint.images.has(page) {
            return self.fetch_unwritten(page, cx);
        }
        let blank = self.directory.place(page).is_nowhere();
        if !blank && !self.may_load(cx) {
            return Where::Away;
        }
        if !self.map.invite(page) {
            self.want_frames(cx);
            return Where::Away;
        }
        if blank {
            cx.touch(PAIRS);
            self.map.came(page, None);
            return Where::Here;
        }
        self.load((Kind::Map, page), Purpose::Use, cx);
        Where::Coming
    }

    /// As [`Engine::fetch_page`], for a page whose image is not on the devices: after a failure it
    /// may never be, and is taken from where it was to be written from.
    fn fetch_unwritten(&mut self, page: u32, cx: &mut Cx) -> Where {
        let image = self.checkpoint.images.image(page).filter(|_| !works(cx));
        let Some(image) = image else { return Where::Away };
        if !self.map.invite(page) {
            return Where::Away;
        }
        cx.touch(PAIRS);
        self.map.came(page, Some(image));
        Where::Here
    }

    /// Gets a page into a frame and keeps it there, so that it can be changed once it is here, with
    /// `spare` more: away means that this is to be tried again.
    pub(in crate::log) fn hold_page(&mut self, page: u32, spare: u32, cx: &mut Cx) -> Where {
        let state = self.fetch_page(page, cx);
        if state != Where::Away && !self.map.pin(page, spare) {
            self.want_frames(cx);
            return Where::Away;
        }
        state
    }

    /// Somebody waits for a frame: a checkpoint lets those of dirty pages go.
    fn want_frames(&mut self, cx: &mut Cx) {
        cx.disturb();
        if self.map.dirty() > 0 {
            self.checkpoint.hurry();
        }
    }

    /// Whether a write waits for room: it is refused only when nothing is under way.
    pub(in crate::log) fn waits_for_room(&self, cx: &mut Cx) -> bool {
        !self.blocks.waiting.is_empty() || cx.requests().first_write().is_some()
    }

    /// Reads pages that nobody has asked for yet into frames that nobody uses.
    pub(in crate::log) fn pump_warming(&mut self, cx: &mut Cx) -> bool {
        if self.loads.warm == self.layout.pages
            || cx.life() != Life::Running
            || self.waits_for_room(cx)
        {
            return false;
        }
        for _ in 0..WARM_STEP {
            let (page, busy) = (self.loads.warm, LOADS - self.loads.free.len());
            let away = self.map.state(page) == Where::Away && !self.is_blank(page);
            let away = away && !self.checkpoint.images.has(page);
            if away && (busy >= WARMING || !self.may_load(cx)) {
                return false;
            }
            if away && !self.map.has_unused() {
                self.loads.warm = self.layout.pages;
                return false;
            }
            if away {
                self.fetch_page(page, cx);
            }
            self.loads.warm += 1;
            if self.loads.warm == self.layout.pages {
                break;
            }
        }
        cx.touch(WARM_STEP as usize);
        true
    }
}
