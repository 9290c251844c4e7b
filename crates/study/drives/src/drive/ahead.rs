//! Prefetch of the map and counter entries that writes will change. It shortens the run time of the
//! model and has no effect on its state.

use super::Drive;
use crate::model::Soon;
use crate::pool::Pool;

impl Drive {
    /// Prefetches the entries that writes of these sectors will change. Sectors beyond the capacity
    /// are skipped.
    pub fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        match soon {
            Soon::Later => self.look(lbas, Pool::ask_for_map),
            Soon::Next => self.look(lbas, Pool::ask_for_counts),
        }
    }

    #[inline]
    fn look(&self, lbas: &[u64], ask: impl Fn(&Pool, u32)) {
        if self.raw.is_some() {
            return;
        }
        let unit = u64::from(self.spec.map_unit);
        for lba in lbas.iter().filter(|&&lba| lba < self.spec.exported) {
            let (pool, local) = self.home((lba / unit) as u32);
            ask(&self.pools[pool as usize], local);
        }
    }
}
