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
use crate::log::layout::{LOADS, Layout, STRIPES};
use crate::log::ops::{Checking, Cx, OPS, Op, works};
use crate::log::stripe::Phase;
use crate::log::stripe::streams::MAP;
use crate::log::stripe::stripes::Stripes;

/// Stripe heads that one timed-out device may hold besides one for each lane of garbage collection:
/// one for a scrub, one for a metadata rebuild.
const OTHER_HEADS: usize = 2;

#[derive(Debug)]
pub(crate) struct TimedOut {
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
    stripe_heads: Vec<MetaBuf>,
}

impl TimedOut {
    /// Returns the state without timed-out devices. Only volumes with parity have a reserve.
    pub(crate) fn new(layout: &Layout) -> Self {
        // Elsewhere a timed-out device fails the volume, so nothing has to be replaced.
        let redundant = layout.parity > 0 && !layout.zoned;
        let devices = if redundant { usize::from(layout.parity) } else { 0 };
        let some = |count: usize| if redundant { count } else { 0 };
        let head = layout.head_pages(true) as usize;
        let images = (layout.chunk / SECTORS_PER_BLOCK) as usize;
        let heads = some((1 + devices) * (layout.lanes() + OTHER_HEADS));
        TimedOut {
            layout: *layout,
            waiting: VecDeque::with_capacity(some(OPS.into())),
            broken: 0,
            pages: (0..devices * LOADS).map(|_| MetaBuf::new(1)).collect(),
            heads: (0..heads).map(|_| MetaBuf::new(head)).collect(),
            images: (0..devices).map(|_| MetaBuf::new(images)).collect(),
            stripe_heads: Vec::with_capacity(some(STRIPES)),
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
    pub(crate) fn push_back(&mut self, abandoned: (Token, Op, u8)) {
        self.waiting.push_back(abandoned);
    }

    /// Handles the return of an abandoned command. Returns whether its operation has not continued
    /// yet; it then fails now.
    pub(crate) fn was_waiting(&mut self, token: Token) -> bool {
        let at = self.waiting.iter().position(|(waiting, ..)| *waiting == token);
        at.is_some_and(|at| self.waiting.remove(at).is_some())
    }

    /// Fails the devices that are late, if parity makes up for them.
    pub(crate) fn abandon_late(
        &mut self,
        devices: &mut Devices,
        journal: &Journal,
        cx: &mut Cx,
    ) -> bool {
        let late = cx.late_devices();
        // During recovery and on zoned devices a timeout fails the volume instead.
        let works = works(cx) && cx.life() != Life::Starting && !self.layout.zoned;
        if !works || late.overlaps(journal.device_set()) || !devices.can_do_without(late) {
            return false;
        }
        devices.lose(late);
        cx.counters().device_errors += 1;
        for device in late {
            let error = DeviceError::Removed;
            cx.report(Event::DeviceFailed { device, error, abandoned: true });
        }
        let waiting = &mut self.waiting;
        // All commands of the device, not only the late ones: it is lost, and the others would time
        // out too.
        cx.abandon_commands(late, |token, op, device| waiting.push_back((token, op, device)));
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
        stripes: &mut Stripes,
        buffers: &mut Buffers,
    ) -> Option<Command> {
        Some(match op {
            Op::Load { .. } => {
                let buf = self.pages.pop()?;
                read(device, lba, Target::Meta { buf, pages })
            }
            Op::GcHead { .. } | Op::Scrub(Checking::Head) | Op::RepairMetadata { .. } => {
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
                if !self.replace(buffer, stripes, buffers) {
                    return None;
                }
                // The replaced command fails, so its length does not matter.
                let view = buffers.at(buffer).view_mut_sectors(0, 1);
                read(device, 0, Target::Data(view))
            }
            Op::GcFill { lane } => {
                if !self.replace(Buffer::GcSum(lane), stripes, buffers) {
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
                        (Piece::Meta { buf, .. }, _) => self.stripe_heads.push(buf),
                        (Piece::Zeros(_), _) => {}
                    }
                }
            }
            _ => {}
        }
        root
    }

    /// Exchanges a held buffer for an idle one. Returns false if none is idle.
    fn replace(&mut self, buffer: Buffer, stripes: &mut Stripes, buffers: &mut Buffers) -> bool {
        let idle = stripes.idle();
        let Some(spare) = self.spare_buffers(0, buffers).next() else {
            let Some(stripe) = idle else { return false };
            // No spare buffer: an idle stripe is taken out of use as a donor.
            stripes.go(stripe, Phase::Draining);
            self.break_stripe(stripe, stripes);
            return self.replace(buffer, stripes, buffers);
        };
        buffers.exchange(buffer, spare);
        true
    }

    /// Returns the idle buffers of stripes that are out of use, except those of the stripes in
    /// `but`.
    fn spare_buffers(&self, but: u32, buffers: &Buffers) -> impl Iterator<Item = Buffer> {
        let broken = self.broken & !but;
        let stripes = (0..STRIPES as u8).filter(move |stripe| broken >> stripe & 1 == 1);
        let all = stripes.flat_map(|stripe| buffers.stripe_buffers(stripe));
        all.filter(|buffer| buffers.is_idle(*buffer))
    }

    /// Takes a completed stripe out of use. It counts as a host stripe, of which there are many.
    fn break_stripe(&mut self, stripe: u8, stripes: &mut Stripes) {
        self.broken |= 1 << stripe;
        stripes[stripe].stream = 0;
    }

    /// Makes a completed stripe idle if it has all of its buffers.
    pub(crate) fn retire(
        &mut self,
        stripe: u8,
        stripes: &mut Stripes,
        buffers: &mut Buffers,
        cx: &Cx,
    ) -> bool {
        let idle =
            is_whole(stripe, stripes, buffers) || self.make_whole(stripe, stripes, buffers, cx);
        if idle {
            stripes.go(stripe, Phase::Idle);
            self.broken &= !(1 << stripe);
        }
        idle
    }

    /// Completes the buffers of a stripe from stripes that are out of use, or takes the stripe out
    /// of use.
    fn make_whole(
        &mut self,
        stripe: u8,
        stripes: &mut Stripes,
        buffers: &mut Buffers,
        cx: &Cx,
    ) -> bool {
        if !cx.has_abandoned() && self.broken == 0 && self.stripe_heads.is_empty() {
            return false;
        }
        let own = 1 << stripe;
        let others = self.broken & !own;
        let donors = (0..STRIPES as u8).filter(|it| others >> it & 1 == 1);
        let heads = donors.map(|it| stripes[it].heads.count()).sum::<usize>();
        let lacks = buffers.stripe_buffers(stripe).filter(|it| !buffers.is_idle(*it)).count();
        let lacks_heads = stripes[stripe].heads.lacks();
        if self.spare_buffers(own, buffers).count() < lacks
            || heads + self.stripe_heads.len() < lacks_heads
        {
            // Too few donors for all held buffers: this stripe becomes a donor itself.
            self.break_stripe(stripe, stripes);
            return false;
        }
        for buffer in buffers.stripe_buffers(stripe) {
            if !buffers.is_idle(buffer) {
                let spare =
                    self.spare_buffers(own, buffers).next().expect("the chunks were counted");
                buffers.exchange(buffer, spare);
            }
        }
        for _ in 0..lacks_heads {
            let head = self.stripe_heads.pop().or_else(|| {
                let donors = stripes.iter_mut().zip(0..).filter(|(_, it)| others >> it & 1 == 1);
                donors.into_iter().find_map(|(donor, _)| donor.heads.give())
            });
            stripes[stripe].heads.put(head.expect("the chunks were counted"));
        }
        true
    }
}

/// Returns whether a stripe has all of its buffers and heads.
fn is_whole(stripe: u8, stripes: &Stripes, buffers: &Buffers) -> bool {
    let idle = buffers.stripe_buffers(stripe).all(|buffer| buffers.is_idle(buffer));
    idle && stripes[stripe].heads.lacks() == 0
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
    fn one_of_two_stripes_without_a_buffer_is_retried() {
        let layout = Layout::example(3);
        let (count, sectors) = Buffers::needed(&layout);
        let list = (0..count).map(|id| Payload::issue(id, sectors)).collect();
        let (mut stripes, mut buffers) = (Stripes::new(&layout), Buffers::new(list, &layout));
        let mut timed_out = TimedOut::new(&layout);
        timed_out.stripe_heads.push(MetaBuf::new(1)); // Something came back late.
        let views = [0, 1].map(|stripe| {
            stripes.go(stripe, Phase::Draining);
            buffers.at(Buffer::Stripe(stripe, 0)).view_sectors(0, 8)
        });
        trial(|cx: &mut kit::Cx<'_, Op, Mark>| {
            assert!(
                !timed_out.retire(0, &mut stripes, &mut buffers, cx),
                "no stripe has a spare buffer"
            );
            assert!(
                timed_out.retire(1, &mut stripes, &mut buffers, cx),
                "stripe 0 has two to spare"
            );
            assert!(!timed_out.retire(0, &mut stripes, &mut buffers, cx), "now it lacks two");
            views.into_iter().for_each(|view| buffers.named(view.id()).repay(view));
            assert!(timed_out.retire(0, &mut stripes, &mut buffers, cx));
        });
        assert!([0, 1].iter().all(|stripe| stripes[*stripe].phase() == Phase::Idle));
        assert_eq!(timed_out.broken, 0);
        buffers.void();
    }

    #[test]
    fn a_command_returning_early_fails_at_once() {
        let mut timed_out = TimedOut::new(&Layout::example(3));
        timed_out.push_back((Token(7), Op::Flush, 1));
        assert!(!timed_out.was_waiting(Token(8)) && !timed_out.is_quiet());
        assert!(timed_out.was_waiting(Token(7)) && timed_out.is_quiet());
    }
}
