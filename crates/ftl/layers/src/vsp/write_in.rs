//! Writes into stages, and trims: changes of the map that the host requests.
//!
//! Invariants
//! - Slots are taken in the order of arrival; a sector is published when its copy is complete.
//! - A sector that is published in a stage is newer than its copies in that stage and in later
//!   ones.

use hostftl_core::{Cause, Command, Piece};

use crate::kit::requests::Kind;
use crate::planted::{Bug, planted};

use super::area::Area;
use super::homing;
use super::layout::FLOOR;
use super::leaves::Leaf;
use super::ops::{Cx, OWN_OPS, Op};
use super::pool::{Lost, State};
use super::table::Table;

/// Maximum number of map entries that a trim examines per call.
const TRIM_STEP: u64 = 2048;

impl<T: Table> Area<T> {
    /// Advances a write or trim of sectors that don't go home; a write by at most `most` sectors.
    pub(crate) fn gather(&mut self, req: u16, most: u64, cx: &mut Cx<T::Op>) -> bool {
        match cx.request(req).kind {
            Kind::Trim => self.trim_some(req, cx),
            _ => self.write_run(req, most, cx),
        }
    }

    /// Sends the copy of the part of a write that fits into the filling stage.
    fn write_run(&mut self, req: u16, most: u64, cx: &mut Cx<T::Op>) -> bool {
        // The last commands are reserved for the layer's own work, which frees space.
        if !self.may_gather() || cx.commands_left() <= OWN_OPS {
            return false;
        }
        let active = cx.request(req);
        let left = (active.sectors - active.cursor).min(most) as u32;
        let lsn = active.lba + active.cursor;
        let Some((index, slot, len)) = self.take_slots(lsn, left, Cause::Host) else {
            return false;
        };
        self.send_to_stage(req, (index, slot, len), cx);
        self.close_if_full();
        true
    }

    /// Takes slots of the filling stage for at most `left` sectors from `lsn` on. Returns the
    /// stage, the first slot and the number of slots.
    pub(crate) fn take_slots(
        &mut self,
        lsn: u64,
        left: u32,
        cause: Cause,
    ) -> Option<(u8, u32, u32)> {
        homing::align_stream(self, lsn);
        let index = self.filling_stage()?;
        self.keep_whole(index, lsn, left);
        let stage = self.stages.at(index);
        let len = stage.room().min(left);
        stage.follow(lsn, len);
        let first = stage.take(len, cause);
        // Copies by garbage collection don't interrupt a sequential run of the host.
        if cause == Cause::Host {
            self.stages.note_stream(lsn, lsn + u64::from(len));
        }
        Some((index, first, len))
    }

    /// Where the map has a budget of leaves, releases the slots reserved for log pages if they
    /// would split `left` sectors, or the end of a logical superpage that is complete in the stage
    /// so far. Log pages that are still due are then written alone. A split would shift everything
    /// that follows, so that one more leaf is split at the end of each superpage.
    fn keep_whole(&mut self, index: u8, lsn: u64, left: u32) {
        let (stage, superpage) = (self.stages.at(index), self.layout.superpage);
        let splits = stage.room() < left && left <= superpage - stage.fill();
        let parts = stage.room() <= left && stage.follows(lsn);
        if self.layout.leaves > 0 && stage.keeps_slots() && (splits || parts) {
            stage.keep_none();
            if self.log_is_due() {
                self.durability_requests.request_log_write();
            }
        }
    }

    /// Sends the copy of the next `len` sectors of a write into slots taken for it.
    pub(crate) fn send_to_stage(
        &mut self,
        req: u16,
        (index, slot, len): (u8, u32, u32),
        cx: &mut Cx<T::Op>,
    ) {
        let active = cx.request(req);
        let (at, lsn) = (active.cursor as u32, active.lba + active.cursor);
        active.cursor += u64::from(len);
        active.outstanding += 1;
        let from = Piece::Data(cx.requests().data(req).view_sectors(at, len));
        let into = self.stages.buffer(index).view_mut_sectors(slot, len);
        let op = Op::Place { req, stage: index, lsn, slot, len };
        cx.submit(op, Command::Place { from, into });
    }

    /// Returns whether the host may take slots. Where garbage collection needs no slots, the host
    /// may fill the open stage, and open one more to carry a log write that frees superpages.
    pub(crate) fn may_gather(&self) -> bool {
        let free = self.pool.free();
        let homes = self.layout.home.is_some();
        let carries = free > FLOOR as usize && self.log_is_due();
        free > self.layout.reserve as usize || homes && (self.stages.filling().is_some() || carries)
    }

    /// Publishes data of a write that was copied to its stage.
    pub(crate) fn placed(
        &mut self,
        req: u16,
        index: u8,
        (lsn, slot, len): (u64, u32, u32),
        command: Command,
        cx: &mut Cx<T::Op>,
    ) {
        let Command::Place { from: Piece::Data(from), into } = command else {
            unreachable!("a completed write has its data")
        };
        let stamp = self.stages.at(index).arrived(into);
        // This compares with the map, so it must precede the publication of the new sectors.
        self.overtake(stamp, lsn, len, cx);
        self.publish(index, (lsn, slot, len), cx);
        self.stages.host_published(stamp);
        cx.requests().data(req).repay(from);
        cx.requests().part_over(req, true);
        self.complete_if_over(req, cx);
    }

