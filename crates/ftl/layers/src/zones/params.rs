//! Parameters of `pblk` and `rrpc`; `register.rs` has their names on the command line.

use crate::policy::GcPolicy;

/// Order in which free lines are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The line with the fewest erases; among equals the one that has been free longest.
    FewestErases,
    /// The line that has been free longest, as in `gennvm`.
    Fifo,
}

/// Parameters that only `pblk` and `rrpc` have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Victim policy of `pblk`; `rrpc` always takes the victim with the fewest valid blocks.
    pub gc: GcPolicy,
    /// Order in which free lines are filled.
    pub reuse: Reuse,
}

impl Default for Params {
    fn default() -> Self {
        Params { gc: GcPolicy::Greedy, reuse: Reuse::FewestErases }
    }
}
