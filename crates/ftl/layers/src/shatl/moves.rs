//! Moves of LSPs from the hidden area to their homes.
//!
//! The home of an LSP is read, all its hidden sectors are copied over it, and it is written home as
//! one superpage. Then the hidden copies are killed, unless they were replaced meanwhile.
//!
//! Invariants
//! - A mover goes through Idle → Fetching → Laying → Writing → Killing → Idle, and no two movers
//!   have the same LSP.
//! - `copies[o]` is the slot + 1 of the copy that the buffer holds, or will hold, at sector `o` of
//!   the LSP. With [`AGAIN`] the read of a run that contained it failed, and it is read again
//!   alone.
//! - The buffer is written as a whole only if every sector of it was read.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Payload, Piece, Tally, Target, ViewMut};

use crate::planted::{Bug, planted};
use crate::vsp::Area;
use crate::vsp::layout::Layout;
use crate::vsp::ops::{Cx, OWN_OPS, Op::Own};
use crate::vsp::pool::State;

use super::collect::Victims;
use super::forward::Forward;
use super::hidden::HiddenMap;
use super::kills;
use super::lend;
use super::ops::Op;
use super::route::Route;

/// Number of LSPs that are moved concurrently; each has a buffer.
pub(super) const MOVERS: u32 = 4;
/// Bit of a copy that must be read again alone.
const AGAIN: u32 = 1 << 31;

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
    /// Whether the home was read, so that the buffer contains the whole LSP.
    whole: bool,
    /// Whether copies are being read again, sector by sector.
    again: bool,
}

impl Mover {
    fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle, Phase::Fetching | Phase::Laying)
                | (Phase::Fetching, Phase::Laying)
                | (Phase::Laying, Phase::Writing)
                | (Phase::Writing, Phase::Killing)
                | (Phase::Killing, Phase::Idle)
        );
        assert!(fits, "a mover can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    fn buffer(&mut self) -> &mut Payload {
        self.payload.as_mut().expect("a mover keeps its buffer")
    }
}

#[derive(Debug)]
pub(super) struct Movers {
    list: Vec<Mover>,
}

impl Movers {
    /// Creates idle movers.
    pub(super) fn new(layout: &Layout, buffers: impl Iterator<Item = Payload>) -> Self {
        let mover = |payload| Mover {
            payload: Some(payload),
            phase: Phase::Idle,
            lsp: 0,
            copies: vec![0; layout.superpage as usize],
            cursor: 0,
            outstanding: 0,
            whole: false,
            again: false,
        };
        Movers { list: buffers.map(mover).collect() }
    }

    /// Returns the bytes of the lists of all movers.
    pub(super) fn memory(superpage: u32) -> u64 {
        u64::from(MOVERS) * 4 * u64::from(superpage)
    }

    /// Takes back the view of a command that filled part of a mover's buffer.
    pub(super) fn repay(&mut self, mover: u8, into: ViewMut) {
        let mover = &mut self.list[mover as usize];
        mover.buffer().repay_mut(into);
        mover.outstanding -= 1;
    }

    /// Returns whether any LSP is being moved.
    pub(super) fn is_busy(&self) -> bool {
        self.any(|_| true)
    }

    /// Returns whether an LSP that is being moved satisfies `those`.
    pub(super) fn any(&self, those: impl Fn(u32) -> bool) -> bool {
        self.list.iter().any(|mover| mover.phase != Phase::Idle && those(mover.lsp))
    }

    /// Discards the buffers after a power cut.
    pub(super) fn void(&mut self) {
        for mover in &mut self.list {
            if let Some(payload) = mover.payload.take() {
                payload.void();
            }
        }
    }

