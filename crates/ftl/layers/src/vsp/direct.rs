//! Writes in place under a map: which old copies they replaced, and when that may be known.
//!
//! A layer with a home for each sector may write there although an older copy lies in a virtual
//! superpage. The old copy is dead in memory when the write is over; on media its death may be
//! known only after the write is durable, and must be before a flush that covers the write is
//! answered.
//!
//! Invariants
//! - Events are numbered in the order in which their writes were over; `flushed` ≤ `sent` ≤ `done`.
//! - Kills are in the order of their events. A kill goes to the log when a flush sent after its
//!   event is over and the superpage of its slots was listed; it leaves the queue when the log
//!   write that has it is durable.
//! - A root makes kills durable too, without log: see [`Direct::settleable`]. So collection ends
//!   though no superpage is left for the log of what it killed.
//! - Where few superpages are left, kills leave room in the log for the listings of all stages,
//!   without which there is no root.
//! - A superpage emptied by a kill waits in limbo until then, so that its slots are not reused.
//! - A mark that asks for an event asks for the log up to the event's last logged kill too, so that
//!   the log write that has it is flushed although no host asks.

use alloc::collections::VecDeque;

use super::log::{Log, Mark};
use super::wishes::Wishes;
use crate::planted::{Bug, planted};

/// What ended with a write in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// So many slots from a virtual sector on were replaced.
    Slots { len: u16, vsn: u32 },
    /// So many superpages from one on are homes only.
    Loan { count: u16, vsp: u32 },
}

/// What ended, and when that may be known.
#[derive(Clone, Copy, Debug)]
struct Kill {
    event: u64,
    /// The stage that must be listed first, or the last one that was listed when the slots died;
    /// once the kill is in the log, its position there.
    mark: u64,
    end: End,
}

#[derive(Debug)]
pub(crate) struct Direct {
    /// Events so far.
    done: u64,
    /// The last event that a host was told of.
    host: u64,
    sent: u64,
    /// Events whose writes are durable.
    flushed: u64,
    most: usize,
    kills: VecDeque<Kill>,
    /// Kills at the front that are in the log.
    logged: usize,
}

impl Direct {
    /// Nothing was written in place; at most `most` runs of slots may be waiting.
    pub(crate) fn new(most: u32) -> Self {
        let (most, kills) = (most as usize, VecDeque::with_capacity(most as usize));
        Direct { done: 0, host: 0, sent: 0, flushed: 0, most, kills, logged: 0 }
    }

    /// Bytes of the queue.
    pub(crate) const fn memory(most: u32) -> u64 {
        most as u64 * size_of::<Kill>() as u64
    }

    /// Events so far.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// The last event that a host was told of.
    pub(crate) fn host(&self) -> u64 {
        self.host
    }

    /// A host is told of all events so far.
    pub(crate) fn host_told(&mut self) {
        self.host = self.done;
    }

    /// How many kills there is room for.
    pub(crate) fn room(&self) -> usize {
        self.most - self.kills.len()
    }

    /// Whether a kill waits to be durable.
    pub(crate) fn waits(&self) -> bool {
        !self.kills.is_empty()
    }

    /// A slot died of event `done + 1`, which [`Direct::end_event`] ends. `stamp` is that of the
    /// stage that still has it, or of the last one that was listed.
    pub(crate) fn kill(&mut self, vsn: u32, stamp: u64) {
        let event = self.done + 1;
        if let Some(last) = self.kills.back_mut()
            && (last.event, last.mark) == (event, stamp)
            && let End::Slots { len, vsn: first } = &mut last.end
            && *first + u32::from(*len) == vsn
        {
            *len += 1;
            return;
        }
        self.push(stamp, End::Slots { len: 1, vsn });
    }

    /// Superpages that were lent to the data area are homes only, by event `done + 1`. `stamp` is
    /// that of the last stage that was listed.
    pub(crate) fn end_loan(&mut self, (vsp, count): (u32, u32), stamp: u64) {
        self.push(stamp, End::Loan { count: count as u16, vsp });
    }

