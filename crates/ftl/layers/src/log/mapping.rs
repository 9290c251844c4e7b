//! Third level of the array: the places of all blocks, and the checkpoints of the map.
//!
//! [`Pages`] contains the map and reads the images of its pages; [`Checkpoint`] writes them. The
//! image of a page may still be in flight to the devices, and a checkpoint makes frames available.
//! So pages are fetched here, where both parts are accessible.

use hostftl_format::log::{Kind, PAIRS};

use crate::log::checkpoint::Checkpoint;
use crate::log::map::Where;
use crate::log::map::pages::{Pages, Purpose};
use crate::log::media::Media;
use crate::log::ops::{Cx, works};

/// Maximum number of images in flight for warming.
const WARMING: usize = 4;
/// Map pages that warming passes in one step.
const WARM_STEP: u32 = 256;

#[derive(Debug)]
pub(super) struct Mapping {
    /// Map of blocks, its pages and their images.
    pub pages: Pages,
    /// Images and roots that are written.
    pub checkpoint: Checkpoint,
}

impl Mapping {
    /// Loads a page into a frame. Returns its state; a page that is still Away has to be fetched
    /// again later.
    #[inline]
    pub(super) fn fetch(&mut self, page: u32, media: &mut Media, cx: &mut Cx) -> Where {
        match self.pages.map().state(page) {
            Where::Away => self.fetch_away(page, media, cx),
            known => known,
        }
    }

    /// Loads a page that has no frame.
    fn fetch_away(&mut self, page: u32, media: &mut Media, cx: &mut Cx) -> Where {
        // An image that is not written yet cannot be read from its device.
        if self.checkpoint.images().has(page) {
            return self.fetch_unwritten(page, cx);
        }
        let blank = self.pages.directory().place(page).is_nowhere();
        // Checked before a frame is taken, so that no frame is taken for a page that cannot be read
        // yet. A page without an image needs no read.
        if !blank && !self.pages.may_load(cx) {
            return Where::Away;
        }
        if !self.pages.map_mut().invite(page) {
            self.want_frames(cx);
            return Where::Away;
        }
        if blank {
            cx.touch(PAIRS);
            // A page without an image has no mapped block.
            self.pages.map_mut().came(page, None);
            return Where::Here;
        }
        let image = self.pages.directory().get(page);
        self.pages.load((Kind::Map, page), image, Purpose::Use, media, cx);
        Where::Coming
    }

    /// Loads a page whose image is not on the devices yet. After a failure the image may never be
    /// written, so it is taken from the buffer of the checkpoint.
    fn fetch_unwritten(&mut self, page: u32, cx: &mut Cx) -> Where {
        let image = self.checkpoint.images().image(page).filter(|_| !works(cx));
        let Some(image) = image else { return Where::Away };
        if !self.pages.map_mut().invite(page) {
            return Where::Away;
        }
        cx.touch(PAIRS);
        self.pages.map_mut().came(page, Some(image));
        Where::Here
    }

    /// Loads a page into a frame and pins it, so that it can be changed once it is in memory. At
    /// least `spare` more pages can still be pinned afterwards. Returns the state of the page; one
    /// that is Away is not pinned.
    #[inline]
    pub(super) fn hold(&mut self, page: u32, spare: u32, media: &mut Media, cx: &mut Cx) -> Where {
        let state = self.fetch(page, media, cx);
        if state != Where::Away && !self.pages.map_mut().pin(page, spare) {
            self.want_frames(cx);
            return Where::Away;
        }
        state
    }

    /// Requests a checkpoint, which makes dirty pages clean, because a page found no frame.
    fn want_frames(&mut self, cx: &mut Cx) {
        cx.invalidate_fast_path();
        if self.pages.map().dirty() > 0 {
            self.checkpoint.hurry();
        }
    }

    /// Reads pages ahead into unused frames.
    pub(super) fn warm(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        if self.pages.is_warm() {
            return false;
        }
        for _ in 0..WARM_STEP {
            let page = self.pages.loads().warmed();
            let away = self.pages.map().state(page) == Where::Away && !self.pages.is_blank(page);
            let away = away && !self.checkpoint.images().has(page);
            if away && (self.pages.loads().busy() >= WARMING || !self.pages.may_load(cx)) {
                return false;
            }
            // Warming evicts no page.
            if away && !self.pages.map().has_unused() {
                self.pages.end_warming();
                return false;
            }
            if away {
                self.fetch(page, media, cx);
            }
            self.pages.warm_next();
            if self.pages.is_warm() {
                break;
            }
        }
        // Pages that were passed count as well: the loop may load none at all.
        cx.touch(WARM_STEP as usize);
        true
    }
}
