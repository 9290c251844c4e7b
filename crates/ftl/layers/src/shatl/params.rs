//! The parameters of `shatl` and `hatl-auto`.

/// How `shatl` empties its hidden area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// The superpage that touches the fewest logical superpages (sHATL).
    Fewest,
    /// All of it, in the order of addresses; writes that go on where one ended go home (ReSSD).
    Batch,
}

/// What only these two can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The size of `shatl`'s hidden area, in sectors; 128 MiB by default.
    pub hidden: u64,
    /// From this length on `shatl` writes home, in sectors; see [`Params::direct_from`].
    pub threshold: Option<u32>,
    /// How `shatl` empties its hidden area.
    pub reclaim: Reclaim,
    /// Bytes of memory that the map of `hatl-auto` may take with all that belongs to it; 4 MiB for
    /// each 32 GiB of device, and no less, unless it is set.
    pub budget: Option<u64>,
    /// Whether `hatl-auto` has as few leaves as it can, whatever its budget: for tests.
    pub fewest_leaves: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            hidden: 1 << 18,
            threshold: None,
            reclaim: Reclaim::Fewest,
            budget: None,
            fewest_leaves: false,
        }
    }
}

impl Params {
    /// From which length on `shatl` writes home, in sectors: a superpage, or 32 KiB as ReSSD,
    /// unless a threshold is set.
    pub fn direct_from(self, superpage: u32) -> u32 {
        self.threshold.unwrap_or(match self.reclaim {
            Reclaim::Fewest => superpage,
            Reclaim::Batch => 64,
        })
    }
}
