//! Commands in flight: what each token stands for, and until when it is waited for.

use core::fmt::Debug;

use crate::kit;

use super::log::{Mark, Point};

/// Commands in flight at once.
pub(crate) const OPS: u16 = 512;
/// Of these, kept for everything that is not a host's read or write.
pub(crate) const OWN_OPS: usize = 64;

/// What a command was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<Own> {
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
    /// The device forgets an image of the map that no root needs.
    Forget,
    /// A step of recovery.
    Recover { index: u16 },
    /// One of the scheme's own.
    Own(Own),
}

impl<Own: OwnOp> Op<Own> {
    /// Whether nothing can be promised any more when it fails.
    pub(crate) fn changes_media(&self) -> bool {
        match self {
            Op::Program { .. }
            | Op::Log { .. }
            | Op::Flush { .. }
            | Op::Image { .. }
            | Op::Root { .. } => true,
            Op::Own(own) => own.changes_media(),
            _ => false,
        }
    }
}

/// What the commands of a scheme are for that only the scheme sends.
pub(crate) trait OwnOp: Copy + Debug {
    /// Whether nothing can be promised any more when it fails.
    fn changes_media(&self) -> bool;
}

/// The operations of a scheme that sends no command of its own: there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoOp {}

impl OwnOp for NoOp {
    fn changes_media(&self) -> bool {
        match *self {}
    }
}

/// What the parts of a machine take.
pub(crate) type Cx<'a, Own> = kit::Cx<'a, Op<Own>, Mark>;
