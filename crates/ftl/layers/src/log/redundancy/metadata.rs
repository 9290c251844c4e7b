//! Rebuilds metadata that cannot be read from its device from parity.
//!
//! The number of chunks of the stripe is not known in advance, see
//! [`crate::log::redundancy::rebuild`]. So all chunks that it may have are read at once and then
//! added to the sum one after the other. Heads and images have checksums, so wrong contents are
//! always detected.
//!
//! Invariants
//! - One rebuild is in progress at a time; the others are queued with their buffers.
//! - Each chunk that is read has its own buffer until all reads are complete.
//! - If the device lacked the chunk at the time of the request but has it now, and every rebuild
//!   fails, the chunk is read from there: another device may have been lost meanwhile.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::field::product;
use hostftl_core::{Cause, Command, MetaBuf, Target};

use crate::kit::shell::Ended;
use crate::log::devices::Devices;
use crate::log::layout::Layout;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::{PLACES, Rebuild};

/// Outputs that must be left before chunks are read.
const ROOM: usize = 20;

/// Requester of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Replay: head of a stream's next stripe.
    Chain(u16),
    /// Map: image with this load number.
    Image(u8),
    /// Garbage collection: head of the stripe in a lane.
    Victim(u8),
    /// Scrub: head of the current stripe.
    Scrub,
}

/// Request for lost metadata.
#[derive(Debug)]
pub(crate) struct Job {
    wanted: Wanted,
    device: u8,
    lba: u64,
    pages: u32,
    buf: MetaBuf,
    /// Whether the device lacked the chunk at the time of the request.
    lacked: bool,
}

impl Job {
    /// Returns the device, the first sector and the number of pages.
    pub(crate) fn range(&self) -> (u8, u64, u32) {
        (self.device, self.lba, self.pages)
    }

    /// Returns whether the device never had the chunk, so that it is not at fault.
    pub(crate) fn was_lacking(&self) -> bool {
        self.lacked
    }

    /// Returns the requester and the buffer.
    pub(crate) fn into_parts(self) -> (Wanted, MetaBuf) {
        (self.wanted, self.buf)
    }
}

/// Result of a step.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: no request, or a command is in flight.
    None,
    /// Progress was made.
    Moved,
    /// The first rebuild ended, successfully or not.
    Over(Job, bool),
}

/// State of the read from the first request's own device, which may have the chunk by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    Not,
    Reading,
    Was,
}

#[derive(Debug)]
pub(crate) struct MetadataRepair {
    layout: Layout,
    jobs: VecDeque<Job>,
    /// Number of the guess of the segment's members, which may be unknown.
    guess: usize,
    /// Way of the rebuild; `None` before its chunks are read.
    rebuild: Option<Rebuild>,
    again: Again,
    /// Reads in flight.
    outstanding: u32,
    /// Chunks that were read, by place in the sum; `None` for unreadable ones.
    parts: [Option<MetaBuf>; PLACES],
    sum: MetaBuf,
    bufs: Vec<MetaBuf>,
}

impl MetadataRepair {
    /// Returns a queue without requests.
    pub(crate) fn new(layout: &Layout) -> Self {
        let pages = layout.head_pages(true) as usize;
        MetadataRepair {
            layout: *layout,
            jobs: VecDeque::with_capacity(32),
            guess: 0,
            rebuild: None,
            again: Again::Not,
            outstanding: 0,
            parts: Default::default(),
            sum: MetaBuf::new(pages),
            bufs: (0..layout.devices).map(|_| MetaBuf::new(pages)).collect(),
        }
    }

    /// Returns whether there are no requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Requests a rebuild of `pages` pages at `lba` of `device`. `buf` is returned with the result,
    /// also after a failure.
    pub(crate) fn ask(
        &mut self,
        wanted: Wanted,
        (device, lba, pages): (u8, u64, u32),
        buf: MetaBuf,
        devices: &Devices,
        cx: &mut Cx,
    ) {
        // Stored now, because the device may receive the chunk while the request waits.
        let lacked = !devices.has_chunk(device, lba);
        self.jobs.push_back(Job { wanted, device, lba, pages, buf, lacked });
        cx.wake();
    }

