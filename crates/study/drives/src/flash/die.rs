//! Scheduling of a die: selection of the next set of operations and completion of the present one.
//!
//! A program uses the bus before its array time, a read after it.

use std::hint::select_unpredictable;

use hostftl_core::Nanos;
use rand::RngExt;

use super::op::{Kind, NONE, Op};
use super::{Flash, Over};
use crate::work::Spent;

/// Number of times that one set may be suspended.
const MOST_INTERRUPTS: u8 = 4;

/// Phase of a die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Array operation in progress, or a transfer to the die.
    Busy,
    /// The rows of a read wait for the bus or use it.
    Leaving,
}

/// Operations that a die executes together.
#[derive(Clone, Copy, Debug)]
struct Set {
    kind: Kind,
    collects: bool,
    interrupts: u8,
    /// Whether it is suspended as soon as its array time starts.
    cut: bool,
    count: u32,
    rows: u16,
    sectors: u32,
    /// First operation; the others are linked by `next`.
    head: u32,
    began: Nanos,
    /// Start of the array time.
    from: Nanos,
    /// Time in the array and on the bus, without waits.
    array: Nanos,
    transfer: Nanos,
    /// Time during which it was suspended.
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

/// A die, or several dies that work as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Die {
    pub phase: Phase,
    /// Channel whose bus it uses.
    channel: u32,
    /// Lanes with queued operations, one bit each: first the normal queues, then those of urgent
    /// reads.
    pub waiting: [u16; 2],
    /// Present set; meaningless if the die is idle.
    set: Set,
    /// A suspended set, the time of its suspension, and its remaining array time.
    parked: Option<(Set, Nanos, Nanos)>,
    /// Time spent on garbage collection in completed sets, in ns.
    collected: Nanos,
}

impl Die {
    /// Makes an idle die on a channel.
    pub(super) fn idle(channel: u32) -> Self {
        let (phase, set) = (Phase::Idle, Set::EMPTY);
        Die { phase, channel, waiting: [0; 2], set, parked: None, collected: 0 }
    }

    /// Returns the time spent on garbage collection until `now`, in ns.
    #[inline]
    pub(super) fn collected(&self, now: Nanos) -> Nanos {
        let under_way = (self.phase != Phase::Idle) & self.set.collects;
        self.collected + select_unpredictable(under_way, now - self.set.began, 0)
    }
}

impl Flash {
    /// Starts the next set of a die if the die is idle.
    #[inline]
    pub(super) fn dispatch(&mut self, now: Nanos, die: u32) {
        if self.dies[die as usize].phase == Phase::Idle {
            self.go_on(now, die);
        }
    }

    /// Starts the next set of an idle die. Urgent reads come first, then a suspended set, then the
    /// normal queues.
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

