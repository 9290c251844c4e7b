//! The drive's own garbage collection: one victim at a time, a few copies at once.
//!
//! Invariants
//! - Free slots always cover what host writes have reserved and the valid superpages of the victim,
//!   so that collection never waits for the host.
//! - A victim is erased when nothing in it is valid and nobody reads it.

use hostftl_core::{Cause, Command, Event, Out, Output, Target, Token};

use super::job::Part;
use super::map::Place;
use super::op::OpKind;
use super::{COPIES, ERASE, NO_JOB, SuperpageFtl};

/// Collection begins when so few erased segments are left.
const LOW: usize = 2;

/// A victim that is being emptied.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    segment: u32,
    cursor: u32,
    copies: usize,
    erasing: bool,
}

impl SuperpageFtl {
    /// Slots that host writes must leave for collection.
    pub(super) fn collector_needs(&self) -> u32 {
        self.victim.map_or(self.map.pages(), |victim| self.map.valid(victim.segment))
    }

    /// Does what can be done for collection now.
    pub(super) fn collect(&mut self, out: &mut Out) {
        if !super::room(out) {
            return;
        }
        if self.victim.is_none() && self.map.free_segments() <= LOW && !self.stopping {
            self.victim = self.map.pick().map(|segment| {
                self.counters.gc_runs += 1;
                out.push(Output::Event(Event::GcStarted));
                Victim { segment, cursor: 0, copies: 0, erasing: false }
            });
        }
        let Some(mut victim) = self.victim else { return };
        while victim.cursor < self.map.pages() && victim.copies < COPIES && super::room(out) {
            let phys = victim.segment * self.map.pages() + victim.cursor;
            victim.cursor += 1;
            let Some(logical) = self.map.owner(phys) else { continue };
            // Whoever holds the lock is about to write the superpage elsewhere.
            if self.map.place(logical) == Place::At(phys) {
                victim.copies += 1;
                self.start_copy(logical, phys, out);
            }
        }
        let emptied = victim.cursor == self.map.pages() && self.map.is_empty(victim.segment);
        if emptied && !victim.erasing && super::room(out) {
            victim.erasing = true;
            let sectors = u64::from(self.map.pages()) * u64::from(self.unit);
            let lba = u64::from(victim.segment) * sectors;
            out.push(Output::Submit(ERASE, Command::Reset { device: 0, lba, sectors }));
        }
        self.victim = Some(victim);
    }

    fn start_copy(&mut self, logical: u32, phys: u32, out: &mut Out) {
        let part = Part { logical, offset: 0, sectors: self.unit, at: 0 };
        let index = self.ops.take(OpKind::Copy, NO_JOB, part);
        self.map.lock(logical, index);
        let op = self.ops.get(index);
        op.old = Some(phys);
        let into = Target::Data(op.buffer.view_mut_sectors(0, self.unit));
        let lba = u64::from(phys) * u64::from(self.unit);
        let command = Command::Read { device: 0, lba, into, cause: Cause::DriveGc };
        out.push(Output::Submit(Token(index.into()), command));
    }

    /// A copy is at its new place.
    pub(super) fn copied(&mut self) {
        self.counters.gc_copied += u64::from(self.unit);
        self.victim.as_mut().expect("a copy has a victim").copies -= 1;
    }

    /// The victim is erased.
    pub(super) fn erased(&mut self) {
        let victim = self.victim.take().expect("an erase has a victim");
        self.map.erased(victim.segment);
    }
}
