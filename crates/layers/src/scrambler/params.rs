//! The parameters of the scrambler; `register.rs` has their words.

/// What only the scrambler can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The unit of the map, in sectors; 0 = a whole page of the device.
    pub slot: u32,
    /// A page takes no more once so many thousandths of its slots are used, while others do.
    pub util_permille: u32,
    /// Rule 1: a page that was never written is taken while more than so many thousandths of all
    /// pages are such; 0 = while there is one.
    pub sufficient_permille: u32,
    /// Rule 2: a page that the device collects next is taken while so many thousandths of the slots
    /// of what it collects next are unused; 0 = while one has room.
    pub enough_permille: u32,
    /// Pages written from one question about what the device collects to the next; 0 = it is never
    /// asked.
    pub refresh: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            slot: 8,
            util_permille: 1000,
            sufficient_permille: 0,
            enough_permille: 0,
            refresh: 32,
        }
    }
}
