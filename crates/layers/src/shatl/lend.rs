//! Loans: the homes at the end of the volume are part of the hidden area until a host writes there.
//!
//! A host that never wrote to a home does not need it. The last homes are also the first superpages
//! of the hidden area, in parts. When a host first writes to one of a part, the loan of the part
//! ends: its superpages are emptied and not used again, the device forgets what they held, and when
//! that and its record in the log are durable, the host's write goes on. So a sector is hidden only
//! when its home is its own, and collection can always move it there.
//!
//! A part goes Lent → Ending → Forgetting → Recorded → Over, one at a time.

use hostftl_core::{Command, Nanos, Out};

use crate::vsp::Machine;
use crate::vsp::layout::Layout;
use crate::vsp::log::Mark;
use crate::vsp::ops::Op;
use crate::vsp::pool::{NONE, State};
use crate::vsp::write_out::LAST_NAMES;

use super::{Hidden, HiddenMap};

/// How many parts there are, at the most.
const PARTS: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its superpages are being emptied.
    Ending,
    /// The device forgets what they held.
    Forgetting,
    /// That waits to be durable, with this event.
    Recorded(u64),
}

/// Which loans are over. Superpages are those of the hidden area.
#[derive(Debug)]
pub struct Loans {
    /// Superpages of a part; the last one may have fewer.
    part: u32,
    lent: u32,
    /// The LSP whose home is superpage 0.
    first: u32,
    /// A bit for each part whose loan is over.
    over: u32,
    ending: Option<(u32, Phase)>,
}

impl Loans {
    /// All parts are lent.
    pub fn new(layout: &Layout) -> Self {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        Loans {
            part: layout.lent.div_ceil(PARTS).max(1),
            lent: layout.lent,
            first: lsps - layout.lent,
            over: 0,
            ending: None,
        }
    }

    /// Whether the loan of a superpage is over.
    pub fn is_over(&self, vsp: u32) -> bool {
        vsp < self.lent && self.over >> (vsp / self.part) & 1 == 1
    }

    /// Whether the home of an LSP is lent.
    pub fn has(&self, lsp: u32) -> bool {
        lsp.checked_sub(self.first).is_some_and(|vsp| !self.is_over(vsp))
    }

    /// The loans of superpages are over.
    pub fn end(&mut self, vsp: u32, count: u32) {
        for part in vsp / self.part..(vsp + count).div_ceil(self.part) {
            self.over |= 1 << part;
        }
    }

    /// How many LSPs from one on, `most` at the most, are lent or not as it is.
    pub fn run(&self, lsp: u32, most: u32) -> u32 {
        let lent = self.has(lsp);
        1 + (1..most).take_while(|i| self.has(lsp + i) == lent).count() as u32
    }

    /// Superpages that are homes only, or about to be.
    pub fn gone(&self) -> u32 {
        let part = |part: u32| self.lent.min((part + 1) * self.part) - part * self.part;
        let ending = self.ending.map_or(0, |(at, _)| 1 << at);
        let gone = self.over | ending;
        (0..PARTS).filter(|at| gone >> at & 1 == 1).map(part).sum()
    }

    /// Whether a superpage may not be filled again.
    pub fn is_leaving(&self, vsp: u32) -> bool {
        self.ending.is_some_and(|(part, _)| vsp < self.lent && vsp / self.part == part)
    }

    /// Whether the loan of the home of an LSP is ending: it is over when that is durable.
    fn is_ending(&self, lsp: u32) -> bool {
        lsp.checked_sub(self.first).is_some_and(|vsp| self.is_leaving(vsp))
    }

    fn superpages(&self, part: u32) -> core::ops::Range<u32> {
        part * self.part..self.lent.min((part + 1) * self.part)
    }
}

impl<M: HiddenMap> Machine<Hidden<M>> {
    /// Whether no home of the LSPs is lent; asks for the end of the first loan if one is.
    pub(super) fn owns_homes(&mut self, lsps: core::ops::RangeInclusive<u32>) -> bool {
        let Some(loans) = self.table.loans() else { return true };
        let waits = |lsp: &u32| loans.has(*lsp) || loans.is_ending(*lsp);
        let Some(lsp) = lsps.into_iter().find(waits) else { return true };
        if loans.ending.is_none() {
            let part = (lsp - loans.first) / loans.part;
            loans.ending = Some((part, Phase::Ending));
            self.withhold(part);
        }
        false
    }

