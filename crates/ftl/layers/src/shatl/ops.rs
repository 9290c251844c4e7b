//! What the commands are for that only the hidden area sends.

use crate::vsp::ops::OwnOp;

/// What a command was for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A host's write to its home.
    Direct { req: u16, lsn: u64, sectors: u64 },
    /// A mover reads the home of what it moves.
    Fetch { mover: u8 },
    /// A mover lays slots of superpage `vsp`, at `slot` of what it moves, over that.
    Overlay { mover: u8, vsp: u32, slot: u32, len: u32 },
    /// The same out of a stage.
    OverlayStage { mover: u8, stage: u8 },
    /// Slots of the victim, which was read, are laid over what a mover moves.
    OverlayBounce { mover: u8 },
    /// Collection reads the whole victim, once.
    Bounce { vsp: u32 },
    /// Slots of the victim, from virtual sector `from`, are copied into a stage.
    Forward { stage: u8, from: u32, slot: u32, len: u32 },
    /// A mover writes home what it moved.
    WriteBack { mover: u8 },
    /// A stage goes home.
    Whole { stage: u8 },
    /// The device forgets what lent homes held.
    Loan,
}

impl OwnOp for Op {
    fn changes_media(&self) -> bool {
        matches!(self, Op::Direct { .. } | Op::WriteBack { .. } | Op::Whole { .. } | Op::Loan)
    }
}
