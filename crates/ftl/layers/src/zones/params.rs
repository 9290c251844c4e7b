//! The parameters of `pblk` and `rrpc`; `register.rs` has their words.

use crate::policy::GcPolicy;

/// Which free line is filled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The one with the fewest erases, of equal ones the one that has been free for the longest.
    FewestErases,
    /// The one that has been free for the longest, as `gennvm` takes it.
    Fifo,
}

/// What only `pblk` and `rrpc` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Which line is collected next; `rrpc` takes the victim with the fewest valid blocks.
    pub gc: GcPolicy,
    /// Which free line is filled next.
    pub reuse: Reuse,
}

impl Default for Params {
    fn default() -> Self {
        Params { gc: GcPolicy::Greedy, reuse: Reuse::FewestErases }
    }
}
