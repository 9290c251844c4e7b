//! Parameters of `mhatl`.

/// Scope of merging when there are too many leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Every logical superpage of which the victim contains a part.
    Lsp,
    /// The contents of the victim.
    Vsp,
}

/// Parameters of `mhatl` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Cap on the number of leaves.
    pub leaves: u32,
    /// Scope of merging.
    pub gather: Gather,
}

impl Params {
    /// Reduces the number of leaves for a slice that is smaller by `factor`.
    pub(crate) fn slice(&mut self, factor: f64) {
        self.leaves = ((f64::from(self.leaves) / factor) as u32).max(1);
    }
}

impl Default for Params {
    fn default() -> Self {
        Params { leaves: 1 << 16, gather: Gather::Lsp }
    }
}
