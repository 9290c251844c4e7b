//! Garbage collection by superpage: empties the superpage with the fewest valid slots (HARD's VGC).
//!
//! Valid slots are read directly into the filling stage. A copy is published only if the map still
//! points at its source, so it never replaces a newer write. A superpage is the victim until its
//! last read completes; it then goes into limbo, or becomes stuck if a read failed.

use hostftl_core::{Cause, Command, Event, Target};

use crate::planted::{Bug, planted};

use super::area::Area;
use super::ops::{Cx, OWN_OPS, Op};
use super::pool::State;
use super::table::Table;

/// The current victim.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    victim: Option<u32>,
    /// Next slot to examine.
    cursor: u32,
    /// Reads in flight.
    reading: u32,
    /// Whether a read failed.
    failed: bool,
}

impl Collection {
    /// Returns whether reads are in flight.
    pub(crate) fn is_reading(&self) -> bool {
        self.reading > 0
    }

    /// Chooses a victim, reads its next valid run, or ends its collection.
    pub(crate) fn pump_vgc<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let Some(victim) = self.victim else { return self.begin_vgc(area, cx) };
        if self.cursor == area.layout.superpage {
            return self.reading == 0 && self.end_vgc(area, victim);
        }
        // Some commands are left for programs, flushes and checkpoints, which free superpages.
        if cx.commands_left() <= OWN_OPS / 2 || !cx.is_running() {
            return false;
        }
        self.collect_run(area, victim, cx)
    }

    fn begin_vgc<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let free = area.pool.free() as u32;
        let reserve = area.layout.reserve;
        let margin = (area.layout.count / 256).max(8);
        // Superpages in limbo will be free without another collection.
        if !cx.is_running()
            || free + area.pool.discarding() + area.pool.limbo().len() as u32 > reserve + margin
        {
            // They only need a durable log write, so one is requested instead.
            return cx.is_running() && free <= reserve && area.request_limbo(false);
        }
        let Some(victim) = area.pool.victim(area.layout.superpage) else {
            return area.request_limbo(false);
        };
        area.pool.become_(victim, State::Victim, false);
        *self = Collection { victim: Some(victim), ..Collection::default() };
        cx.counters().gc_runs += 1;
        cx.report(Event::GcStarted);
        true
    }

    fn collect_run<T: Table>(
        &mut self,
        area: &mut Area<T>,
        victim: u32,
        cx: &mut Cx<T::Op>,
    ) -> bool {
        let sp = area.layout.superpage;
        let first = area.pool.slots(victim).start;
        let from = self.cursor;
        let slot = (from..sp).find(|slot| area.table.valid(first + u64::from(*slot)).is_some());
        cx.touch((slot.unwrap_or(sp) - from) as usize);
        let Some(begin) = slot else {
            self.cursor = sp;
            return true;
        };
        self.cursor = begin;
        if area.stages.is_parting() {
            return false;
        }
        // No stage can be opened until superpages in limbo become free.
        let Some(index) = area.filling_stage() else {
            return area.request_limbo(false);
        };
        if area.pool.free() as u32 <= area.layout.reserve {
            area.request_limbo(true);
        }
        let most = (sp - begin).min(area.stages.get(index).room());
        let is_valid = |i: &u32| area.table.valid(first + u64::from(begin + i)).is_some();
        let len = 1 + (1..most).take_while(is_valid).count() as u32;
        cx.touch(len as usize);
        self.cursor += len;
        self.reading += 1;
        let stage = area.stages.at(index);
        let slot = stage.take(len, Cause::Gc);
        let into = Target::Data(stage.buffer().view_mut_sectors(slot, len));
        let lba = area.layout.data_at(victim) + u64::from(begin);
        let op = Op::Collect { stage: index, from: first + u64::from(begin), slot, len };
        cx.submit(op, Command::Read { device: 0, lba, into, cause: Cause::Gc });
        cx.counters().gc_copied += u64::from(len);
        area.close_if_full();
        true
    }

    /// Publishes the slots of the victim that were read into a stage.
    pub(crate) fn collected<T: Table>(
        &mut self,
        area: &mut Area<T>,
        index: u8,
        (from, slot, len): (u64, u32, u32),
        command: Command,
        ok: bool,
        cx: &mut Cx<T::Op>,
    ) {
        let Command::Read { into: Target::Data(into), .. } = command else {
            unreachable!("garbage collection reads into a stage")
        };
        area.stages.at(index).arrived(into);
        self.reading -= 1;
        self.failed |= !ok;
        if !ok {
            return;
        }
        // The host may have rewritten or trimmed sectors since the read was sent.
        area.publish_copies(index, (from, slot, len), cx);
        for i in (0..len).filter(|_| planted(Bug::GcOverNewer)) {
            let vsn = from + u64::from(i);
            if let Some(lsn) = area.table.was(vsn).filter(|_| area.table.valid(vsn).is_none()) {
                area.publish(index, (lsn, slot + i, 1), cx);
            }
        }
    }

    fn end_vgc<T: Table>(&mut self, area: &mut Area<T>, victim: u32) -> bool {
        let failed = self.failed;
        *self = Collection::default();
        if area.pool.valid(victim) == 0 {
            area.pool.become_(victim, State::Limbo, false);
            area.send_to_limbo(victim);
        } else {
            assert!(failed, "a victim keeps valid slots only if they are unreadable");
            area.pool.become_(victim, State::Stuck, false);
        }
        true
    }
}
