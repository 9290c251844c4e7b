//! Commands in flight: what each token stands for, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

/// Commands in flight at once.
pub const OPS: usize = 512;
/// Of these, kept for everything that is not a host's read or write.
pub const OWN_OPS: usize = 64;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Request `req` reads a slot.
    ReadSlot { req: u16, slot: u32 },
    /// Request `req` writes a slot.
    WriteSlot { req: u16, slot: u32 },
    /// Request `req` writes a whole page into a new slot.
    Take { req: u16, slot: u32 },
    /// Request `req` reads the slow device.
    ReadSlow { req: u16 },
    /// Request `req` changes pages of the slow device, from `first` to `last`.
    WriteSlow { req: u16, first: u32, last: u32 },
    /// Request `req` gets its part of buffer `job`.
    Copy { req: u16, job: u8 },
    /// A page comes from the slow device, into buffer `job`.
    Fetch { job: u8 },
    /// It goes into its slot.
    Fill { job: u8 },
    /// A page comes from its slot, into buffer `job`.
    Collect { job: u8 },
    /// It goes to the slow device.
    WriteBack { job: u8 },
    /// A device makes things durable, for the commit under way.
    Flush { device: u8 },
    /// A page of the directory, from metadata buffer `buf`.
    Directory { buf: u8 },
    /// The ledger.
    Ledger,
    /// A step of the start or the stop.
    Own,
}

impl Op {
    /// The request that waits for it.
    pub fn request(&self) -> Option<u16> {
        match *self {
            Op::ReadSlot { req, .. }
            | Op::WriteSlot { req, .. }
            | Op::Take { req, .. }
            | Op::ReadSlow { req }
            | Op::Copy { req, .. }
            | Op::WriteSlow { req, .. } => Some(req),
            _ => None,
        }
    }

    /// Whether it is a flush.
    pub fn is_flush(&self) -> bool {
        matches!(self, Op::Flush { .. })
    }

    /// Whether it is a read: a medium that fails one may still be sound elsewhere.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Op::ReadSlot { .. } | Op::ReadSlow { .. } | Op::Fetch { .. } | Op::Collect { .. }
        )
    }
}

#[derive(Clone, Copy, Debug)]
struct Flying {
    op: Op,
    device: u8,
    deadline: Nanos,
}

/// The table of commands in flight; a token is an index into it.
#[derive(Debug)]
pub struct Ops {
    slots: Vec<Option<Flying>>,
    free: Vec<u16>,
    patience: [Nanos; 16],
    wake: Option<Nanos>,
    /// Changes of the slow device under way: first and last page.
    changes: Vec<(u32, u32)>,
}

impl Ops {
    /// An empty table; a command is abandoned after its device's `patience`, by index, in ns, or
    /// never when that is 0.
    pub fn new(patience: [Nanos; 16]) -> Self {
        Ops {
            slots: (0..OPS).map(|_| None).collect(),
            free: (0..OPS as u16).rev().collect(),
            patience,
            wake: None,
            changes: Vec::with_capacity(OPS),
        }
    }

    /// How many more commands can be in flight.
    #[inline]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.free.len() == OPS
    }

    /// Notes a command that is about to be sent to `device`.
    #[inline]
    pub fn begin(&mut self, now: Nanos, device: u8, op: Op) -> Token {
        let index = self.free.pop().expect("room for a command was checked");
        let mut deadline = Nanos::MAX;
        let patience = self.patience[usize::from(device)];
        if patience > 0 && !matches!(op, Op::Copy { .. }) {
            deadline = now.saturating_add(patience);
            self.wake = Some(self.wake.map_or(deadline, |wake| wake.min(deadline)));
        }
        if let Op::WriteSlow { first, last, .. } = op {
            self.changes.push((first, last));
        }
        self.slots[index as usize] = Some(Flying { op, device, deadline });
        Token(index.into())
    }

    /// What a command that is over was for, and the device it went to.
    #[inline]
    pub fn end(&mut self, token: Token) -> (Op, u8) {
        let flying = self.slots[token.0 as usize].take().expect("a command is over once");
        self.free.push(token.0 as u16);
        if let Op::WriteSlow { first, last, .. } = flying.op {
            let at = self.changes.iter().position(|&change| change == (first, last));
            self.changes.swap_remove(at.expect("a change was noted when it began"));
        }
        (flying.op, flying.device)
    }

    /// Whether a page of the slow device is being changed.
    #[inline]
    pub fn changes(&self, page: u32) -> bool {
        self.changes.iter().any(|&(first, last)| (first..=last).contains(&page))
    }

    /// When to look for late commands.
    #[inline]
    pub fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Calls `late` for each command that is past its deadline, which is then waited for no more;
    /// sets the next wake-up.
    pub fn expire(&mut self, now: Nanos, mut late: impl FnMut(Op, u8)) {
        for flying in self.slots.iter_mut().flatten().filter(|flying| flying.deadline <= now) {
            flying.deadline = Nanos::MAX;
            late(flying.op, flying.device);
        }
        let earliest = self.slots.iter().flatten().map(|flying| flying.deadline).min();
        self.wake = earliest.filter(|deadline| *deadline != Nanos::MAX);
    }
}
