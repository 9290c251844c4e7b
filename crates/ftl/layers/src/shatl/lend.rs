//! Loans: homes at the end of the volume are part of the hidden area until a host writes to them.
//!
//! A home that the host never wrote is unused. The last homes are also the first superpages of the
//! hidden area, divided into parts. When a host first writes to a home of a part, the loan of the
//! part ends. Its superpages are emptied and no longer filled, the device discards them, and when
//! this and its log record are durable, the host's write continues. A sector is therefore hidden
//! only if its home is not lent, and GC can always move it home.
//!
//! A part goes through Lent → Ending → Forgetting → Recorded → Over, one part at a time.

use hostftl_core::{Command, Event};
use hostftl_format::hard::Listing;

use crate::vsp::Area;
use crate::vsp::layout::{FLOOR, Layout};
use crate::vsp::leaves::Leaf;
use crate::vsp::log::Mark;
use crate::vsp::pool::{NONE, State};
use crate::vsp::stage::runs;
use crate::vsp::write_out::LAST_NAMES;

use super::hidden::HiddenMap;
use super::ops::Op;
use crate::vsp::ops::{Cx, Op::Own};

/// Maximum number of parts.
const PARTS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The superpages of the part are being emptied.
    Ending,
    /// The device is discarding the superpages.
    Forgetting,
    /// The end of the loan is this event, which is not durable yet.
    Recorded(u64),
}

/// The state of the loans. Superpages are numbered as in the hidden area.
#[derive(Debug)]
pub(crate) struct Loans {
    /// Superpages of a part; the last part may have fewer.
    part: u32,
    lent: u32,
    /// The LSP whose home is superpage 0.
    first: u32,
    /// A bit for each part whose loan is over.
    over: u32,
    ending: Option<(u32, Phase)>,
    /// The superpage whose readable data was moved away last, so that only unreadable slots remain.
    evacuated: Option<u32>,
}

impl Loans {
    /// Creates the state in which all parts are lent.
    pub(crate) fn new(layout: &Layout) -> Self {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        Loans {
            part: layout.lent.div_ceil(PARTS).max(1),
            lent: layout.lent,
            first: lsps - layout.lent,
            over: 0,
            ending: None,
            evacuated: None,
        }
    }

    /// Returns whether the loan of a superpage is over.
    pub(crate) fn is_over(&self, vsp: u32) -> bool {
        vsp < self.lent && self.over >> (vsp / self.part) & 1 == 1
    }

    /// Returns whether the home of an LSP is lent.
    pub(crate) fn has(&self, lsp: u32) -> bool {
        lsp.checked_sub(self.first).is_some_and(|vsp| !self.is_over(vsp))
    }

    /// Ends the loans of `count` superpages, as far as they were lent.
    pub(crate) fn end(&mut self, vsp: u32, count: u32) {
        let end = vsp.saturating_add(count).min(self.lent);
        for part in vsp / self.part..end.div_ceil(self.part) {
            self.over |= 1 << part;
        }
    }

    /// Returns the number of LSPs from `lsp` on, at most `most`, that are lent if it is lent, or
    /// not lent if it is not.
    pub(crate) fn run(&self, lsp: u32, most: u32) -> u32 {
        let lent = self.has(lsp);
        1 + (1..most).take_while(|i| self.has(lsp + i) == lent).count() as u32
    }

    /// Returns the number of superpages that are only homes, or about to be.
    pub(crate) fn withdrawn(&self) -> u32 {
        let part = |part: u32| self.lent.min((part + 1) * self.part) - part * self.part;
        let ending = self.ending.map_or(0, |(at, _)| 1 << at);
        let withdrawn = self.over | ending;
        (0..PARTS).filter(|at| withdrawn >> at & 1 == 1).map(part).sum()
    }

    /// Returns whether a superpage must not be filled again because its loan is ending.
    pub(crate) fn is_leaving(&self, vsp: u32) -> bool {
        self.ending.is_some_and(|(part, _)| vsp < self.lent && vsp / self.part == part)
    }

    /// Returns whether the loan of an LSP's home is ending. It ends when that is durable.
    fn is_ending(&self, lsp: u32) -> bool {
        lsp.checked_sub(self.first).is_some_and(|vsp| self.is_leaving(vsp))
    }

    fn superpages(&self, part: u32) -> core::ops::Range<u32> {
        part * self.part..self.lent.min((part + 1) * self.part)
    }
}

