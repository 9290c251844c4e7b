//! A look at what writes will change, so that what the caches lack of it has come when they do. It
//! changes nothing but how long the writes take.

use super::Drive;
use crate::model::Soon;
use crate::pool::Pool;

impl Drive {
    /// Looks at what writes of these sectors will change; sectors that the drive has not are passed
    /// over.
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
