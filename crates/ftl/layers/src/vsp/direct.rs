//! Writes in place: which older copies they replaced, and when the log may record that.
//!
//! A layer with a home for each sector may write there although an older copy is in a virtual
//! superpage. In memory the older copy is invalid as soon as the write completes. On media its
//! invalidation (a *kill*) may be recorded only after the write is durable, and must be recorded
//! before a flush that covers the write is acknowledged.
//!
//! Invariants
//! - Events are numbered in the order in which their writes complete; `flushed` ≤ `sent` ≤ `done`.
//! - Kills are in the order of their events. A kill enters the log after a flush sent later than
//!   its event completes and the superpage of its slots is listed. It leaves the queue when its log
//!   write is durable.
//! - A root also makes kills durable, without the log; see [`Direct::settleable`]. Collection can
//!   thus finish although no superpage is left for logging its kills.
//! - When few superpages are left, kills leave room in the log for the listings of all stages,
//!   without which there is no root.
//! - A superpage emptied by a kill waits in limbo until the kill is durable, so that its slots are
//!   not reused earlier.
//! - A mark that requests an event also requests the log up to that event's last logged kill. The
//!   log write that has the kill is then flushed without a request of the host.

use alloc::collections::VecDeque;

use super::durability_requests::DurabilityRequests;
use super::log::{Log, Mark};
use crate::planted::{Bug, planted};

/// Effect of a write in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Replaced `len` slots from virtual sector `low` + 2^32 `high` on; parts keep a kill small.
    Slots { high: u8, len: u16, low: u32 },
    /// Turned `count` superpages from `vsp` on into homes only.
    Loan { count: u16, vsp: u32 },
}