/// Returns whether none of the LSPs has a lent home. If one has, starts the end of the first such
/// loan.
pub(super) fn owns_homes<M: HiddenMap>(
    area: &mut Area<M>,
    lsps: core::ops::RangeInclusive<u32>,
    cx: &mut Cx<Op>,
) -> bool {
    let Some(loans) = area.table.loans() else { return true };
    let waits = |lsp: &u32| loans.has(*lsp) || loans.is_ending(*lsp);
    let Some(lsp) = lsps.into_iter().find(waits) else { return true };
    if loans.ending.is_none() {
        let part = (lsp - loans.first) / loans.part;
        assert_eq!(loans.over >> part & 1, 0, "a loan ends once");
        loans.ending = Some((part, Phase::Ending));
        withhold(area, part, cx);
    }
    false
}

/// Takes the superpages of the ending loan out of the free queue. A few that may contain the next
/// log write stay there until the log has moved on.
fn withhold<M: HiddenMap>(area: &mut Area<M>, part: u32, cx: &mut Cx<Op>) {
    let vsps = area.table.loans().map_or(0..0, |loans| loans.superpages(part));
    let horizon = area.log.horizon() as usize;
    let names = area.pool.free_list().take(horizon);
    let names = names.filter(|vsp| vsps.contains(vsp));
    let named = names.clone().count() as u32;
    // The last log write names these superpages, and the next one must go to one of them.
    let keep = (LAST_NAMES + 1).saturating_sub(area.log.horizon() - named).min(named);
    let mut kept = [NONE; LAST_NAMES as usize + 1];
    kept.iter_mut().zip(names.take(keep as usize)).for_each(|(kept, vsp)| *kept = vsp);
    area.log.take_names(named - keep);
    // The states are adjacent in memory: reading four takes less time than a map entry. A part of
    // the largest volume has 118,000.
    cx.touch(vsps.len() / 4 + horizon);
    for vsp in vsps {
        if area.pool.state(vsp) == State::Free && !kept.contains(&vsp) {
            area.pool.withhold(vsp);
            area.pool.become_(vsp, State::Home, false);
        }
    }
}

/// Returns a superpage of the ending loan that can be a victim. One with unreadable slots comes
/// last, so that its readable data is moved.
pub(super) fn leaving_victim<M: HiddenMap>(area: &mut Area<M>) -> Option<u32> {
    let loans = area.table.loans()?;
    let (part, Phase::Ending) = loans.ending? else { return None };
    let (mut vsps, salvaged) = (loans.superpages(part), loans.evacuated);
    let is = |vsp: u32, state| area.pool.state(vsp) == state && !area.pool.pinned(vsp);
    if let Some(full) = vsps.clone().find(|vsp| is(*vsp, State::Full)) {
        return Some(full);
    }
    let first = vsps.find(|vsp| area.pool.state(*vsp) != State::Home)?;
    (is(first, State::Stuck) && salvaged != Some(first)).then_some(first)
}

/// Notes whether all readable data of a superpage was moved away.
pub(super) fn note_evacuated<M: HiddenMap>(area: &mut Area<M>, vsp: u32, salvaged: bool) {
    if let Some(loans) = area.table.loans() {
        loans.evacuated = loans.evacuated.filter(|other| *other != vsp);
        loans.evacuated = if salvaged { Some(vsp) } else { loans.evacuated };
    }
}

/// Releases a superpage of the ending loan of which only unreadable slots remain. Their sectors
/// read as errors until they are rewritten. Another superpage, of which nothing is written, takes
/// over their place in the map.
fn bury<M: HiddenMap>(area: &mut Area<M>, vsp: u32, cx: &mut Cx<Op>) -> bool {
    let sp = area.layout.superpage;
    if area.pool.free() <= FLOOR as usize {
        return area.request_limbo(false);
    }
    if area.log.horizon() <= LAST_NAMES || !area.log.fits(sp) {
        area.durability_requests.request_log_write();
        return false;
    }
    let known = area.table.holds_lost(vsp);
    let grave = area.take_free();
    area.pool.open(grave, u8::MAX);
    for slot in 0..sp {
        let place = |vsp: u32| u64::from(vsp) * u64::from(sp) + u64::from(slot);
        let Some(lsn) = area.table.holds(place(vsp)) else { continue };
        let to = place(grave);
        let keys = area.table.keys(lsn, Some(to));
        keys.into_iter().for_each(|key| area.checkpoint.changed(key));
        area.table.point(&mut area.pool, Leaf { lsn, vsn: to, level: 0 });
    }
    cx.touch(8 * sp as usize);
    area.table.lose_superpage(grave);
    area.pool.become_(grave, State::Stuck, false);
    let listing = Listing { superpage: grave, crc: 0, fill: sp as u16, lost: true };
    let first = area.pool.slots(grave).start;
    area.log.lose(&listing, runs(|slot| area.table.holds(first + u64::from(slot)), sp));
    area.send_to_limbo(vsp);
    if !known {
        cx.report(Event::Lost { sectors: area.pool.valid(grave) });
    }
    true
}

