//! What the commands are for that only the jobs of mHATL send.

use crate::vsp::ops::OwnOp;

/// What a command of job `job` was for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Slots of superpage `vsp` are read to `slot` of the stage of the job.
    Read { job: u8, vsp: u32, slot: u32, len: u32 },
    /// Slots of stage `stage` are copied to `slot` of the stage of the job.
    Copy { job: u8, stage: u8, slot: u32, len: u32 },
    /// Zeros for slots of the stage of the job.
    Zeros { job: u8 },
}

impl OwnOp for Op {
    fn changes_media(&self) -> bool {
        false
    }
}
