//! What a die does next, and what happens when it has done it.
//!
//! A program asks for the bus when it begins, a read when its arrays are done.

use std::hint::select_unpredictable;

use hostftl_core::Nanos;
use rand::RngExt;

use super::op::{Kind, NONE, Op};
use super::{Flash, Over};
use crate::work::Spent;

/// How often one set may be interrupted.
const MOST_INTERRUPTS: u8 = 4;

/// What a die is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// At work; a read's arrays are not done.
    Busy,
    /// A read's rows wait for the bus or use it.
    Leaving,
}

/// Operations that a die does together.
#[derive(Clone, Copy, Debug)]
struct Set {
    kind: Kind,
    collects: bool,
    interrupts: u8,
    /// Whether it is interrupted as soon as its arrays begin.
    cut: bool,
    count: u32,
    rows: u16,
    sectors: u32,
    /// The first; the others follow by `next`.
    head: u32,
    began: Nanos,
    /// When the arrays begin.
    from: Nanos,
    /// In the arrays and on the bus, without waiting.
    array: Nanos,
    transfer: Nanos,
    /// While reads went before.
    parked: Nanos,
}

impl Set {
    const EMPTY: Set = Set {
        kind: Kind::Read,
        collects: false,
        interrupts: 0,
        cut: false,
        count: 0,
        rows: 0,
        sectors: 0,
        head: NONE,
        began: 0,
        from: 0,
        array: 0,
        transfer: 0,
        parked: 0,
    };
}

/// A die, or several that work as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Die {
    pub phase: Phase,
    /// The channel whose bus it uses.
    channel: u32,
    /// Lanes with something queued: a bit each; then those with urgent reads.
    pub waiting: [u16; 2],
    /// What it is at, unless it is idle.
    set: Set,
    /// A set that was interrupted, since when, and what was left of it.
    parked: Option<(Set, Nanos, Nanos)>,
    /// How long it has collected, in sets that are over.
    collected: Nanos,
}

impl Die {
    /// One that uses the bus of this channel.
    pub(super) fn idle(channel: u32) -> Self {
        let (phase, set) = (Phase::Idle, Set::EMPTY);
        Die { phase, channel, waiting: [0; 2], set, parked: None, collected: 0 }
    }

    /// How long it has collected until `now`.
    #[inline]
    pub(super) fn collected(&self, now: Nanos) -> Nanos {
        let under_way = (self.phase != Phase::Idle) & self.set.collects;
        self.collected + select_unpredictable(under_way, now - self.set.began, 0)
    }
}

