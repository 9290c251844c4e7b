//! Gathering: scattered sectors are copied into one superpage, so that they need fewer leaves.
//!
//! A job fills a stage of its own. Usually it copies a whole logical superpage (LSP), each sector
//! to its offset, with zeros where nothing is mapped. With `gather=vsp` it copies the contents of
//! one superpage in the order of sectors. A small write of the host beyond the cap is placed into
//! the stage of such a job too, so that its LSP has one leaf.
//!
//! Invariants
//! - A job goes through Idle → Base → Rest → Idle, and no two jobs gather the same LSP.
//! - `slots[s].from` is the virtual sector whose data slot `s` contains, or will contain.
//! - A copy is published only where the map still points at its source, and zeros only where the
//!   sector is still unmapped.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::{Cause, Command, Piece, Target};

use crate::planted::{Bug, planted};
use crate::vsp::layout::Layout;
use crate::vsp::leaves::{LOST, Leaf, Leaves};
use crate::vsp::pool::State;
use crate::vsp::{Area, Table};

use super::Buddies;
use super::map::Map;
use super::ops::Op;
use crate::vsp::ops::{Cx, Op::Own};

/// Maximum number of concurrent jobs.
const JOBS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// One read fetches the largest part, including unneeded slots in between.
    Base,
    /// The other runs are copied, each over the data of the first read.
    Rest,
}

/// The source of a slot's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// None: the slot's data does not count.
    None,
    /// Zeros, because the sector is not mapped.
    Zeros,
    /// A copy of this virtual sector.
    Copy(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    lsn: u64,
    from: From,
    /// Whether the first read fetches it.
    here: bool,
}

impl Slot {
    fn new(lsn: u64, from: From) -> Self {
        Slot { lsn, from, here: false }
    }

    /// Returns whether the source of the slot `i` slots later is `i` sectors further on.
    fn leads_to(&self, later: &Slot, i: u64) -> bool {
        match (self.from, later.from) {
            (From::Zeros, From::Zeros) => true,
            (From::Copy(vsn), From::Copy(other)) => vsn + i == other,
            _ => false,
        }
    }
}

/// Map lookups of consecutive slots, one for each leaf.
struct Lookup<'a> {
    leaves: &'a Leaves,
    leaf: Option<Leaf>,
    /// The sectors that `leaf` holds for.
    sectors: Range<u64>,
}

impl<'a> Lookup<'a> {
    fn new(leaves: &'a Leaves) -> Self {
        Lookup { leaves, leaf: None, sectors: 0..0 }
    }

    /// Returns whether the map still agrees with the source of a slot.
    fn is_current(&mut self, slot: &Slot) -> bool {
        if slot.from == From::None {
            return false;
        }
        if !self.sectors.contains(&slot.lsn) {
            let (leaf, end) = self.leaves.around(slot.lsn);
            (self.leaf, self.sectors) = (leaf, slot.lsn..end);
        }
        match slot.from {
            From::Copy(vsn) => self.leaf.is_some_and(|leaf| leaf.at(slot.lsn) == vsn),
            _ => self.leaf.is_none(),
        }
    }

    /// Returns the level of the longest run, from the first of `slots` on, that is current and in
    /// one leaf or unmapped.
    fn run(&mut self, slots: &[Slot]) -> Option<u8> {
        let lsn = slots[0].lsn;
        if !self.is_current(&slots[0]) {
            return None;
        }
        let sectors = slots.iter().zip(lsn..self.sectors.end);
        let same = |(slot, lsn): &(&Slot, u64)| slot.lsn == *lsn && self.is_current(slot);
        let len = sectors.take_while(same).count();
        Some(lsn.trailing_zeros().min(len.ilog2()) as u8)
    }
}

/// A gathering of one LSP or one superpage.
#[derive(Debug)]
struct Job {
    phase: Phase,
    stage: u8,
    lsp: Option<u32>,
    slots: Vec<Slot>,
    cursor: u32,
    outstanding: u32,
    /// The part that the host writes: first slot and length.
    host: (u32, u32),
    /// Whether a read failed.
    failed: bool,
}

impl Job {
    fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle | Phase::Base, Phase::Rest) | (Phase::Rest, Phase::Base | Phase::Idle)
        );
        assert!(fits && self.outstanding == 0, "a job can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }
}