    /// Advances every mover. Returns whether anything moved.
    pub(super) fn pump_movers<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        (forward, victim): (&mut Forward, Option<u32>),
        cx: &mut Cx<Op>,
    ) -> bool {
        let mut moved = false;
        for index in 0..self.list.len() {
            if cx.commands_left() <= OWN_OPS / 2 {
                return moved;
            }
            moved |= match self.list[index].phase {
                Phase::Idle | Phase::Fetching => false,
                Phase::Laying => self.lay_over(area, (forward, victim), index, cx),
                Phase::Writing => self.write_back(area, index, cx),
                Phase::Killing => self.kill_moved(area, index, cx),
            };
        }
        moved
    }

    /// Reads the home of an LSP into the buffer of an idle mover. Returns whether the move started.
    pub(super) fn begin_move<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        route: &Route,
        lsp: u32,
        cx: &mut Cx<Op>,
    ) -> bool {
        let sp = area.layout.superpage;
        let first = u64::from(lsp) * u64::from(sp);
        let idle = |mover: &Mover| mover.phase == Phase::Idle;
        let Some(index) = self.list.iter().position(idle) else { return false };
        let end = first + u64::from(sp);
        if route.is_direct(first, end, cx) || area.stages.is_homing(first, end) {
            return false;
        }
        let mover = &mut self.list[index];
        mover.copies.fill(0);
        let mut count = 0;
        for (slot, lsn) in area.table.hidden(lsp) {
            if area.table.lookup(lsn).is_some() {
                mover.copies[(lsn - first) as usize] = slot as u32 + 1;
                count += 1;
            }
        }
        cx.touch(sp as usize);
        (mover.lsp, mover.cursor, mover.whole, mover.again) = (lsp, 0, false, false);
        // Every sector is hidden, so the home need not be read.
        if count == sp {
            mover.go(Phase::Laying);
            return true;
        }
        mover.go(Phase::Fetching);
        mover.outstanding = 1;
        let into = Target::Data(mover.buffer().view_mut_sectors(0, sp));
        let lba = area.layout.home(first).expect("every sector has a home slot");
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        cx.submit(Own(Op::Fetch { mover: index as u8 }), command);
        true
    }

    /// Drops copies from `cursor` on that became invalid meanwhile. Returns the next run of valid
    /// ones, as its first sector in the LSP and its length.
    fn next_run<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        index: usize,
        cx: &mut Cx<Op>,
    ) -> Option<(u32, u32)> {
        let sp = area.layout.superpage;
        let mover = &mut self.list[index];
        let first = u64::from(mover.lsp) * u64::from(sp);
        let is_valid =
            |slot: u32, o: u32| area.table.valid(slot.into()) == Some(first + u64::from(o));
        let (from, again) = (mover.cursor, mover.again);
        let mut begin = None;
        for o in from..sp {
            let copy = &mut mover.copies[o as usize];
            if *copy == 0 || (*copy & AGAIN > 0) != again {
                continue;
            }
            *copy &= !AGAIN;
            if is_valid(*copy - 1, o) {
                begin = Some((o, *copy - 1));
                break;
            }
            *copy = 0;
        }
        mover.cursor = begin.map_or(sp, |(o, _)| o);
        cx.touch((mover.cursor - from) as usize);
        let (begin, slot) = begin?;
        let most = if again { 1 } else { (sp - begin).min(sp - slot % sp) };
        let follows = |i: &u32| {
            let (o, next) = (begin + i, slot + i);
            mover.copies[o as usize] == next + 1 && is_valid(next, o)
        };
        let len = 1 + (1..most).take_while(follows).count() as u32;
        mover.cursor += len;
        Some((begin, len))
    }

    /// Reads the next run of hidden copies over the data from home.
    fn lay_over<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        (forward, victim): (&mut Forward, Option<u32>),
        index: usize,
        cx: &mut Cx<Op>,
    ) -> bool {
        let sp = area.layout.superpage;
        let mover = index as u8;
        let Some((slot, len)) = self.next_run(area, index, cx) else {
            let mover = &mut self.list[index];
            if mover.outstanding > 0 {
                return false;
            }
            if mover.copies.iter().any(|copy| copy & AGAIN > 0) {
                (mover.again, mover.cursor) = (true, 0);
                return true;
            }
            mover.whole |= mover.copies.iter().all(|copy| *copy > 0);
            mover.go(Phase::Writing);
            mover.cursor = 0;
            return true;
        };
        let vsn = self.list[index].copies[slot as usize] - 1;
        let vsp = area.pool.superpage_at(vsn.into());
        let buffer = self.list[index].buffer();
        let into = buffer.view_mut_sectors(slot, len);
        self.list[index].outstanding += 1;
        if forward.holds(vsp) && victim == Some(vsp) {
            let from = forward.buffer().view_sectors(vsn % sp, len);
            let command = Command::Place { from: Piece::Data(from), into };
            cx.submit(Own(Op::OverlayBounce { mover }), command);
            return true;
        }
        match area.pool.state(vsp) {
            State::Staged(stage) => {
                let from = area.stages.buffer(stage).view_sectors(vsn % sp, len);
                let command = Command::Place { from: Piece::Data(from), into };
                cx.submit(Own(Op::OverlayStage { mover, stage }), command);
            }
            State::Full | State::Victim | State::Stuck => {
                area.pool.begin_read(vsp);
                let lba = area.layout.data_at(vsp) + u64::from(vsn % sp);
                let into = Target::Data(into);
                let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
                cx.submit(Own(Op::Overlay { mover, vsp, slot, len }), command);
            }
            other => unreachable!("a valid sector is in a superpage in {other:?}"),
        }
        true
    }

    /// Writes the buffer home: all of it, or only the hidden sectors if the home is unreadable.
    fn write_back<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        index: usize,
        cx: &mut Cx<Op>,
    ) -> bool {
        let sp = area.layout.superpage;
        let mover = &mut self.list[index];
        let any = mover.copies.iter().any(|copy| *copy > 0);
        let copied = |o: &u32| mover.copies[*o as usize] > 0;
        let begin = (mover.cursor..sp).find(|o| any && (mover.whole || copied(o)));
        let Some(begin) = begin else {
            let over = mover.outstanding == 0;
            if over {
                mover.go(Phase::Killing);
            }
            return over;
        };
        let len = if mover.whole { sp } else { (begin..sp).take_while(copied).count() as u32 };
        mover.cursor = begin + len;
        mover.outstanding += 1;
        cx.counters().gc_copied += u64::from(len);
        let first = u64::from(mover.lsp) * u64::from(sp) + u64::from(begin);
        if let Some(homes) = area.table.homes() {
            homes.fill(mover.lsp..mover.lsp + 1, len.into());
        }
        let gather = Gather::from_iter([Piece::Data(mover.buffer().view_sectors(begin, len))]);
        let lba = area.layout.home(first).expect("every sector has a home slot");
        let tally = Tally::single(Cause::Gc, len);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        cx.submit(Own(Op::WriteBack { mover: index as u8 }), command);
        true
    }

    /// Kills the hidden copies that are home now, unless they were replaced meanwhile.
    fn kill_moved<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        index: usize,
        cx: &mut Cx<Op>,
    ) -> bool {
        if !kills::room_for_kills(area) {
            return false;
        }
        let first = u64::from(self.list[index].lsp) * u64::from(area.layout.superpage);
        for o in 0..area.layout.superpage as usize {
            let Some(slot) = self.list[index].copies[o].checked_sub(1) else {
                continue;
            };
            let lsn = first + o as u64;
            if area.table.valid(slot.into()) == Some(lsn) {
                kills::kill_slot(area, slot.into(), cx);
            } else if planted(Bug::MoveOverNewer)
                && let Some(newer) = area.table.find(lsn)
            {
                kills::kill_slot(area, newer, cx);
            }
        }
        kills::end_kills(area);
        self.list[index].go(Phase::Idle);
        true
    }

    /// Handles the completion of a mover's command.
    pub(super) fn mover_done<M: HiddenMap>(
        &mut self,
        area: &mut Area<M>,
        victims: &mut Victims,
        (op, command): (Op, Command),
        ok: bool,
    ) {
        match (op, command) {
            (Op::Fetch { mover }, Command::Read { into: Target::Data(into), .. }) => {
                let mover = &mut self.list[mover as usize];
                mover.buffer().repay_mut(into);
                mover.outstanding -= 1;
                mover.whole = ok;
                mover.go(Phase::Laying);
            }
            (
                Op::OverlayStage { mover, stage },
                Command::Place { from: Piece::Data(from), into },
            ) => {
                area.stages.at(stage).repay(from);
                let mover = &mut self.list[mover as usize];
                mover.buffer().repay_mut(into);
                mover.outstanding -= 1;
            }
            (
                Op::Overlay { mover, vsp, slot, len },
                Command::Read { into: Target::Data(into), .. },
            ) => {
                area.pool.end_read(vsp);
                let mover = &mut self.list[mover as usize];
                mover.buffer().repay_mut(into);
                mover.outstanding -= 1;
                let copies = &mut mover.copies[slot as usize..(slot + len) as usize];
                if !ok && len > 1 {
                    copies.iter_mut().for_each(|copy| *copy |= AGAIN);
                } else if !ok {
                    copies.fill(0);
                    mover.whole = false;
                    stick(area, victims, vsp);
                }
            }
            (Op::WriteBack { mover }, Command::Program { gather, .. }) => {
                let mover = &mut self.list[mover as usize];
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        mover.buffer().repay(view);
                    }
                }
                mover.outstanding -= 1;
                // The write failed, so every hidden copy stays valid.
                if !ok {
                    mover.copies.fill(0);
                }
            }
            (op, command) => unreachable!("{op:?} completed with {command:?}"),
        }
    }
}

/// Excludes a superpage with unreadable slots from the choice of victims.
fn stick<M: HiddenMap>(area: &mut Area<M>, victims: &mut Victims, vsp: u32) {
    match area.pool.state(vsp) {
        State::Full => {
            area.pool.become_(vsp, State::Stuck, area.pool.pinned(vsp));
            lend::note_evacuated(area, vsp, false);
        }
        State::Victim => victims.note_failed(),
        _ => {}
    }
}