    /// Reads the chunks for the first request.
    pub(crate) fn pump(&mut self, devices: &mut Devices, cx: &mut Cx) -> Step {
        let Some(job) = self.jobs.front().filter(|_| self.outstanding == 0) else {
            return Step::None;
        };
        if cx.outputs_left() < ROOM {
            cx.wake();
            return Step::None;
        }
        // All chunks are read at once, so there must be a command for each device.
        if cx.commands_left() < self.bufs.len() {
            return Step::None;
        }
        let (segment, slot) = self.layout.slot_at(job.lba);
        let Some(placement) = devices.membership().guess(segment, self.guess) else {
            return self.read_again(devices, cx);
        };
        let missing = devices.devices_with_missing(segment);
        let Some(rebuild) = Rebuild::on_device(placement, (segment, slot), job.device, missing)
        else {
            self.guess_again();
            return Step::Moved;
        };
        // The reads cover all ways of the rebuild, so a second attempt needs no further reads.
        for (chunk, device) in rebuild.sources() {
            self.read(chunk.place(), device, devices, cx);
        }
        self.rebuild = Some(rebuild);
        Step::Moved
    }

    /// Reads the range of the first request from a device.
    fn read(&mut self, part: u8, device: u8, devices: &mut Devices, cx: &mut Cx) {
        let job = self.jobs.front().expect("a rebuild is in progress");
        let buf = self.bufs.pop().expect("a buffer for each device");
        let into = Target::Meta { buf, pages: job.pages };
        self.outstanding += 1;
        let command = Command::Read { device, lba: job.lba, into, cause: Cause::Map };
        devices.submit(Op::RepairMetadata { part }, command, cx);
    }

    /// Reads the chunk from its own device, if that has received it since the request; otherwise
    /// fails the request.
    fn read_again(&mut self, devices: &mut Devices, cx: &mut Cx) -> Step {
        let job = self.jobs.front().expect("a chunk is requested");
        let (device, lba) = (job.device, job.lba);
        if !job.lacked || self.again == Again::Was || !devices.has_chunk(device, lba) {
            return self.end(false);
        }
        // Every rebuild failed, but the device has received the chunk since the request.
        self.again = Again::Reading;
        self.read(0, device, devices, cx);
        Step::Moved
    }

    /// Handles the completion of a read. After the last one, tries all ways of the rebuild.
    /// `is_wanted` returns whether a sum is the requested metadata for this sector, of a stripe
    /// with this number of chunks.
    pub(crate) fn done(
        &mut self,
        part: u8,
        command: Command,
        ended: Ended,
        is_wanted: impl Fn(Wanted, &MetaBuf, u64, Option<u32>) -> bool,
    ) -> Step {
        let Command::Read { into: Target::Meta { buf, .. }, .. } = command else {
            unreachable!("a completed metadata read")
        };
        assert!(self.outstanding > 0, "an arriving chunk was requested");
        self.outstanding -= 1;
        if ended.is_ok() {
            // An unreadable chunk is left out of the sums below.
            self.parts[usize::from(part)] = Some(buf)
        } else {
            self.bufs.push(buf)
        }
        if self.outstanding > 0 {
            return Step::None;
        }
        let well = match self.again {
            Again::Reading => self.was_read(is_wanted),
            Again::Not | Again::Was => self.sum_up(is_wanted),
        };
        self.bufs.extend(self.parts.iter_mut().filter_map(Option::take));
        if well {
            return self.end(true);
        }
        self.guess_again();
        Step::Moved
    }

    /// Returns whether its own device returned the requested metadata, which is then the sum.
    fn was_read(&mut self, is_wanted: impl Fn(Wanted, &MetaBuf, u64, Option<u32>) -> bool) -> bool {
        self.again = Again::Was;
        let Some(part) = &self.parts[0] else { return false };
        let job = self.jobs.front().expect("a read is in progress");
        copy(part, &mut self.sum, job.pages);
        is_wanted(job.wanted, &self.sum, job.lba, None)
    }

    /// Returns whether any way of the rebuild yields the requested metadata.
    fn sum_up(&mut self, is_wanted: impl Fn(Wanted, &MetaBuf, u64, Option<u32>) -> bool) -> bool {
        let mut next = self.rebuild;
        while let Some(rebuild) = next {
            let Some(chunk) = rebuild.next() else {
                next = rebuild.again();
                continue;
            };
            next = match &self.parts[usize::from(chunk.place())] {
                Some(part) => {
                    let job = self.jobs.front().expect("a rebuild is in progress");
                    add(part, &mut self.sum, job.pages, &rebuild);
                    let rebuild = rebuild.fold();
                    // The length of the stripe is unknown: after each chunk the sum may be the
                    // result.
                    if rebuild.may_be_over()
                        && is_wanted(job.wanted, &self.sum, job.lba, Some(rebuild.chunks()))
                    {
                        return true;
                    }
                    Some(rebuild)
                }
                None => rebuild.without(chunk),
            };
        }
        false
    }

