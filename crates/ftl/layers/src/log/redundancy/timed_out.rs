//! Continues without a device that timed out, although its commands keep their borrowed buffers.
//!
//! When a command exceeds its deadline, all commands of its device are abandoned. Each operation
//! continues as if its command had failed, with a replacement for the buffer that the command
//! holds: a block operation gets another scratch buffer, and metadata buffers come from a small
//! reserve. Held stripe buffers are collected in few stripes, which are not used until the commands
//! are back.
//!
//! Invariants
//! - A buffer of an abandoned command is not used until that command is back.
//! - The contents of a stripe are in its own buffers until the stripe is complete.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, DeviceError, Event, Gather, MetaBuf, Piece, SECTORS_PER_BLOCK, Tally, Target,
    Token,
};

use crate::kit::Life;
use crate::log::buffers::{Buffer, Buffers};
use crate::log::devices::Devices;
use crate::log::journal::Journal;
use crate::log::layout::{LANES, LOADS, Layout, ROWS};
use crate::log::ops::{Checking, Cx, OPS, Op, works};
use crate::log::row::Phase;
use crate::log::row::rows::Rows;
use crate::log::row::streams::MAP;

/// Stripe heads that one timed-out device may hold: one for each lane of garbage collection, one
/// for a scrub, one for a metadata rebuild.
const HELD_HEADS: usize = LANES + 2;

#[derive(Debug)]
pub(crate) struct Hung {
    layout: Layout,
    /// Abandoned commands whose operations have not continued yet, each with its operation and
    /// device.
    waiting: VecDeque<(Token, Op, u8)>,
    /// Stripes that are out of use; their idle buffers are available to others.
    broken: u32,
    /// Reserve: images of pages, heads, and a chunk of images for each device that may time out at
    /// once. The heads suffice for one more timed-out device; operations of a further one wait
    /// until a head is back.
    pages: Vec<MetaBuf>,
    heads: Vec<MetaBuf>,
    images: Vec<MetaBuf>,
    /// Stripe heads that came back late.
    row_heads: Vec<MetaBuf>,
}

impl Hung {
    /// Returns the state without timed-out devices. Only volumes with parity have a reserve.
    pub(crate) fn new(layout: &Layout) -> Self {
        let redundant = layout.parity > 0 && !layout.zoned;
        let devices = if redundant { usize::from(layout.parity) } else { 0 };
        let some = |count: usize| if redundant { count } else { 0 };
        let head = layout.head_pages(true) as usize;
        let images = (layout.chunk / SECTORS_PER_BLOCK) as usize;
        Hung {
            layout: *layout,
            waiting: VecDeque::with_capacity(some(OPS.into())),
            broken: 0,
            pages: (0..devices * LOADS).map(|_| MetaBuf::new(1)).collect(),
            heads: (0..some((1 + devices) * HELD_HEADS)).map(|_| MetaBuf::new(head)).collect(),
            images: (0..devices).map(|_| MetaBuf::new(images)).collect(),
            row_heads: Vec::with_capacity(some(ROWS)),
        }
    }

    /// Returns whether the operations of all abandoned commands have continued.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of abandoned commands whose operations have not continued.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Removes the first of these commands; returns its operation and device.
    pub(crate) fn pop(&mut self) -> (Token, Op, u8) {
        self.waiting.pop_front().expect("the chunks were counted")
    }

    /// Puts a command back whose operation continues later.
    pub(crate) fn push_back(&mut self, given_up: (Token, Op, u8)) {
        self.waiting.push_back(given_up);
    }

    /// Handles the return of an abandoned command. Returns whether its operation has not continued
    /// yet; it then fails now.
    pub(crate) fn was_waiting(&mut self, token: Token) -> bool {
        let at = self.waiting.iter().position(|(waiting, ..)| *waiting == token);
        at.is_some_and(|at| self.waiting.remove(at).is_some())
    }

    /// Fails the devices that are late, if parity makes up for them.
    pub(crate) fn give_up_late(
        &mut self,
        devices: &mut Devices,
        journal: &Journal,
        cx: &mut Cx,
    ) -> bool {
        let late = cx.late_devices();
        let works = works(cx) && cx.life() != Life::Starting && !self.layout.zoned;
        if !works || late.overlaps(journal.device_set()) || !devices.can_do_without(late) {
            return false;
        }
        devices.lose(late);
        cx.counters().device_errors += 1;
        for device in late {
            let error = DeviceError::Gone;
            cx.tell(Event::DeviceFailed { device, error, abandoned: true });
        }
        let waiting = &mut self.waiting;
        cx.give_up_commands(late, |token, op, device| waiting.push_back((token, op, device)));
        cx.wake();
        true
    }

