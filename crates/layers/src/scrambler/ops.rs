//! Commands in flight: what each token stands for, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

/// Commands in flight at once.
pub const OPS: usize = 1024;
/// Of these, kept for everything that is not a host's read.
pub const OWN_OPS: usize = 320;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read for request `req` from `page`.
    Read { req: u16, page: u32 },
    /// Zeros for request `req`.
    Zero { req: u16 },
    /// The used slots of the page that a fill writes.
    Merge { fill: u8 },
    /// The old content of a slot that a fill changes in part, from `page`.
    Old { fill: u8, page: u32 },
    /// Data of the host's, or zeros, into the buffer of a fill.
    Data { fill: u8 },
    /// A write of a fill.
    Program { fill: u8 },
    /// Data, or log, of a round becomes durable.
    RoundFlush,
    /// The log pages of a round.
    Log,
    /// What the device collects next.
    Hint,
    /// A page of images.
    Image { buf: u8 },
    /// A flush of a checkpoint.
    RootFlush,
    /// One copy of a root.
    Root { copy: u8 },
    /// A step of recovery.
    Recover { index: u8 },
}

impl Op {
    /// Whether nothing can be promised any more when it fails.
    pub fn changes_media(&self) -> bool {
        matches!(
            self,
            Op::Program { .. }
                | Op::RoundFlush
                | Op::Log
                | Op::Image { .. }
                | Op::RootFlush
                | Op::Root { .. }
        )
    }

    /// Whether a device is to answer.
    fn on_device(&self) -> bool {
        !matches!(self, Op::Zero { .. } | Op::Data { .. })
    }
}

/// The table of commands in flight; a token is an index into it.
#[derive(Debug)]
pub struct Ops {
    slots: Vec<Option<(Op, Nanos)>>,
    free: Vec<u16>,
    patience: Nanos,
    wake: Option<Nanos>,
}

impl Ops {
    /// An empty table; a device command is abandoned after `patience` ns, or never when 0.
    pub fn new(patience: Nanos) -> Self {
        Ops {
            slots: (0..OPS).map(|_| None).collect(),
            free: (0..OPS as u16).rev().collect(),
            patience,
            wake: None,
        }
    }

    /// How many more commands can be in flight.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.free.len() == OPS
    }

    /// Notes a command that is about to be sent.
    pub fn begin(&mut self, now: Nanos, op: Op) -> Token {
        let index = self.free.pop().expect("room for a command was checked");
        let mut deadline = Nanos::MAX;
        if self.patience > 0 && op.on_device() {
            deadline = now.saturating_add(self.patience);
            self.wake.get_or_insert(deadline);
        }
        self.slots[index as usize] = Some((op, deadline));
        Token(index.into())
    }

    /// What a command that is over was for.
    pub fn end(&mut self, token: Token) -> Op {
        let (op, _) = self.slots[token.0 as usize].take().expect("a command is over once");
        self.free.push(token.0 as u16);
        op
    }

    /// When to look for late commands.
    pub fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Whether a command is past its deadline; sets the next wake-up.
    pub fn any_late(&mut self, now: Nanos) -> bool {
        let earliest = self.slots.iter().flatten().map(|(_, deadline)| *deadline).min();
        self.wake = earliest.filter(|deadline| *deadline != Nanos::MAX && *deadline > now);
        earliest.is_some_and(|deadline| deadline <= now)
    }
}
