//! Checkpoints: images of all map pages, and a root that makes them valid.
//!
//! The host continues while images are taken, so they are fuzzy. The root records the row from
//! which replay must start to bring them up to date. The root is sent when everything that the
//! images show is durable, and takes effect when it is durable itself.
//!
//! Invariants
//! - One checkpoint is in progress at a time, and one strip of it.
//! - The images of the last durable root, and its strip, are kept until the next root is durable.

use hostftl_core::{Cause, Command, DeviceError, Event, Gather, SECTORS_PER_BLOCK, Tally};
use hostftl_format::zones::{self, Entry, Holds, Kind};

use super::layout::Layout;
use super::lines::Who;
use super::ops::{Cx, Op, fail};
use super::store::Store;
use super::strips::Draft;
use crate::kit::Life;
use crate::kit::metabuf::{MetaHome, into_meta};
use crate::planted::{Bug, planted};

/// Stage of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Taking images of map pages, from this one on.
    Images(u32),
    /// Waiting until all rows up to this one are durable.
    Settle(u64),
    /// Flushing the images.
    Flushing,
    /// Writing the root.
    Root,
    /// Flushing the root.
    RootFlushing,
}

/// State of the strip in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strip {
    Filling,
    Ready,
    Sent,
}

/// A root, with the information for replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Root {
    /// Number of its strip among those with images.
    pub seq: u64,
    /// First row to replay.
    pub replay_from: u64,
    /// First strip with its images.
    pub images_from: u64,
    /// Number of images.
    pub images: u32,
}

/// Checkpoint state of a volume.
#[derive(Debug)]
pub(super) struct Checkpoint {
    layout: Layout,
    stage: Stage,
    strip: Strip,
    /// The last durable root; `next` is the one in progress.
    root: Root,
    next: Root,
    /// Number of the last strip of images.
    strips: u64,
    buf: MetaHome,
    /// Images in the current strip.
    count: u32,
    wanted: bool,
    /// Rows between two roots.
    interval: u64,
}

impl Checkpoint {
    pub(super) fn new(layout: &Layout) -> Self {
        let strips = u64::from(layout.lines) * u64::from(layout.line_strips());
        Checkpoint {
            layout: *layout,
            stage: Stage::Idle,
            strip: Strip::Filling,
            root: Root::default(),
            next: Root::default(),
            strips: 0,
            buf: MetaHome::new((layout.strip / SECTORS_PER_BLOCK) as usize),
            count: 0,
            wanted: false,
            interval: (strips / 8).clamp(64, 1 << 20),
        }
    }

    /// Returns the last durable root.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// Continues after the newest root and the last strip of images that recovery found.
    pub(super) fn resume(&mut self, root: Root, strips: u64) {
        (self.root, self.strips) = (root, strips);
    }

    /// Returns whether no checkpoint is requested or in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && !self.wanted
    }

    /// Returns whether nothing would be replayed after the durable root.
    pub(super) fn is_current(&self, seqs: u64) -> bool {
        self.is_idle() && self.root.seq > 0 && self.root.replay_from == seqs + 1
    }

    /// Requests a checkpoint. Returns false if one is already requested or in progress.
    pub(super) fn hurry(&mut self) -> bool {
        let idle = self.is_idle();
        self.wanted |= idle;
        idle
    }
}

impl Checkpoint {
    /// Advances a checkpoint, or begins one when it is due.
    pub(super) fn run(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        if cx.outputs_left() < 8 || cx.commands_left() < 8 {
            return false;
        }
        match self.stage {
            Stage::Idle => self.begin(store),
            Stage::Images(_) | Stage::Root if self.strip == Strip::Sent => false,
            Stage::Images(_) | Stage::Root if self.strip == Strip::Ready => self.send(store, cx),
            Stage::Images(page) => self.take_image(page, store, cx),
            Stage::Settle(mark) => self.settle(mark, store, cx),
            Stage::Root => self.make_root(),
            Stage::Flushing | Stage::RootFlushing => false,
        }
    }

    fn go(&mut self, next: Stage) -> bool {
        let fits = match (self.stage, next) {
            (Stage::Idle, Stage::Images(page)) => page == 0,
            (Stage::Images(page), Stage::Images(next)) => next == page + 1,
            (Stage::Images(_), Stage::Settle(_))
            | (Stage::Settle(_), Stage::Flushing)
            | (Stage::Flushing, Stage::Root)
            | (Stage::Root, Stage::RootFlushing)
            | (Stage::RootFlushing, Stage::Idle) => true,
            _ => false,
        };
        assert!(fits, "a checkpoint can't go from {:?} to {next:?}", self.stage);
        self.stage = next;
        true
    }

    fn set_strip(&mut self, next: Strip) -> bool {
        let fits = matches!(
            (self.strip, next),
            (Strip::Filling | Strip::Sent, Strip::Ready)
                | (Strip::Ready, Strip::Sent)
                | (Strip::Sent, Strip::Filling)
        );
        assert!(fits, "a strip of images can't go from {:?} to {next:?}", self.strip);
        self.strip = next;
        true
    }

    fn begin(&mut self, store: &Store) -> bool {
        let newest = store.newest();
        if !self.wanted && (newest + 1).saturating_sub(self.root.replay_from) < self.interval {
            return false;
        }
        // Rows that are not written yet are not in the images, so replay must start with them.
        let skips = planted(Bug::ZonesRootSkipsRows);
        let replay_from = if skips { newest + 1 } else { store.first_unwritten() };
        self.wanted = false;
        self.next = Root { seq: 0, replay_from, images_from: self.strips + 1, images: 0 };
        self.go(Stage::Images(0))
    }