    /// Starts the oldest operation that can start, together with operations of the same kind on
    /// other lanes if the die is multiplane. Returns false if none can start.
    fn gather(&mut self, now: Nanos, die: u32, urgent: usize) -> bool {
        let first = die * self.shape.lanes_per_die;
        let waiting = self.dies[die as usize].waiting[urgent];
        let Some(mut lane) = self.oldest(first, waiting, urgent) else {
            self.budget.enlist(die);
            return false;
        };
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

    /// Returns the lane, of those in `waiting`, whose first operation is the oldest one that can
    /// start within the budget of programs.
    #[inline]
    fn oldest(&self, first: u32, mut waiting: u16, urgent: usize) -> Option<u32> {
        let (mut best, mut oldest) = (None, 0);
        while waiting != 0 {
            let lane = waiting.trailing_zeros();
            waiting &= waiting - 1;
            let op = self.head(first + lane, urgent);
            let age = self.seq.wrapping_sub(op.seq);
            if op.waits == 0 && self.budget.allows(op.kind) && (best.is_none() || age > oldest) {
                (best, oldest) = (Some(lane), age);
            }
        }
        best
    }

    /// Returns the first operation of a queue. The queue must not be empty.
    #[inline]
    fn head(&self, lane: u32, urgent: usize) -> &Op {
        self.ops.get(self.queues[lane as usize][urgent].head)
    }

    /// Moves the first operation of a queue to a set. Returns whether the queue is empty
    /// afterwards.
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

    /// Starts a set on an idle die.
    #[inline]
    fn begin(&mut self, now: Nanos, die: u32, mut set: Set) {
        let mut array = self.draw(u64::from(set.rows) * self.times.array[set.kind as usize]);
        let transfer = if self.times.bus > 0 && set.sectors > 0 {
            self.draw(self.on_bus(set.sectors))
        } else {
            0
        };
        // Reads that have just suspended another set pay for the suspension.
        if self.dies[die as usize].parked.is_some_and(|(_, since, _)| since == now) {
            array += self.times.suspend.unwrap_or(0);
        }
        let asks = select_unpredictable(set.kind == Kind::Program, transfer, 0);
        let over = self.transfer(now, die, asks);
        let from = select_unpredictable(asks > 0, over, now);
        self.agenda.set(die, from + array);
        (set.array, set.transfer, set.from) = (array, transfer, from);
        self.budget.begin(set.kind);
        let it = &mut self.dies[die as usize];
        it.phase = Phase::Busy;
        it.set = set;
    }

    /// Returns the bus time of `sectors` sectors.
    #[inline]
    fn on_bus(&self, sectors: u32) -> Nanos {
        let (bus, row) = (self.times.bus, self.shape.row_sectors);
        if sectors == row { bus } else { bus * u64::from(sectors) / u64::from(row) }
    }

    /// Reserves the bus of a die for `takes` ns and returns the end of the transfer. A reservation
    /// of no time has no effect: `now` never decreases, so no later transfer could start earlier.
    #[inline]
    fn transfer(&mut self, now: Nanos, die: u32, takes: Nanos) -> Nanos {
        let free = &mut self.buses[self.dies[die as usize].channel as usize];
        *free = now.max(*free) + takes;
        self.tables.bus += takes;
        *free
    }

    /// Returns a time drawn with this mean, or the mean itself if times are constant.
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

    /// Handles the completion time of a die: the end of an array read, the suspension of a set, or
    /// the end of a set.
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

    /// Ends the set of a die: counts its work, reports its owners, and releases the operations that
    /// waited for it.
    fn finish(&mut self, now: Nanos, die: u32) {
        let it = &mut self.dies[die as usize];
        it.phase = Phase::Idle;
        let set = it.set;
        let collected = it.collected;
        it.collected += select_unpredictable(set.collects, now - set.began, 0);
        assert!(set.kind != Kind::Move || set.transfer == 0, "a move does not use the bus");
        // Each operation of the set gets an equal share of the time; the first one takes the
        // remainder.
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
        // Dispatch only after all operations are marked ready, so that those released together can
        // start together.
        let mut index = if released { set.head } else { NONE };
        while index != NONE {
            let &Op { then, next, .. } = self.ops.get(index);
            if then != NONE {
                self.dispatch(now, self.ops.get(then).die.into());
            }
            index = next;
        }
        self.budget.end(set.kind);
        // Dies that waited for the budget come before this one, so that none is left behind.
        while let Some(waiting) = self.budget.next() {
            self.dispatch(now, waiting);
        }
        self.dispatch(now, die);
    }

    /// Suspends the present set of a die for an urgent read, if it can be suspended. A program
    /// whose transfer has not ended is suspended when its array time starts.
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

    /// Suspends the present set of a die, with `left` ns of array time remaining.
    fn park(&mut self, now: Nanos, die: u32, left: Nanos) {
        let it = &mut self.dies[die as usize];
        it.phase = Phase::Idle;
        it.set.interrupts += 1;
        it.set.cut = false;
        it.parked = Some((std::mem::replace(&mut it.set, Set::EMPTY), now, left));
    }

    /// Resumes the suspended set.
    fn resume(&mut self, now: Nanos, die: u32) {
        let it = &mut self.dies[die as usize];
        let (mut set, since, left) = it.parked.take().expect("the entry exists");
        set.parked += now - since;
        it.set = set;
        it.phase = Phase::Busy;
        self.agenda.set(die, now + left);
    }
}

/// Returns the latency of an operation by stage.
#[inline]
fn spent(now: Nanos, op: &Op, set: &Set, collected: Nanos) -> Spent {
    let rmw = op.ready - op.since;
    let waited = set.began - op.ready;
    let gc = (collected - op.mark.min(collected)).min(waited);
    let bus = now - set.began - set.array - set.parked;
    Spent { queue: waited - gc + set.parked, gc, rmw, bus, die: set.array }
}
