//! Commands in flight: what each token stands for, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

use super::log::Point;

/// Commands in flight at once.
pub const OPS: usize = 512;
/// Of these, kept for everything that is not a host's read or write.
pub const OWN_OPS: usize = 64;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read for request `req` from superpage `vsp` on media.
    Read { req: u16, vsp: u32 },
    /// A copy for request `req` out of a stage.
    Copy { req: u16, stage: u8 },
    /// A read for request `req` from the home of its sectors.
    Home { req: u16 },
    /// Zeros for request `req`.
    Zero { req: u16 },
    /// Data of request `req` into slots of a stage.
    Place { req: u16, stage: u8, lsn: u64, slot: u32, len: u32 },
    /// Collection reads slots of the victim, from virtual sector `from`, into a stage.
    Collect { stage: u8, from: u32, slot: u32, len: u32 },
    /// The checksum of a stage.
    Digest { stage: u8 },
    /// The program of a stage.
    Program { stage: u8, serial: u64 },
    /// The program of a superpage of log alone.
    Log { vsp: u32, serial: u64 },
    /// The device forgets a superpage that is about to be free.
    Discard { vsp: u32 },
    /// A flush that makes what was settled durable.
    Flush { settled: Point },
    /// The program of a map image.
    Image { slot: u8 },
    /// The program of one copy of the root.
    Root { copy: u8 },
    /// A host's write to its home.
    Direct { req: u16 },
    /// Collection reads the home of what it moves.
    Fetch { mover: u8 },
    /// Collection lays slots of superpage `vsp`, at `slot` of what it moves, over that.
    Overlay { mover: u8, vsp: u32, slot: u32, len: u32 },
    /// The same out of a stage.
    OverlayStage { mover: u8, stage: u8, slot: u32, len: u32 },
    /// Zeros for slots of what collection puts together.
    OverlayZeros { mover: u8 },
    /// Collection reads the whole victim, once.
    Bounce { vsp: u32 },
    /// Slots of the victim, which was read, are laid over what collection moves.
    OverlayBounce { mover: u8 },
    /// Slots of the victim, from virtual sector `from`, are copied into a stage.
    Forward { stage: u8, from: u32, slot: u32, len: u32 },
    /// Collection writes home what it moved.
    WriteBack { mover: u8 },
    /// A step of recovery.
    Recover { index: u16 },
}

impl Op {
    /// Whether nothing can be promised any more when it fails.
    pub fn changes_media(&self) -> bool {
        matches!(
            self,
            Op::Program { .. }
                | Op::Log { .. }
                | Op::Flush { .. }
                | Op::Direct { .. }
                | Op::WriteBack { .. }
                | Op::Image { .. }
                | Op::Root { .. }
        )
    }

    /// Whether a device is to answer.
    fn on_device(&self) -> bool {
        !matches!(
            self,
            Op::Copy { .. }
                | Op::Zero { .. }
                | Op::Place { .. }
                | Op::OverlayStage { .. }
                | Op::OverlayZeros { .. }
                | Op::OverlayBounce { .. }
                | Op::Forward { .. }
                | Op::Digest { .. }
        )
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
