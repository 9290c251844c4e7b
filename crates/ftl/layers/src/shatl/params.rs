//! The parameters of `shatl` and `hatl-auto`.

/// Victim policy of `shatl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// The superpage that touches the fewest logical superpages (sHATL).
    Fewest,
    /// The whole area in address order; writes that continue a previous one go home (ReSSD).
    Batch,
}

/// Parameters of these two layers only, except `far`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Size of `shatl`'s hidden area, in sectors; 128 MiB by default.
    pub hidden: u64,
    /// Length from which on writes of `shatl` go home, in sectors; [`Params::direct_from`] has the
    /// default.
    pub threshold: Option<u32>,
    /// Victim policy of `shatl`.
    pub reclaim: Reclaim,
    /// Memory for the map of `hatl-auto` and everything that grows with it, in bytes. By default 4
    /// MiB for each 32 GiB of device, and at least 4 MiB.
    pub budget: Option<u64>,
    /// Whether `hatl-auto` uses the minimum number of leaves, whatever its budget. For tests.
    pub fewest_leaves: bool,
    /// Whether a volume of the `hard` family is laid out as a large one: with wide entries, and
    /// filled from the end of the device on. For tests.
    pub far: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            hidden: 1 << 18,
            threshold: None,
            reclaim: Reclaim::Fewest,
            budget: None,
            fewest_leaves: false,
            far: false,
        }
    }
}

impl Params {
    /// Reduces the hidden area of `shatl` for a slice that is smaller by `factor`.
    pub(crate) fn slice(&mut self, factor: f64) {
        self.hidden = (self.hidden as f64 / factor) as u64;
    }

    /// Returns the length from which on writes of `shatl` go home, in sectors. The default is a
    /// superpage, or 32 KiB with [`Reclaim::Batch`].
    pub fn direct_from(self, superpage: u32) -> u32 {
        self.threshold.unwrap_or(match self.reclaim {
            Reclaim::Fewest => superpage,
            Reclaim::Batch => 64,
        })
    }
}