impl Flash {
    /// Lets a die begin what it can if it is idle.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Nanos, die: u32) {
        if self.dies[die as usize].phase == Phase::Idle {
            self.go_on(now, die);
        }
    }

    /// Lets a die that is idle begin what it can.
    fn go_on(&mut self, now: Nanos, die: u32) {
        if self.dies[die as usize].waiting[1] != 0 && self.gather(now, die, 1) {
            return;
        }
        if self.dies[die as usize].parked.is_some() {
            return self.resume(now, die);
        }
        if self.dies[die as usize].waiting[0] != 0 {
            self.gather(now, die, 0);
        }
    }

    /// Begins the oldest operation of a die that can begin, and what goes together with it.
    fn gather(&mut self, now: Nanos, die: u32, urgent: usize) -> bool {
        let first = die * self.shape.lanes_per_die;
        let waiting = self.dies[die as usize].waiting[urgent];
        let Some(mut lane) = self.oldest(first, waiting, urgent) else { return false };
        let mut set = Set { began: now, kind: self.head(first + lane, urgent).kind, ..Set::EMPTY };
        let mut rest = if self.multiplane { waiting & !(1 << lane) } else { 0 };
        let mut empty = 0;
        loop {
            let op = self.head(first + lane, urgent);
            if op.waits == 0 && op.kind == set.kind {
                empty |= u16::from(self.take(first + lane, urgent, &mut set)) << lane;
            }
            if rest == 0 {
                break;
            }
            lane = rest.trailing_zeros();
            rest &= rest - 1;
        }
        self.dies[die as usize].waiting[urgent] = waiting & !empty;
        self.begin(now, die, set);
        true
    }

    /// The lane, of those that wait, whose first operation is the oldest that can begin.
    #[inline]
    fn oldest(&self, first: u32, mut waiting: u16, urgent: usize) -> Option<u32> {
        let (mut best, mut oldest) = (None, 0);
        while waiting != 0 {
            let lane = waiting.trailing_zeros();
            waiting &= waiting - 1;
            let op = self.head(first + lane, urgent);
            let age = self.seq.wrapping_sub(op.seq);
            if op.waits == 0 && (best.is_none() || age > oldest) {
                (best, oldest) = (Some(lane), age);
            }
        }
        best
    }

    /// What waits first in a queue that is not empty.
    #[inline]
    fn head(&self, lane: u32, urgent: usize) -> &Op {
        self.ops.get(self.queues[lane as usize][urgent].head)
    }

    /// Moves what waits first in a queue to a set; whether nothing waits there any more.
    #[inline]
    fn take(&mut self, lane: u32, urgent: usize, set: &mut Set) -> bool {
        let queue = &mut self.queues[lane as usize][urgent];
        let index = self.ops.pop(queue);
        let is_empty = queue.head == NONE;
        let op = self.ops.get_mut(index);
        op.next = set.head;
        set.head = index;
        set.count += 1;
        set.collects |= op.collects();
        set.rows = set.rows.max(op.rows);
        set.sectors += op.sectors;
        is_empty
    }

    /// Begins a set on a die, which is idle.
    #[inline]
    fn begin(&mut self, now: Nanos, die: u32, mut set: Set) {
        let mut array = self.draw(u64::from(set.rows) * self.times.array[set.kind as usize]);
        let transfer = if self.times.bus > 0 && set.sectors > 0 {
            self.draw(self.on_bus(set.sectors))
        } else {
            0
        };
        if self.dies[die as usize].parked.is_some_and(|(_, since, _)| since == now) {
            array += self.times.suspend.unwrap_or(0);
        }
        let asks = select_unpredictable(set.kind == Kind::Program, transfer, 0);
        let over = self.transfer(now, die, asks);
        let from = select_unpredictable(asks > 0, over, now);
        self.agenda.set(die, from + array);
        (set.array, set.transfer, set.from) = (array, transfer, from);
        let it = &mut self.dies[die as usize];
        it.phase = Phase::Busy;
        it.set = set;
    }

    /// How long so many sectors are on a bus.
    #[inline]
    fn on_bus(&self, sectors: u32) -> Nanos {
        let (bus, row) = (self.times.bus, self.shape.row_sectors);
        if sectors == row { bus } else { bus * u64::from(sectors) / u64::from(row) }
    }

    /// Asks for the bus of a die, and says when the transfer is over. Who asks for no time changes
    /// nothing: whoever asks next asks no earlier.
    #[inline]
    fn transfer(&mut self, now: Nanos, die: u32, takes: Nanos) -> Nanos {
        let free = &mut self.buses[self.dies[die as usize].channel as usize];
        *free = now.max(*free) + takes;
        self.tables.bus += takes;
        *free
    }

    /// A time with this mean, or the mean itself.
    #[inline]
    fn draw(&mut self, mean: Nanos) -> Nanos {
        match &mut self.dice {
            None => mean,
            Some(dice) => {
                let below: f64 = dice.random();
                (-(1.0 - below).ln() * mean as f64).round() as Nanos
            }
        }
    }

    /// A die is done with what it was at.
    pub(super) fn done(&mut self, now: Nanos, die: u32) {
        let Die { phase, set, .. } = &self.dies[die as usize];
        let takes = set.transfer;
        if set.kind == Kind::Read && takes > 0 && *phase == Phase::Busy {
            let over = self.transfer(now, die, takes);
            self.dies[die as usize].phase = Phase::Leaving;
            return self.agenda.set(die, over);
        }
        if set.cut {
            self.park(now, die, set.array);
            return self.dispatch(now, die);
        }
        self.finish(now, die);
    }

    /// The set of a die is over.
    fn finish(&mut self, now: Nanos, die: u32) {
        let it = &mut self.dies[die as usize];
        it.phase = Phase::Idle;
        let set = it.set;
        let collected = it.collected;
        it.collected += select_unpredictable(set.collects, now - set.began, 0);
        assert!(set.kind != Kind::Move || set.transfer == 0, "a move does not use the bus");
        let (took, count) = (set.array + set.transfer, u64::from(set.count));
        let (share, rest) = (took / count, took % count);
        let (mut index, mut busy, mut released) = (set.head, share + rest, false);
        while index != NONE {
            let op = self.ops.get(index);
            let (kind, cause, rows, then, next) = (op.kind, op.cause(), op.rows, op.then, op.next);
            if self.times.suspend.is_some() && matches!(kind, Kind::Program | Kind::Move) {
                self.pending[op.block as usize] -= 1;
            }
            if op.owner != NONE {
                let &Op { owner, held, epoch, .. } = op;
                let spent = spent(now, op, &set, collected);
                self.over.push(Over { owner, held, epoch, spent });
            }
            self.ops.give(index);
            self.book(kind, cause, rows.into(), busy);
            busy = share;
            if then != NONE {
                released = true;
                let then = self.ops.get_mut(then);
                then.waits -= 1;
                then.ready = now;
            }
            index = next;
        }
        // All of them first, so that what was made ready together can begin together.
        let mut index = if released { set.head } else { NONE };
        while index != NONE {
            let &Op { then, next, .. } = self.ops.get(index);
            if then != NONE {
                self.dispatch(now, self.ops.get(then).die.into());
            }
            index = next;
        }
        self.dispatch(now, die);
    }

    /// An urgent read has come for a die: what it is at may have to wait.
    pub(super) fn interrupt(&mut self, now: Nanos, die: u32) {
        let it = &mut self.dies[die as usize];
        let can = it.phase == Phase::Busy
            && it.parked.is_none()
            && it.set.kind != Kind::Read
            && it.set.interrupts < MOST_INTERRUPTS
            && !it.set.cut;
        if can && now < it.set.from {
            it.set.cut = true;
            self.agenda.set(die, it.set.from);
        } else if can {
            let left = self.agenda.get(die) - now;
            self.agenda.clear(die);
            self.park(now, die, left);
        }
    }

    /// Puts aside what a die is at, of which so much is left.
    fn park(&mut self, now: Nanos, die: u32, left: Nanos) {
        let it = &mut self.dies[die as usize];
        it.phase = Phase::Idle;
        it.set.interrupts += 1;
        it.set.cut = false;
        it.parked = Some((std::mem::replace(&mut it.set, Set::EMPTY), now, left));
    }

    /// Goes on with what was interrupted.
    fn resume(&mut self, now: Nanos, die: u32) {
        let it = &mut self.dies[die as usize];
        let (mut set, since, left) = it.parked.take().expect("it was looked at just now");
        set.parked += now - since;
        it.set = set;
        it.phase = Phase::Busy;
        self.agenda.set(die, now + left);
    }
}

/// Where the time of an operation went.
#[inline]
fn spent(now: Nanos, op: &Op, set: &Set, collected: Nanos) -> Spent {
    let rmw = op.ready - op.since;
    let waited = set.began - op.ready;
    let gc = (collected - op.mark.min(collected)).min(waited);
    let bus = now - set.began - set.array - set.parked;
    Spent { queue: waited - gc + set.parked, gc, rmw, bus, die: set.array }
}
