//! Purposes of the commands in flight.

use core::fmt::Debug;

use hostftl_core::{Command, MetaBuf, Piece};

use crate::kit;

use super::log::{Mark, Point};

/// Maximum number of commands in flight.
pub(crate) const OPS: u16 = 512;
/// Commands of these that are reserved for anything but host reads and writes.
pub(crate) const OWN_OPS: usize = 64;

/// Purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<Own> {
    /// Reads data of request `req` from superpage `vsp` on media.
    Read { req: u16, vsp: u32 },
    /// Copies data of request `req` out of a stage.
    Copy { req: u16, stage: u8 },
    /// Reads data of request `req` from the home of its sectors.
    Home { req: u16 },
    /// Fills a part of request `req` with zeros.
    Zero { req: u16 },
    /// Copies data of request `req` into slots of a stage.
    Place { req: u16, stage: u8, lsn: u64, slot: u32, len: u32 },
    /// Reads slots of the victim, from virtual sector `from`, into a stage.
    Collect { stage: u8, from: u64, slot: u32, len: u32 },
    /// Computes the checksum of a stage.
    Digest { stage: u8 },
    /// Programs a stage.
    Program { stage: u8, serial: u64 },
    /// Programs a part of a stage, or log pages at its end.
    Part { stage: u8, serial: u64 },
    /// Programs a superpage that has only log pages.
    Log { vsp: u32, serial: u64 },
    /// Discards a superpage that is about to become free.
    Discard { vsp: u32 },
    /// Flushes the device; afterwards log write `settled` is durable.
    Flush { settled: Point },
    /// Programs a map image.
    Image { slot: u8 },
    /// Programs one copy of the root.
    Root { copy: u8 },
    /// Discards a map image that no root needs.
    Forget,
    /// Executes a step of recovery.
    Recover { index: u16 },
    /// Belongs to the scheme.
    Own(Own),
}

impl<Own: OwnOp> Op<Own> {
    /// Returns whether a failure ends all writing, because durability can no longer be guaranteed.
    pub(crate) fn changes_media(&self) -> bool {
        match self {
            Op::Program { .. }
            | Op::Part { .. }
            | Op::Log { .. }
            | Op::Flush { .. }
            | Op::Image { .. }
            | Op::Root { .. } => true,
            Op::Own(own) => own.changes_media(),
            _ => false,
        }
    }
}

/// Purpose of a command that only the scheme sends.
pub(crate) trait OwnOp: Copy + Debug {
    /// Returns whether a failure ends all writing, because durability can no longer be guaranteed.
    fn changes_media(&self) -> bool;
}

/// Operations of a scheme that sends no commands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoOp {}

impl OwnOp for NoOp {
    fn changes_media(&self) -> bool {
        match *self {}
    }
}

/// Context of the parts of this engine.
pub(crate) type Cx<'a, Own> = kit::Cx<'a, Op<Own>, Mark>;

/// Returns the metadata buffer of a completed program.
pub(super) fn page_buffer(command: Command) -> MetaBuf {
    let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
    gather
        .into_iter()
        .find_map(|piece| match piece {
            Piece::Meta { buf, .. } => Some(buf),
            _ => None,
        })
        .expect("checkpoints are metadata")
}
