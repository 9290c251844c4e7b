//! The parameters of a tiered volume; `register.rs` has their words.

/// Which pages come to the fast device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every page that is read or written.
    Lru,
    /// The same, and the slow device's copy no longer counts: every eviction writes.
    Exclusive,
    /// Pages that are written.
    Writes,
    /// Pages that are read or written so often.
    After(u8),
}

/// What only `tier` can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// What moves between the devices at once, in sectors.
    pub page: u32,
    /// Which pages come to the fast device.
    pub policy: Policy,
    /// The share of slots that is kept free, in hundredths.
    pub free: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params { page: 32, policy: Policy::Lru, free: 10 }
    }
}
