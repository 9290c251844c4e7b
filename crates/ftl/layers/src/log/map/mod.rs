//! The map of blocks: pages, of which a pool of frames holds those in use.
//!
//! A checkpoint shows the map as it was at one moment, the snapshot, and takes its images bit by
//! bit. Whoever changes a page of the snapshot before its image is taken leaves the frame as it is
//! to the checkpoint, and goes on in a copy.
//!
//! Invariants
//! - A block is nowhere, or at one place, whose record has the CRC that is kept beside it.
//! - A page that differs from its image is dirty or of the snapshot, and stays in its frame.
//! - For each pinned page a frame is kept free, unless it was copied since the snapshot: who has
//!   pinned a page can change it at any time.
//! - The pages that replay would change are those of the snapshot, until its root is durable, and
//!   the dirty ones: no more than `limit`, so that they fit when they are needed.

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

/// Of a block: no frame. Of a frame: no older one.
const NONE: u32 = u32::MAX;

/// The place of a block (low half, high half) and its CRC, together as a look-up finds them.
type Pair = [u32; 3];
/// Of a block that is nowhere.
const NO_PAIR: Pair = [0; 3];

fn pair_of(place: Place, crc: u32) -> Pair {
    [place.bits() as u32, (place.bits() >> 32) as u32, crc]
}

fn read([low, high, crc]: Pair) -> (Place, u32) {
    (Place::from_bits(u64::from(low) | u64::from(high) << 32), crc)
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing.
    Free,
    /// A page whose image is being read.
    Coming,
    /// A page.
    Here,
    /// Nothing: the image of its page can't be read.
    Bad,
    /// A page as it was at the snapshot, which has gone on in another frame.
    Old,
}

const _: () = assert!(size_of::<Frame>() == FRAME, "the plan reckons with another size");

#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u32,
    /// The frame that has the page as it was at the snapshot, if that is another.
    old: u32,
    pins: u16,
    state: State,
    /// Whether it was used since eviction last looked at it.
    used: bool,
}

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// It has no frame.
    Away,
    /// Its image is being read.
    Coming,
    /// It is in its frame.
    Here,
    /// Its image can't be read.
    Bad,
}

#[derive(Debug)]
pub(super) struct Map {
    blocks: u64,
    /// Whether pages have [`FEW_PAIRS`] pairs, else all that there is room for.
    few_pairs: bool,
    /// For each page 1 more than its frame, or 0.
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    pairs: Vec<Pair>,
    free: Vec<u32>,
    hand: usize,
    /// Whether there are frames for all pages.
    is_whole: bool,
    limit: u32,
    /// Pages that collection must be able to change while segments are few.
    for_collection: u32,
    dirty: Bits,
    /// Pages of the snapshot whose images are to be taken.
    due: Bits,
    /// Pages of the snapshot, until its root is durable.
    snapshot: u32,
    /// Pages that are pinned.
    pinned: u32,
    mapped: u64,
}

