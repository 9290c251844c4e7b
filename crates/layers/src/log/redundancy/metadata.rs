//! Rebuilds metadata that can't be read from its device, from parity.
//!
//! How many chunks a row has is not known beforehand: see [`crate::log::redundancy::rebuild`].
//! Heads and images have checksums, so that what is wrong is never taken.
//!
//! Invariant: one rebuild at a time; the others wait with their buffers.

use alloc::collections::VecDeque;

use hostftl_core::{Cause, Command, MetaBuf, Target};

use crate::kit::shell::Ended;
use crate::log::devices::Devices;
use crate::log::layout::Layout;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::Rebuild;

/// Who wants metadata back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Replay: the head of a stream's next row.
    Chain(u16),
    /// The image that was read as number so.
    Image(u8),
    /// Collection: the head of a row of its victim.
    Victim,
    /// A scrub: the head of the row that it reads.
    Scrub,
}

/// Metadata that is wanted, or comes back.
#[derive(Debug)]
pub struct Job {
    wanted: Wanted,
    device: u8,
    lba: u64,
    pages: u32,
    buf: MetaBuf,
}

impl Job {
    /// Where it lies: the device, the first sector, and the pages.
    pub fn range(&self) -> (u8, u64, u32) {
        (self.device, self.lba, self.pages)
    }

    /// Who wanted it, and the buffer.
    pub fn into_parts(self) -> (Wanted, MetaBuf) {
        (self.wanted, self.buf)
    }
}

/// What a step did.
#[derive(Debug)]
pub enum Step {
    /// Nothing: nobody wants anything, or a command is under way.
    None,
    /// It moved on.
    Moved,
    /// The first rebuild is over, well or not.
    Over(Job, bool),
}

/// See the module text.
#[derive(Debug)]
pub struct Salvage {
    layout: Layout,
    jobs: VecDeque<Job>,
    /// Where its segment lies, when that is not known: the guess that is tried.
    guess: usize,
    /// How far that has come; `None` before it is begun.
    rebuild: Option<Rebuild>,
    busy: bool,
    sum: MetaBuf,
    buf: Option<MetaBuf>,
}

impl Salvage {
    /// Nothing is wanted.
    pub fn new(layout: &Layout) -> Self {
        let pages = layout.head_pages(true) as usize;
        Salvage {
            layout: *layout,
            jobs: VecDeque::with_capacity(32),
            guess: 0,
            rebuild: None,
            busy: false,
            sum: MetaBuf::new(pages),
            buf: Some(MetaBuf::new(pages)),
        }
    }

    /// Whether nothing is wanted.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Makes `pages` pages at `lba` of `device` from the other devices; `buf` comes back with them,
    /// or without.
    pub fn ask(
        &mut self,
        wanted: Wanted,
        (device, lba, pages): (u8, u64, u32),
        buf: MetaBuf,
        cx: &mut Cx,
    ) {
        self.jobs.push_back(Job { wanted, device, lba, pages, buf });
        cx.wake();
    }

    /// Reads the next chunk.
    pub fn pump(&mut self, devices: &mut Devices, cx: &mut Cx) -> Step {
        let Some(job) = self.jobs.front().filter(|_| !self.busy && cx.command_room() > 0) else {
            return Step::None;
        };
        if self.rebuild.is_none() {
            let (segment, slot) = self.layout.slot_of(job.lba);
            let Some(stripe) = devices.membership().guess(segment, self.guess) else {
                return self.end(false);
            };
            self.rebuild = Rebuild::on_device(stripe, (segment, slot), job.device);
        }
        let Some(device) = self.rebuild.and_then(|rebuild| rebuild.next_device()) else {
            self.guess_again();
            return Step::Moved;
        };
        let buf = self.buf.take().expect("nothing is being read");
        let into = Target::Meta { buf, pages: job.pages };
        let command = Command::Read { device, lba: job.lba, into, cause: Cause::Map };
        self.busy = true;
        devices.submit(Op::Salvage, command, cx);
        Step::Moved
    }

