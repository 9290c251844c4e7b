//! What the layer says of a damaged medium: only what is true, before the answer that comes of it.

use hostftl_core::{HostError, Layer};

use crate::events::Named;
use crate::life::Life;
use crate::workload::Wish;

/// What the layer said in one life.
#[derive(Debug, Default)]
pub struct Heard {
    /// Ranges of the host that are said to be corrupt: the first sector, and the end.
    corrupt: Vec<(u64, u64)>,
}

impl Life<'_> {
    /// Whether something happened to the medium or to a command.
    fn has_fault(&self) -> bool {
        self.w.damaged || self.excuses > 0
    }

    pub(crate) fn heard_lost(&mut self, sectors: u32) {
        if !self.has_fault() {
            self.fail(format!("{sectors} sectors are said to be lost and nothing was damaged"));
        }
        self.w.gave_up = true;
        self.w.tallies.note(Named::SectorsLost);
    }

    pub(crate) fn heard_corrupt(&mut self, lba: u64, sectors: u32) {
        let end = lba + u64::from(sectors);
        if !self.has_fault() {
            self.fail(format!("{sectors} sectors at {lba} are said to be corrupt and are not"));
        }
        if sectors == 0 || end > self.w.plan.limits.exported {
            self.fail(format!("{sectors} sectors at {lba} are said to be corrupt"));
        }
        self.heard.corrupt.push((lba, end));
        self.w.tallies.note(Named::CorruptTold);
    }

    pub(crate) fn heard_mended(&mut self, device: u8, lba: u64, sectors: u32) {
        let size = self.w.machine.disks.get(usize::from(device)).map_or(0, |disk| disk.sectors());
        if self.w.swarm.victim != Some(device) || sectors == 0 || lba + u64::from(sectors) > size {
            self.fail(format!(
                "{sectors} sectors at {lba} of device {device} are said to be mended"
            ));
        }
        self.w.tallies.note(Named::MendedTold);
    }

    /// What is wrong with an error of a read that nobody was told the reason of.
    pub(crate) fn untold(&self, wish: Wish, error: HostError) -> Option<&'static str> {
        let tells = self.w.promises().tells_corrupt && error == HostError::Io;
        if !tells || self.layer.has_failed() {
            return None;
        }
        let end = wish.lba + wish.sectors;
        let covers = |&(first, last): &(u64, u64)| wish.lba < last && first < end;
        (!self.heard.corrupt.iter().any(covers)).then_some("before anybody heard why")
    }
}
