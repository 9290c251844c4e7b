//! sVGC: moves LSPs home to empty superpages of the hidden area.
//!
//! The victim is the full superpage whose sectors touch the fewest LSPs. Each of these is read from
//! its home, all its hidden sectors are laid over it, and it is written home as one superpage; then
//! the hidden copies die unless they are newer by now. In the mode `ressd` all LSPs that the hidden
//! area holds anything of are moved in one batch, in the order of their addresses.
//!
//! Invariants
//! - A mover goes Idle → Fetching → Laying → Writing → Killing → Idle, and no two move the same
//!   LSP.
//! - `copies[o]` is the slot + 1 whose content the buffer has, or will have, at sector `o` of the
//!   LSP.
//! - The buffer is written as a whole only when every sector of it was read.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, Event, Gather, Nanos, Out, Output, Payload, Piece, Tally, Target, ViewMut,
};

use crate::config::{LayerConfig, Reclaim};
use crate::planted::{Bug, planted};
use crate::vsp::layout::{FLOOR, Layout};
use crate::vsp::ops::{OWN_OPS, Op};
use crate::vsp::pool::State;
use crate::vsp::{Life, Machine};

use super::{Hidden, HiddenMap};

/// LSPs that are moved at once; each has a buffer.
pub const MOVERS: u32 = 4;
/// Superpages that are kept free or soon free beside the reserve.
const MARGIN: u32 = 8;
/// The same where the area is roomy, as a share of what is not lent: log is written seldom.
const MARGIN_SHARE: u32 = 24;
/// LSPs that a batch looks at in one go.
const LOOK: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Fetching,
    Laying,
    Writing,
    Killing,
}

#[derive(Debug)]
struct Mover {
    payload: Option<Payload>,
    phase: Phase,
    lsp: u32,
    copies: Vec<u32>,
    cursor: u32,
    outstanding: u32,
    /// Whether the home was read, so that the buffer has all of the LSP.
    whole: bool,
}

impl Mover {
    fn buffer(&mut self) -> &mut Payload {
        self.payload.as_mut().expect("a mover keeps its buffer")
    }
}

/// See the module text.
#[derive(Debug)]
pub struct Movers {
    list: Vec<Mover>,
    reclaim: Reclaim,
    victim: Option<u32>,
    /// The next slot of the victim, or the next LSP of the batch.
    cursor: u32,
    /// Whether part of the victim could not be moved.
    failed: bool,
    /// Whether the victim was chosen for what it holds, and is not to be emptied.
    spilling: bool,
}

impl Movers {
    /// All idle.
    pub fn new(
        config: &LayerConfig,
        layout: &Layout,
        buffers: impl Iterator<Item = Payload>,
    ) -> Self {
        let mover = |payload| Mover {
            payload: Some(payload),
            phase: Phase::Idle,
            lsp: 0,
            copies: vec![0; layout.superpage as usize],
            cursor: 0,
            outstanding: 0,
            whole: false,
        };
        let list = buffers.map(mover).collect();
        Movers {
            list,
            reclaim: config.reclaim,
            victim: None,
            cursor: 0,
            failed: false,
            spilling: false,
        }
    }

    /// Bytes of the lists of all movers.
    pub fn memory(superpage: u32) -> u64 {
        u64::from(MOVERS) * 4 * u64::from(superpage)
    }

    /// A command that filled part of a mover's buffer is over.
    pub fn repay(&mut self, mover: u8, into: ViewMut) {
        let mover = &mut self.list[mover as usize];
        mover.buffer().repay_mut(into);
        mover.outstanding -= 1;
    }

    /// Whether any LSP is being moved.
    pub fn is_busy(&self) -> bool {
        self.any(|_| true)
    }

    /// Whether an LSP that is being moved is one of those.
    pub fn any(&self, those: impl Fn(u32) -> bool) -> bool {
        self.list.iter().any(|mover| mover.phase != Phase::Idle && those(mover.lsp))
    }

    /// The power is off.
    pub fn void(&mut self) {
        for mover in &mut self.list {
            if let Some(payload) = mover.payload.take() {
                payload.void();
            }
        }
    }
}

