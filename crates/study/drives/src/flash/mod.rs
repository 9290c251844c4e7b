//! Flash in virtual time: dies, the lanes in them, and the buses that they share.
//!
//! Invariants
//! - A die executes one set of operations at a time: one operation, or several of one kind on
//!   different lanes. In addition, one set may be suspended for reads.
//! - Operations of a lane start in the order of their queueing, except that urgent reads come
//!   first.
//! - A die holds its rows from the first transfer to the last: there is no cache register.
//! - A bus serves the dies of its channel in the order of their requests, so the end of a transfer
//!   is known when it is requested.

mod agenda;
mod budget;
mod die;
mod op;

use hostftl_core::{CAUSES, Cause, Nanos};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::spec::{DriveSpec, Shape};
use crate::work::{FlashBusy, FlashWork, Spent};
use agenda::Agenda;
use budget::Budget;
use die::{Die, Phase};
use op::{KINDS, Ops, Queue};
pub(crate) use op::{Kind, Lane, NONE, Op};

/// Operations for which memory is reserved at the start.
const ROOM: usize = 1 << 12;

/// A completed operation with an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    pub owner: u32,
    pub held: u32,
    pub epoch: u32,
    pub spent: Spent,
}

/// Times of the flash, in ns.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Array time of a row by [`Kind`]; for erases, of a block.
    array: [Nanos; KINDS],
    bus: Nanos,
    suspend: Option<Nanos>,
    /// Whether reads of the drive itself overtake programs too.
    reads_first: bool,
}

/// Counters by [`Kind`] and [`Cause`]. They are tables because the next kind is unpredictable, and
/// a table needs no branch.
#[derive(Debug, Default)]
struct Tables {
    /// Rows read or programmed, or blocks erased.
    rows: [[u64; CAUSES]; KINDS],
    /// Busy time of dies, in ns.
    busy: [[Nanos; CAUSES]; KINDS],
    /// Busy time of all buses together, in ns.
    bus: Nanos,
}

#[derive(Debug)]
pub(crate) struct Flash {
    shape: Shape,
    times: Times,
    multiplane: bool,
    /// Source of exponentially distributed times, or `None` for constant times.
    dice: Option<Xoshiro256PlusPlus>,
    /// Queues of each lane, ordered by die: the normal queue and that of urgent reads.
    queues: Vec<[Queue; 2]>,
    /// Die of each lane, and the lane's number in that die.
    places: Vec<(u16, u8)>,
    dies: Vec<Die>,
    /// Time at which each channel's bus becomes free.
    buses: Vec<Nanos>,
    agenda: Agenda,
    budget: Budget,
    ops: Ops,
    seq: u32,
    /// Programs of each block that have not ended yet. Maintained only if reads can be urgent.
    pending: Vec<u16>,
    over: Vec<Over>,
    tables: Tables,
}

impl Flash {
    /// Makes idle flash.
    pub(crate) fn new(spec: &DriveSpec) -> Self {
        let shape = spec.shape;
        let DriveSpec { read, program, erase, bus, suspend, reads_first, .. } = *spec;
        let place = |lane: u32| ((lane % shape.dies) as u16, (lane / shape.dies) as u8);
        let blocks = if suspend.is_some() { shape.lanes() * shape.blocks } else { 0 };
        Flash {
            shape,
            times: Times {
                array: [read, program, read + program, erase],
                bus,
                suspend,
                reads_first,
            },
            multiplane: spec.multiplane,
            dice: spec.exponential.then(|| Xoshiro256PlusPlus::seed_from_u64(0xf1a5)),
            queues: vec![[Queue::EMPTY; 2]; shape.lanes() as usize],
            places: (0..shape.lanes()).map(place).collect(),
            dies: (0..shape.dies).map(|die| Die::idle(die % shape.channels)).collect(),
            buses: vec![0; shape.channels as usize],
            agenda: Agenda::new(shape.dies),
            budget: Budget::new(spec.program_dies, shape.dies),
            ops: Ops::new(ROOM),
            seq: 0,
            pending: vec![0; blocks as usize],
            over: Vec::with_capacity(64),
            tables: Tables::default(),
        }
    }

    /// Stores an operation that is not queued yet, and returns its index.
    #[inline]
    pub(crate) fn prepare(&mut self, op: Op) -> u32 {
        self.ops.keep(op)
    }

    /// Returns an operation that is being prepared.
    #[inline]
    pub(crate) fn op(&mut self, index: u32) -> &mut Op {
        self.ops.get_mut(index)
    }

    /// Drops an operation that is being prepared.
    pub(crate) fn forget(&mut self, index: u32) {
        self.ops.give(index);
    }

