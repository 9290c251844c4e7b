//! The rules that are looked at in one place.

use super::Rule;
use super::disks::Disk;
use super::life::{End, Life, Outcome, Session, bits};

impl Life<'_> {
    /// Whether all that take part know who is lost.
    pub(super) fn check_record(&self, session: &Session, rule: Rule) -> Result<(), End> {
        let lost = session.lost | session.gave_up;
        let knows = |index: usize| {
            let superblock = self.disks[index].superblock().map(|it| it.superblock);
            superblock.is_ok_and(|it| lost & !it.missing == 0)
        };
        match bits(session.used & !lost).all(knows) {
            true => Ok(()),
            false => Err(End::Breach(rule)),
        }
    }

    /// Whether no device in reach has a flush that is not in what is served.
    pub(super) fn check_forks(&self, node: u32) -> Result<(), End> {
        let here = self.disks.iter().filter(|disk| disk.here && disk.superblock().is_ok());
        let acked = here.map(|disk| self.history.acked(disk.data.node));
        match acked.into_iter().all(|acked| self.history.leads_to(acked, node)) {
            true => Ok(()),
            false => Err(End::Breach(Rule::ForksStayApart)),
        }
    }

    /// Whether all that are there take part, but for those that somebody gave up.
    pub(super) fn check_thrown_out(&self, session: &Session) -> Result<(), End> {
        let here = self.disks.iter().enumerate().filter(|(_, disk)| disk.here);
        let here = here.fold(0, |set, (index, _)| set | 1 << index);
        match here & !(session.used & !session.lost) & !self.given_up {
            0 => Ok(()),
            _ => Err(End::Breach(Rule::NobodyIsThrownOut)),
        }
    }

    /// When all is whole again, each line of the history that enough devices have can be served.
    pub(super) fn way_out(&mut self) -> Result<(), Rule> {
        self.tell(|_| "all are there and work; is there a way out?".into());
        (self.session, self.crash_in, self.is_over) = (None, None, true);
        let disks = self.disks.clone();
        for leaf in self.history.leaves() {
            let has = |index: &usize| self.history.acked(disks[*index].data.node) == leaf;
            let holders: Vec<usize> = (0..disks.len()).filter(has).collect();
            let of = |index: usize| disks[index].superblock().map(|it| it.superblock);
            let excluded = |index: &usize| {
                let by = holders.iter().filter_map(|by| Some((of(*by).ok()?, disks[*by].data)));
                by.into_iter().any(|(superblock, data)| {
                    (superblock.missing | data.lost) >> index & 1 == 1
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