impl<M: HiddenMap> Machine<Hidden<M>> {
    /// Moves every mover on, and gives the idle ones work.
    pub fn pump_movers(&mut self, now: Nanos, out: &mut Out) -> bool {
        let mut moved = false;
        for index in 0..self.scheme.movers.list.len() {
            if self.ops.room() <= OWN_OPS / 2 {
                return moved;
            }
            moved |= match self.scheme.movers.list[index].phase {
                Phase::Idle | Phase::Fetching => false,
                Phase::Laying => self.lay_over(now, index, out),
                Phase::Writing => self.write_back(now, index, out),
                Phase::Killing => self.kill_moved(index),
            };
        }
        let feeding = match self.scheme.movers.victim {
            _ if self.life != Life::Running => false,
            _ if self.scheme.forward.is_reading() => false,
            None => self.choose(now, out),
            Some(victim) if self.scheme.movers.reclaim == Reclaim::Fewest => {
                self.feed_victim(now, victim, out)
            }
            Some(_) => self.feed_batch(now, out),
        };
        moved | feeding
    }

    /// Chooses a victim, or begins a batch, when few superpages are free.
    fn choose(&mut self, now: Nanos, out: &mut Out) -> bool {
        let free = self.free.len() as u32;
        let reserve = self.layout.reserve;
        let own = self.layout.count - self.layout.lent;
        let margin = MARGIN + if self.layout.roomy { own / MARGIN_SHARE } else { 0 };
        if free <= reserve + MARGIN {
            self.press_limbo(true);
        }
        let leaving = self.leaving_victim();
        let enough = free + self.discarding + self.limbo.len() as u32 > reserve + margin;
        if leaving.is_none() && (enough || free > reserve && self.scheme.spill.has_turn()) {
            let slots = self.hidden_slots();
            if self.table.is_full(slots)
                && let Some(victim) = self.spilled()
            {
                self.begin_victim(now, victim, true, out);
                return true;
            }
            // A host that fills a stage brings the log along; others wait for superpages.
            let stuck = free <= FLOOR || self.scheme.route.waits;
            if enough {
                return free <= reserve && stuck && self.press_limbo(false);
            }
        }
        let victim = leaving.or_else(|| self.pool.victim(self.layout.superpage + 1));
        let Some(victim) = victim else { return self.press_limbo(false) };
        self.begin_victim(now, victim, false, out);
        true
    }

    fn begin_victim(&mut self, now: Nanos, victim: u32, spilling: bool, out: &mut Out) {
        let movers = &mut self.scheme.movers;
        (movers.victim, movers.cursor, movers.failed) = (Some(victim), 0, false);
        movers.spilling = spilling;
        if movers.reclaim == Reclaim::Fewest {
            self.pool.become_(victim, State::Victim, false);
            self.read_victim(now, victim, out);
        }
        self.counters.gc_runs += 1;
        out.push(Output::Event(Event::GcStarted));
    }

    /// Begins to move the next LSP that the victim holds a sector of, or ends with the victim.
    fn feed_victim(&mut self, now: Nanos, victim: u32, out: &mut Out) -> bool {
        let sp = self.layout.superpage;
        let from = self.scheme.movers.cursor;
        let first = victim * sp;
        let next = (from..sp).find(|slot| self.table.live(first + slot).is_some());
        self.touched += (next.unwrap_or(sp) - from) as usize;
        self.scheme.movers.cursor = next.unwrap_or(sp);
        let Some(slot) = next else {
            let busy = self.scheme.movers.is_busy() || self.scheme.forward.is_busy();
            return !busy && self.end_victim(victim);
        };
        let lsn = self.table.live(first + slot).expect("it was live just now");
        let lsp = self.table.lsp(lsn);
        if self.scheme.movers.any(|other| other == lsp) {
            self.scheme.movers.cursor += 1;
            return true;
        }
        if self.scheme.movers.spilling {
            let passed = self.spill_lsp(now, (first + slot, lsp), out);
            self.scheme.movers.cursor += passed.unwrap_or(0);
            return passed.is_some();
        }
        if self.stays(lsp, victim) {
            let copied = self.copy_run(now, first + slot, sp - slot, out);
            self.scheme.movers.cursor += copied;
            return copied > 0;
        }
        let begun = self.begin_move(now, lsp, out);
        self.scheme.movers.cursor += u32::from(begun);
        begun
    }

    fn end_victim(&mut self, victim: u32) -> bool {
        self.scheme.movers.victim = None;
        if self.pool.state(victim) != State::Victim {
            return true; // A part of it could not be read.
        }
        if self.pool.valid(victim) == 0 {
            self.pool.become_(victim, State::Limbo, false);
            self.send_to_limbo(victim);
        } else if self.scheme.movers.failed {
            self.pool.become_(victim, State::Stuck, false);
        } else {
            self.pool.become_(victim, State::Full, false);
        }
        true
    }

