//! The parameters of `pblk`; `register.rs` has their words.

use crate::policy::GcPolicy;

/// What only `pblk` can be told; `rrpc` takes the victim with the fewest valid blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Which line is collected next.
    pub gc: GcPolicy,
}

impl Default for Params {
    fn default() -> Self {
        Params { gc: GcPolicy::Greedy }
    }
}
