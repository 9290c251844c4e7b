//! Interface of the map from logical to virtual sectors, which each layer implements.

use core::fmt::Debug;
use core::ops::Range;

use hostftl_core::Page;

use super::leaves::Leaf;
use super::ops::OwnOp;
use super::pool::{Lost, Pool};

/// A map from logical to virtual sectors. On media it is an array of entries, addressed by key.
pub(crate) trait Table: Debug {
    /// Operations of the commands that only the scheme of this table sends.
    type Op: OwnOp;

    /// Returns the number of mapped logical sectors.
    fn mapped(&self) -> u64;
    /// Returns the logical sector that is valid in slot `vsn` and can be read there.
    fn valid(&self, vsn: u64) -> Option<u64>;
    /// Returns the logical sector that was last valid in a slot, if known. Used by planted bugs.
    fn was(&self, _vsn: u64) -> Option<u64> {
        None
    }
    /// Returns the virtual sector of a logical sector.
    fn lookup(&self, lsn: u64) -> Option<u64>;
    /// Returns whether a logical sector reads as an error.
    fn is_lost(&self, lsn: u64) -> bool;
    /// Returns the slot of a logical sector, readable or not.
    fn find(&self, lsn: u64) -> Option<u64> {
        self.lookup(lsn)
    }
    /// Returns whether a logical sector may hold data, and for how many of `sectors` the answer is
    /// the same. Any sector with a home may hold data.
    fn run(&self, _lsn: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }
    /// Returns the keys of the entries that change when `lsn` moves to `vsn`, or is unmapped. The
    /// default is for maps whose entries are addressed by slot.
    fn keys(&self, lsn: u64, vsn: Option<u64>) -> [u64; 2] {
        let old = self.find(lsn);
        let key = |slot: Option<u64>| slot.expect("a sector is added or removed");
        [key(old.or(vsn)), key(vsn.or(old))]
    }
    /// Returns the binary logarithm of the length of a run that [`Table::point`] accepts: it begins
    /// at `lsn` and is part of `sectors`.
    fn level(&self, _lsn: u64, _sectors: u32) -> u8 {
        0
    }
    /// Points the sectors of `leaf` at its slots. Before, they are in consecutive slots or
    /// unmapped.
    fn point(&mut self, pool: &mut Pool, leaf: Leaf) -> Lost;
    /// Unmaps `lsn`.
    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost;

    /// Writes the entries from `key` on into a page of an image.
    fn image(&self, page: &mut Page, key: u64);
    /// Loads an entry of an image without counting it; [`Table::adopt`] counts it later.
    fn load(&mut self, key: u64, raw: u64);
    /// Applies a log entry for `lsn` without counting it, and calls `changed` for each changed key.
    fn replay(&mut self, lsn: u64, vsn: Option<u64>, changed: impl FnMut(u64));
    /// Applies a log entry that marks `lsn` as an error, for which slot `vsn` stands.
    fn replay_loss(&mut self, _lsn: u64, _vsn: u64, _changed: impl FnMut(u64)) {}
    /// Applies a log entry that ends the loan of superpages, and calls `changed` for each changed
    /// key.
    fn end_loan(&mut self, _vsp: u32, _count: u32, _changed: impl FnMut(u64)) {}
    /// Returns whether a lent superpage of the data area is only a home, or is about to be.
    fn is_given(&self, _vsp: u32) -> bool {
        false
    }
    /// Returns whether the home of a sector is lent to the data area because it was never written.
    fn is_lent(&self, _lsn: u64) -> bool {
        false
    }
    /// Returns the number of superpages that log pages may pin while `free` are free.
    fn pins(&self, free: u32) -> u32 {
        free / 2
    }
    /// Applies a log entry that invalidates a slot replaced in place, without counting it.
    fn replay_kill(&mut self, vsn: u64, changed: impl FnMut(u64));
    /// Counts the entries of a range of keys.
    fn adopt(&mut self, pool: &mut Pool, keys: Range<u64>) -> Result<(), &'static str>;
    /// Undoes the effects of [`Table::adopt`] on superpage `vsp`.
    fn disown(&mut self, pool: &mut Pool, vsp: u32);
    /// Turns the valid sectors of a superpage into errors, and calls `changed` for each changed
    /// key.
    fn lose(&mut self, pool: &mut Pool, vsp: u32, changed: impl FnMut(u64));
    /// Returns whether a superpage has slots that read as errors, so that it can't be collected.
    fn holds_lost(&self, vsp: u32) -> bool;

    /// Notes that an empty superpage may be filled again although its old content was unreadable.
    fn is_readable_again(&mut self, _vsp: u32) {}

    /// Notes that the volume was just formatted and every sector is empty.
    fn formatted(&mut self) {}

    /// Releases the state that only recovery needs.
    fn settled(&mut self) {}

    /// Checks all tables against each other.
    fn check(&self, pool: &Pool) -> Result<(), &'static str>;
}
