//! Dispatch of completed commands to their owners.

use hostftl_core::{Command, DeviceError, Event, MetaBuf, SECTORS_PER_BLOCK, Target, Token};

use crate::kit::Life;
use crate::kit::shell::Ended;
use crate::log::Engine;
use crate::log::array::Array;
use crate::log::journal::Done;
use crate::log::map::pages::Image;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op, Part, fail_volume, report_corrupt, works};
use crate::log::recovery::Recovery;
use crate::log::recovery::replay::Replay;
use crate::log::redundancy::metadata::{Step, Wanted};

impl Engine {
    /// Processes a completed command; the consequences of an error come first.
    #[inline(always)]
    pub(crate) fn command_done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        // A command is large, so it is passed on as rarely as possible.
        if self.array.layout().zoned || ended.is_err() {
            self.judge_done(op, command, ended, cx)
        } else {
            self.finish(op, command, ended, cx)
        }
    }

    /// Processes a completed command that failed or may have changed a zone.
    fn judge_done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        if self.array.layout().zoned {
            self.array.media.devices.left_zone(&command, cx);
        }
        if let Err(error) = ended {
            self.array.judge(op, &command, error, cx);
        }
        self.finish(op, command, ended, cx);
    }

    /// Dispatches a completed command, whether or not it was sent.
    #[inline]
    pub(crate) fn finish(&mut self, op: Op, command: Command, result: Ended, cx: &mut Cx) {
        let Array { media, output, mapping, background } = &mut self.array;
        let gc = &mut background.collection;
        match op {
            Op::Block { index } => {
                self.blocks.block_done(index, command, result, &mut self.array, cx);
            }
            Op::JointRead { joint } => {
                self.blocks.joint_done(joint, command, result, &mut self.array, cx);
            }
            Op::Seal { stripe } => output.stripes.seal_done(stripe, command, media),
            Op::Chunk { stripe, .. } => {
                output.stripes.chunk_done(stripe, command, media, &mut output.durability, cx);
            }
            Op::Flush => self.array.flush_done(cx),
            Op::Images { chunk } => {
                mapping.checkpoint.images_done(chunk, command, media, output, cx);
            }
            Op::GcHead { lane } => gc.head_done(lane, command, result, media, cx),
            Op::GcRead { lane, chunk } => {
                gc.lanes().read_done((lane, chunk), command, result, media);
            }
            Op::GcSum { lane } => gc.lanes().sum_done(lane, command, result, media),
            Op::GcCheck { lane, entry } => {
                gc.lanes().check_done((lane, entry), command, result, media);
            }
            Op::GcFill { lane } => gc.lanes().fill_done(lane, command, result, media),
            Op::GcSecond { lane } => gc.lanes().second_done(lane, command, result, media),
            Op::GcMove { lane } => self.array.gc_move_done(lane, command, result, cx),
            Op::Root { .. } => {
                mapping.checkpoint.root_over(command, media, output, &mut mapping.pages, cx);
            }
            Op::Discard { segment } => {
                media.devices.reclaim_done(segment, &command, result, &mut media.segments, cx);
            }
            Op::Fill { segment, device } => self.array.filled(segment, device, cx),
            Op::Settle { segment } => self.array.settled(segment, cx),
            Op::Turn => mapping.checkpoint.turned(&command, result, &mut media.devices, cx),
            Op::Recover { index } => {
                let recovery = self.recovery.as_mut().expect("the volume is being recovered");
                recovery.done(index, command, result, &mut self.array, cx);
            }
            Op::Load { index } => self.array.load_done(index, command, result, cx),
            Op::RepairMetadata { part } => {
                let replay = self.recovery.as_mut().map(Recovery::replay);
                self.array.metadata_repair_done(part, command, result, replay, cx);
            }
            Op::Journal(part) => self.array.journal_done(part, command, result, cx),
            Op::Scrub(what) => {
                background.scrub.done(what, command, result, media, output, cx);
            }
        }
    }

    /// Processes an abandoned command that has returned.
    pub(crate) fn abandoned_done(&mut self, token: Token, op: Op, command: Command, cx: &mut Cx) {
        cx.wake();
        // The operation has not continued without this command, so the command ends it now.
        if self.array.output.timed_out.was_waiting(token) {
            return self.finish(op, command, Err(DeviceError::Removed), cx);
        }
        self.array.take_back(op, command);
        match op {
            Op::Block { index } => self.blocks.scratch_is_back(index),
            Op::JointRead { joint } => self.blocks.joint_is_back(joint),
            _ => {}
        }
    }
}

impl Array {
    /// Processes the end of a write of zeros to a zone, successful or not. After the last one no
    /// write to the segment is in flight.
    pub(super) fn filled(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        self.media.devices.filled(segment, device, cx);
        if !self.media.devices.zones().is_filled(segment) {
            self.media.segments.rests(segment);
        }
    }

    /// Processes the completed flush of a device after a segment was closed.
    pub(super) fn settled(&mut self, segment: u32, cx: &mut Cx) {
        if let Some(erased) = self.media.devices.zones_mut().settled(segment) {
            if erased {
                self.media.devices.end_reclaim(segment, &mut self.media.segments, cx);
            }
            cx.wake();
        }
    }

    /// Performs the next step of the rebuild of metadata.
    pub(super) fn pump_metadata_repair(
        &mut self,
        replay: Option<&mut Replay>,
        cx: &mut Cx,
    ) -> bool {
        let step = self.media.metadata_repair.pump(&mut self.media.devices, cx);
        let moved = !matches!(step, Step::None);
        self.continue_metadata_repair(step, replay, cx);
        moved
    }