#[derive(Debug)]
pub(super) struct Jobs {
    list: Vec<Job>,
    /// Leaves saved by all jobs so far, minus those that they added.
    pub saved: i64,
    /// Whether a job could not read all of its sources.
    pub failed: bool,
}

impl Jobs {
    /// Creates idle jobs.
    pub(super) fn new(layout: &Layout) -> Self {
        let job = || Job {
            phase: Phase::Idle,
            stage: 0,
            lsp: None,
            slots: vec![Slot::new(0, From::None); layout.superpage as usize],
            cursor: 0,
            outstanding: 0,
            host: (0, 0),
            failed: false,
        };
        Jobs { list: (0..JOBS).map(|_| job()).collect(), saved: 0, failed: false }
    }

    /// Returns the bytes of the lists of all jobs.
    pub(super) fn memory(superpage: u32) -> u64 {
        (JOBS * size_of::<Slot>()) as u64 * u64::from(superpage)
    }

    /// Returns whether any job is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.list.iter().any(|job| job.phase != Phase::Idle)
    }

    /// Returns whether an LSP is being gathered.
    pub(super) fn has(&self, lsp: u32) -> bool {
        self.list.iter().any(|job| job.phase != Phase::Idle && job.lsp == Some(lsp))
    }

    fn idle(&self) -> Option<usize> {
        self.list.iter().position(|job| job.phase == Phase::Idle)
    }
}

impl Buddies {
    /// Advances every job. Returns whether anything moved.
    pub(super) fn pump_jobs(&mut self, area: &mut Area<Map>, cx: &mut Cx<Op>) -> bool {
        let mut moved = false;
        for index in 0..JOBS {
            let job = &self.jobs.list[index];
            moved |= match job.phase {
                Phase::Rest if cx.commands_left() > 0 => self.read_rest(area, index, cx),
                _ => false,
            };
        }
        moved
    }

    /// Starts to gather an LSP. `host` is the part that the host writes: offset and length in
    /// sectors. Returns the stage, or `None` if no job or stage is idle.
    pub(super) fn gather_lsp(
        &mut self,
        area: &mut Area<Map>,
        lsp: u32,
        host: (u32, u32),
        cx: &mut Cx<Op>,
    ) -> Option<u8> {
        assert!(!self.jobs.has(lsp), "one job gathers an LSP");
        let index = self.jobs.idle()?;
        let stage = area.own_stage(cx)?;
        let sp = area.layout.superpage;
        let job = &mut self.jobs.list[index];
        (job.stage, job.lsp, job.host) = (stage, Some(lsp), host);
        let mine = |lsn: u64| (host.0..host.0 + host.1).contains(&((lsn % u64::from(sp)) as u32));
        for (slot, lsn) in job.slots.iter_mut().zip(u64::from(lsp) * u64::from(sp)..) {
            *slot = Slot::new(lsn, if mine(lsn) { From::None } else { From::Zeros });
        }
        for leaf in area.table.leaves.in_lsp(lsp) {
            for lsn in (leaf.lsn..leaf.end()).filter(|lsn| !mine(*lsn)) {
                let from = if leaf.vsn == LOST { From::None } else { From::Copy(leaf.at(lsn)) };
                job.slots[(lsn % u64::from(sp)) as usize].from = from;
            }
        }
        cx.touch(2 * sp as usize);
        self.read_base(area, index, cx);
        Some(stage)
    }

    /// Starts to copy the contents of a superpage in the order of sectors. Returns whether it
    /// started.
    pub(super) fn gather_vsp(&mut self, area: &mut Area<Map>, vsp: u32, cx: &mut Cx<Op>) -> bool {
        let Some(index) = self.jobs.idle() else { return false };
        let Some(stage) = area.own_stage(cx) else { return false };
        let job = &mut self.jobs.list[index];
        (job.stage, job.lsp, job.host) = (stage, None, (0, 0));
        job.slots.fill(Slot::new(u64::MAX, From::None));
        let mut slots = job.slots.iter_mut();
        for leaf in area.table.leaves.in_superpage(vsp) {
            for (slot, lsn) in slots.by_ref().zip(leaf.lsn..leaf.end()) {
                *slot = Slot::new(lsn, From::Copy(leaf.at(lsn)));
            }
        }
        job.slots.sort_unstable_by_key(|slot| slot.lsn);
        cx.touch(2 * area.layout.superpage as usize);
        self.begin_rest(index);
        true
    }