    /// Continues with the next guess of the segment's members.
    fn guess_again(&mut self) {
        (self.guess, self.rebuild) = (self.guess + 1, None);
    }

    /// Ends the first rebuild.
    fn end(&mut self, well: bool) -> Step {
        let mut job = self.jobs.pop_front().expect("a rebuild is in progress");
        (self.guess, self.rebuild, self.again) = (0, None, Again::Not);
        if well {
            copy(&self.sum, &mut job.buf, job.pages);
        }
        Step::Over(job, well)
    }
}

/// Copies `pages` pages.
fn copy(from: &MetaBuf, to: &mut MetaBuf, pages: u32) {
    let pages = to.pages_mut().iter_mut().zip(from.pages()).take(pages as usize);
    pages.for_each(|(to, from)| to.0.copy_from_slice(&from.0));
}

/// Adds the next chunk to the sum.
fn add(part: &MetaBuf, sum: &mut MetaBuf, pages: u32, rebuild: &Rebuild) {
    let (factor, old) = rebuild.factors();
    for (sum, page) in sum.pages_mut().iter_mut().zip(part.pages()).take(pages as usize) {
        match (rebuild.is_begin(), factor, old) {
            // The first chunk replaces the previous contents of the sum.
            (true, ..) => sum.0.copy_from_slice(&page.0),
            (_, 1, 1) => sum.0.iter_mut().zip(&page.0).for_each(|(sum, byte)| *sum ^= byte),
            _ => sum.0.iter_mut().zip(&page.0).for_each(|(sum, byte)| {
                *sum = product(*sum, old) ^ product(*byte, factor);
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::{DeviceError, DeviceSet, Verdict};

    fn devices() -> Devices {
        Devices::new(Layout::example(3), hostftl_core::Members::default(), 1, &[])
    }

    /// Returns a rebuild of one page of the second of three devices, whose chunks contain 1, 2 and
    /// their sum.
    fn asked() -> MetadataRepair {
        let mut repair = MetadataRepair::new(&Layout::example(3));
        let lba = repair.layout.lba(crate::log::layout::At::default());
        let placement = devices().placement(0);
        let device = placement.device(0, 0, 1);
        repair.rebuild = Rebuild::on_device(placement, (0, 0), device, DeviceSet::EMPTY);
        let buf = MetaBuf::new(1);
        repair.jobs.push_back(Job {
            wanted: Wanted::Victim(0),
            device,
            lba,
            pages: 1,
            buf,
            lacked: false,
        });
        repair
    }

    /// Completes the reads of both other chunks, the later one first.
    fn read(repair: &mut MetadataRepair, bytes: [u8; 2], ended: Ended) -> Step {
        let sources = repair.rebuild.expect("the command was sent").sources();
        let mut sources = sources.map(|(chunk, _)| chunk.place()).zip(bytes).collect::<Vec<_>>();
        sources.reverse();
        repair.outstanding = 2;
        let mut step = Step::None;
        for (part, bytes) in sources {
            let mut buf = repair.bufs.pop().expect("a buffer for each device");
            buf.pages_mut()[0].0.fill(bytes);
            let into = Target::Meta { buf, pages: 1 };
            let command = Command::Read { device: 0, lba: 0, into, cause: Cause::Map };
            let is_wanted = |_: Wanted, sum: &MetaBuf, _: u64, chunks: Option<u32>| {
                sum.pages()[0].0[7] == 2 && chunks.is_none_or(|chunks| chunks == 2)
            };
            assert!(matches!(step, Step::None), "nothing is known before all are here");
            step = repair.done(part, command, ended, is_wanted);
        }
        assert_eq!(repair.bufs.len(), 3, "all buffers are back");
        step
    }

    #[test]
    fn metadata_is_rebuilt_as_a_sum() {
        let mut repair = asked();
        let Step::Over(job, true) = read(&mut repair, [3, 1], Ok(Verdict::default())) else {
            panic!("the sum is the missing page")
        };
        assert_eq!(job.into_parts().1.pages()[0].0[4095], 2);
        assert!(repair.is_idle());
    }

    #[test]
    fn unreadable_or_wrong_chunks_end_the_rebuild() {
        let mut repair = asked();
        let gone = Err(DeviceError::Removed);
        assert!(matches!(read(&mut repair, [3, 1], gone), Step::Moved));
        assert_eq!((repair.guess, repair.rebuild), (1, None), "its segment may be elsewhere");
        let mut repair = asked();
        assert!(matches!(read(&mut repair, [7, 1], Ok(Verdict::default())), Step::Moved));
        assert_eq!((repair.guess, repair.rebuild, repair.is_idle()), (1, None, false));
    }
}