    /// Processes the completed read of metadata from another chunk.
    pub(super) fn metadata_repair_done(
        &mut self,
        part: u8,
        command: Command,
        ended: Ended,
        replay: Option<&mut Replay>,
        cx: &mut Cx,
    ) {
        let Array { media: Media { metadata_repair, devices, .. }, mapping, background, .. } = self;
        let step = metadata_repair.done(part, command, ended, |wanted, buf, lba, chunks| {
            let head = match wanted {
                Wanted::Image(index) => return mapping.pages.loads().is_image(index, buf),
                Wanted::Chain(stream) => {
                    replay.as_ref().and_then(|it| it.next_head(stream, buf, lba))
                }
                Wanted::Victim(lane) => background.collection.parse_head(lane, buf, devices),
                Wanted::Scrub => background.scrub.parse_head(buf, lba, devices),
            };
            head.is_some_and(|head| chunks.is_none_or(|chunks| u32::from(head.chunks) == chunks))
        });
        self.continue_metadata_repair(step, replay, cx);
    }

    /// Passes metadata that was rebuilt, or could not be, to the part that requested it.
    fn continue_metadata_repair(&mut self, step: Step, replay: Option<&mut Replay>, cx: &mut Cx) {
        let Step::Over(job, well) = step else { return };
        self.media.gauges.repaired += u64::from(well);
        let (range, lacked) = (job.range(), job.was_lacking());
        let (wanted, buf) = job.into_parts();
        // An invalid head may belong to a stripe that a power cut left incomplete, so it is not
        // damage.
        if well && !lacked && matches!(wanted, Wanted::Image(_)) {
            self.report_repaired_metadata(range, cx);
        }
        match wanted {
            Wanted::Chain(stream) => {
                replay.expect("chains belong to replay").head_made(stream, buf, self);
            }
            Wanted::Image(index) => self.image_read(index, buf, well, cx),
            Wanted::Victim(lane) => {
                self.background.collection.head_came(lane, buf, well, cx);
            }
            Wanted::Scrub => {
                let Array { media, output, background, .. } = self;
                background.scrub.head_rebuilt(buf, well, media, output, cx);
            }
        }
        cx.wake();
    }

    /// Processes the completed read of an image. An image that fails its check is rebuilt from the
    /// other chunks.
    pub(super) fn load_done(&mut self, index: u8, command: Command, ended: Ended, cx: &mut Cx) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("a completed image read")
        };
        let well = ended.is_ok() && self.mapping.pages.loads().is_image(index, &buf);
        if !well && self.layout().parity > 0 {
            let place = (device, lba, pages);
            self.media.metadata_repair.ask(
                Wanted::Image(index),
                place,
                buf,
                &self.media.devices,
                cx,
            );
        } else {
            self.image_read(index, buf, well, cx)
        }
    }

    /// Processes an image that was read or rebuilt, or could not be.
    fn image_read(&mut self, index: u8, buf: MetaBuf, well: bool, cx: &mut Cx) {
        match self.mapping.pages.image_read(index, buf, well, &mut self.media, cx) {
            Image::Here => {}
            Image::Lost(page, device) => self.lose_page(page, device, cx),
            Image::Carry(page) => {
                self.carry_image(page, Some(index));
            }
            Image::NotCarried(page, device) => {
                self.lose_page(page, device, cx);
                self.carry_image(page, None);
            }
            Image::Damaged(why) => fail_volume(why, cx),
        }
    }

    /// Passes the image of a page to the checkpoint that waits for it, unless the image is
    /// unreadable.
    fn carry_image(&mut self, page: u32, load: Option<u8>) {
        let Mapping { pages, checkpoint } = &mut self.mapping;
        checkpoint.carry_image(page, load, &mut self.media, &mut self.output, pages);
    }

    /// Processes the completed flush of one device.
    pub(super) fn flush_done(&mut self, cx: &mut Cx) {
        if !self.output.durability.device_flushed() {
            return;
        }
        // If more devices failed than parity makes up for, written stripes may be lost, and nothing
        // becomes durable.
        self.output.durability.end_flush(works(cx), self.output.stripes.unsealed());
        if works(cx) {
            self.output.answer_flushed(&self.media, cx);
        }
    }

    /// Processes a completed command of the journal.
    pub(super) fn journal_done(&mut self, part: Part, command: Command, ended: Ended, cx: &mut Cx) {
        let Array { media, output, .. } = self;
        match output.journal.done(part, command, ended, media, output.volume, cx) {
            Done::Nothing => {}
            Done::Durable => {
                self.output.answer_flushed(&self.media, cx);
            }
            Done::Restored(stripe, item) => {
                self.publish(stripe, item, None, cx);
                self.output.stripes.placed(stripe, 1, cx);
                self.output.durability.host_published(self.output.stripes[stripe].stamp);
            }
        }
    }

    /// Reports metadata that was rebuilt from the other chunks of its stripe.
    fn report_repaired_metadata(&mut self, (device, lba, pages): (u8, u64, u32), cx: &mut Cx) {
        if !self.media.devices.is_inactive(device) && !self.media.devices.lacks(device, lba) {
            let sectors = pages * SECTORS_PER_BLOCK;
            // During a start the missing chunks of a device are not known yet.
            if cx.life() != Life::Starting {
                self.found_damage(device, lba, false, cx);
            }
            cx.report(Event::Repaired { device, lba, sectors });
        }
    }

    /// Reports the blocks of a lost map page; their places are unknown.
    fn lose_page(&self, page: u32, device: u8, cx: &mut Cx) {
        if self.media.devices.is_inactive(device) || !works(cx) {
            return;
        }
        let first =
            page.checked_sub(1).map_or(0, |before| self.mapping.pages.map().page_end(before));
        let end = self.mapping.pages.map().page_end(page).min(self.mapping.pages.map().len());
        report_corrupt(first, (end - first) as u32, cx);
    }
}
