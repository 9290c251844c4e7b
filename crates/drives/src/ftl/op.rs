//! One operation on one superpage, and the ones that wait for it.

use hostftl_core::Payload;

use super::job::Part;
use super::map::Phys;

/// The end of a waiting list.
const NONE: u16 = u16::MAX;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Reads part of a superpage.
    Read,
    /// Writes part of a superpage, or all of it.
    Write,
    /// Unmaps a superpage.
    Trim,
    /// Moves a superpage out of a victim.
    Copy,
}

/// An operation. Its buffer is one superpage long and its own for life.
#[derive(Debug)]
pub struct Op {
    pub kind: OpKind,
    /// The request it is for; nothing for a copy.
    pub job: u16,
    pub part: Part,
    /// Where the superpage lay when the operation got its lock.
    pub old: Option<Phys>,
    /// Where a program puts it.
    pub new: Phys,
    pub buffer: Payload,
    first: u16,
    last: u16,
    next: u16,
}

impl Op {
    /// An operation that is not in use.
    pub fn new(buffer: Payload) -> Self {
        let part = Part { logical: 0, offset: 0, sectors: 0, at: 0 };
        let kind = OpKind::Read;
        Op { kind, job: 0, part, old: None, new: 0, buffer, first: NONE, last: NONE, next: NONE }
    }
}

/// All operations, of which some are free.
#[derive(Debug)]
pub struct Ops {
    list: Vec<Op>,
    free: Vec<u16>,
}

impl Ops {
    /// One operation for each buffer.
    pub fn new(buffers: impl IntoIterator<Item = Payload>) -> Self {
        let list: Vec<Op> = buffers.into_iter().map(Op::new).collect();
        let free = (0..list.len() as u16).rev().collect();
        Ops { list, free }
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether none is in use.
    pub fn idle(&self) -> bool {
        self.free.len() == self.list.len()
    }

    /// Takes a free one, of which the caller knows that there is one.
    pub fn take(&mut self, kind: OpKind, job: u16, part: Part) -> u16 {
        let index = self.free.pop().expect("free operations were counted before");
        let op = &mut self.list[index as usize];
        (op.kind, op.job, op.part, op.old) = (kind, job, part, None);
        debug_assert!(op.first == NONE && op.next == NONE, "a free operation is in a list");
        index
    }

    /// The operation is over and nothing waits for it.
    pub fn give(&mut self, index: u16) {
        debug_assert_eq!(self.list[index as usize].first, NONE, "somebody still waits");
        self.free.push(index);
    }

    pub fn get(&mut self, index: u16) -> &mut Op {
        &mut self.list[index as usize]
    }

    /// `waiter` waits until `holder` is over, behind those that wait already.
    pub fn wait(&mut self, waiter: u16, holder: u16) {
        let last = self.list[holder as usize].last;
        match last {
            NONE => self.list[holder as usize].first = waiter,
            last => self.list[last as usize].next = waiter,
        }
        self.list[holder as usize].last = waiter;
    }

    /// Takes the first that waits for `holder`; the rest wait for that one instead.
    pub fn wake(&mut self, holder: u16) -> Option<u16> {
        let op = &mut self.list[holder as usize];
        let (first, last) = (op.first, op.last);
        (op.first, op.last) = (NONE, NONE);
        if first == NONE {
            return None;
        }
        let heir = &mut self.list[first as usize];
        if first != last {
            (heir.first, heir.last) = (heir.next, last);
        }
        heir.next = NONE;
        Some(first)
    }

    /// The power is off.
    pub fn void(&mut self) {
        self.free.clear();
        self.list.drain(..).for_each(|op| {
            op.buffer.void();
        });
    }
}