    /// Begins to move the next LSP of the batch, or ends the batch.
    fn feed_batch(&mut self, now: Nanos, out: &mut Out) -> bool {
        let lsps = self.table.lsps();
        let from = self.scheme.movers.cursor;
        let end = (from + LOOK).min(lsps);
        let movers = &self.scheme.movers;
        let next =
            (from..end).find(|lsp| !self.table.is_home(*lsp) && !movers.any(|other| other == *lsp));
        self.touched += (next.unwrap_or(end) - from) as usize;
        self.scheme.movers.cursor = next.unwrap_or(end);
        if let Some(lsp) = next {
            let begun = self.begin_move(now, lsp, out);
            self.scheme.movers.cursor += u32::from(begun);
            return begun;
        }
        if end == lsps && !self.scheme.movers.is_busy() {
            self.scheme.movers.victim = None;
            return true;
        }
        end > from
    }

    /// Reads the home of an LSP into the buffer of an idle mover.
    pub(super) fn begin_move(&mut self, now: Nanos, lsp: u32, out: &mut Out) -> bool {
        let sp = self.layout.superpage;
        let first = u64::from(lsp) * u64::from(sp);
        let idle = |mover: &Mover| mover.phase == Phase::Idle;
        let Some(index) = self.scheme.movers.list.iter().position(idle) else { return false };
        if self.requests.is_direct(first, first + u64::from(sp)) {
            return false;
        }
        let mover = &mut self.scheme.movers.list[index];
        mover.copies.fill(0);
        let mut count = 0;
        for (slot, lsn) in self.table.hidden(lsp) {
            if self.table.look_up(lsn).is_some() {
                mover.copies[(lsn - first) as usize] = slot + 1;
                count += 1;
            }
        }
        self.touched += sp as usize;
        (mover.lsp, mover.cursor, mover.whole) = (lsp, 0, false);
        if count == sp {
            mover.phase = Phase::Laying;
            return true;
        }
        mover.phase = Phase::Fetching;
        mover.outstanding = 1;
        let into = Target::Data(mover.buffer().view_mut_sectors(0, sp));
        let lba = self.layout.home(first).expect("every sector has a home");
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        self.submit(now, Op::Fetch { mover: index as u8 }, command, out);
        true
    }

    /// Drops copies from `cursor` on that died meanwhile; the next run of those that did not.
    fn next_run(&mut self, index: usize) -> Option<(u32, u32)> {
        let sp = self.layout.superpage;
        let mover = &mut self.scheme.movers.list[index];
        let first = u64::from(mover.lsp) * u64::from(sp);
        let table = &self.table;
        let at = |mover: &Mover, o: u32| {
            let slot = mover.copies[o as usize].checked_sub(1)?;
            (table.live(slot) == Some(first + u64::from(o))).then_some(slot)
        };
        let begin = (mover.cursor..sp).find(|o| at(mover, *o).is_some());
        mover.copies[mover.cursor as usize..begin.unwrap_or(sp) as usize].fill(0);
        self.touched += (begin.unwrap_or(sp) - mover.cursor) as usize;
        mover.cursor = begin.unwrap_or(sp);
        let begin = begin?;
        let slot = at(mover, begin)?;
        let most = (sp - begin).min(sp - slot % sp);
        let follows = |i: &u32| at(mover, begin + *i) == Some(slot + *i);
        let len = 1 + (1..most).take_while(follows).count() as u32;
        mover.cursor += len;
        Some((begin, len))
    }

    /// Reads the next run of hidden copies over what was read from home.
    fn lay_over(&mut self, now: Nanos, index: usize, out: &mut Out) -> bool {
        let sp = self.layout.superpage;
        let mover = index as u8;
        let Some((slot, len)) = self.next_run(index) else {
            let mover = &mut self.scheme.movers.list[index];
            if mover.outstanding > 0 {
                return false;
            }
            mover.whole |= mover.copies.iter().all(|copy| *copy > 0);
            (mover.phase, mover.cursor) = (Phase::Writing, 0);
            return true;
        };
        let vsn = self.scheme.movers.list[index].copies[slot as usize] - 1;
        let vsp = self.pool.superpage_of(vsn);
        let buffer = self.scheme.movers.list[index].buffer();
        let into = buffer.view_mut_sectors(slot, len);
        self.scheme.movers.list[index].outstanding += 1;
        if self.scheme.forward.holds(vsp) && self.scheme.movers.victim == Some(vsp) {
            let from = self.scheme.forward.buffer().view_sectors(vsn % sp, len);
            let command = Command::Place { from: Piece::Data(from), into };
            self.submit(now, Op::OverlayBounce { mover }, command, out);
            return true;
        }
        match self.pool.state(vsp) {
            State::Staged(stage) => {
                let from = self.stages[stage as usize].buffer().view_sectors(vsn % sp, len);
                let command = Command::Place { from: Piece::Data(from), into };
                self.submit(now, Op::OverlayStage { mover, stage, slot, len }, command, out);
            }
            State::Full | State::Victim | State::Stuck => {
                self.pool.begin_read(vsp);
                let lba = self.layout.data_at(vsp) + u64::from(vsn % sp);
                let into = Target::Data(into);
                let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
                self.submit(now, Op::Overlay { mover, vsp, slot, len }, command, out);
            }
            other => unreachable!("a live sector lies in a superpage that is {other:?}"),
        }
        true
    }

