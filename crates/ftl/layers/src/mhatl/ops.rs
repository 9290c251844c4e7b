//! Purposes of the commands that only the jobs of `mhatl` submit.

use crate::vsp::ops::OwnOp;

/// The purpose of a command of job `job`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Slots of superpage `vsp` are read to `slot` of the stage of the job.
    Read { job: u8, vsp: u32, slot: u32, len: u32 },
    /// Slots of stage `stage` are copied to `slot` of the stage of the job.
    Copy { job: u8, stage: u8, slot: u32, len: u32 },
    /// Zeros are placed into slots of the stage of the job.
    Zeros { job: u8 },
}

impl OwnOp for Op {
    fn changes_media(&self) -> bool {
        false
    }
}
