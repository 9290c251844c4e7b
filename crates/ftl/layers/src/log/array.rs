//! The array: the volume below the host's requests, in four floors.
//!
//! Each floor uses only the floors below it. Its parts take these as arguments, from the lowest up:
//! `(&mut Media, &mut Output, &mut Mapping, cx)`. Only steps that change several floors at once are
//! methods of the array. Publishing a record, for example, changes its stripe, the map, the
//! segments and the journal; it is in `stripe/append.rs`.

use hostftl_core::{BLOCK, Command, DeviceSet, HostError, SECTOR};

use crate::log::background::Background;
use crate::log::layout::{At, Layout};
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Checking, Cx, Op, has_room};
use crate::log::output::Output;
#[cfg(doc)]
use crate::log::redundancy::timed_out::TimedOut;

#[derive(Debug)]
pub(super) struct Array {
    /// Devices, segments and buffers.
    pub media: Media,
    /// Stripes from open to durable.
    pub output: Output,
    /// Places of blocks.
    pub mapping: Mapping,
    /// Garbage collection and scrub.
    pub background: Background,
}

impl Array {
    /// Returns the geometry of the volume.
    #[inline]
    pub(super) fn layout(&self) -> &Layout {
        self.media.layout()
    }

    /// Returns the number of map pages that must remain available for pinning beyond those that a
    /// host write pins.
    #[inline]
    pub(super) fn spare_of_host(&self) -> u32 {
        if self.background.collection.wants_collection(&self.media.segments) {
            self.mapping.pages.map().reserve_of_collection()
        } else {
            self.mapping.pages.map().reserve()
        }
    }

    /// Runs garbage collection and the output until neither makes progress. No other part depends
    /// on a single step of either.
    pub(super) fn pump_media(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        loop {
            while has_room(cx) && self.collect(cx) {
                moved = true;
            }
            if !has_room(cx) || !self.output.pump(&mut self.media, cx) {
                return moved;
            }
            moved = true;
        }
    }

    /// Performs one step of garbage collection, of the victim or of one lane.
    fn collect(&mut self, cx: &mut Cx) -> bool {
        let Array { media, output, mapping, background } = self;
        if background.collection.pump(media, output, mapping, cx) {
            return true;
        }
        let Some(lane) = background.collection.mover() else { return false };
        if self.move_some(lane, cx) {
            return true;
        }
        let Array { media, background, .. } = self;
        background.collection.lane(lane).has_bad_chunk()
            && background.collection.lanes().rebuild_next(lane, media)
    }

    pub(super) fn pump_scrub(&mut self, cx: &mut Cx) -> bool {
        let Array { media, output, mapping, background } = self;
        background.pump_scrub(media, output, mapping, cx)
    }

    pub(super) fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        let Mapping { pages, checkpoint } = &mut self.mapping;
        checkpoint.pump(&mut self.media, &mut self.output, pages, cx)
    }

    /// Begins a checkpoint.
    pub(super) fn begin_images(&mut self) {
        let Mapping { pages, checkpoint } = &mut self.mapping;
        checkpoint.begin_images(&mut self.media, &mut self.output, pages);
    }

    pub(super) fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        self.mapping.checkpoint.reclaim_some(&mut self.media, &mut self.output, cx)
    }

    /// Prefetches map pages.
    pub(super) fn pump_warming(&mut self, cx: &mut Cx) -> bool {
        self.mapping.warm(&mut self.media, cx)
    }

    /// Returns the maximum number of valid grains; `None` if all blocks visible to the host fit. A
    /// joining device counts from the start, and a leaving device until it has left. One lost
    /// device counts too if parity makes up for it.
    pub(super) fn valid_limit(&self) -> Option<u64> {
        self.layout().valid_limit(self.data_members(), self.media.segments.reserves())
    }

    /// Returns the devices whose capacity counts for valid data.
    #[inline]
    pub(super) fn data_members(&self) -> DeviceSet {
        let all = self.layout().members | self.media.devices.membership().all();
        all - self.media.devices.removed() - self.media.devices.beyond_parity()
    }

    /// Returns the number of valid bytes in segments that miss more chunks than parity makes up
    /// for.
    pub(super) fn unreadable_bytes(&self) -> u64 {
        let (devices, parity) = (&self.media.devices, u32::from(self.layout().parity));
        // The missing chunks of a joining device are known, although it still counts as lost.
        let away = devices.inactive() - devices.joining();
        let is_beyond = |segment| {
            let (members, lacking) = devices.membership().recorded(segment);
            (members & away | lacking).len() > parity
        };
        // Usually no chunk is missing, and no segment has to be visited.
        if devices.exposed() == 0 { 0 } else { self.media.segments.valid_bytes_in(is_beyond) }
    }

    /// Returns the reason for a lack of space: the volume is full, or unreadable data prevents
    /// garbage collection.
    pub(super) fn why_full(&self) -> HostError {
        if self.media.segments.any_shunned() { HostError::Io } else { HostError::NoSpace }
    }

    /// Counts a block that was packed into a record of `len` bytes.
    pub(super) fn count_packed(&mut self, len: u32) {
        self.media.gauges.packed_from += BLOCK as u64;
        self.media.gauges.packed_into += u64::from(len);
    }

    /// Returns whether a block may contain data other than zeros. The answer is exact only if its
    /// map page is in memory.
    pub(super) fn may_be_mapped(&self, block: u64) -> bool {
        let away = || {
            !self
                .mapping
                .pages
                .directory()
                .place(self.mapping.pages.map().map_page(block))
                .is_nowhere()
        };
        self.mapping.pages.map().find_place(block).map_or_else(away, |place| !place.is_nowhere())
    }

    /// Returns whether no command is in flight, except abandoned ones.
    pub(super) fn all_back(&self, cx: &Cx) -> bool {
        cx.is_quiet() && self.output.timed_out.is_quiet()
    }

    /// Abandons commands that exceed their deadline; see [`TimedOut::abandon_late`].
    pub(super) fn abandon_late(&mut self, cx: &mut Cx) -> bool {
        self.output.timed_out.abandon_late(&mut self.media.devices, &self.output.journal, cx)
    }

    /// Returns a command to replace an abandoned one; see [`TimedOut::stand_in`].
    pub(super) fn stand_in(&mut self, op: Op, device: u8) -> Option<Command> {
        let layout = *self.layout();
        let head = |at: At| (layout.lba(at), layout.head_pages(at.sector == 0));
        let place = match op {
            Op::Load { index } => {
                (self.mapping.pages.loads().place(index).byte() / SECTOR as u64, 1)
            }
            Op::GcHead { lane } => head(self.background.collection.at(lane)),
            Op::Scrub(Checking::Head) => head(self.background.scrub.at()),
            _ => (0, 1),
        };
        let Output { timed_out, stripes, .. } = &mut self.output;
        timed_out.stand_in(op, device, place, stripes, &mut self.media.buffers)
    }

    /// Takes back the abandoned command of `op`.
    pub(super) fn take_back(&mut self, op: Op, command: Command) {
        let root = self.output.timed_out.take_back(op, command, &mut self.media.buffers);
        if let Some(buf) = root {
            self.mapping.checkpoint.take_back(buf);
        }
    }
}
