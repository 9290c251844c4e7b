//! Looks whether the second parity of a row agrees with a chunk that was made, or the first one
//! with a second that was made.
//!
//! Records have checksums, but a row holds more: its head, and what lies between records. What is
//! wrong there on one device goes into a chunk that is made from it. Such a chunk agrees with the
//! parity that it was made from, and not with the other one: of two more devices that are lost, one
//! would take records along. So the other parity is read, and all data chunks are added to it by
//! their factors: that sum must be nothing. The chunk that was made is added once more, and then
//! the sum must have the checksum of that chunk.

use hostftl_core::field::power;
use hostftl_core::{Command, Factors, Few, MAX_PIECES, Target, View};

use crate::kit::shell::Ended;
use crate::log::buffers::Buffer;
use crate::log::gc::Needs;
use crate::log::gc::lane::fill::Fill;
use crate::log::gc::lane::{Lane, ROOM};
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::Chunk;

/// How far it has come; each step is asked for once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agree {
    /// The parity is to be read, or is being read.
    Read { asked: bool },
    /// What is in the sum from this number on is to be added, or is being added.
    Add { next: u32, asked: bool },
    /// The checksum of the chunk that was made, and then that of the sum.
    Checksums { made: Option<u32>, asked: bool },
    /// It is known.
    Over(bool),
}

impl Lane {
    /// The next step. False when one is under way.
    pub(super) fn pump_agree(
        &mut self,
        (fill, parity): (Fill, u8),
        agree: Agree,
        with: &mut Needs,
        cx: &mut Cx,
    ) -> bool {
        let waits = cx.room() < ROOM || cx.command_room() == 0;
        let step = match agree {
            Agree::Read { asked: true }
            | Agree::Add { asked: true, .. }
            | Agree::Checksums { asked: true, .. }
            | Agree::Over(_) => return false,
            _ if waits => return false,
            Agree::Read { asked: false } => {
                let stripe = with.devices.stripe(self.at.segment);
                let device = stripe.parity_device(self.at.segment, self.at.slot, parity);
                self.send_parity(true, device, (0, fill.sectors()), with, cx);
                Agree::Read { asked: true }
            }
            Agree::Add { next, asked: false } => self.add((fill, parity), next, with, cx),
            Agree::Checksums { made, asked: false } => {
                let lane = self.number;
                let of = if made.is_none() { Buffer::GcSum(lane) } else { Buffer::GcSecond(lane) };
                let from = with.buffers.at(of).view_sectors(0, fill.sectors());
                self.outstanding += 1;
                let command = Command::Digest { from, seed: 0 };
                with.devices.submit(Op::GcSecond { lane }, command, cx);
                Agree::Checksums { made, asked: true }
            }
        };
        self.agree_goes_on(fill, step);
        true
    }

    /// Adds the next of what the sum has; when all is in it, checksums are next.
    fn add(
        &mut self,
        (fill, parity): (Fill, u8),
        first: u32,
        with: &mut Needs,
        cx: &mut Cx,
    ) -> Agree {
        let (lane, count) = (self.number, self.chunks.count());
        let (mut from, mut factors) = (Few::<View, MAX_PIECES>::new(), Factors::ADD);
        let mut next = first;
        while next <= count && from.len() < MAX_PIECES {
            let is_made = fill.chunk() == Some(Chunk::Data(next as u8));
            let factor = match parity {
                _ if next == count => 0,
                0 => 1,
                _ => power(next),
            };
            // A parity that was made is in the sum this once, behind the data.
            let once_more =
                is_made || next == count && matches!(fill.chunk(), Some(Chunk::Parity(_)));
            let factor = factor ^ u8::from(once_more);
            if factor > 0 {
                let of = if once_more { Buffer::GcSum(lane) } else { Buffer::Gc(lane, next as u8) };
                factors.new[from.len()] = factor;
                from.push(with.buffers.at(of).view_sectors(0, fill.sectors()));
            }
            next += 1;
        }
        if from.is_empty() {
            return Agree::Checksums { made: None, asked: false };
        }
        let into = with.buffers.at(Buffer::GcSecond(lane)).view_mut_sectors(0, fill.sectors());
        self.outstanding += 1;
        with.devices.submit(Op::GcSecond { lane }, Command::Fold { from, into, factors }, cx);
        Agree::Add { next, asked: true }
    }

    /// A step is over.
    pub(super) fn agree_done(
        &mut self,
        fill: Fill,
        agree: Agree,
        command: Command,
        result: Ended,
        with: &mut Needs,
    ) {
        let lane = self.number;
        self.outstanding -= 1;
        let next = match (agree, command) {
            (Agree::Read { asked: true }, Command::Read { into: Target::Data(view), .. }) => {
                with.buffers.at(Buffer::GcSecond(lane)).repay_mut(view);
                match result {
                    Ok(_) => Agree::Add { next: 0, asked: false },
                    Err(_) => Agree::Over(false),
                }
            }
            (Agree::Add { next, asked: true }, Command::Fold { from, into, .. }) => {
                from.into_iter().for_each(|view| with.buffers.repay_gc(lane, view));
                with.buffers.at(Buffer::GcSecond(lane)).repay_mut(into);
                Agree::Add { next, asked: false }
            }
            (Agree::Checksums { made, asked: true }, Command::Digest { from, .. }) => {
                with.buffers.repay_gc(lane, from);
                let crc = result.expect("a checksum in memory can't fail").crc;
                match made {
                    None => Agree::Checksums { made: Some(crc), asked: false },
                    Some(made) => Agree::Over(made == crc),
                }
            }
            (agree, command) => unreachable!("{command:?} is no step of {agree:?}"),
        };
        self.agree_goes_on(fill, next);
    }
}
