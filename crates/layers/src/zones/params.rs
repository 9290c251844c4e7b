//! The parameters of `pblk`, as words.

use alloc::format;
use alloc::string::String;

use crate::policy::GcPolicy;

/// What only `pblk` can be told; `rrpc` takes the victim with the fewest live blocks.
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

impl Params {
    /// The parameters as `LayerConfig::parse` reads them.
    pub fn to_text(self) -> String {
        format!(":gc={}", self.gc)
    }

    /// Sets the parameter that there is.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn set(&mut self, value: &str) -> Result<(), String> {
        self.gc = value.parse().map_err(|word| format!("pblk: {word}"))?;
        Ok(())
    }
}