    /// Removes superseded copies of the sectors from the listings of the stage with `stamp` and of
    /// later ones: copies complete in any order, and the last to complete is the newest. This
    /// includes copies that the map no longer has because they went home. Their kill comes later in
    /// the log, and until then their listing would hide the data published here.
    fn overtake(&mut self, stamp: u64, lsn: u64, len: u32, cx: &mut Cx<T::Op>) {
        let mut overtaken = false;
        for lsn in lsn..lsn + u64::from(len) {
            let Some(vsn) = self.table.lookup(lsn) else {
                overtaken |= self.stages.may_list_moved(stamp);
                continue;
            };
            let State::Staged(index) = self.pool.state(self.pool.superpage_at(vsn)) else {
                continue;
            };
            let other = self.stages.get(index).stamp();
            // Within the stage the slot is known; later stages are searched by sector below.
            if other == stamp {
                self.stages.at(index).clear((vsn % u64::from(self.layout.superpage)) as u32);
            }
            overtaken |= other > stamp;
        }
        cx.touch(len as usize);
        if overtaken {
            cx.touch(self.stages.forget(stamp, (lsn, lsn + u64::from(len))));
        }
    }

    /// Points `len` sectors at as many slots of a stage, and lets the stage list them.
    pub(crate) fn publish(
        &mut self,
        index: u8,
        (lsn, slot, len): (u64, u32, u32),
        cx: &mut Cx<T::Op>,
    ) {
        let stage = self.stages.at(index);
        (0..len).for_each(|i| stage.publish(slot + i, lsn + u64::from(i)));
        let vsn = self.pool.slots(stage.vsp()).start + u64::from(slot);
        cx.touch(len as usize);
        let mut done = 0;
        while done < len {
            let (lsn, vsn) = (lsn + u64::from(done), vsn + u64::from(done));
            let leaf = Leaf { lsn, vsn, level: self.table.level(lsn, len - done) };
            for key in self.table.keys(lsn, Some(vsn)) {
                self.checkpoint.changed_run(key, leaf.len());
            }
            let before = self.table.mapped();
            if let Lost::Last(vsp) = self.table.point(&mut self.pool, leaf) {
                self.send_to_limbo(vsp);
            }
            // The sectors were mapped before, so hidden copies were replaced.
            if self.table.mapped() == before {
                self.stages.at(index).note_replaced();
            }
            done += leaf.len();
        }
    }

    /// Publishes `len` slots from virtual sector `from` on, which were copied to a stage, except
    /// those that became invalid since.
    pub(crate) fn publish_copies(
        &mut self,
        index: u8,
        (from, slot, len): (u64, u32, u32),
        cx: &mut Cx<T::Op>,
    ) {
        let mut done = 0;
        while done < len {
            let valid = |i: u32| self.table.valid(from + u64::from(done + i));
            let Some(lsn) = valid(0) else {
                done += 1;
                continue;
            };
            let follows = |i: &u32| valid(*i) == Some(lsn + u64::from(*i));
            let run = 1 + (1..len - done).take_while(follows).count() as u32;
            self.publish(index, (lsn, slot + done, run), cx);
            done += run;
        }
    }

    /// Unmaps the next part of a trim, and logs it.
    fn trim_some(&mut self, req: u16, cx: &mut Cx<T::Op>) -> bool {
        if self.pool.free() <= self.layout.reserve as usize {
            return false; // A trim record needs a superpage; those left are for garbage collection.
        }
        if !self.log.fits_trim() {
            self.durability_requests.request_log_write();
            return false;
        }
        let active = cx.request(req);
        let first = active.lba + active.cursor;
        let len = (active.sectors - active.cursor).min(TRIM_STEP);
        active.cursor += len;
        cx.touch(len as usize);
        // Copies that are published but not listed yet must not follow the trim in the log.
        cx.touch(self.stages.forget(0, (first, first + len)));
        let mut changed = false;
        for lsn in first..first + len {
            if self.table.lookup(lsn).is_some() || self.table.is_lost(lsn) {
                changed = true;
                let keys = self.table.keys(lsn, None);
                keys.into_iter().for_each(|key| self.checkpoint.changed(key));
                if let Lost::Last(vsp) = self.table.kill(&mut self.pool, lsn) {
                    self.pool.push_limbo(vsp);
                }
            }
        }
        // A trim of unmapped sectors changes nothing and needs no entry.
        if changed && !planted(Bug::TrimNotLogged) {
            self.log.trim(first, len as u32);
        }
        // The mark includes the trim entry: superpages emptied here stay in limbo until it is
        // durable.
        let mark = self.mark_all();
        self.pool.mark_limbo(mark);
        true
    }
}