    /// A chunk was read: is the sum so far what was wanted? `is_wanted` says whether it is the
    /// metadata that lies at a sector, of a row with so many chunks.
    pub fn done(
        &mut self,
        command: Command,
        ended: Ended,
        is_wanted: impl Fn(Wanted, &MetaBuf, u64, u32) -> bool,
    ) -> Step {
        let Command::Read { into: Target::Meta { buf, pages }, .. } = command else {
            unreachable!("metadata comes back")
        };
        assert!(self.busy, "a chunk that comes was asked for");
        self.busy = false;
        let rebuild = self.rebuild.expect("a rebuild is under way");
        let first = rebuild.is_begin();
        let rebuild = rebuild.fold();
        self.rebuild = Some(rebuild);
        let pairs = self.sum.pages_mut().iter_mut().zip(buf.pages()).take(pages as usize);
        for (sum, page) in pairs {
            match first {
                true => sum.0.copy_from_slice(&page.0),
                false => sum.0.iter_mut().zip(&page.0).for_each(|(sum, byte)| *sum ^= byte),
            }
        }
        self.buf = Some(buf);
        if ended.is_err() {
            self.guess_again();
            return Step::Moved;
        }
        let job = self.jobs.front().expect("a rebuild is under way");
        let may_be = rebuild.may_be_over();
        if may_be && is_wanted(job.wanted, &self.sum, job.lba, rebuild.chunks()) {
            return self.end(true);
        }
        if rebuild.next().is_none() {
            self.guess_again();
        }
        Step::Moved
    }

    /// The segment does not lie where it was thought to, or what is wanted can't be had.
    fn guess_again(&mut self) {
        (self.guess, self.rebuild) = (self.guess + 1, None);
    }

    /// The first rebuild is over.
    fn end(&mut self, well: bool) -> Step {
        let mut job = self.jobs.pop_front().expect("a rebuild is under way");
        (self.guess, self.rebuild) = (0, None);
        if well {
            let pages = job.buf.pages_mut().iter_mut().zip(self.sum.pages());
            pages.for_each(|(to, from)| to.0.copy_from_slice(&from.0));
        }
        Step::Over(job, well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::{DeviceError, Verdict};

    fn devices() -> Devices {
        Devices::new(Layout::example(3), (0, 0), 1, &[])
    }

    /// A rebuild of one page of the second of three devices, whose chunks hold 1, 2 and their sum.
    fn asked() -> Salvage {
        let mut salvage = Salvage::new(&Layout::example(3));
        let lba = salvage.layout.lba(crate::log::layout::At::default());
        let stripe = devices().stripe(0);
        let device = stripe.device(0, 0, 1);
        salvage.rebuild = Rebuild::on_device(stripe, (0, 0), device);
        let buf = MetaBuf::new(1);
        salvage.jobs.push_back(Job { wanted: Wanted::Victim, device, lba, pages: 1, buf });
        salvage
    }

    fn read(salvage: &mut Salvage, byte: u8, ended: Ended) -> Step {
        let mut buf = salvage.buf.take().expect("nothing is being read");
        buf.pages_mut()[0].0.fill(byte);
        salvage.busy = true;
        let into = Target::Meta { buf, pages: 1 };
        let command = Command::Read { device: 0, lba: 0, into, cause: Cause::Map };
        let is_wanted =
            |_: Wanted, sum: &MetaBuf, _: u64, chunks: u32| sum.pages()[0].0[7] == 2 && chunks == 2;
        salvage.done(command, ended, is_wanted)
    }

    #[test]
    fn metadata_is_the_sum_of_the_others() {
        let mut salvage = asked();
        assert!(matches!(read(&mut salvage, 3, Ok(Verdict::default())), Step::Moved));
        let Step::Over(job, true) = read(&mut salvage, 1, Ok(Verdict::default())) else {
            panic!("the sum is what was wanted")
        };
        assert_eq!(job.into_parts().1.pages()[0].0[4095], 2);
        assert!(salvage.is_idle());
    }

    #[test]
    fn what_can_not_be_read_or_is_wrong_ends_it() {
        let mut salvage = asked();
        let gone = Err(DeviceError::Gone);
        assert!(matches!(read(&mut salvage, 3, gone), Step::Moved));
        assert_eq!((salvage.guess, salvage.rebuild), (1, None), "its segment may lie elsewhere");
        let mut salvage = asked();
        assert!(matches!(read(&mut salvage, 7, Ok(Verdict::default())), Step::Moved));
        assert!(matches!(read(&mut salvage, 1, Ok(Verdict::default())), Step::Moved));
        assert_eq!((salvage.guess, salvage.rebuild, salvage.is_idle()), (1, None, false));
    }
}
