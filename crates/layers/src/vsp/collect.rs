//! Garbage collection by superpage: empties the one with the fewest live slots (HARD's VGC).
//!
//! Live slots are read straight into the filling stage. A copy is published only where the map
//! still points at its source, so that it never replaces a newer write. The victim goes into limbo
//! when its last slot died, as every other superpage does; it is a victim until its last read is
//! over.

use hostftl_core::{Cause, Command, Event, Nanos, Out, Output, Target};

use crate::planted::{Bug, planted};

use super::ops::{OWN_OPS, Op};
use super::pool::State;
use super::{Life, Machine, Scheme, Table};

/// The victim under way.
#[derive(Debug, Default)]
pub struct Collection {
    victim: Option<u32>,
    /// The next slot to look at.
    cursor: u32,
    /// Reads in flight.
    reading: u32,
    /// A read failed.
    failed: bool,
}

impl Collection {
    /// Whether reads are in flight.
    pub fn is_reading(&self) -> bool {
        self.reading > 0
    }
}

impl<S: Scheme> Machine<S> {
    /// Chooses a victim, reads its next live run, or ends with it.
    pub fn pump_vgc(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(victim) = self.collection.victim else { return self.begin_vgc(out) };
        if self.collection.cursor == self.layout.superpage {
            return self.collection.reading == 0 && self.end_vgc(victim);
        }
        if self.ops.room() <= OWN_OPS / 2 || self.life != Life::Running {
            return false;
        }
        self.collect_run(now, victim, out)
    }

    fn begin_vgc(&mut self, out: &mut Out) -> bool {
        let free = self.free.len() as u32;
        let reserve = self.layout.reserve;
        let margin = (self.layout.count / 256).max(8);
        if self.life != Life::Running
            || free + self.discarding + self.limbo.len() as u32 > reserve + margin
        {
            return self.life == Life::Running && free <= reserve && self.press_limbo(false);
        }
        let Some(victim) = self.pool.victim(self.layout.superpage) else {
            return self.press_limbo(false);
        };
        self.pool.become_(victim, State::Victim, false);
        self.collection = Collection { victim: Some(victim), ..Collection::default() };
        self.counters.gc_runs += 1;
        out.push(Output::Event(Event::GcStarted));
        true
    }

    fn collect_run(&mut self, now: Nanos, victim: u32, out: &mut Out) -> bool {
        let sp = self.layout.superpage;
        let first = victim * sp;
        let from = self.collection.cursor;
        let slot = (from..sp).find(|slot| self.table.live(first + slot).is_some());
        self.touched += (slot.unwrap_or(sp) - from) as usize;
        let Some(begin) = slot else {
            self.collection.cursor = sp;
            return true;
        };
        self.collection.cursor = begin;
        let Some(index) = self.filling_stage() else {
            return self.press_limbo(false);
        };
        if self.free.len() as u32 <= self.layout.reserve {
            self.press_limbo(true);
        }
        let most = (sp - begin).min(self.stages[index as usize].room());
        let live = |i: &u32| self.table.live(first + begin + *i).is_some();
        let len = 1 + (1..most).take_while(live).count() as u32;
        self.touched += len as usize;
        self.collection.cursor += len;
        self.collection.reading += 1;
        let stage = &mut self.stages[index as usize];
        let slot = stage.take(len, Cause::Gc);
        let into = Target::Data(stage.buffer().view_mut_sectors(slot, len));
        let lba = self.layout.data_at(victim) + u64::from(begin);
        let op = Op::Collect { stage: index, from: first + begin, slot, len };
        self.submit(now, op, Command::Read { device: 0, lba, into, cause: Cause::Gc }, out);
        self.counters.gc_copied += u64::from(len);
        self.close_if_full();
        true
    }

    /// Slots of the victim are in a stage.
    pub fn collected(
        &mut self,
        index: u8,
        (from, slot, len): (u32, u32, u32),
        command: Command,
        ok: bool,
    ) {
        let Command::Read { into: Target::Data(into), .. } = command else {
            unreachable!("collection reads into a stage")
        };
        self.stage_placed(index, into);
        self.collection.reading -= 1;
        self.collection.failed |= !ok;
        for i in (0..len).filter(|_| ok) {
            match self.table.live(from + i) {
                Some(lsn) => self.publish(index, lsn, slot + i),
                None if planted(Bug::GcOverNewer) => {
                    if let Some(lsn) = self.table.was(from + i) {
                        self.publish(index, lsn, slot + i);
                    }
                }
                None => {}
            }
        }
    }

    fn end_vgc(&mut self, victim: u32) -> bool {
        let failed = self.collection.failed;
        self.collection = Collection::default();
        if self.pool.valid(victim) == 0 {
            self.pool.become_(victim, State::Limbo, false);
            self.send_to_limbo(victim);
        } else {
            assert!(failed, "a victim keeps live slots only where it can't be read");
            self.pool.become_(victim, State::Stuck, false);
        }
        true
    }
}
