//! The map of blocks: pages, of which a pool of frames holds those in use.
//!
//! A checkpoint writes the map as it was when the checkpoint began, and takes its images gradually.
//! When a page of the checkpoint changes before its image is taken, the old frame is left to the
//! checkpoint, and the page continues in a copy.
//!
//! Invariants
//! - A block is unmapped, or at one place, whose record has the CRC that is stored with it.
//! - A page that differs from its image is dirty or belongs to the checkpoint, and keeps its frame.
//! - For each pinned page a frame is kept free, unless it was copied since the checkpoint began. So
//!   a pinned page can be changed at any time.
//! - Replay would change the pages of the checkpoint, until its root is durable, and the dirty
//!   pages. These are at most `limit`, so that they fit in memory during recovery.

pub(in crate::log) mod bits;
pub(in crate::log) mod directory;
pub(in crate::log) mod pages;
pub(in crate::log) mod size;
#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::log::{Kind, PAIRS, Place, emit_page, pair};
use prefetch_index::prefetch_index;

use crate::log::layout::Layout;
use crate::log::map::bits::{Bits, Next};
use crate::log::map::size::{FEW_PAIRS, FRAME, for_collection, spare};
use crate::planted::{Bug, planted};

/// No frame of a page, or no older frame of a frame.
const NONE: u32 = u32::MAX;

/// Place of a block (low half, high half) and its CRC, together for a fast lookup.
type Pair = [u32; 3];
/// Pair of an unmapped block.
const NO_PAIR: Pair = [0; 3];

fn pack_pair(place: Place, crc: u32) -> Pair {
    [place.bits() as u32, (place.bits() >> 32) as u32, crc]
}

fn read([low, high, crc]: Pair) -> (Place, u32) {
    (Place::from_bits(u64::from(low) | u64::from(high) << 32), crc)
}

/// Contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Empty.
    Free,
    /// A page whose image is being read.
    Coming,
    /// A page.
    Here,
    /// None: the image of the page is unreadable.
    Bad,
    /// A page as it was at the start of the checkpoint, which has continued in another frame.
    Old,
}

const _: () = assert!(size_of::<Frame>() == FRAME, "the plan assumes a different size");

#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u32,
    /// Frame with the page as it was at the start of the checkpoint, if that is another one.
    old: u32,
    pins: u16,
    state: State,
    /// Whether it was used since the last pass of eviction.
    used: bool,
}

/// State of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// It has no frame.
    Away,
    /// Its image is being read.
    Coming,
    /// It is in its frame.
    Here,
    /// Its image is unreadable.
    Bad,
}

#[derive(Debug)]
pub(super) struct Map {
    blocks: u64,
    /// Whether pages have [`FEW_PAIRS`] pairs instead of the maximum.
    few_pairs: bool,
    /// 1 more than the frame of each page, or 0.
    page_frames: Vec<u32>,
    frames: Vec<Frame>,
    pairs: Vec<Pair>,
    free: Vec<u32>,
    hand: usize,
    /// Whether there are frames for all pages.
    is_whole: bool,
    limit: u32,
    /// Pages that garbage collection must be able to change while few segments are free.
    for_collection: u32,
    dirty: Bits,
    /// Pages of the checkpoint whose images are not taken yet.
    due: Bits,
    /// Number of pages of the checkpoint, until its root is durable.
    snapshot: u32,
    /// Number of pinned pages.
    pinned: u32,
    mapped: u64,
}

impl Map {
    /// Returns a map of unmapped blocks.
    pub(super) fn new(layout: &Layout) -> Self {
        let (pages, frames) = (layout.tree.pages, layout.tree.frames);
        let is_whole = frames >= pages + spare(pages);
        let limit = if is_whole { u32::MAX } else { frames / 2 };
        let stripe = layout.blocks_per_stripe(layout.width()) as u32;
        let empty = Frame { page: 0, old: NONE, pins: 0, state: State::Free, used: false };
        Map {
            blocks: layout.blocks,
            few_pairs: layout.tree.few_pairs,
            page_frames: vec![0; pages as usize],
            frames: vec![empty; frames as usize],
            pairs: vec![NO_PAIR; frames as usize * PAIRS],
            free: (0..frames).rev().collect(),
            hand: 0,
            is_whole,
            limit,
            for_collection: for_collection(stripe).min(limit / 2),
            dirty: Bits::new(pages),
            due: Bits::new(pages),
            snapshot: 0,
            pinned: 0,
            mapped: 0,
        }
    }

