//! Hands a completed command to its owner.

use hostftl_core::{Command, MetaBuf, Target};

use crate::kit::shell::Ended;
use crate::log::Engine;
use crate::log::map::pages::Image;
use crate::log::ops::{Cx, Op, give_up, works};
use crate::log::redundancy::metadata::{Step, Wanted};

impl Engine {
    /// A command is over: what its error means comes first.
    pub(in crate::log) fn command_done(
        &mut self,
        op: Op,
        command: Command,
        ended: Ended,
        cx: &mut Cx,
    ) {
        Self::disturbed_by(op, &command, ended, cx);
        if self.layout.zoned {
            self.devices.left_zone(&command, cx);
        }
        if let Err(error) = ended {
            self.judge(op, &command, error, cx);
        }
        self.finish(op, command, ended, cx);
    }

    /// A command is over, sent or not.
    #[inline]
    pub(in crate::log) fn finish(&mut self, op: Op, command: Command, result: Ended, cx: &mut Cx) {
        match op {
            Op::Block { index } => self.block_done(index, command, result, cx),
            Op::Seal { row } => self.with_rows(|rows, with| rows.seal_done(row, command, with)),
            Op::Chunk { row, .. } => {
                self.with_rows(|rows, with| rows.chunk_done(row, command, with, cx));
            }
            Op::Flush => self.flush_done(cx),
            Op::Images { chunk } => {
                self.with_checkpoint(|it, with| it.images_done(chunk, command, with, cx));
            }
            Op::GcHead => self.with_gc(|gc, with| gc.head_done(command, result, with, cx)),
            Op::GcRead { chunk } => {
                self.with_gc(|gc, with| gc.read_done(chunk, command, result, with));
            }
            Op::GcMend => self.with_gc(|gc, with| gc.mend_done(command, result, with, cx)),
            Op::GcMove => self.gc_move_done(command, result, cx),
            Op::Root { .. } => self.with_checkpoint(|it, with| it.root_over(command, with, cx)),
            Op::Discard { segment } => {
                self.devices.reclaim_done(segment, &command, result, &mut self.segments, cx);
            }
            Op::Fill { segment, device } => self.filled(segment, device, cx),
            Op::Settle { segment } => self.settled(segment, cx),
            Op::Turn => self.checkpoint.turned(&command, result, &mut self.devices, cx),
            Op::Recover { index } => self.recover_done(index, command, result, cx),
            Op::Load { index } => self.load_done(index, command, result, cx),
            Op::Salvage => self.salvage_done(command, result, cx),
            Op::Journal(part) => self.journal_done(part, command, result, cx),
        }
    }
    /// Zeros are in a zone, or could not be written: nothing is on its way to the segment for them.
    fn filled(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        self.devices.filled(segment, device, cx);
        if !self.devices.zones().is_filled(segment) {
            self.segments.rests(segment);
        }
    }

    /// A device has flushed since a segment was closed.
    fn settled(&mut self, segment: u32, cx: &mut Cx) {
        if let Some(erased) = self.devices.zones_mut().settled(segment) {
            if erased {
                self.devices.end_reclaim(segment, &mut self.segments, cx);
            }
            cx.wake();
        }
    }

    /// Goes on with what is rebuilt of metadata.
    pub(in crate::log) fn pump_salvage(&mut self, cx: &mut Cx) -> bool {
        let step = self.salvage.pump(&mut self.devices, cx);
        let moved = !matches!(step, Step::None);
        self.salvage_goes_on(step, cx);
        moved
    }

    /// Metadata of another chunk was read.
    fn salvage_done(&mut self, command: Command, ended: Ended, cx: &mut Cx) {
        let Engine { salvage, recovery, pages, collection, devices, .. } = self;
        let replay = recovery.as_ref().map(|recovery| &recovery.replay);
        let step = salvage.done(command, ended, |wanted, buf, lba, chunks| match wanted {
            Wanted::Chain(stream) => {
                let head = replay.and_then(|replay| replay.next_head(stream, buf, lba));
                head.is_some_and(|head| u32::from(head.chunks) == chunks)
            }
            Wanted::Image(index) => pages.loads().is_image(index, buf),
            Wanted::Victim => {
                let head = collection.head_of(buf, lba, devices);
                head.is_some_and(|head| u32::from(head.chunks) == chunks)
            }
        });
        self.salvage_goes_on(step, cx);
    }

    /// Hands metadata that was rebuilt, or can't be, to whoever wanted it.
    fn salvage_goes_on(&mut self, step: Step, cx: &mut Cx) {
        let Step::Over(job, well) = step else { return };
        self.gauges.repaired += u64::from(well);
        let range = job.range();
        let (wanted, buf) = job.into_parts();
        // A head that is not there may be of a row that a power cut left unfinished.
        if well && matches!(wanted, Wanted::Image(_)) {
            self.metadata_mended(range, cx);
        }
        match wanted {
            Wanted::Chain(stream) => self.head_read(stream, buf),
            Wanted::Image(index) => self.image_read(index, buf, well, cx),
            Wanted::Victim => self.with_gc(|gc, with| gc.head_salvaged(buf, well, with, cx)),
        }
        cx.wake();
    }

    /// The device has answered: is that the image, or what it should have been?
    fn load_done(&mut self, index: u8, command: Command, ended: Ended, cx: &mut Cx) {
        let Command::Read { into: Target::Meta { buf, pages }, device, lba, .. } = command else {
            unreachable!("an image comes back")
        };
        let well = ended.is_ok() && self.pages.loads().is_image(index, &buf);
        match !well && self.layout.parity {
            true => self.salvage.ask(Wanted::Image(index), (device, lba, pages), buf, cx),
            false => self.image_read(index, buf, well, cx),
        }
    }

    /// An image was read from its device, or made from the others, or can't be.
    fn image_read(&mut self, index: u8, buf: MetaBuf, well: bool, cx: &mut Cx) {
        match self.pages.image_read(index, buf, well, (&mut self.segments, &mut self.devices), cx) {
            Image::Here => {}
            Image::Gone(page, device) => self.page_is_gone(page, device, cx),
            Image::Carry(page) => {
                self.with_checkpoint(|it, with| it.carry_image(page, Some(index), with));
            }
            Image::NotCarried(page, device) => {
                self.page_is_gone(page, device, cx);
                self.with_checkpoint(|it, with| it.carry_image(page, None, with));
            }
            Image::Damaged(why) => give_up(why, cx),
        }
    }

    /// One device has flushed.
    fn flush_done(&mut self, cx: &mut Cx) {
        if !self.durability.device_flushed() {
            return;
        }
        self.durability.end_flush(works(cx), self.rows.unsealed());
        if works(cx) {
            self.answer_flushed(cx);
        }
    }
}