/// Returns the virtual sector of a kill.
fn joined(high: u8, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// An effect, and the condition for logging it.
#[derive(Clone, Copy, Debug)]
struct Kill {
    event: u64,
    /// Before the kill is logged: the stamp of the stage that must be listed first, or of the last
    /// one that was listed when the slots became invalid. Afterwards: its position in the log.
    mark: u64,
    end: End,
}

/// Events, and the queue of kills that are not durable.
#[derive(Debug)]
pub(crate) struct Direct {
    /// Last event.
    done: u64,
    /// Last acknowledged event.
    host: u64,
    sent: u64,
    /// Last event whose write is durable.
    flushed: u64,
    most: usize,
    kills: VecDeque<Kill>,
    /// Number of kills at the front that are in the log.
    logged: usize,
}

impl Direct {
    /// Starts without events; at most `most` kills may wait.
    pub(crate) fn new(most: u32) -> Self {
        let (most, kills) = (most as usize, VecDeque::with_capacity(most as usize));
        Direct { done: 0, host: 0, sent: 0, flushed: 0, most, kills, logged: 0 }
    }

    /// Returns the bytes of the queue.
    pub(crate) const fn memory(most: u32) -> u64 {
        most as u64 * size_of::<Kill>() as u64
    }

    /// Returns the last event.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Returns the last acknowledged event.
    pub(crate) fn host(&self) -> u64 {
        self.host
    }

    /// Notes that all events so far are acknowledged.
    pub(crate) fn acknowledge(&mut self) {
        self.host = self.done;
    }

    /// Returns the number of kills that the queue has room for.
    pub(crate) fn kills_left(&self) -> usize {
        self.most - self.kills.len()
    }

    /// Returns whether a kill waits to become durable.
    pub(crate) fn waits(&self) -> bool {
        !self.kills.is_empty()
    }

    /// Queues the kill of a slot by event `done + 1`, which [`Direct::end_event`] ends. `stamp` is
    /// that of the stage that still has the slot, or of the last stage that was listed.
    pub(crate) fn kill(&mut self, vsn: u64, stamp: u64) {
        let event = self.done + 1;
        // Consecutive slots of one event are one kill, and one log entry.
        if let Some(last) = self.kills.back_mut()
            && (last.event, last.mark) == (event, stamp)
            && let End::Slots { high, len, low } = &mut last.end
            && joined(*high, *low) + u64::from(*len) == vsn
        {
            *len += 1;
            return;
        }
        self.push(stamp, End::Slots { high: (vsn >> 32) as u8, len: 1, low: vsn as u32 });
    }

    /// Queues the end of a loan of superpages by event `done + 1`. `stamp` is that of the last
    /// stage that was listed.
    pub(crate) fn end_loan(&mut self, (vsp, count): (u32, u32), stamp: u64) {
        self.push(stamp, End::Loan { count: count as u16, vsp });
    }

    fn push(&mut self, stamp: u64, end: End) {
        assert!(self.kills_left() > 0, "space for invalidations was checked");
        self.kills.push_back(Kill { event: self.done + 1, mark: stamp, end });
    }

    /// Ends an event.
    pub(crate) fn end_event(&mut self) {
        self.done += 1;
    }

    /// Returns whether a flush would make an event durable that `wanted` covers.
    pub(crate) fn wants_flush(&self, wanted: Mark) -> bool {
        self.flushed < wanted.direct.min(self.done)
    }

    /// Notes that a flush was sent.
    pub(crate) fn flush_sent(&mut self) {
        self.sent = self.done;
    }

    /// Completes a flush.
    pub(crate) fn flush_done(&mut self) {
        // Events that ended after the flush was sent are not covered.
        self.flushed = self.sent;
    }

    /// Returns the last event up to which all events are durable, including their kills.
    pub(crate) fn durable(&self) -> u64 {
        // An event is durable only together with its kills, which are logged later than the write.
        let waiting = self.kills.front().filter(|_| !planted(Bug::FlushBeforeKill));
        waiting.map_or(self.flushed, |kill| self.flushed.min(kill.event - 1))
    }

    /// Returns the log position of the last kill up to `event`, or 0 if there is none. Returns
    /// `None` if one of these kills is not in the log yet.
    pub(crate) fn logged(&self, event: u64) -> Option<u64> {
        let upto = self.kills.partition_point(|kill| kill.event <= event);
        let unlogged = self.flushed < event || upto > self.logged;
        (!unlogged).then(|| self.kill_position(event))
    }

    /// Returns the position of the last kill up to `event` that is in the log and not known to be
    /// durable, or 0.
    fn kill_position(&self, event: u64) -> u64 {
        let upto = self.kills.partition_point(|kill| kill.event <= event).min(self.logged);
        upto.checked_sub(1).map_or(0, |last| self.kills[last].mark)
    }

    /// Returns the last event up to which a root begun now makes all kills durable. `composed` is
    /// the stage up to which the log was written. A kill's slots must be listed before the log
    /// write from which that root replays. A kill that is already in the log satisfies this,
    /// because it follows its listing there.
    pub(crate) fn settleable(&self, composed: u64) -> u64 {
        let unlogged = self.kills.iter().skip(self.logged);
        let early = unlogged.map(|kill| (kill.event, kill.mark)).find(|(_, mark)| *mark > composed);
        early.map_or(self.done, |(event, _)| event - 1)
    }

    /// Drops the kills up to an event, which a durable root shows.
    pub(crate) fn settle_events(&mut self, upto: u64) {
        while self.kills.front().is_some_and(|kill| kill.event <= upto) {
            self.kills.pop_front();
            self.logged = self.logged.saturating_sub(1);
        }
    }

    /// Returns the last event whose write is durable. Its kills may not be.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed
    }

    /// Drops the kills up to log position `pos`, which are in a durable log write.
    pub(crate) fn settle(&mut self, pos: u64) {
        while self.logged > 0 && self.kills[0].mark <= pos {
            self.kills.pop_front();
            self.logged -= 1;
        }
    }

    /// Logs kills whose writes are durable while they fit, and requests durability for the others.
    /// Returns whether anything moved.
    pub(crate) fn log_kills(
        &mut self,
        log: &mut Log,
        requests: &mut DurabilityRequests,
        fits: impl Fn(&Log) -> bool,
    ) -> bool {
        let urgent = requests.soon().direct;
        let mut moved = false;
        while let Some(kill) = self.kills.get(self.logged).copied() {
            // A kill must follow the listing of its slots, or replay would make them valid again.
            if kill.mark > log.sealed() {
                if kill.event <= urgent {
                    requests.request_soon(Mark { stamp: kill.mark, ..Mark::default() });
                }
                break;
            }
            // The write at home must be durable before the older copy counts as invalid.
            if kill.event > self.flushed && !planted(Bug::KillBeforeWrite) {
                break;
            }
            if !fits(log) {
                requests.request_log_write();
                break;
            }
            let pos = match kill.end {
                End::Slots { high, len, low } => log.kill(joined(high, low), len.into()),
                End::Loan { count, vsp } => log.end_loan(vsp, count.into()),
            };
            self.kills[self.logged].mark = pos;
            self.logged += 1;
            moved = true;
        }
        // The log write that has the kills must itself become durable.
        let at = |mark: Mark| Mark { pos: self.kill_position(mark.direct), ..Mark::default() };
        requests.request_soon(at(requests.soon()));
        requests.request_eventually(at(requests.eventual()));
        moved
    }
}
