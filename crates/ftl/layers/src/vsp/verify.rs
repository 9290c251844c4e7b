//! Verification of the end of the log during recovery: its data must be on media, or the log ends
//! before it.
//!
//! A checksum mismatch means that the log write was never durable. Unreadable data can't be
//! verified: it may belong to any version or any sector. Its sectors become errors until they are
//! written again.

use hostftl_core::{Cause, Command, DeviceError, Event, Target, Verdict};

use super::area::Area;
use super::ops::Cx;
use super::recovery::{Recovery, Step, fail_volume};
use super::table::Table;

/// Maximum number of superpages whose counts are undone per call.
const BITE: u32 = 16;
/// Maximum number of superpages that are examined per call.
const SCAN: usize = 4096;

impl Recovery {
    /// Reads the next superpage whose data may not be covered by a flush.
    pub(super) fn verify_next<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let durable = self.replay.durable;
        let (mut next, mut seen) = (None, 0);
        let mut listed = self.listed.range(self.cursor as u32..).take(SCAN);
        for (vsp, listed) in &mut listed {
            (self.cursor, seen) = (u64::from(*vsp) + 1, seen + 1);
            // Log writes up to `durable` were flushed, and their data with them.
            if listed.seq > durable && area.pool.valid(*vsp) > 0 {
                next = Some((*vsp, listed.fill));
                break;
            }
        }
        cx.touch(seen);
        if let Some((vsp, fill)) = next {
            self.cursor = vsp.into();
            // Valid sectors without listed data contradict each other.
            if fill == 0 {
                return fail_volume("a listing in the log is invalid", cx);
            }
            let lba = area.layout.data_at(vsp);
            let into = Target::Data(area.stages.buffer(0).view_mut_sectors(0, fill));
            let command = Command::Read { device: 0, lba, into, cause: Cause::Map };
            return self.recover(0, command, cx);
        }
        if seen == SCAN {
            return true;
        }
        // A mismatch shortens the log; the counts are undone and the shorter log is replayed.
        match self.bad.take() {
            Some(bad) => {
                self.dropped += self.replay.last + 1 - bad;
                self.listed.clear();
                self.go(Step::Forget)
            }
            None => self.go(Step::Queues),
        }
    }

    pub(super) fn digest_listed<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) {
        let vsp = self.cursor as u32;
        let fill = self.listed[&vsp].fill;
        let from = area.stages.buffer(0).view_sectors(0, fill);
        self.recover(0, Command::Digest { from, seed: vsp.into() }, cx);
    }

    /// Turns the sectors of an unreadable superpage into errors.
    pub(super) fn lose_listed<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) {
        let vsp = self.cursor as u32;
        let sectors = area.pool.valid(vsp);
        let checkpoint = &mut area.checkpoint;
        // The images written at the end of recovery record the loss.
        area.table.lose(&mut area.pool, vsp, |key| checkpoint.changed(key));
        cx.touch(area.layout.superpage as usize);
        cx.report(Event::Lost { sectors });
        self.cursor += 1;
    }

    pub(super) fn compare_listed(&mut self, result: Result<Verdict, DeviceError>) {
        let listed = self.listed[&(self.cursor as u32)];
        let crc = result.expect("a checksum in memory succeeds").crc;
        // The log ends before the first write with bad data, and superpages come in any order.
        if crc != listed.crc {
            let first = self.bad.map_or(listed.seq, |bad| bad.min(listed.seq));
            self.bad = Some(first);
            self.replay.limit = Some(first - 1);
        }
        self.cursor += 1;
    }

    /// Undoes the counts of some superpages, before a shorter log is replayed.
    pub(super) fn forget_some<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let used = area.pool.used();
        let from = used.start.max(self.cursor as u32);
        let end = from.saturating_add(SCAN as u32).min(used.end);
        let most = BITE.min(8192 / area.layout.superpage + 1) as usize;
        let (mut undone, mut at) = (0, from);
        while at < end && undone < most {
            if area.pool.valid(at) > 0 {
                area.table.disown(&mut area.pool, at);
                undone += 1;
            }
            at += 1;
        }
        cx.touch(undone * area.layout.superpage as usize + (at - from) as usize / 4);
        self.cursor = at.into();
        if at < used.end {
            return true;
        }
        self.replay.rewind();
        self.go(Step::Groups)
    }
}