/// Advances the end of a loan. Returns whether anything moved.
pub(super) fn pump_loans<M: HiddenMap>(area: &mut Area<M>, cx: &mut Cx<Op>) -> bool {
    let Some(loans) = area.table.loans() else { return false };
    let Some((part, phase)) = loans.ending else { return false };
    let vsps = loans.superpages(part);
    let (vsp, count) = (vsps.start, vsps.len() as u32);
    match phase {
        Phase::Ending => {
            let mut left = vsps.filter(|vsp| area.pool.state(*vsp) != State::Home);
            match left.next() {
                Some(vsp) => request_out(area, part, vsp, cx),
                None => forget_lent(area, part, (vsp, count), cx),
            }
        }
        Phase::Forgetting => false,
        Phase::Recorded(event) => {
            if area.durable().direct < event {
                let mark = Mark { direct: event, ..Mark::default() };
                area.durability_requests.request_soon(mark);
                return false;
            }
            area.table.loans().expect("a loan exists").ending = None;
            true
        }
    }
}

/// Discards the superpages of the ending loan on the device.
fn forget_lent<M: HiddenMap>(
    area: &mut Area<M>,
    part: u32,
    (vsp, count): (u32, u32),
    cx: &mut Cx<Op>,
) -> bool {
    if cx.commands_left() == 0 {
        return false;
    }
    set_ending(area, part, Phase::Forgetting);
    let lba = area.layout.data_at(vsp);
    let sectors = u64::from(count) * u64::from(area.layout.superpage);
    cx.submit(Own(Op::Loan), Command::Reset { device: 0, lba, sectors });
    true
}

/// Returns whether only unreadable data remains in a superpage.
fn is_evacuated<M: HiddenMap>(area: &mut Area<M>, vsp: u32) -> bool {
    let known = area.table.loans().is_some_and(|loans| loans.evacuated == Some(vsp));
    known && !area.pool.pinned(vsp)
}

fn set_ending<M: HiddenMap>(area: &mut Area<M>, part: u32, phase: Phase) {
    let loans = area.table.loans().expect("a loan exists");
    let fits = matches!(
        (loans.ending, phase),
        (Some((_, Phase::Ending)), Phase::Forgetting)
            | (Some((_, Phase::Forgetting)), Phase::Recorded(_))
    );
    assert!(fits, "a loan can't go from {:?} to {phase:?}", loans.ending);
    loans.ending = Some((part, phase));
}

/// Requests the action that frees a superpage of the ending loan.
fn request_out<M: HiddenMap>(area: &mut Area<M>, part: u32, vsp: u32, cx: &mut Cx<Op>) -> bool {
    match area.pool.state(vsp) {
        State::Free => {
            let before = area.pool.free();
            withhold(area, part, cx);
            let withheld = area.pool.free() < before;
            if !withheld {
                area.durability_requests.request_log_write();
            }
            withheld
        }
        State::Staged(index) if area.stages.filling() == Some(index) => {
            area.stages.close_filling();
            true
        }
        State::Limbo => area.request_limbo(false),
        State::Stuck if is_evacuated(area, vsp) => bury(area, vsp, cx),
        _ if area.pool.pinned(vsp) => area.checkpoint.hurry(),
        _ => false,
    }
}

/// Records the end of the loan after the device discarded its superpages.
pub(super) fn loan_forgotten<M: HiddenMap>(area: &mut Area<M>, ok: bool) {
    let loans = area.table.loans().expect("a loan exists");
    let Some((part, Phase::Forgetting)) = loans.ending else {
        unreachable!("the device was notified once")
    };
    if !ok {
        return;
    }
    let vsps = loans.superpages(part);
    let (vsp, count) = (vsps.start, vsps.len() as u32);
    let checkpoint = &mut area.checkpoint;
    area.table.end_loan(vsp, count, |key| checkpoint.changed(key));
    area.direct.end_loan((vsp, count), area.log.sealed());
    area.direct.end_event();
    let event = area.direct.done();
    set_ending(area, part, Phase::Recorded(event));
}
