//! Commands in flight: what each token stands for, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

/// Commands in flight at once.
pub const OPS: usize = 1024;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Part of a read, from a segment of this line or a row in memory, or zeros.
    Read { req: u16, line: Option<u32> },
    /// A step of a write.
    Write { index: u8 },
    /// The program of a row, to this strip.
    Row { row: u16, segment: u32, strip: u32 },
    /// A flush of the device for the host.
    Flush,
    /// The erase of a segment.
    Reset { segment: u32 },
    /// A strip of images, or of a root.
    Images { segment: u32, strip: u32 },
    /// A flush for the checkpoint.
    Settle,
    /// The tail of a strip of the victim.
    GcTail { lane: u8 },
    /// Blocks of the victim, from item `item` of the lane on, that go into a row.
    GcRead { lane: u8, item: u8, count: u8, row: u16, slot: u8 },
    /// A step of recovery.
    Recover { index: u16 },
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
            slots: alloc::vec![None; OPS],
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

    /// Notes a command that is about to be sent, to the device or not.
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
