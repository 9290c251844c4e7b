//! Commands in flight: what each token stands for, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

/// Commands in flight at once.
pub const OPS: usize = 1024;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// The step of a block operation.
    Block { index: u8 },
    /// A step of sealing a row in memory.
    Seal { row: u8 },
    /// The program of a chunk of a row; `copy` numbers the head that goes along.
    Chunk { row: u8, copy: u8 },
    /// A flush of one device.
    Flush,
    /// The program of a chunk of images.
    Images { chunk: u8 },
    /// A head of a row in the victim.
    GcHead,
    /// A chunk of a row in the victim.
    GcRead { chunk: u8 },
    /// A step of making a chunk of the victim from the others.
    GcMend,
    /// The checksum of an item of the victim.
    GcDigest { item: u16 },
    /// An item of the victim on its way to a row.
    GcPlace { item: u16, row: u8, to: u16 },
    /// The program of a root on one device.
    Root { device: u8 },
    /// One device forgets a segment that is about to be free.
    Discard { segment: u32 },
    /// A step of recovery.
    Recover { index: u16 },
    /// Metadata of another chunk, from which lost metadata is made.
    Salvage,
}

impl Op {
    /// Whether nothing can be promised any more when it fails.
    pub fn changes_media(&self) -> bool {
        matches!(self, Op::Chunk { .. } | Op::Flush | Op::Images { .. } | Op::Root { .. })
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

    /// Notes a command that is about to be sent, to a device or not.
    pub fn begin(&mut self, now: Nanos, op: Op, on_device: bool) -> Token {
        let index = self.free.pop().expect("room for a command was checked");
        let mut deadline = Nanos::MAX;
        if self.patience > 0 && on_device {
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
