//! A look at what writes will change, all at once, so that what the caches lack of it comes at the
//! same time. It changes nothing but how long the writes take.

use std::hint::black_box;

use super::Drive;
use crate::pool::Pool;

/// Writes that are looked at together.
const AHEAD: usize = 64;

impl Drive {
    /// Looks at what writes of these sectors will change; sectors that the drive has not are passed
    /// over.
    pub fn look_ahead(&self, lbas: &[u64]) {
        if self.raw.is_some() {
            return;
        }
        let unit = u64::from(self.spec.map_unit);
        let mut homes = [(0, 0); AHEAD];
        for lbas in lbas.chunks(AHEAD) {
            let there = lbas.iter().filter(|&&lba| lba < self.spec.exported);
            let there = there.map(|lba| self.home((lba / unit) as u32));
            let found = homes.iter_mut().zip(there).map(|(home, found)| *home = found).count();
            let homes = &homes[..found];
            self.look(homes, Pool::look_at_map);
            self.look(homes, Pool::look_at_counts);
            self.look(homes, Pool::look_at_lists);
        }
    }

    /// One pass over what is about to be written, in the numbers of pools and of their pages.
    #[inline]
    fn look(&self, homes: &[(u32, u32)], pass: impl Fn(&Pool, u32) -> u64) {
        let looks = homes.iter().map(|&(pool, local)| pass(&self.pools[pool as usize], local));
        black_box(looks.fold(0, |sum, found| sum ^ found));
    }
}