    /// Returns the replacement for an abandoned command, as if that had failed; `None` if the
    /// operation has to wait. A command that reads metadata reads `pages` pages at sector `lba`.
    pub(crate) fn stand_in(
        &mut self,
        op: Op,
        device: u8,
        (lba, pages): (u64, u32),
        rows: &mut Rows,
        buffers: &mut Buffers,
    ) -> Option<Command> {
        Some(match op {
            Op::Load { .. } => {
                let buf = self.pages.pop()?;
                read(device, lba, Target::Meta { buf, pages })
            }
            Op::GcHead { .. } | Op::Scrub(Checking::Head) | Op::Salvage { .. } => {
                let buf = self.heads.pop()?;
                read(device, lba, Target::Meta { buf, pages })
            }
            Op::GcRead { .. }
            | Op::GcSum { .. }
            | Op::GcSecond { .. }
            | Op::Scrub(Checking::Chunk(_)) => {
                let buffer = match op {
                    Op::GcRead { lane, chunk } => Buffer::Gc(lane, chunk),
                    Op::GcSum { lane } => Buffer::GcSum(lane),
                    Op::GcSecond { lane } => Buffer::GcSecond(lane),
                    Op::Scrub(Checking::Chunk(chunk)) => Buffer::Scrub(chunk),
                    other => unreachable!("{other:?} has no buffer"),
                };
                if !self.replace(buffer, rows, buffers) {
                    return None;
                }
                let view = buffers.at(buffer).view_mut_sectors(0, 1);
                read(device, 0, Target::Data(view))
            }
            Op::GcFill { lane } => {
                if !self.replace(Buffer::GcSum(lane), rows, buffers) {
                    return None;
                }
                Command::Flush { device }
            }
            Op::Images { .. } => {
                let buf = self.images.pop()?;
                let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
                let tally = Tally::single(Cause::Checkpoint, SECTORS_PER_BLOCK);
                Command::Program { device, lba: 0, gather, tally, placement: MAP }
            }
            // These hold no needed buffer: a lost device gets no root.
            Op::Flush | Op::Root { .. } | Op::Discard { .. } => Command::Flush { device },
            other => unreachable!("{other:?} is not a command that parity can replace"),
        })
    }