    /// Returns the number of blocks.
    pub(super) fn len(&self) -> u64 {
        self.blocks
    }

    /// Returns the number of mapped blocks, including pages that are not in memory.
    pub(super) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Sets the number of mapped blocks from a root.
    pub(super) fn set_mapped(&mut self, blocks: u64) {
        self.mapped = blocks;
    }

    /// Returns the number of pages that changed since the checkpoint began.
    pub(super) fn dirty(&self) -> u32 {
        self.dirty.count()
    }

    /// Returns whether a checkpoint should make dirty pages clean.
    pub(super) fn is_crowded(&self) -> bool {
        !self.is_whole && self.dirty.count() >= self.limit / 2
    }

    /// Returns the number of frames in use, and of all frames.
    pub(super) fn use_of_frames(&self) -> (u32, u32) {
        let all = self.frames.len() as u32;
        (all - self.free.len() as u32, all)
    }

    #[inline]
    fn frame(&self, page: u32) -> Option<usize> {
        let found = self.page_frames[page as usize];
        (found > 0).then(|| found as usize - 1)
    }

    /// Returns the state of a page.
    #[inline]
    pub(super) fn state(&self, page: u32) -> Where {
        match self.frame(page).map(|at| self.frames[at].state) {
            None => Where::Away,
            Some(State::Coming) => Where::Coming,
            Some(State::Bad) => Where::Bad,
            Some(_) => Where::Here,
        }
    }

    /// Returns the page of a block, and the index of its pair there.
    #[inline]
    fn split(&self, block: u64) -> (u32, usize) {
        let (few, all) = (FEW_PAIRS as u64, PAIRS as u64);
        if self.few_pairs {
            ((block / few) as u32, (block % few) as usize)
        } else {
            ((block / all) as u32, (block % all) as usize)
        }
    }

    /// Returns the page of a block.
    #[inline]
    pub(super) fn map_page(&self, block: u64) -> u32 {
        self.split(block).0
    }

    /// Returns the first block after a page.
    pub(super) fn page_end(&self, page: u32) -> u64 {
        let pairs = if self.few_pairs { FEW_PAIRS } else { PAIRS };
        (u64::from(page) + 1) * pairs as u64
    }

    /// Returns the index of a block's pair, if its page is in memory.
    #[inline]
    fn pair(&self, block: u64) -> Option<usize> {
        let (page, index) = self.split(block);
        let at = self.frame(page)?;
        (self.frames[at].state == State::Here).then_some(at * PAIRS + index)
    }

    /// Returns the place and CRC of a block, if its page is in memory.
    #[inline]
    pub(super) fn get(&mut self, block: u64) -> Option<(Place, u32)> {
        let at = self.pair(block)?;
        self.frames[at / PAIRS].used = true;
        Some(read(self.pairs[at]))
    }

    /// Returns the place of a block, if its page is in memory.
    #[inline]
    pub(super) fn find_place(&self, block: u64) -> Option<Place> {
        Some(read(self.pairs[self.pair(block)?]).0)
    }