    /// Delays the start of `then` until `first` has ended. `first` must have been queued before
    /// `then`.
    #[inline]
    pub(crate) fn after(&mut self, first: u32, then: u32) {
        let first = self.ops.get_mut(first);
        assert!(first.then == NONE, "an operation already waits");
        first.then = then;
        self.ops.get_mut(then).waits += 1;
    }

    /// Queues a prepared operation.
    pub(crate) fn queue(&mut self, now: Nanos, index: u32) {
        self.seq = self.seq.wrapping_add(1);
        let op = self.ops.get_mut(index);
        op.seq = self.seq;
        op.ready = now;
        let (die, within) = (u32::from(op.die), u32::from(op.within));
        let is_host = op.cause() == Cause::Host;
        op.mark = self.dies[die as usize].collected(now);
        let urgent = self.times.suspend.is_some() && self.is_urgent(index);
        let slot = (die * self.shape.lanes_per_die + within) as usize;
        self.ops.push(&mut self.queues[slot][usize::from(urgent)], index);
        self.dies[die as usize].waiting[usize::from(urgent)] |= 1 << within;
        if urgent && is_host {
            self.interrupt(now, die);
        }
        self.dispatch(now, die);
    }

    /// Returns whether an operation may overtake others: a read of the host from a block without
    /// pending programs.
    fn is_urgent(&mut self, index: u32) -> bool {
        let op = self.ops.get(index);
        let pending = &mut self.pending[op.block as usize];
        match op.kind {
            Kind::Program | Kind::Move => {
                *pending += 1;
                false
            }
            Kind::Read => (self.times.reads_first || op.cause() == Cause::Host) && *pending == 0,
            Kind::Erase => false,
        }
    }

    /// Returns the die, lane and block of an operation. `block` is called only if programs are
    /// counted per block.
    #[inline]
    pub(crate) fn lane(&self, lane: u32, block: impl FnOnce() -> u32) -> Lane {
        let (die, within) = self.places[lane as usize];
        let block = match self.times.suspend {
            Some(_) => lane * self.shape.blocks + block(),
            None => 0,
        };
        Lane { die, within, block }
    }

    /// Returns the time of the next event.
    #[inline]
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.agenda.next_at()
    }

    /// Executes the next event and returns its time. An event must be pending.
    pub(crate) fn advance(&mut self) -> Nanos {
        let (now, die) = self.agenda.first();
        self.done(now, die);
        // Most dies start their next set at once, which has updated the agenda already.
        if self.dies[die as usize].phase == Phase::Idle {
            self.agenda.clear(die);
        }
        now
    }

    /// Passes the completed operations with owners to `take`, in order, and removes them.
    #[inline]
    pub(crate) fn each_over(&mut self, take: impl FnMut(&Over)) {
        self.over.iter().for_each(take);
        self.over.clear();
    }

    /// Returns the work done so far.
    pub(crate) fn work(&self) -> FlashWork {
        let Tables { rows, busy, bus } = &self.tables;
        let of = |table: &[[u64; CAUSES]; KINDS], kind: Kind| table[kind as usize].iter().sum();
        let busy = FlashBusy {
            reads: busy[Kind::Read as usize],
            programs: of(busy, Kind::Program),
            erases: of(busy, Kind::Erase),
            bus: *bus,
        };
        let (programs, erases) = (of(rows, Kind::Program), of(rows, Kind::Erase));
        FlashWork { reads: rows[Kind::Read as usize], programs, erases, busy }
    }

    /// Counts work without time. For an erase, `rows` is the number of blocks.
    #[inline]
    pub(crate) fn count(&mut self, kind: Kind, cause: Cause, rows: u32) {
        self.book(kind, cause, rows, 0);
    }

    /// Counts work and its die time. A move counts as a read and a program.
    #[inline]
    fn book(&mut self, kind: Kind, cause: Cause, rows: u32, took: Nanos) {
        if kind == Kind::Move {
            let [read, _, both, _] = self.times.array;
            let reading = took * read / both.max(1);
            self.book(Kind::Read, cause, rows, reading);
            return self.book(Kind::Program, cause, rows, took - reading);
        }
        let (kind, cause) = (kind as usize, cause as usize);
        self.tables.rows[kind][cause] += u64::from(rows);
        self.tables.busy[kind][cause] += took;
    }

    /// Returns whether no operation is queued or in progress. Operations that are only prepared do
    /// not count.
    pub(crate) fn idle(&self) -> bool {
        self.dies.iter().all(|die| die.phase == Phase::Idle && die.waiting == [0, 0])
    }

    /// Returns the number of operations that are prepared, queued or in progress.
    pub(crate) fn in_use(&self) -> usize {
        self.ops.in_use()
    }
}
