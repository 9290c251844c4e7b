//! Commands in flight: what each token stands for, and until when it is waited for.

use crate::kit::commands::Commands;

use super::log::Point;

/// Commands in flight at once.
pub const OPS: u16 = 512;
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
    Direct { req: u16, lsn: u64, sectors: u64 },
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
    /// The device forgets what lent homes held.
    Loan,
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
                | Op::Loan
                | Op::Root { .. }
        )
    }

    /// Whether a device is to answer.
    pub fn on_device(&self) -> bool {
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

/// Those in flight.
pub type Ops = Commands<Op>;
