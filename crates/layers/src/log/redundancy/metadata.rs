//! Rebuilds metadata that can't be read from its device, from parity.
//!
//! How many chunks a row has is not known beforehand: the parity is folded with one chunk after the
//! other, until the sum is what was wanted. Heads and images have checksums, so that what is wrong
//! is never taken.
//!
//! Invariant: one salvage at a time; the others wait with their buffers.

use alloc::collections::VecDeque;

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, Target, Verdict};

use crate::log::Engine;
use crate::log::layout::Layout;
use crate::log::ops::{Cx, Op};

/// Who wants metadata back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Replay: the head of a stream's next row.
    Chain(u16),
    /// The image that was read as number so.
    Image(u8),
    /// Collection: the head of a row of its victim.
    Victim,
}

#[derive(Debug)]
struct Job {
    wanted: Wanted,
    device: u8,
    lba: u64,
    pages: u32,
    target: MetaBuf,
}

/// See the module text.
#[derive(Debug)]
pub struct Salvage {
    jobs: VecDeque<Job>,
    /// What is read next of the first job: the parity, or 1 more than a chunk.
    next: u32,
    busy: bool,
    sum: MetaBuf,
    buf: Option<MetaBuf>,
}

impl Salvage {
    pub fn new(layout: &Layout) -> Self {
        let pages = layout.head_pages(true) as usize;
        Salvage {
            jobs: VecDeque::with_capacity(32),
            next: 0,
            busy: false,
            sum: MetaBuf::new(pages),
            buf: Some(MetaBuf::new(pages)),
        }
    }
}

impl Engine {
    /// Makes `pages` pages at `lba` of `device` from the other devices; `target` comes back with
    /// them, or without.
    pub(in crate::log) fn salvage(
        &mut self,
        wanted: Wanted,
        (device, lba, pages): (u8, u64, u32),
        target: MetaBuf,
        cx: &mut Cx,
    ) {
        if let Some(recovery) = self.recovery.as_mut() {
            recovery.pending += 1;
        }
        self.salvage.jobs.push_back(Job { wanted, device, lba, pages, target });
        cx.wake();
    }

    pub(in crate::log) fn pump_salvage(&mut self, cx: &mut Cx) -> bool {
        if self.salvage.busy || cx.command_room() == 0 {
            return false;
        }
        let Some(job) = self.salvage.jobs.front() else { return false };
        let (segment, slot) = self.layout.slot_of(job.lba);
        let device = match self.salvage.next {
            0 => self.layout.parity_device(segment, slot),
            chunk => self.layout.device(segment, slot, chunk - 1),
        };
        if device == job.device && self.salvage.next > 0 {
            self.salvage.next += 1;
            if self.salvage.next > self.layout.width() {
                self.salvaged(false, cx);
            }
            return true;
        }
        let (lba, pages) = (job.lba, job.pages);
        let buf = self.salvage.buf.take().expect("nothing is being read");
        let into = Target::Meta { buf, pages };
        self.salvage.busy = true;
        let command = Command::Read { device, lba, into, cause: Cause::Map };
        self.devices.submit(Op::Salvage, command, cx);
        true
    }

    pub(in crate::log) fn salvage_done(
        &mut self,
        command: Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Meta { buf, pages }, .. } = command else {
            unreachable!("metadata comes back")
        };
        let it = &mut self.salvage;
        it.busy = false;
        let first = it.next == 0;
        it.next += 1;
        let pairs = it.sum.pages_mut().iter_mut().zip(buf.pages()).take(pages as usize);
        for (sum, page) in pairs {
            match first {
                true => sum.0.copy_from_slice(&page.0),
                false => sum.0.iter_mut().zip(&page.0).for_each(|(sum, byte)| *sum ^= byte),
            }
        }
        it.buf = Some(buf);
        match result {
            Ok(_) => self.look_at_sum(cx),
            Err(_) => self.salvaged(false, cx),
        }
    }

    /// Is the sum so far what was wanted, if the row has no more chunks than these?
    fn look_at_sum(&mut self, cx: &mut Cx) {
        let job = self.salvage.jobs.front().expect("a salvage is under way");
        let (segment, slot) = self.layout.slot_of(job.lba);
        let width = self.layout.width();
        let lost = (0..width).find(|chunk| self.layout.device(segment, slot, *chunk) == job.device);
        let Some(lost) = lost else { return self.salvaged(false, cx) };
        let folded = self.salvage.next - 1;
        let chunks = folded.max(lost + 1);
        if folded >= lost && self.is_wanted(job.wanted, job.lba, chunks) {
            return self.salvaged(true, cx);
        }
        if folded >= width {
            self.salvaged(false, cx);
        }
    }

    fn is_wanted(&self, wanted: Wanted, lba: u64, chunks: u32) -> bool {
        match wanted {
            Wanted::Chain(stream) => self.is_next_head(stream, &self.salvage.sum, lba, chunks),
            Wanted::Image(index) => self.is_image(index, &self.salvage.sum),
            Wanted::Victim => self.is_victims_head(&self.salvage.sum, lba, chunks),
        }
    }

    /// The first salvage is over.
    fn salvaged(&mut self, well: bool, cx: &mut Cx) {
        let job = self.salvage.jobs.pop_front().expect("a salvage is under way");
        self.salvage.next = 0;
        let mut buf = job.target;
        if well {
            self.gauges.repaired += 1;
            let pages = buf.pages_mut().iter_mut().zip(self.salvage.sum.pages());
            pages.for_each(|(to, from)| to.0.copy_from_slice(&from.0));
            // A head that is not there may be of a row that a power cut left unfinished.
            if matches!(job.wanted, Wanted::Image(_)) {
                self.metadata_mended((job.device, job.lba, job.pages), cx);
            }
        }
        if let Some(recovery) = self.recovery.as_mut() {
            recovery.pending -= 1;
        }
        match job.wanted {
            Wanted::Chain(stream) => self.head_read(stream, buf),
            Wanted::Image(index) => self.image_read(index, buf, well, cx),
            Wanted::Victim => self.gc_head_salvaged(buf, well, cx),
        }
        cx.wake();
    }
}