    /// Takes the image of a page, unless the page is empty.
    fn take_image(&mut self, page: u32, store: &Store, cx: &mut Cx) -> bool {
        if page == self.layout.pages {
            return match self.count {
                0 => self.go(Stage::Settle(store.newest())),
                _ => self.set_strip(Strip::Ready),
            };
        }
        let (slot, blocks) = (self.count, self.layout.strip_blocks());
        let pages = self.buf.pages_mut();
        let image = &mut pages[slot as usize];
        let any = store.map.emit(page, image, |row, slot| store.device_block(row, slot));
        cx.touch(self.layout.page_entries() as usize);
        if any {
            let crc = zones::image_crc(image, page.into());
            let entry = Entry { kind: Kind::Image, block: page.into(), value: slot, crc };
            zones::put_entry(&mut pages[blocks as usize], slot as usize, &entry);
        }
        self.count += u32::from(any);
        self.next.images += u32::from(any);
        self.go(Stage::Images(page + 1));
        // An incomplete strip is sent after the last page.
        if self.count == blocks {
            self.set_strip(Strip::Ready);
        }
        true
    }

    fn make_root(&mut self) -> bool {
        let Root { replay_from, images_from, images, .. } = self.next;
        let tail = self.buf.pages_mut().last_mut().expect("a strip has a tail");
        let root = Entry { kind: Kind::Root, block: replay_from, value: images, crc: 0 };
        zones::put_entry(tail, 0, &root);
        let from = Entry { kind: Kind::Images, block: images_from, value: 0, crc: 0 };
        zones::put_entry(tail, 1, &from);
        self.set_strip(Strip::Ready)
    }

    /// Sends the strip that is ready.
    fn send(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        let (front, newest) = (self.layout.fronts as usize, store.newest());
        let Some((segment, strip)) = store.lines.place(front, newest, Who::Collection) else {
            return false;
        };
        self.strips += 1;
        let is_root = self.stage == Stage::Root;
        // A placement of their own: images are invalidated together, unlike blocks.
        let draft = Draft {
            body: Gather::new(),
            meta: self.buf.lend(),
            entries: if is_root { 2 } else { self.count as usize },
            holds: Holds::Images,
            seq: self.strips,
            newest,
            tally: Tally::single(Cause::Checkpoint, (self.count + 1) * SECTORS_PER_BLOCK),
            placement: 1,
        };
        let command = store.strips.program((segment, strip), draft, &store.lines, cx);
        cx.submit(Op::Images { segment, strip }, command);
        self.set_strip(Strip::Sent)
    }

    /// Completes a strip of images or the root.
    pub(super) fn strip_done(
        &mut self,
        (segment, strip): (u32, u32),
        (command, result): (Command, Result<(), DeviceError>),
        store: &mut Store,
        cx: &mut Cx,
    ) {
        self.buf.take_back(into_meta(command));
        let line = self.layout.line(segment);
        store.lines.chunks_mut().sent(segment, strip, result.is_err());
        match result {
            Ok(()) => {
                let is_root = self.stage == Stage::Root;
                store.lines.at_mut(line).add_images(if is_root { 1 } else { self.count });
                self.count = 0;
                self.set_strip(Strip::Filling);
                store.lines.row_over(line, 0);
                if is_root {
                    // Recovery identifies the newest root by its strip number.
                    self.next.seq = self.strips;
                    self.go(Stage::RootFlushing);
                    cx.submit(Op::Settle, Command::Flush { device: 0 });
                }
            }
            Err(DeviceError::Media) => {
                // The buffer still has the strip, which goes to another segment.
                self.set_strip(Strip::Ready);
                store.lines.lose_segment(segment, cx);
                store.lines.row_over(line, 0);
            }
            Err(error) => fail(error, cx),
        }
    }

    /// Waits until everything that the images show is durable, then flushes the images.
    fn settle(&mut self, mark: u64, store: &mut Store, cx: &mut Cx) -> bool {
        if !store.durability.is_durable(mark) && !planted(Bug::ZonesRootEarly) {
            // A root must not show blocks that a power cut could take back.
            return store.durability.want(mark);
        }
        cx.submit(Op::Settle, Command::Flush { device: 0 });
        self.go(Stage::Flushing)
    }

    /// Completes a flush of a checkpoint.
    pub(super) fn flush_done(&mut self, store: &mut Store, cx: &mut Cx) {
        if !cx.is_good() {
            return;
        }
        if self.stage == Stage::Flushing {
            self.go(Stage::Root);
            return;
        }
        self.go(Stage::Idle);
        self.root = self.next;
        // Only now may the lines with the previous images be reset.
        store.lines.root_durable();
        // The first root of a new volume is part of its creation.
        if cx.life() != Life::Starting {
            cx.report(Event::CheckpointDone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    fn checkpoint() -> Checkpoint {
        Checkpoint::new(&Layout::trial(LayerKind::Pblk, 16, 80, 2))
    }

    #[test]
    fn a_checkpoint_is_asked_for_once_and_is_current_until_a_row_follows() {
        let mut it = checkpoint();
        assert!(!it.is_current(0), "there is no root");
        it.resume(Root { seq: 4, replay_from: 8, images_from: 2, images: 2 }, 4);
        assert!(it.is_current(7) && !it.is_current(8));
        assert!(it.hurry() && !it.hurry() && !it.is_idle());
    }

    #[test]
    #[should_panic(expected = "a checkpoint can't go from Images(0) to Root")]
    fn a_root_waits_for_the_data_of_its_images() {
        let mut it = checkpoint();
        it.go(Stage::Images(0));
        it.go(Stage::Root);
    }
}