    fn begin_rest(&mut self, index: usize) {
        let job = &mut self.jobs.list[index];
        job.go(Phase::Rest);
        (job.cursor, job.outstanding, job.failed) = (0, 0, false);
    }

    /// Reads all slots that have the same distance from their target as the longest leaf, in one
    /// command.
    fn read_base(&mut self, area: &mut Area<Map>, index: usize, cx: &mut Cx<Op>) {
        self.begin_rest(index);
        let sp = area.layout.superpage;
        let job = &mut self.jobs.list[index];
        let host = job.host;
        let lsp = job.lsp.expect("an LSP is being gathered");
        let Some(longest) = area.table.leaves.in_lsp(lsp).max_by_key(|leaf| leaf.level) else {
            return;
        };
        if longest.level < 2 || area.table.lookup(longest.lsn).is_none() {
            return;
        }
        let vsp = area.pool.superpage_at(longest.vsn);
        if matches!(area.pool.state(vsp), State::Staged(_)) {
            return;
        }
        let offset = |sector: u64| (sector % u64::from(sp)) as u32;
        let shift = i64::from(offset(longest.vsn)) - i64::from(offset(longest.lsn));
        // The read must not overwrite the host's part, which is being copied into the buffer.
        let behind = |at: u32| at >= host.0;
        let side = behind(offset(longest.lsn));
        let (mut first, mut last) = (sp, 0);
        for (at, slot) in (0..).zip(&mut job.slots) {
            let From::Copy(vsn) = slot.from else { continue };
            let near = host.1 == 0 || behind(at) == side;
            let same = i64::from(offset(vsn)) - i64::from(at) == shift;
            slot.here = near && same && area.pool.superpage_at(vsn) == vsp;
            if slot.here {
                (first, last) = (first.min(at), last.max(at));
            }
        }
        if first > last {
            return;
        }
        job.go(Phase::Base);
        job.outstanding = 1;
        let from = (i64::from(first) + shift) as u64;
        self.read_into(area, index, (vsp, from as u32), (first, last + 1 - first), cx);
    }

    /// Reads slots of a superpage on media into slots of a job's stage.
    fn read_into(
        &mut self,
        area: &mut Area<Map>,
        index: usize,
        (vsp, from): (u32, u32),
        (slot, len): (u32, u32),
        cx: &mut Cx<Op>,
    ) {
        let stage = self.jobs.list[index].stage;
        let into = area.stages.buffer(stage).view_mut_sectors(slot, len);
        area.pool.begin_read(vsp);
        let lba = area.layout.data_at(vsp) + u64::from(from);
        let into = Target::Data(into);
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        cx.submit(Own(Op::Read { job: index as u8, vsp, slot, len }), command);
    }

    /// Returns the next run that is not in the buffer yet and whose source is still current.
    fn next_run(
        &mut self,
        area: &mut Area<Map>,
        index: usize,
        cx: &mut Cx<Op>,
    ) -> Option<(u32, From, u32)> {
        let sp = area.layout.superpage;
        let job = &mut self.jobs.list[index];
        let mut lookup = Lookup::new(&area.table.leaves);
        while let Some(slot) = job.slots.get_mut(job.cursor as usize) {
            if !slot.here && lookup.is_current(slot) {
                break;
            }
            if !slot.here {
                slot.from = From::None;
            }
            job.cursor += 1;
        }
        let begin = job.cursor;
        let first = job.slots.get(begin as usize)?;
        let most = match first.from {
            From::Copy(vsn) => sp - (vsn % u64::from(sp)) as u32,
            _ => sp,
        };
        let follows = |(slot, i): &(&Slot, u32)| {
            !slot.here && first.leads_to(slot, (*i).into()) && lookup.is_current(slot)
        };
        let slots = job.slots[begin as usize..].iter();
        let len = slots.zip(0..most).take_while(follows).count() as u32;
        let from = first.from;
        job.cursor = begin + len;
        cx.touch(len as usize + 1);
        Some((begin, from, len))
    }