impl Map {
    /// A map of blocks that are nowhere.
    pub(super) fn new(layout: &Layout) -> Self {
        let (pages, frames) = (layout.tree.pages, layout.tree.frames);
        let is_whole = frames >= pages + spare(pages);
        let limit = if is_whole { u32::MAX } else { frames / 2 };
        let row = layout.row_blocks_of(layout.width()) as u32;
        let empty = Frame { page: 0, old: NONE, pins: 0, state: State::Free, used: false };
        Map {
            blocks: layout.blocks,
            few_pairs: layout.tree.few_pairs,
            frame_of: vec![0; pages as usize],
            frames: vec![empty; frames as usize],
            pairs: vec![NO_PAIR; frames as usize * PAIRS],
            free: (0..frames).rev().collect(),
            hand: 0,
            is_whole,
            limit,
            for_collection: for_collection(row).min(limit / 2),
            dirty: Bits::new(pages),
            due: Bits::new(pages),
            snapshot: 0,
            pinned: 0,
            mapped: 0,
        }
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> u64 {
        self.blocks
    }

    /// How many blocks are somewhere, those of all pages counted.
    pub(super) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Sets how many blocks are somewhere, as a root says.
    pub(super) fn set_mapped(&mut self, blocks: u64) {
        self.mapped = blocks;
    }

    /// Pages that changed since the snapshot.
    pub(super) fn dirty(&self) -> u32 {
        self.dirty.count()
    }

    /// Whether a checkpoint should let pages go.
    pub(super) fn is_crowded(&self) -> bool {
        !self.is_whole && self.dirty.count() >= self.limit / 2
    }

    /// Frames that are used for pages now, and all of them.
    pub(super) fn use_of_frames(&self) -> (u32, u32) {
        let all = self.frames.len() as u32;
        (all - self.free.len() as u32, all)
    }

    #[inline]
    fn frame(&self, page: u32) -> Option<usize> {
        let found = self.frame_of[page as usize];
        (found > 0).then(|| found as usize - 1)
    }

    /// What is known of a page.
    #[inline]
    pub(super) fn state(&self, page: u32) -> Where {
        match self.frame(page).map(|at| self.frames[at].state) {
            None => Where::Away,
            Some(State::Coming) => Where::Coming,
            Some(State::Bad) => Where::Bad,
            Some(_) => Where::Here,
        }
    }

    /// The page of a block, and its pair in that.
    #[inline]
    fn split(&self, block: u64) -> (u32, usize) {
        let (few, all) = (FEW_PAIRS as u64, PAIRS as u64);
        if self.few_pairs {
            ((block / few) as u32, (block % few) as usize)
        } else {
            ((block / all) as u32, (block % all) as usize)
        }
    }

    /// The page of a block.
    #[inline]
    pub(super) fn page_of(&self, block: u64) -> u32 {
        self.split(block).0
    }

    /// The first block behind a page.
    pub(super) fn end_of(&self, page: u32) -> u64 {
        let pairs = if self.few_pairs { FEW_PAIRS } else { PAIRS };
        (u64::from(page) + 1) * pairs as u64
    }

    /// Where the pair of a block is, if its page is here.
    #[inline]
    fn pair(&self, block: u64) -> Option<usize> {
        let (page, index) = self.split(block);
        let at = self.frame(page)?;
        (self.frames[at].state == State::Here).then_some(at * PAIRS + index)
    }

    /// The place and CRC of a block, if its page is here.
    #[inline]
    pub(super) fn get(&mut self, block: u64) -> Option<(Place, u32)> {
        let at = self.pair(block)?;
        self.frames[at / PAIRS].used = true;
        Some(read(self.pairs[at]))
    }

    /// Where a block is, if its page is here.
    #[inline]
    pub(super) fn look(&self, block: u64) -> Option<Place> {
        Some(read(self.pairs[self.pair(block)?]).0)
    }

    /// Has the processor fetch the pair of a block that is looked up soon. Memory is far away;
    /// the caller does not wait for the pair.
    #[inline]
    pub(super) fn look_ahead(&self, block: u64) {
        if block < self.blocks {
            let (page, index) = self.split(block);
            // A page that is away has no pair; the one that is fetched instead is as good as none.
            let frame = (self.frame_of[page as usize] as usize).saturating_sub(1);
            prefetch_index(&self.pairs, frame * PAIRS + index);
        }
    }

    /// Where a block is whose page is here.
    #[inline]
    pub(super) fn place(&self, block: u64) -> Place {
        self.look(block).expect("the page is here")
    }

    /// Changes the pair of a block whose page is pinned, or before there is a snapshot; returns the
    /// old place.
    pub(super) fn set(&mut self, block: u64, place: Place, crc: u32) -> Place {
        let (page, index) = self.split(block);
        if self.due.has(page) && !planted(Bug::SnapshotChanged) {
            self.leave_old(page);
        }
        self.dirty.set(page);
        let at = self.frame(page).expect("the page is here");
        let frame = &mut self.frames[at];
        assert!(frame.state == State::Here, "a page that changes is here");
        frame.used = true;
        let pair = &mut self.pairs[at * PAIRS + index];
        let (old, _) = read(core::mem::replace(pair, pair_of(place, crc)));
        let mapped = self.mapped + u64::from(!place.is_nowhere());
        // A root that somebody made up may say too little; `check` counts again.
        self.mapped = mapped.saturating_sub(u64::from(!old.is_nowhere()));
        old
    }

    /// Leaves a page as it is to the checkpoint; it goes on in a copy, unless it did so before.
    fn leave_old(&mut self, page: u32) {
        let from = self.frame(page).expect("the page is here");
        if self.frames[from].old != NONE {
            return;
        }
        let to = self.free.pop().expect("a frame is kept for each pinned page") as usize;
        self.pairs.copy_within(from * PAIRS..(from + 1) * PAIRS, to * PAIRS);
        self.frames[to] = Frame { old: from as u32, ..self.frames[from] };
        self.frames[from] = Frame { pins: 0, state: State::Old, ..self.frames[from] };
        self.frame_of[page as usize] = to as u32 + 1;
    }

    fn let_go(&mut self, at: usize) {
        assert!(self.frames[at].state != State::Free, "a frame is let go once");
        self.frames[at].state = State::Free;
        self.free.push(at as u32);
    }

    /// Gives a page that is away a frame. False when there is none now.
    pub(super) fn invite(&mut self, page: u32) -> bool {
        while self.free.len() as u32 <= self.pinned {
            if !self.evict() {
                return false;
            }
        }
        let at = self.free.pop().expect("more are free than are pinned") as usize;
        assert_eq!(self.frame_of[page as usize], 0, "a page has one frame");
        self.frame_of[page as usize] = at as u32 + 1;
        let (state, old) = (State::Coming, NONE);
        self.frames[at] = Frame { page, old, pins: 0, state, used: true };
        true
    }

    /// A page that was invited came; without an image all of it is nowhere.
    pub(super) fn came(&mut self, page: u32, image: Option<&Page>) {
        let at = self.frame(page).expect("the page was invited");
        assert_eq!(self.frames[at].state, State::Coming);
        self.frames[at].state = State::Here;
        let pairs = &mut self.pairs[at * PAIRS..(at + 1) * PAIRS];
        match image {
            None => pairs.fill(NO_PAIR),
            Some(image) => {
                for (index, it) in pairs.iter_mut().enumerate() {
                    let (place, crc) = pair(image, index);
                    *it = pair_of(place, crc);
                }
            }
        }
    }

    /// The image of a page that was invited can't be read.
    pub(super) fn failed(&mut self, page: u32) {
        let at = self.frame(page).expect("the page was invited");
        assert_eq!(self.frames[at].state, State::Coming, "an image that fails was being read");
        self.frames[at].state = State::Bad;
    }

    /// Forgets that a page's image couldn't be read, unless somebody keeps the page: it is read
    /// once more for whoever wants it next.
    #[inline]
    pub(super) fn try_again(&mut self, page: u32) {
        let Some(at) = self.frame(page) else { return };
        if self.frames[at].state == State::Bad && self.frames[at].pins == 0 {
            self.frame_of[page as usize] = 0;
            self.let_go(at);
        }
    }

    /// Frees the frame of a page that is not in use and does not differ from its image.
    fn evict(&mut self) -> bool {
        if self.is_whole {
            return false;
        }
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
                self.frame_of[page as usize] = 0;
                self.let_go(at);
                return true;
            }
        }
        false
    }

    /// Keeps a page that has a frame until it is let off, so that it can be changed; `spare` more
    /// can be pinned then. False when that is not possible now.
    pub(super) fn pin(&mut self, page: u32, spare: u32) -> bool {
        let at = self.frame(page).expect("the page was invited");
        let first = self.frames[at].pins == 0;
        let others = self.pinned + spare - u32::from(!first);
        if self.dirty.count() + self.snapshot + others >= self.limit {
            return false;
        }
        self.frames[at].pins += 1; // Eviction must leave it alone.
        while first && self.free.len() as u32 <= others {
            if !self.evict() {
                assert!(self.frames[at].pins > 0, "a page is let go as often as it was kept");
                self.frames[at].pins -= 1;
                return false;
            }
        }
        self.pinned += u32::from(first);
        true
    }

    /// Pins the page of a block, if that is here and can be pinned now.
    #[inline]
    pub(super) fn pin_here(&mut self, block: u64) -> bool {
        let page = self.page_of(block);
        self.state(page) == Where::Here && self.pin(page, 0)
    }

    /// Pins a page that is pinned once more.
    pub(super) fn pin_again(&mut self, page: u32) {
        let at = self.frame(page).expect("a pinned page stays");
        assert!(self.frames[at].pins > 0, "the page is pinned");
        self.frames[at].pins += 1;
    }

    /// Ends one [`Map::pin`].
    #[inline]
    pub(super) fn unpin(&mut self, page: u32) {
        let at = self.frame(page).expect("a pinned page stays");
        self.frames[at].pins -= 1;
        self.pinned -= u32::from(self.frames[at].pins == 0);
    }

    /// How many more pages than one's own must be left to be pinned by those that free others.
    pub(super) fn reserve(&self) -> u32 {
        (self.frames.len() as u32 / 16).clamp(1, 64)
    }

    /// The same while segments are few, where not all pages have frames: so many pages can
    /// collection change between two checkpoints, which seal its rows early, that it gains room all
    /// the same. It is no more than that, however many frames there are: writes of the host wait
    /// for it.
    pub(super) fn reserve_of_collection(&self) -> u32 {
        if self.is_whole { self.reserve() } else { self.reserve().max(self.for_collection) }
    }

    /// Whether a page can come without another that has to go.
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
            return Err("a frame is neither free nor its page's");
        }
        if pinned != self.pinned as usize || free + old < pinned {
            return Err("a page is pinned and no frame is kept for its copy");
        }
        Ok(())
    }

    /// A new image of a page is wanted, although it may not have changed.
    pub(super) fn mark(&mut self, page: u32) {
        self.dirty.set(page);
    }

    /// The snapshot is made: images of what is dirty are to be taken as it is now.
    pub(super) fn freeze(&mut self) {
        assert!(self.due.count() == 0, "one snapshot at a time");
        core::mem::swap(&mut self.dirty, &mut self.due);
        self.snapshot = self.due.count();
    }

    /// The root of the snapshot is durable.
    pub(super) fn root_durable(&mut self) {
        assert_eq!(self.due.count(), 0, "the root shows the whole snapshot");
        self.snapshot = 0;
    }

    /// The first page from `page` on whose image is to be taken, and how many words of marks were
    /// looked at.
    pub(super) fn next_due(&self, page: u32) -> (Next, usize) {
        self.due.next(page)
    }

    /// Takes an image of a page of the snapshot. False when only its old image shows it.
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

    /// The image of a page of the snapshot was taken, or its old one stays.
    pub(super) fn has_image(&mut self, page: u32) {
        self.due.clear(page);
        let Some(at) = self.frame(page) else { return };
        let old = core::mem::replace(&mut self.frames[at].old, NONE);
        if old != NONE {
            self.let_go(old as usize);
        }
    }
}
