//! What the map of a hidden area must tell, beside where sectors are.

use hostftl_core::ArrayVec;

use crate::vsp::Table;
use crate::vsp::layout::Layout;

use super::homes::Homes;
use super::lend::Loans;
use super::ops::Op;

/// What the hidden area holds, and how to go on with it.
pub(crate) trait HiddenMap: Table<Op = Op> + Sized {
    /// Whether a superpage weighs another thing than its live slots.
    const WEIGHS: bool;

    /// An empty map.
    fn new(layout: &Layout) -> Self;
    /// Bytes of what says where sectors are.
    fn memory(layout: &Layout) -> u64;
    /// Bytes of the way back from LSPs, and of what is known of superpages beside the pool.
    fn reverse_memory(layout: &Layout) -> u64;

    /// The LSP of a sector.
    fn lsp(&self, lsn: u64) -> u32;
    /// How many LSPs there are.
    fn lsps(&self) -> u32;
    /// The slots that hold sectors of an LSP, readable or not, and the sectors.
    fn hidden(&self, lsp: u32) -> impl Iterator<Item = (u32, u64)>;
    /// The LSPs of what is live in a superpage, as often as runs of them lie there.
    fn lsps_in(&self, vsp: u32) -> impl Iterator<Item = u32>;
    /// The sector that a slot holds, readable or not.
    fn holds(&self, slot: u32) -> Option<u64>;
    /// Whether no sector of an LSP is in the hidden area.
    fn is_home(&self, lsp: u32) -> bool {
        self.hidden(lsp).next().is_none()
    }

    /// Whether there is room for what one more run needs while so many are on their way.
    fn admits(&self, _placing: u32) -> bool {
        true
    }
    /// Whether what is live in a victim may stay hidden.
    fn copies(&self) -> bool {
        false
    }
    /// Whether LSPs should go home although superpages are free, of which there are `slots`.
    fn is_full(&self, _slots: u64) -> bool {
        false
    }
    /// How much it helps to send an LSP home.
    fn worth(&self, _lsp: u32) -> u32 {
        0
    }
    /// What a superpage holds reads as errors from here on.
    fn give_up(&mut self, _vsp: u32) {
        unreachable!("only what is lent is given up while the layer runs")
    }
    /// The homes that are part of the hidden area.
    fn loans(&mut self) -> Option<&mut Loans> {
        None
    }
    /// What is known of homes that hold something.
    fn homes(&mut self) -> Option<&mut Homes> {
        None
    }
    /// See `Layer::facts`.
    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
}