    /// Prefetches the pair of a block into the processor's cache, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self, block: u64) {
        if block < self.blocks {
            let (page, index) = self.split(block);
            // A page without a frame has no pair; fetching another one instead does no harm.
            let frame = (self.page_frames[page as usize] as usize).saturating_sub(1);
            prefetch_index(&self.pairs, frame * PAIRS + index);
        }
    }

    /// Returns the place of a block whose page is in memory.
    #[inline]
    pub(super) fn place(&self, block: u64) -> Place {
        self.find_place(block).expect("the page is resident")
    }

    /// Sets the pair of a block; returns the old place. The page must be pinned, unless no
    /// checkpoint has begun yet.
    pub(super) fn set(&mut self, block: u64, place: Place, crc: u32) -> Place {
        let (page, index) = self.split(block);
        if self.due.has(page) && !planted(Bug::SnapshotChanged) {
            self.leave_old(page);
        }
        self.dirty.set(page);
        let at = self.frame(page).expect("the page is resident");
        let frame = &mut self.frames[at];
        assert!(frame.state == State::Here, "a changing page is resident");
        frame.used = true;
        let pair = &mut self.pairs[at * PAIRS + index];
        let (old, _) = read(core::mem::replace(pair, pack_pair(place, crc)));
        let mapped = self.mapped + u64::from(!place.is_nowhere());
        // A forged root may record too few; `check` counts again.
        self.mapped = mapped.saturating_sub(u64::from(!old.is_nowhere()));
        old
    }

    /// Leaves a page unchanged to the checkpoint. It continues in a copy, unless it already does.
    fn leave_old(&mut self, page: u32) {
        let from = self.frame(page).expect("the page is resident");
        if self.frames[from].old != NONE {
            return;
        }
        let to = self.free.pop().expect("a frame is kept for each pinned page") as usize;
        self.pairs.copy_within(from * PAIRS..(from + 1) * PAIRS, to * PAIRS);
        self.frames[to] = Frame { old: from as u32, ..self.frames[from] };
        self.frames[from] = Frame { pins: 0, state: State::Old, ..self.frames[from] };
        self.page_frames[page as usize] = to as u32 + 1;
    }

    fn let_go(&mut self, at: usize) {
        assert!(self.frames[at].state != State::Free, "a frame is released once");
        self.frames[at].state = State::Free;
        self.free.push(at as u32);
    }

    /// Assigns a frame to a page. Returns false if none is available now.
    pub(super) fn invite(&mut self, page: u32) -> bool {
        // A frame for the copy of each pinned page must stay free.
        while self.free.len() as u32 <= self.pinned {
            if !self.evict() {
                return false;
            }
        }
        let at = self.free.pop().expect("more are free than are pinned") as usize;
        assert_eq!(self.page_frames[page as usize], 0, "a page has one frame");
        self.page_frames[page as usize] = at as u32 + 1;
        let (state, old) = (State::Coming, NONE);
        self.frames[at] = Frame { page, old, pins: 0, state, used: true };
        true
    }

    /// Fills the frame of a page from its image; without one, all of its blocks are unmapped.
    pub(super) fn came(&mut self, page: u32, image: Option<&Page>) {
        let at = self.frame(page).expect("the page was requested");
        assert_eq!(self.frames[at].state, State::Coming);
        self.frames[at].state = State::Here;
        let pairs = &mut self.pairs[at * PAIRS..(at + 1) * PAIRS];
        match image {
            None => pairs.fill(NO_PAIR),
            Some(image) => {
                for (index, it) in pairs.iter_mut().enumerate() {
                    let (place, crc) = pair(image, index);
                    *it = pack_pair(place, crc);
                }
            }
        }
    }

    /// Marks the image of a page as unreadable.
    pub(super) fn failed(&mut self, page: u32) {
        let at = self.frame(page).expect("the page was requested");
        assert_eq!(self.frames[at].state, State::Coming, "a failed image was being read");
        self.frames[at].state = State::Bad;
    }

    /// Drops the mark of an unreadable page unless it is pinned, so that its image is read again.
    #[inline]
    pub(super) fn try_again(&mut self, page: u32) {
        let Some(at) = self.frame(page) else { return };
        if self.frames[at].state == State::Bad && self.frames[at].pins == 0 {
            self.page_frames[page as usize] = 0;
            self.let_go(at);
        }
    }

    /// Frees the frame of a page that is not in use and equals its image.
    fn evict(&mut self) -> bool {
        if self.is_whole {
            return false;
        }
        // Clock algorithm: the first pass may only clear the `used` marks.
        for _ in 0..2 * self.frames.len() {
            let at = self.hand;
            self.hand = (at + 1) % self.frames.len();
            let it = &mut self.frames[at];
            let page = it.page;
            let rests = matches!(it.state, State::Here | State::Bad);
            if !rests || it.pins > 0 || core::mem::take(&mut it.used) {
                continue;
            }
            let changed = self.dirty.has(page) || self.due.has(page);
            if !changed || planted(Bug::DirtyEvicted) && it.old == NONE {
                self.page_frames[page as usize] = 0;
                self.let_go(at);
                return true;
            }
        }
        false
    }

    /// Pins a page that has a frame, so that it can be changed; `spare` more can be pinned
    /// afterwards. Returns false if that is not possible now.
    pub(super) fn pin(&mut self, page: u32, spare: u32) -> bool {
        let at = self.frame(page).expect("the page was requested");
        let first = self.frames[at].pins == 0;
        let others = self.pinned + spare - u32::from(!first);
        // Each pinned page may become dirty, and replay must fit all dirty pages.
        if self.dirty.count() + self.snapshot + others >= self.limit {
            return false;
        }
        self.frames[at].pins += 1; // Eviction must leave it alone.
        while first && self.free.len() as u32 <= others {
            if !self.evict() {
                assert!(self.frames[at].pins > 0, "a page is released once per hold");
                self.frames[at].pins -= 1;
                return false;
            }
        }
        self.pinned += u32::from(first);
        true
    }

    /// Pins the page of a block, if it is in memory and can be pinned now.
    #[inline]
    pub(super) fn pin_here(&mut self, block: u64) -> bool {
        let page = self.map_page(block);
        self.state(page) == Where::Here && self.pin(page, 0)
    }

    /// Pins a pinned page again.
    pub(super) fn pin_again(&mut self, page: u32) {
        let at = self.frame(page).expect("a pinned page is not evicted");
        assert!(self.frames[at].pins > 0, "the page is pinned");
        self.frames[at].pins += 1;
    }

    /// Reverts one [`Map::pin`].
    #[inline]
    pub(super) fn unpin(&mut self, page: u32) {
        let at = self.frame(page).expect("a pinned page is not evicted");
        self.frames[at].pins -= 1;
        self.pinned -= u32::from(self.frames[at].pins == 0);
    }

    /// Returns the number of pins that must stay available to operations that free space.
    pub(super) fn reserve(&self) -> u32 {
        (self.frames.len() as u32 / 16).clamp(1, 64)
    }

    /// Returns the same while few segments are free and not all pages have frames. Between two
    /// checkpoints, which seal its stripes early, garbage collection can change this number of
    /// pages and thus still frees space. More frames do not raise it, because host writes wait for
    /// these.
    pub(super) fn reserve_of_collection(&self) -> u32 {
        if self.is_whole { self.reserve() } else { self.reserve().max(self.for_collection) }
    }

    /// Returns whether a page can be loaded without evicting another.
    pub(super) fn has_unused(&self) -> bool {
        self.free.len() as u32 > self.pinned + 2 * self.reserve()
    }

    /// Checks the invariants.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let used = |it: &&Frame| !matches!(it.state, State::Free | State::Old);
        let is_found = |(at, it): (usize, &Frame)| {
            it.state == State::Free || it.state == State::Old || self.frame(it.page) == Some(at)
        };
        let old = self.frames.iter().filter(|it| it.state == State::Old).count();
        let free = self.frames.iter().filter(|it| it.state == State::Free).count();
        let pinned = self.frames.iter().filter(used).filter(|it| it.pins > 0).count();
        if free != self.free.len() || !self.frames.iter().enumerate().all(is_found) {
            return Err("a frame is neither free nor owned by its page");
        }
        if pinned != self.pinned as usize || free + old < pinned {
            return Err("a page is pinned and no frame is reserved for its copy");
        }
        Ok(())
    }

    /// Requests a new image of a page, even if it has not changed.
    pub(super) fn mark(&mut self, page: u32) {
        self.dirty.set(page);
    }

    /// Begins a checkpoint: images of the dirty pages are to be taken as they are now.
    pub(super) fn freeze(&mut self) {
        assert!(self.due.count() == 0, "one snapshot at a time");
        core::mem::swap(&mut self.dirty, &mut self.due);
        self.snapshot = self.due.count();
    }

    /// Notes that the root of the checkpoint is durable.
    pub(super) fn root_durable(&mut self) {
        assert_eq!(self.due.count(), 0, "the root covers the whole snapshot");
        self.snapshot = 0;
    }

    /// Returns the first page from `page` on whose image is to be taken, and the number of words
    /// examined.
    pub(super) fn next_due(&self, page: u32) -> (Next, usize) {
        self.due.next(page)
    }

    /// Writes an image of a page of the checkpoint. Returns false if only its old image has the
    /// contents.
    pub(super) fn emit(&mut self, page: u32, into: &mut Page) -> bool {
        let Some(at) = self.frame(page) else { return false };
        let old = self.frames[at].old;
        let from = if old == NONE { at } else { old as usize };
        if matches!(self.frames[from].state, State::Coming | State::Bad) {
            return false;
        }
        let pairs = self.pairs[from * PAIRS..(from + 1) * PAIRS].iter();
        emit_page(into, Kind::Map, page, pairs.map(|pair| read(*pair)));
        self.has_image(page);
        true
    }

    /// Notes that the image of a page of the checkpoint was taken, or its old one is kept.
    pub(super) fn has_image(&mut self, page: u32) {
        self.due.clear(page);
        let Some(at) = self.frame(page) else { return };
        let old = core::mem::replace(&mut self.frames[at].old, NONE);
        if old != NONE {
            self.let_go(old as usize);
        }
    }
}