    /// Takes the superpages of the ending loan out of the free queue. A few that may hold the next
    /// log write stay there until it is elsewhere.
    fn withhold(&mut self, part: u32) {
        let vsps = self.table.loans().map_or(0..0, |loans| loans.superpages(part));
        let horizon = self.log.horizon as usize;
        let names = self.free.iter(&self.pool).take(horizon);
        let names = names.filter(|vsp| vsps.contains(vsp));
        let named = names.clone().count() as u32;
        let keep = (LAST_NAMES + 1).saturating_sub(self.log.horizon - named).min(named);
        let mut kept = [NONE; LAST_NAMES as usize + 1];
        kept.iter_mut().zip(names.take(keep as usize)).for_each(|(kept, vsp)| *kept = vsp);
        self.log.horizon -= named - keep;
        self.touched += vsps.len() + horizon;
        for vsp in vsps {
            if self.pool.state(vsp) == State::Free && !kept.contains(&vsp) {
                self.free.remove(&mut self.pool, vsp);
                self.pool.become_(vsp, State::Home, false);
            }
        }
    }

    /// A superpage of the ending loan that must be emptied, and that a victim can be.
    pub(super) fn leaving_victim(&mut self) -> Option<u32> {
        let loans = self.table.loans()?;
        let (part, Phase::Ending) = loans.ending? else { return None };
        let mut vsps = loans.superpages(part);
        vsps.find(|vsp| self.pool.state(*vsp) == State::Full && !self.pool.pinned(*vsp))
    }

    /// Whether the ending loan waits for a superpage of which a part can't be read.
    pub(super) fn loan_is_stuck(&mut self) -> bool {
        let Some(loans) = self.table.loans() else { return false };
        let Some((part, Phase::Ending)) = loans.ending else { return false };
        let mut vsps = loans.superpages(part);
        self.touched += vsps.len();
        vsps.any(|vsp| self.pool.state(vsp) == State::Stuck)
    }

    /// Moves the end of a loan on.
    pub(super) fn pump_loans(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(loans) = self.table.loans() else { return false };
        let Some((part, phase)) = loans.ending else { return false };
        let vsps = loans.superpages(part);
        let (vsp, count) = (vsps.start, vsps.len() as u32);
        match phase {
            Phase::Ending => {
                let mut left = vsps.filter(|vsp| self.pool.state(*vsp) != State::Home);
                let Some(vsp) = left.next() else {
                    if self.ops.room() == 0 {
                        return false;
                    }
                    self.set_ending(part, Phase::Forgetting);
                    let lba = self.layout.data_at(vsp);
                    let sectors = u64::from(count) * u64::from(self.layout.superpage);
                    let command = Command::Reset { device: 0, lba, sectors };
                    self.submit(now, Op::Loan, command, out);
                    return true;
                };
                self.press_out(part, vsp)
            }
            Phase::Forgetting => false,
            Phase::Recorded(event) => {
                if self.durable().direct < event {
                    let mark = Mark { direct: event, ..Mark::default() };
                    self.commit = self.commit.max(mark);
                    return false;
                }
                self.table.loans().expect("there are loans").ending = None;
                true
            }
        }
    }

    fn set_ending(&mut self, part: u32, phase: Phase) {
        self.table.loans().expect("there are loans").ending = Some((part, phase));
    }

    /// Asks for what frees a superpage of the ending loan.
    fn press_out(&mut self, part: u32, vsp: u32) -> bool {
        match self.pool.state(vsp) {
            State::Free => {
                let before = self.free.len();
                self.withhold(part);
                let withheld = self.free.len() < before;
                self.starved |= !withheld;
                withheld
            }
            State::Staged(index) if self.filling == Some(index) => {
                self.close_filling();
                true
            }
            State::Limbo => self.press_limbo(false),
            _ if self.pool.pinned(vsp) => self.checkpoint.hurry(),
            _ => false,
        }
    }

    /// The device forgot what the superpages of the ending loan held.
    pub(super) fn loan_forgotten(&mut self, ok: bool) {
        let loans = self.table.loans().expect("there are loans");
        let Some((part, Phase::Forgetting)) = loans.ending else {
            unreachable!("the device was told once")
        };
        if !ok {
            return;
        }
        let vsps = loans.superpages(part);
        let (vsp, count) = (vsps.start, vsps.len() as u32);
        let checkpoint = &mut self.checkpoint;
        self.table.end_loan(vsp, count, |key| checkpoint.changed(key));
        self.direct.end_loan(vsp, count);
        self.direct.end_event();
        let event = self.direct.done;
        self.set_ending(part, Phase::Recorded(event));
    }
}