    /// Writes the buffer home: all of it, or only the hidden sectors where the home can't be read.
    fn write_back(&mut self, now: Nanos, index: usize, out: &mut Out) -> bool {
        let sp = self.layout.superpage;
        let mover = &mut self.scheme.movers.list[index];
        let any = mover.copies.iter().any(|copy| *copy > 0);
        let copied = |o: &u32| mover.copies[*o as usize] > 0;
        let begin = (mover.cursor..sp).find(|o| any && (mover.whole || copied(o)));
        let Some(begin) = begin else {
            let over = mover.outstanding == 0;
            if over {
                mover.phase = Phase::Killing;
            }
            return over;
        };
        let len = match mover.whole {
            true => sp,
            false => (begin..sp).take_while(copied).count() as u32,
        };
        mover.cursor = begin + len;
        mover.outstanding += 1;
        self.counters.gc_copied += u64::from(len);
        let first = u64::from(mover.lsp) * u64::from(sp) + u64::from(begin);
        let gather = Gather::from_iter([Piece::Data(mover.buffer().view_sectors(begin, len))]);
        let lba = self.layout.home(first).expect("every sector has a home");
        let tally = Tally::of(Cause::Gc, len);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        self.submit(now, Op::WriteBack { mover: index as u8 }, command, out);
        true
    }

    /// Kills the hidden copies that are home now, unless they were replaced meanwhile.
    fn kill_moved(&mut self, index: usize) -> bool {
        if !self.room_for_kills() {
            return false;
        }
        let first =
            u64::from(self.scheme.movers.list[index].lsp) * u64::from(self.layout.superpage);
        for o in 0..self.layout.superpage as usize {
            let Some(slot) = self.scheme.movers.list[index].copies[o].checked_sub(1) else {
                continue;
            };
            let lsn = first + o as u64;
            if self.table.live(slot) == Some(lsn) {
                self.kill_slot(slot);
            } else if planted(Bug::MoveOverNewer)
                && let Some(newer) = self.table.find(lsn)
            {
                self.kill_slot(newer);
            }
        }
        self.end_kills();
        self.scheme.movers.list[index].phase = Phase::Idle;
        true
    }

    /// A command of a mover is over.
    pub fn mover_done(&mut self, op: Op, command: Command, ok: bool) {
        match (op, command) {
            (Op::Fetch { mover }, Command::Read { into: Target::Data(into), .. }) => {
                let mover = &mut self.scheme.movers.list[mover as usize];
                mover.buffer().repay_mut(into);
                mover.outstanding -= 1;
                (mover.whole, mover.phase) = (ok, Phase::Laying);
            }
            (
                Op::OverlayStage { mover, stage, .. },
                Command::Place { from: Piece::Data(from), into },
            ) => {
                self.repay_stage(stage, from);
                let mover = &mut self.scheme.movers.list[mover as usize];
                mover.buffer().repay_mut(into);
                mover.outstanding -= 1;
            }
            (
                Op::Overlay { mover, vsp, slot, len },
                Command::Read { into: Target::Data(into), .. },
            ) => {
                self.pool.end_read(vsp);
                let mover = &mut self.scheme.movers.list[mover as usize];
                mover.buffer().repay_mut(into);
                mover.outstanding -= 1;
                if !ok {
                    mover.copies[slot as usize..(slot + len) as usize].fill(0);
                    mover.whole = false;
                    self.stick(vsp);
                }
            }
            (Op::WriteBack { mover }, Command::Program { gather, .. }) => {
                let mover = &mut self.scheme.movers.list[mover as usize];
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        mover.buffer().repay(view);
                    }
                }
                mover.outstanding -= 1;
                if !ok {
                    mover.copies.fill(0);
                }
            }
            (op, command) => unreachable!("{op:?} came back with {command:?}"),
        }
    }

    /// A superpage of which a part can't be read is no victim again.
    fn stick(&mut self, vsp: u32) {
        self.scheme.movers.failed = true;
        if matches!(self.pool.state(vsp), State::Full | State::Victim) {
            self.pool.become_(vsp, State::Stuck, self.pool.pinned(vsp));
        }
    }
}
