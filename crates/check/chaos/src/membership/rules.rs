//! Rules that are checked in one place.

use hostftl_core::DeviceSet;
use hostftl_format::superblock::Superblock;

use super::Rule;
use super::disks::Disk;
use super::life::{End, Life, Outcome, Session};

impl Life<'_> {
    /// Checks that all participating members record the lost ones.
    pub(super) fn check_record(&self, session: &Session, rule: Rule) -> Result<(), End> {
        let lost = session.missed();
        let knows = |disk: usize| {
            let superblock = self.disks[disk].superblock().map(|it| it.superblock);
            superblock.is_ok_and(|it| lost.is_within(DeviceSet::from_bits(it.missing)))
        };
        if session.disks(session.used - lost).all(knows) { Ok(()) } else { Err(End::Breach(rule)) }
    }

    /// Returns whether a disk, accessible or not, has a newer superblock.
    pub(super) fn has_newer(&self, superblock: &Superblock) -> bool {
        let superblocks = self.disks.iter().filter_map(|disk| disk.superblock().ok());
        superblocks.into_iter().any(|it| it.superblock.generation > superblock.generation)
    }

    /// Checks that every flush of an accessible listed device is in the served history.
    pub(super) fn check_forks(&self, node: u32) -> Result<(), End> {
        let here = self.file.disks().map(|disk| &self.disks[disk]);
        let here = here.filter(|disk| disk.here && disk.superblock().is_ok());
        let acked = here.map(|disk| self.history.acked(disk.data.node));
        if acked.into_iter().all(|acked| self.history.leads_to(acked, node)) {
            Ok(())
        } else {
            Err(End::Breach(Rule::ForksStayApart))
        }
    }

    /// Checks that all accessible listed devices take part, except those that were given up.
    pub(super) fn check_thrown_out(&self, session: &Session) -> Result<(), End> {
        let taking_part: Vec<usize> = session.disks(session.used - session.lost).collect();
        let here = self.file.disks().filter(|disk| self.disks[*disk].here);
        let mut excluded = here.filter(|disk| !taking_part.contains(disk));
        if excluded.all(|disk| self.given_up.contains(disk as u8)) {
            Ok(())
        } else {
            Err(End::Breach(Rule::NobodyIsThrownOut))
        }
    }

    /// Checks that, once all devices work again, each branch of the history that enough devices
    /// have can be served.
    pub(super) fn way_out(&mut self) -> Result<(), Rule> {
        self.record(|_| "all devices work again; can each branch be served?".into());
        (self.session, self.crash_in, self.is_over) = (None, None, true);
        let disks = self.disks.clone();
        for leaf in self.history.leaves() {
            let has = |index: &usize| self.history.acked(disks[*index].data.node) == leaf;
            let holders: Vec<usize> = (0..disks.len()).filter(has).collect();
            let of = |index: usize| disks[index].superblock().map(|it| it.superblock);
            let excluded = |index: &usize| {
                let by = holders.iter().filter_map(|by| Some((of(*by).ok()?, disks[*by].data)));
                by.into_iter().any(|(superblock, data)| {
                    (DeviceSet::from_bits(superblock.missing) | data.lost).contains(*index as u8)
                        || disks[*index].data.root < data.everywhere
                })
            };
            let kept: Vec<usize> = holders.iter().copied().filter(|it| !excluded(it)).collect();
            if kept.len() + (self.tolerates as usize) < disks.len() {
                continue;
            }
            for (index, disk) in self.disks.iter_mut().enumerate() {
                *disk = Disk { here: kept.contains(&index), sick: false, ..disks[index] };
            }
            let outcome = self.start(true);
            let serves = matches!(outcome, Ok(Outcome::Serves));
            let node = self.session.take().map(|session| session.node);
            if let Err(End::Breach(rule)) = outcome {
                return Err(rule);
            }
            if !serves || node.map(|node| self.history.acked(node)) != Some(leaf) {
                return Err(Rule::AlwaysAWayOut);
            }
        }
        Ok(())
    }
}
