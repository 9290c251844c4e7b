//! Operations of the flash, and the queues in which they wait.
//!
//! Invariants
//! - An operation is free, being prepared, in exactly one queue, or in the set that its die is at.
//! - An operation waits only for operations that were queued before it, so that nothing can wait in
//!   a circle.

use hostftl_core::{Cause, Nanos};

/// No operation, nobody.
pub(crate) const NONE: u32 = u32::MAX;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows are read and moved over the bus.
    Read,
    /// Rows are moved over the bus and programmed.
    Program,
    /// Rows are read and programmed again on the same lane, without the bus.
    Move,
    /// A block of a lane is erased.
    Erase,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 4;

/// An operation on one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: Kind,
    /// Why, by number; of a program, why its first sector is written.
    cause: u8,
    /// How many operations must end before this one may begin.
    pub waits: u8,
    /// The lane within its die.
    pub within: u8,
    pub die: u16,
    /// Of an erase, blocks.
    pub rows: u16,
    /// The block of the lane, which counts programs that are still to come.
    pub block: u32,
    /// Sectors that cross the bus.
    pub sectors: u32,
    /// Who is told when it is over.
    pub owner: u32,
    /// Sectors of the write buffer that come free with it.
    pub held: u32,
    /// The flush that waits for it.
    pub epoch: u32,
    /// The operation that waits for it.
    pub then: u32,
    /// The next one in the same queue or set.
    pub next: u32,
    /// Its place in the order of all operations.
    pub seq: u32,
    /// When it was asked for.
    pub since: Nanos,
    /// When all that it waited for was over.
    pub ready: Nanos,
    /// How long its die had been collecting when it was queued.
    pub mark: Nanos,
}

impl Op {
    /// An operation on a lane, asked for at `since`, for nobody, that waits for nothing.
    #[inline]
    pub(crate) fn new(kind: Kind, cause: Cause, lane: Lane, rows: u32, since: Nanos) -> Self {
        Op {
            kind,
            cause: cause as u8,
            waits: 0,
            within: lane.within,
            die: lane.die,
            rows: rows as u16,
            block: lane.block,
            sectors: 0,
            owner: NONE,
            held: 0,
            epoch: 0,
            then: NONE,
            next: NONE,
            seq: 0,
            since,
            ready: 0,
            mark: 0,
        }
    }

    /// Why.
    #[inline]
    pub(crate) fn cause(&self) -> Cause {
        Cause::ALL[self.cause as usize]
    }

    /// Whether the drive's collection wants it.
    #[inline]
    pub(crate) fn collects(&self) -> bool {
        self.cause == Cause::DriveGc as u8
    }

    /// Says why.
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause = cause as u8;
    }
}

/// Where an operation works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub die: u16,
    pub within: u8,
    /// Its block, when blocks count their programs.
    pub block: u32,
}

/// First in, first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub head: u32,
    pub tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };
}

/// All operations, of which some are free.
#[derive(Debug)]
pub(super) struct Ops {
    list: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// Room for `count` at once before memory is asked for.
    pub(super) fn new(count: usize) -> Self {
        Ops { list: Vec::with_capacity(count), free: Vec::with_capacity(count) }
    }

    /// Keeps an operation and names it.
    #[inline]
    pub(super) fn keep(&mut self, op: Op) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.list[index as usize] = op;
                index
            }
            None => {
                self.list.push(op);
                (self.list.len() - 1) as u32
            }
        }
    }

    /// An operation is over.
    #[inline]
    pub(super) fn give(&mut self, index: u32) {
        self.free.push(index);
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> &Op {
        &self.list[index as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> &mut Op {
        &mut self.list[index as usize]
    }

    /// Appends an operation to a queue.
    #[inline]
    pub(super) fn push(&mut self, queue: &mut Queue, index: u32) {
        self.list[index as usize].next = NONE;
        match queue.tail {
            NONE => queue.head = index,
            tail => self.list[tail as usize].next = index,
        }
        queue.tail = index;
    }

    /// Takes the first operation of a queue that has one.
    #[inline]
    pub(super) fn pop(&mut self, queue: &mut Queue) -> u32 {
        let index = queue.head;
        queue.head = self.list[index as usize].next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        index
    }

    /// How many are not free.
    pub(super) fn in_use(&self) -> usize {
        self.list.len() - self.free.len()
    }
}
