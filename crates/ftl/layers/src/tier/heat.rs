//! Promotion policy: whether a page moves to the fast device.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::Layout;
use super::params::Policy;

/// The policy and its counts.
#[derive(Debug)]
pub(super) struct Heat {
    policy: Policy,
    /// Accesses to pages that are not cached, by a hash of the page; pages may share a count.
    counts: Vec<u8>,
}

impl Heat {
    /// Creates the state without accesses.
    pub(super) fn new(policy: Policy, layout: &Layout) -> Self {
        Heat { policy, counts: vec![0; Self::bytes(policy, layout) as usize] }
    }

    /// Returns the bytes of memory.
    pub(super) fn bytes(policy: Policy, layout: &Layout) -> u64 {
        match policy {
            Policy::After(_) => 4 * u64::from(layout.slots).next_power_of_two(),
            Policy::Lru | Policy::Exclusive | Policy::Writes => 0,
        }
    }

    /// Returns whether the policy promotes a page that is accessed and not cached.
    pub(super) fn promotes(&mut self, page: u32, is_write: bool) -> bool {
        match self.policy {
            Policy::Lru | Policy::Exclusive => true,
            Policy::Writes => is_write,
            Policy::After(accesses) => {
                let mixed = page.wrapping_mul(0x9e37_79b9);
                let at = (mixed ^ mixed >> 13) as usize & (self.counts.len() - 1);
                self.counts[at] += 1;
                let hot = self.counts[at] >= accesses;
                if hot {
                    self.counts[at] = 0;
                }
                hot
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceInfo;

    use super::*;

    fn heat(policy: Policy) -> Heat {
        let devices = [DeviceInfo::block(1 << 14, 8), DeviceInfo::block(1 << 18, 8)];
        Heat::new(policy, &Layout::new(32, &devices).expect("both devices are large enough"))
    }

    #[test]
    fn a_page_is_cached_after_n_accesses_and_then_restarts() {
        let mut heat = heat(Policy::After(3));
        let wanted: [bool; 6] = core::array::from_fn(|_| heat.promotes(7, false));
        assert_eq!(wanted, [false, false, true, false, false, true]);
    }

    #[test]
    fn other_policies_do_not_count_accesses() {
        assert!(heat(Policy::Lru).promotes(7, false) && heat(Policy::Exclusive).promotes(7, false));
        let mut writes = heat(Policy::Writes);
        assert!(writes.promotes(7, true) && !writes.promotes(7, false));
        assert!(writes.counts.is_empty());
    }
}
