//! The parameters of `mhatl`.

/// What `mhatl` puts together when it has too many leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// All of each logical superpage that the victim holds part of.
    Lsp,
    /// What the victim holds.
    Vsp,
}

/// What only `mhatl` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// How many leaves it wants to have at the most.
    pub leaves: u32,
    /// What it puts together.
    pub gather: Gather,
}

impl Default for Params {
    fn default() -> Self {
        Params { leaves: 1 << 16, gather: Gather::Lsp }
    }
}