    /// Copies the next run over the data of the first read, or ends the job.
    fn read_rest(&mut self, area: &mut Area<Map>, index: usize, cx: &mut Cx<Op>) -> bool {
        let sp = area.layout.superpage;
        let number = index as u8;
        let job = &mut self.jobs.list[index];
        let stage = job.stage;
        let Some((slot, from, len)) = self.next_run(area, index, cx) else {
            let job = &self.jobs.list[index];
            let over = job.outstanding == 0 && area.stages.get(stage).placing() == 0;
            if over {
                self.end_job(area, index, cx);
            }
            return over;
        };
        self.jobs.list[index].outstanding += 1;
        let (op, piece) = match from {
            From::Copy(vsn) => match area.pool.state(area.pool.superpage_at(vsn)) {
                State::Staged(from) => {
                    let view =
                        area.stages.buffer(from).view_sectors((vsn % u64::from(sp)) as u32, len);
                    (Op::Copy { job: number, stage: from, slot, len }, Piece::Data(view))
                }
                _ => {
                    let from = (area.pool.superpage_at(vsn), (vsn % u64::from(sp)) as u32);
                    self.read_into(area, index, from, (slot, len), cx);
                    return true;
                }
            },
            _ => (Op::Zeros { job: number }, Piece::zero_sectors(len)),
        };
        let into = area.stages.buffer(stage).view_mut_sectors(slot, len);
        cx.submit(Own(op), Command::Place { from: piece, into });
        true
    }

    /// Publishes the gathered sectors and closes the stage.
    fn end_job(&mut self, area: &mut Area<Map>, index: usize, cx: &mut Cx<Op>) {
        let Job { stage, host, failed, .. } = self.jobs.list[index];
        let before = area.table.leaves.count();
        let (mut fill, mut copied) = (host.0 + host.1, 0);
        let mut at = 0;
        while at < area.layout.superpage {
            let slots = &self.jobs.list[index].slots[at as usize..];
            let (first, level) = (slots[0], Lookup::new(&area.table.leaves).run(slots));
            let len = 1 << level.unwrap_or(0);
            if first.from != From::None {
                fill = fill.max(at + len);
                copied += if first.from == From::Zeros { 0 } else { len };
                if level.is_some() || planted(Bug::GatherOverNewer) {
                    area.publish(stage, (first.lsn, at, len), cx);
                    if planted(Bug::GatherNotListed) {
                        (at..at + len).for_each(|slot| area.stages.at(stage).clear(slot));
                    }
                }
            }
            at += len;
        }
        let fill = fill.max(1);
        self.count_gathered(area, stage, copied, fill - copied - host.1, cx);
        area.stages.at(stage).close_at(fill);
        let jobs = &mut self.jobs;
        jobs.saved += i64::from(before) - i64::from(area.table.leaves.count());
        jobs.failed |= failed;
        jobs.list[index].go(Phase::Idle);
    }

    fn count_gathered(
        &mut self,
        area: &mut Area<Map>,
        stage: u8,
        copied: u32,
        holes: u32,
        cx: &mut Cx<Op>,
    ) {
        let stage = area.stages.at(stage);
        stage.count(Cause::Gc, copied);
        stage.count(Cause::Pad, holes);
        cx.counters().gc_copied += u64::from(copied);
        cx.counters().padded += u64::from(holes);
    }

    /// Handles the completion of a job's command.
    pub(super) fn gathered(&mut self, area: &mut Area<Map>, op: Op, command: Command, ok: bool) {
        let (index, slot, len, into) = match (op, command) {
            (Op::Read { job, vsp, slot, len }, Command::Read { into: Target::Data(into), .. }) => {
                area.pool.end_read(vsp);
                (job, slot, len, into)
            }
            (
                Op::Copy { job, stage, slot, len },
                Command::Place { from: Piece::Data(from), into },
            ) => {
                area.stages.at(stage).repay(from);
                (job, slot, len, into)
            }
            (Op::Zeros { job }, Command::Place { into, .. }) => (job, 0, 0, into),
            (op, command) => unreachable!("{op:?} completed with {command:?}"),
        };
        let job = &mut self.jobs.list[index as usize];
        let stage = job.stage;
        job.outstanding -= 1;
        let base = job.phase == Phase::Base;
        if base {
            job.go(Phase::Rest);
        }
        if !ok {
            job.failed = true;
            let part = &mut job.slots[slot as usize..(slot + len) as usize];
            part.iter_mut()
                .filter(|slot| slot.here == base)
                .for_each(|slot| slot.from = From::None);
        }
        area.stages.buffer(stage).repay_mut(into);
    }
}