    /// Takes back the buffers of an abandoned command that was replaced. Returns the buffer of a
    /// root, which belongs to the checkpoint.
    pub(crate) fn take_back(
        &mut self,
        op: Op,
        command: Command,
        buffers: &mut Buffers,
    ) -> Option<MetaBuf> {
        let mut root = None;
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                buffers.named(view.id()).repay_mut(view);
            }
            Command::Read { into: Target::Meta { buf, .. }, .. } => match op {
                Op::Load { .. } => self.pages.push(buf),
                _ => self.heads.push(buf),
            },
            Command::Program { gather, .. } => {
                for piece in gather {
                    match (piece, op) {
                        (Piece::Data(view), _) => buffers.named(view.id()).repay(view),
                        (Piece::Meta { buf, .. }, Op::Root { .. }) => root = Some(buf),
                        (Piece::Meta { buf, .. }, Op::Images { .. }) => self.images.push(buf),
                        (Piece::Meta { buf, .. }, _) => self.row_heads.push(buf),
                        (Piece::Zeros(_), _) => {}
                    }
                }
            }
            _ => {}
        }
        root
    }

    /// Exchanges a held buffer for an idle one. Returns false if none is idle.
    fn replace(&mut self, buffer: Buffer, rows: &mut Rows, buffers: &mut Buffers) -> bool {
        let idle = rows.idle();
        let Some(spare) = self.spare_buffers(0, buffers).next() else {
            let Some(row) = idle else { return false };
            // No spare buffer: an idle stripe is taken out of use as a donor.
            rows.go(row, Phase::Draining);
            self.break_row(row, rows);
            return self.replace(buffer, rows, buffers);
        };
        buffers.exchange(buffer, spare);
        true
    }

    /// Returns the idle buffers of stripes that are out of use, except those of the stripes in
    /// `but`.
    fn spare_buffers(&self, but: u32, buffers: &Buffers) -> impl Iterator<Item = Buffer> {
        let broken = self.broken & !but;
        let rows = (0..ROWS as u8).filter(move |row| broken >> row & 1 == 1);
        let all = rows.flat_map(|row| buffers.of_row(row));
        all.filter(|buffer| buffers.is_idle(*buffer))
    }

    /// Takes a completed stripe out of use. It counts as a host stripe, of which there are many.
    fn break_row(&mut self, row: u8, rows: &mut Rows) {
        self.broken |= 1 << row;
        rows[row].stream = 0;
    }

    /// Makes a completed stripe idle if it has all of its buffers.
    pub(crate) fn retire(
        &mut self,
        row: u8,
        rows: &mut Rows,
        buffers: &mut Buffers,
        cx: &Cx,
    ) -> bool {
        let idle = is_whole(row, rows, buffers) || self.make_whole(row, rows, buffers, cx);
        if idle {
            rows.go(row, Phase::Idle);
            self.broken &= !(1 << row);
        }
        idle
    }

    /// Completes the buffers of a stripe from stripes that are out of use, or takes the stripe out
    /// of use.
    fn make_whole(&mut self, row: u8, rows: &mut Rows, buffers: &mut Buffers, cx: &Cx) -> bool {
        if !cx.has_given_up() && self.broken == 0 && self.row_heads.is_empty() {
            return false;
        }
        let own = 1 << row;
        let others = self.broken & !own;
        let donors = (0..ROWS as u8).filter(|it| others >> it & 1 == 1);
        let heads = donors.map(|it| rows[it].heads.count()).sum::<usize>();
        let lacks = buffers.of_row(row).filter(|it| !buffers.is_idle(*it)).count();
        let lacks_heads = rows[row].heads.lacks();
        if self.spare_buffers(own, buffers).count() < lacks
            || heads + self.row_heads.len() < lacks_heads
        {
            // Too few donors for all held buffers: this stripe becomes a donor itself.
            self.break_row(row, rows);
            return false;
        }
        for buffer in buffers.of_row(row) {
            if !buffers.is_idle(buffer) {
                let spare =
                    self.spare_buffers(own, buffers).next().expect("the chunks were counted");
                buffers.exchange(buffer, spare);
            }
        }
        for _ in 0..lacks_heads {
            let head = self.row_heads.pop().or_else(|| {
                let donors = rows.iter_mut().zip(0..).filter(|(_, it)| others >> it & 1 == 1);
                donors.into_iter().find_map(|(donor, _)| donor.heads.give())
            });
            rows[row].heads.put(head.expect("the chunks were counted"));
        }
        true
    }
}

/// Returns whether a stripe has all of its buffers and heads.
fn is_whole(row: u8, rows: &Rows, buffers: &Buffers) -> bool {
    let idle = buffers.of_row(row).all(|buffer| buffers.is_idle(buffer));
    idle && rows[row].heads.lacks() == 0
}

fn read(device: u8, lba: u64, into: Target) -> Command {
    Command::Read { device, lba, into, cause: Cause::Gc }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::Payload;

    use crate::kit::{self, cx::trial};
    use crate::log::ops::Mark;

    #[test]
    fn of_two_rows_that_lack_a_buffer_one_is_used_again() {
        let layout = Layout::example(3);
        let (count, sectors) = Buffers::needed(&layout);
        let list = (0..count).map(|id| Payload::issue(id, sectors)).collect();
        let (mut rows, mut buffers) = (Rows::new(&layout), Buffers::new(list, &layout));
        let mut hung = Hung::new(&layout);
        hung.row_heads.push(MetaBuf::new(1)); // Something came back late.
        let views = [0, 1].map(|row| {
            rows.go(row, Phase::Draining);
            buffers.at(Buffer::Row(row, 0)).view_sectors(0, 8)
        });
        trial(|cx: &mut kit::Cx<'_, Op, Mark>| {
            assert!(!hung.retire(0, &mut rows, &mut buffers, cx), "nobody has one to spare");
            assert!(hung.retire(1, &mut rows, &mut buffers, cx), "row 0 has two to spare");
            assert!(!hung.retire(0, &mut rows, &mut buffers, cx), "now it lacks two");
            views.into_iter().for_each(|view| buffers.named(view.id()).repay(view));
            assert!(hung.retire(0, &mut rows, &mut buffers, cx));
        });
        assert!([0, 1].iter().all(|row| rows[*row].phase() == Phase::Idle));
        assert_eq!(hung.broken, 0);
        buffers.void();
    }

    #[test]
    fn a_command_that_is_back_before_anything_went_on_fails_now() {
        let mut hung = Hung::new(&Layout::example(3));
        hung.push_back((Token(7), Op::Flush, 1));
        assert!(!hung.was_waiting(Token(8)) && !hung.is_quiet());
        assert!(hung.was_waiting(Token(7)) && hung.is_quiet());
    }
}