    fn push(&mut self, stamp: u64, end: End) {
        assert!(self.room() > 0, "room for kills was checked");
        self.kills.push_back(Kill { event: self.done + 1, mark: stamp, end });
    }

    /// An event is over.
    pub(crate) fn end_event(&mut self) {
        self.done += 1;
    }

    /// Whether a flush would make an event durable that `wanted` has.
    pub(crate) fn wants_flush(&self, wanted: Mark) -> bool {
        self.flushed < wanted.direct.min(self.done)
    }

    /// A flush is on its way.
    pub(crate) fn flush_sent(&mut self) {
        self.sent = self.done;
    }

    /// A flush is over.
    pub(crate) fn flush_done(&mut self) {
        self.flushed = self.sent;
    }

    /// The last event such that it and all before it are durable, kills included.
    pub(crate) fn durable(&self) -> u64 {
        let waiting = self.kills.front().filter(|_| !planted(Bug::FlushBeforeKill));
        waiting.map_or(self.flushed, |kill| self.flushed.min(kill.event - 1))
    }

    /// The position in the log of the last kill up to `event`, 0 for none; `None` when one of them
    /// is not in the log yet.
    pub(crate) fn logged(&self, event: u64) -> Option<u64> {
        let upto = self.kills.partition_point(|kill| kill.event <= event);
        let unlogged = self.flushed < event || upto > self.logged;
        (!unlogged).then(|| self.pos_of(event))
    }

    /// The position of the last kill up to `event` that is in the log and not known to be durable;
    /// 0 for none.
    fn pos_of(&self, event: u64) -> u64 {
        let upto = self.kills.partition_point(|kill| kill.event <= event).min(self.logged);
        upto.checked_sub(1).map_or(0, |last| self.kills[last].mark)
    }

    /// The last event such that a root which is begun now makes the kills of all up to it durable,
    /// where the log was written up to stage `composed`. What a kill's slots held must be listed
    /// before the log write from which that root replays; a kill that is in the log comes after
    /// its listing there in any case.
    pub(crate) fn settleable(&self, composed: u64) -> u64 {
        let unlogged = self.kills.iter().skip(self.logged);
        let early = unlogged.map(|kill| (kill.event, kill.mark)).find(|(_, mark)| *mark > composed);
        early.map_or(self.done, |(event, _)| event - 1)
    }

    /// Drops kills up to an event: a durable root shows them.
    pub(crate) fn settle_events(&mut self, upto: u64) {
        while self.kills.front().is_some_and(|kill| kill.event <= upto) {
            self.kills.pop_front();
            self.logged = self.logged.saturating_sub(1);
        }
    }

    /// The last event whose write in place is durable; what it killed may be not.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Drops kills that a durable log write has.
    pub(crate) fn settle(&mut self, pos: u64) {
        while self.logged > 0 && self.kills[0].mark <= pos {
            self.kills.pop_front();
            self.logged -= 1;
        }
    }

    /// Puts kills that may be known into the log while they fit, and asks for what the others wait
    /// for. Whether anything moved.
    pub(crate) fn log_kills(
        &mut self,
        log: &mut Log,
        wishes: &mut Wishes,
        fits: impl Fn(&Log) -> bool,
    ) -> bool {
        let urgent = wishes.commit().direct;
        let mut moved = false;
        while let Some(kill) = self.kills.get(self.logged).copied() {
            if kill.mark > log.sealed() {
                if kill.event <= urgent {
                    wishes.press(Mark { stamp: kill.mark, ..Mark::default() });
                }
                break;
            }
            if kill.event > self.flushed && !planted(Bug::KillBeforeWrite) {
                break;
            }
            if !fits(log) {
                wishes.starve();
                break;
            }
            let pos = match kill.end {
                End::Slots { len, vsn } => log.kill(vsn, len.into()),
                End::Loan { count, vsp } => log.end_loan(vsp, count.into()),
            };
            self.kills[self.logged].mark = pos;
            self.logged += 1;
            moved = true;
        }
        let at = |mark: Mark| Mark { pos: self.pos_of(mark.direct), ..Mark::default() };
        wishes.press(at(wishes.commit()));
        wishes.want(at(wishes.wanted()));
        moved
    }
}
