//! Recovery's proof: data that the end of the log lists is there, or the log ends before it.
//!
//! A mismatch means that the log write was never durable. Data that can't be read can't be judged:
//! its sectors become errors until they are written again, for they may be anybody's.

use hostftl_core::{Cause, Command, DeviceError, Event, Target, Verdict};

use super::ops::Cx;
use super::recovery::{Listed, Step, give_up};
use super::{Machine, Scheme, Table};

/// Superpages forgotten in one go, at the most.
const BITE: u32 = 16;

impl<S: Scheme> Machine<S> {
    /// Reads the next superpage whose data no flush is known to cover.
    pub(super) fn verify_next(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let from = self.recovery().cursor as u32;
        let end = (from + 4096).min(self.layout.count);
        let recovery = self.recovery.as_ref().expect("the volume is being recovered");
        let durable = recovery.replay.durable;
        let unsure =
            |vsp: &u32| recovery.listed[*vsp as usize].seq > durable && self.pool.valid(*vsp) > 0;
        let next = (from..end).find(unsure);
        let stop = next.unwrap_or(end);
        cx.touch((stop - from) as usize);
        self.recovery().cursor = stop.into();
        if let Some(vsp) = next {
            let fill = self.recovery().listed[vsp as usize].fill;
            if fill == 0 {
                return give_up("a listing in the log makes no sense", cx);
            }
            let lba = self.layout.data_at(vsp);
            let into = Target::Data(self.stages[0].buffer().view_mut_sectors(0, fill));
            let command = Command::Read { device: 0, lba, into, cause: Cause::Map };
            return self.recover(0, command, cx);
        }
        if stop < self.layout.count {
            return true;
        }
        match self.recovery().bad.take() {
            Some(bad) => {
                let recovery = self.recovery();
                recovery.dropped += recovery.replay.last + 1 - bad;
                recovery.listed.fill(Listed::default());
                recovery.go(Step::Forget)
            }
            None => self.recovery().go(Step::Queues),
        }
    }

    pub(super) fn digest_listed(&mut self, cx: &mut Cx<S::Op>) {
        let vsp = self.recovery().cursor as u32;
        let fill = self.recovery().listed[vsp as usize].fill;
        let from = self.stages[0].buffer().view_sectors(0, fill);
        self.recover(0, Command::Digest { from, seed: vsp.into() }, cx);
    }

    /// What can't be read can't be checked: it may be this data, older data, or another sector's.
    pub(super) fn lose_listed(&mut self, cx: &mut Cx<S::Op>) {
        let vsp = self.recovery().cursor as u32;
        let sectors = self.pool.valid(vsp);
        let checkpoint = &mut self.checkpoint;
        self.table.lose(&mut self.pool, vsp, |key| checkpoint.changed(key));
        cx.touch(self.layout.superpage as usize);
        cx.tell(Event::Lost { sectors });
        self.recovery().cursor += 1;
    }

    pub(super) fn compare_listed(&mut self, result: Result<Verdict, DeviceError>) {
        let recovery = self.recovery();
        let listed = recovery.listed[recovery.cursor as usize];
        let crc = result.expect("a checksum in memory can't fail").crc;
        if crc != listed.crc {
            let first = recovery.bad.map_or(listed.seq, |bad| bad.min(listed.seq));
            recovery.bad = Some(first);
            recovery.replay.limit = Some(first - 1);
        }
        recovery.cursor += 1;
    }

    /// Undoes the counts, to replay a shorter log.
    pub(super) fn forget_some(&mut self, cx: &mut Cx<S::Op>) -> bool {
        let from = self.recovery().cursor as u32;
        let end = (from + BITE.min(8192 / self.layout.superpage + 1)).min(self.layout.count);
        for vsp in from..end {
            self.table.disown(&mut self.pool, vsp);
        }
        cx.touch(((end - from) * self.layout.superpage) as usize);
        self.recovery().cursor = end.into();
        if end < self.layout.count {
            return true;
        }
        let recovery = self.recovery();
        recovery.replay.rewind();
        recovery.go(Step::Groups)
    }
}
