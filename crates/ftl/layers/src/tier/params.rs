//! Parameters of `tier`; `register.rs` parses them.

/// Which pages move to the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every page that is read or written.
    Lru,
    /// Every page that is read or written; the slow device's copy no longer counts, so every
    /// eviction writes.
    Exclusive,
    /// Pages that are written.
    Writes,
    /// Pages after this number of reads and writes.
    After(u8),
}

/// Parameters of `tier` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Size of a page, the unit of movement, in sectors.
    pub page: u32,
    /// Which pages move to the fast device.
    pub policy: Policy,
    /// Percentage of slots that is kept free.
    pub free: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { page: 32, policy: Policy::Lru, free: 10 }
    }
}
