//! Operations of the flash, and the queues in which they wait.
//!
//! Invariants
//! - An operation is free, being prepared, in exactly one queue, or in the set that its die
//!   executes.
//! - An operation waits only for operations that were queued before it, so no cycle is possible.

use hostftl_core::{Cause, Nanos};

/// Index of no operation, and the owner of operations without one.
pub(crate) const NONE: u32 = u32::MAX;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads rows and transfers them over the bus.
    Read,
    /// Transfers rows over the bus and programs them.
    Program,
    /// Reads rows and programs them again on the same lane, without the bus (copyback).
    Move,
    /// Erases a block of a lane.
    Erase,
}

/// Number of kinds.
pub(super) const KINDS: usize = 4;

/// An operation on one lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: Kind,
    /// Cause by number; for a program, that of its first sector.
    cause: u8,
    /// Number of operations that must end before this one may start.
    pub waits: u8,
    /// The lane within its die.
    pub within: u8,
    pub die: u16,
    /// Rows; for an erase, blocks.
    pub rows: u16,
    /// Block of the lane, for the count of its pending programs.
    pub block: u32,
    /// Sectors transferred over the bus.
    pub sectors: u32,
    /// Owner that is notified at its end, or [`NONE`].
    pub owner: u32,
    /// Sectors of the write buffer released at its end.
    pub held: u32,
    /// Epoch of the flush that waits for it.
    pub epoch: u32,
    /// Operation that waits for it, or [`NONE`].
    pub then: u32,
    /// Next operation in the same queue or set.
    pub next: u32,
    /// Position in the order of all queued operations.
    pub seq: u32,
    /// Time at which it was requested.
    pub since: Nanos,
    /// Time at which it no longer had to wait for other operations.
    pub ready: Nanos,
    /// Garbage collection time of its die when it was queued, in ns.
    pub mark: Nanos,
}

impl Op {
    /// Makes an operation on a lane, requested at `since`, without an owner and without a
    /// dependency.
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

    /// Returns the cause.
    #[inline]
    pub(crate) fn cause(&self) -> Cause {
        Cause::ALL[self.cause as usize]
    }

    /// Returns whether it belongs to the drive's garbage collection.
    #[inline]
    pub(crate) fn collects(&self) -> bool {
        self.cause == Cause::DriveGc as u8
    }

    /// Sets the cause.
    pub(crate) fn set_cause(&mut self, cause: Cause) {
        self.cause = cause as u8;
    }
}

/// Location of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub die: u16,
    pub within: u8,
    /// Block, if programs are counted per block.
    pub block: u32,
}

/// FIFO queue of operations, linked by `next`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub head: u32,
    pub tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };
}

/// All operations, including free ones.
#[derive(Debug)]
pub(super) struct Ops {
    list: Vec<Op>,
    free: Vec<u32>,
}

impl Ops {
    /// Reserves memory for `count` operations.
    pub(super) fn new(count: usize) -> Self {
        Ops { list: Vec::with_capacity(count), free: Vec::with_capacity(count) }
    }

    /// Stores an operation and returns its index.
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

    /// Frees an operation.
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

    /// Takes the first operation of a queue that is not empty.
    #[inline]
    pub(super) fn pop(&mut self, queue: &mut Queue) -> u32 {
        let index = queue.head;
        queue.head = self.list[index as usize].next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        index
    }

    /// Returns the number of operations that are not free.
    pub(super) fn in_use(&self) -> usize {
        self.list.len() - self.free.len()
    }
}
