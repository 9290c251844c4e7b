//! Purposes of the commands that only the hidden area submits.

use crate::vsp::ops::OwnOp;

/// The purpose of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A host's write to its home.
    Direct { req: u16, lsn: u64, sectors: u64 },
    /// A mover reads the home of its LSP.
    Fetch { mover: u8 },
    /// A mover reads slots of superpage `vsp` over its buffer, from sector `slot` of the LSP on.
    Overlay { mover: u8, vsp: u32, slot: u32, len: u32 },
    /// The same from a stage.
    OverlayStage { mover: u8, stage: u8 },
    /// The same from the buffer of the victim.
    OverlayBounce { mover: u8 },
    /// GC reads the whole victim.
    Bounce { vsp: u32 },
    /// Slots of the victim, from virtual sector `from` on, are copied into a stage.
    Forward { stage: u8, from: u64, slot: u32, len: u32 },
    /// A mover writes its LSP home.
    WriteBack { mover: u8 },
    /// A whole stage is written home.
    Whole { stage: u8 },
    /// The device discards the superpages of an ending loan.
    Loan,
}

impl OwnOp for Op {
    fn changes_media(&self) -> bool {
        matches!(self, Op::Direct { .. } | Op::WriteBack { .. } | Op::Whole { .. } | Op::Loan)
    }
}
