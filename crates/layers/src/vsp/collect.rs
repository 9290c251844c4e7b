//! Garbage collection by superpage: empties the one with the fewest live slots (HARD's VGC).
//!
//! Live slots are read straight into the filling stage. A copy is published only where the map
//! still points at its source, so that it never replaces a newer write. The victim goes into limbo
//! when its last slot died, as every other superpage does; it is a victim until its last read is
//! over.

use hostftl_core::{Cause, Command, Event, Target};

use crate::planted::{Bug, planted};

use super::ops::{Cx, OWN_OPS, Op};
use super::pool::State;
use super::{Machine, Scheme, Table};

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
    pub fn pump_vgc(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let Some(victim) = self.collection.victim else { return self.begin_vgc(cx) };
        if self.collection.cursor == self.layout.superpage {
            return self.collection.reading == 0 && self.end_vgc(victim);
        }
        if cx.command_room() <= OWN_OPS / 2 || !cx.is_running() {
            return false;
        }
        self.collect_run(victim, cx)
    }

    fn begin_vgc(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let free = self.free.len() as u32;
        let reserve = self.layout.reserve;
        let margin = (self.layout.count / 256).max(8);
        if !cx.is_running() || free + self.discarding + self.limbo.len() as u32 > reserve + margin {
            return cx.is_running() && free <= reserve && self.press_limbo(false);
        }
        let Some(victim) = self.pool.victim(self.layout.superpage) else {
            return self.press_limbo(false);
        };
        self.pool.become_(victim, State::Victim, false);
        self.collection = Collection { victim: Some(victim), ..Collection::default() };
        cx.counters().gc_runs += 1;
        cx.tell(Event::GcStarted);
        true
    }

    fn collect_run(&mut self, victim: u32, cx: &mut Cx<S::Op>) -> bool {
        let sp = self.layout.superpage;
        let first = victim * sp;
        let from = self.collection.cursor;
        let slot = (from..sp).find(|slot| self.table.live(first + slot).is_some());
        cx.touch((slot.unwrap_or(sp) - from) as usize);
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
        cx.touch(len as usize);
        self.collection.cursor += len;
        self.collection.reading += 1;
        let stage = &mut self.stages[index as usize];
        let slot = stage.take(len, Cause::Gc);
        let into = Target::Data(stage.buffer().view_mut_sectors(slot, len));
        let lba = self.layout.data_at(victim) + u64::from(begin);
        let op = Op::Collect { stage: index, from: first + begin, slot, len };
        cx.submit(op, Command::Read { device: 0, lba, into, cause: Cause::Gc });
        cx.counters().gc_copied += u64::from(len);
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
        cx: &mut Cx<S::Op>,
    ) {
        let Command::Read { into: Target::Data(into), .. } = command else {
            unreachable!("collection reads into a stage")
        };
        self.stage_placed(index, into);
        self.collection.reading -= 1;
        self.collection.failed |= !ok;
        for i in (0..len).filter(|_| ok) {
            match self.table.live(from + i) {
                Some(lsn) => self.publish(index, lsn, slot + i, cx),
                None if planted(Bug::GcOverNewer) => {
                    if let Some(lsn) = self.table.was(from + i) {
                        self.publish(index, lsn, slot + i, cx);
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
