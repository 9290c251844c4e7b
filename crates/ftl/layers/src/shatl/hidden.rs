//! The interface of the map of a hidden area, beyond that of a table.

use hostftl_core::ArrayVec;

use crate::vsp::Table;
use crate::vsp::layout::Layout;

use super::homes::Homes;
use super::lend::Loans;
use super::ops::Op;

/// A map of the hidden area, with the policy that depends on it.
pub(crate) trait HiddenMap: Table<Op = Op> + Sized {
    /// Whether the weight of a superpage differs from its number of valid slots.
    const WEIGHS: bool;

    /// Creates an empty map.
    fn new(layout: &Layout) -> Self;
    /// Returns the bytes of the map from sectors to slots.
    fn memory(layout: &Layout) -> u64;
    /// Returns the bytes of the map from LSPs to slots, and of records of superpages beside the
    /// pool.
    fn reverse_memory(layout: &Layout) -> u64;

    /// Returns the LSP of a sector.
    fn lsp(&self, lsn: u64) -> u32;
    /// Returns the number of LSPs.
    fn lsps(&self) -> u32;
    /// Returns the slots that hold sectors of an LSP, readable or not, with the sectors.
    fn hidden(&self, lsp: u32) -> impl Iterator<Item = (u64, u64)>;
    /// Returns the LSPs of the valid data in a superpage, once for each run.
    fn lsps_in(&self, vsp: u32) -> impl Iterator<Item = u32>;
    /// Returns the sector that a slot holds, readable or not.
    fn holds(&self, slot: u64) -> Option<u64>;
    /// Returns whether no sector of an LSP is in the hidden area.
    fn is_home(&self, lsp: u32) -> bool {
        self.hidden(lsp).next().is_none()
    }

    /// Returns the number of LSPs with hidden sectors. LSPs that share a list may count as one.
    fn away(&self) -> u32 {
        0
    }

    /// Returns whether the map has room for one more run while `_placing` copies are in progress.
    fn admits(&self, _placing: u32) -> bool {
        true
    }
    /// Returns whether valid data of a victim may stay hidden.
    fn copies(&self) -> bool {
        false
    }
    /// Returns whether LSPs should go home although superpages are free. `_slots` is the number of
    /// slots that valid data may take.
    fn is_full(&self, _slots: u64) -> bool {
        false
    }
    /// Returns the benefit of sending an LSP home, as a sum of ages.
    fn worth(&self, _lsp: u32) -> u32 {
        0
    }
    /// Marks all sectors of a superpage as lost: they read as errors from now on.
    fn lose_superpage(&mut self, _vsp: u32) {
        unreachable!("only loans are abandoned while the layer runs")
    }
    /// Returns the homes that are lent to the hidden area, if the layer lends any.
    fn loans(&mut self) -> Option<&mut Loans> {
        None
    }
    /// Returns the record of homes that hold data, if the layer keeps one.
    fn homes(&mut self) -> Option<&mut Homes> {
        None
    }
    /// Returns figures for `Layer::facts`.
    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
}
