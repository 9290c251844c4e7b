//! The map from logical to virtual sectors, as each layer of the family has its own.

use core::fmt::Debug;

use hostftl_core::Page;

use super::ops::OwnOp;
use super::pool::{Lost, Pool};

/// The map from logical to virtual sectors. On media it is a list of entries by key.
pub(crate) trait Table: Debug {
    /// What the commands are for that only the scheme of the table sends.
    type Op: OwnOp;

    /// Logical sectors that are mapped.
    fn mapped(&self) -> u64;
    /// The logical sector that is live in a slot and can be read from it.
    fn live(&self, vsn: u32) -> Option<u64>;
    /// The logical sector that was last live in a slot, where the table can tell: for planted bugs.
    fn was(&self, _vsn: u32) -> Option<u64> {
        None
    }
    /// Where a logical sector is.
    fn look_up(&self, lsn: u64) -> Option<u32>;
    /// Whether a logical sector reads as an error.
    fn is_lost(&self, lsn: u64) -> bool;
    /// The slot that holds a logical sector, readable or not.
    fn find(&self, lsn: u64) -> Option<u32> {
        self.look_up(lsn)
    }
    /// Whether a logical sector may hold something, and for how many of `sectors` that stays so:
    /// any may where it has a home.
    fn run(&self, _lsn: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }
    /// The keys of the entries that change when `lsn` moves to `vsn`, or nowhere: of the slots
    /// where entries go by slot.
    fn keys(&self, lsn: u64, vsn: Option<u32>) -> [u64; 2] {
        let old = self.find(lsn);
        let key = |slot: Option<u32>| u64::from(slot.expect("a sector comes or goes"));
        [key(old.or(vsn)), key(vsn.or(old))]
    }
    /// Points `lsn` at `vsn`.
    fn point(&mut self, pool: &mut Pool, lsn: u64, vsn: u32) -> Lost;
    /// Unmaps `lsn`.
    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost;

    /// Puts the entries from `key` on into a page of an image.
    fn image(&self, page: &mut Page, key: u64);
    /// Puts an entry of an image in without counting; [`Table::adopt`] counts later.
    fn load(&mut self, key: u64, raw: u32);
    /// Puts in what the log says of `lsn`, without counting; tells each key that changes.
    fn replay(&mut self, lsn: u64, vsn: Option<u32>, changed: impl FnMut(u64));
    /// Puts in what the log says of `lsn`: that it reads as an error, and which slot stands for it.
    fn replay_loss(&mut self, _lsn: u64, _vsn: u32, _changed: impl FnMut(u64)) {}
    /// Superpages that were lent are homes only, says the log; tells each key that changes.
    fn end_loan(&mut self, _vsp: u32, _count: u32, _changed: impl FnMut(u64)) {}
    /// Whether a superpage of the data area that was lent is a home only, or about to be.
    fn is_given(&self, _vsp: u32) -> bool {
        false
    }
    /// Whether the home of a sector is lent to the data area: it was never written.
    fn is_lent(&self, _lsn: u64) -> bool {
        false
    }
    /// Superpages that log may keep while so many are free.
    fn pins(&self, free: u32) -> u32 {
        free / 2
    }
    /// Empties a slot that the log says was replaced in place, without counting.
    fn replay_kill(&mut self, vsn: u32, changed: impl FnMut(u64));
    /// Counts the entry of a key.
    fn adopt(&mut self, pool: &mut Pool, key: u64) -> Result<(), &'static str>;
    /// Forgets what adopting did to superpage `vsp`.
    fn disown(&mut self, pool: &mut Pool, vsp: u32);
    /// Turns what is live in a superpage into errors and tells each key that changes.
    fn lose(&mut self, pool: &mut Pool, vsp: u32, changed: impl FnMut(u64));
    /// Whether a superpage holds slots that read as errors, so that it can't be collected.
    fn holds_lost(&self, vsp: u32) -> bool;

    /// A superpage that is empty may be filled again, though what it held could not be read.
    fn is_readable_again(&mut self, _vsp: u32) {}

    /// The volume was just made: no sector holds anything.
    fn formatted(&mut self) {}

    /// Recovery needs no more of what only it used.
    fn settled(&mut self) {}

    /// Compares every table with every other.
    fn check(&self, pool: &Pool) -> Result<(), &'static str>;
}
