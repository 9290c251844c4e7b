//! Random events of a sequence.

use hostftl_format::superblock::SuperFault;

use super::disks::Disk;
use super::life::{End, Life};

impl Life<'_> {
    pub(super) fn event(&mut self) -> Result<(), End> {
        let any = self.dice.below(self.disks.len() as u64) as usize;
        if self.session.is_some() {
            let (admin_commands, joins) = if self.has_verbs { (40, 25) } else { (0, 0) };
            return match self.dice.weigh(&[40, 20, 25, 5, 5, admin_commands, joins]) {
                0 => self.flush(),
                1 => {
                    let members = self.session.as_ref().map_or(1, |it| it.member_disks.len());
                    self.lose((any % members) as u8)
                }
                2 => self.stop(),
                3 => {
                    self.disks[any].sick ^= true;
                    self.record(|_| format!("superblocks of {any} fail, or work again"));
                    Ok(())
                }
                4 => Err(End::Crash),
                5 => self.admin_command(),
                _ => self.join(),
            };
        }
        // Older copies are only used without member changes, which such a copy would not know.
        let copies = if self.has_verbs { 0 } else { 6 };
        match self.dice.weigh(&[30, 20, 15, 12, 12, copies, copies, 6, 4, 20]) {
            0 => self.start(false).map(drop),
            1 => self.start(true).map(drop),
            2 => self.inspect(),
            3 => {
                self.disks[any].here ^= true;
                self.record(|_| format!("{any} goes, or comes"));
                Ok(())
            }
            4 => {
                self.disks.iter_mut().for_each(|disk| disk.here = true);
                self.record(|_| "all are there".into());
                Ok(())
            }
            5 => {
                self.saved.push((any, self.disks[any]));
                Ok(())
            }
            6 => {
                self.restore();
                Ok(())
            }
            7 => {
                self.rot(any);
                Ok(())
            }
            8 => {
                self.disks[any].sick ^= true;
                self.record(|_| format!("superblocks of {any} fail, or work again"));
                Ok(())
            }
            _ => {
                let set = self.dice.bits();
                let all = self.disks.iter_mut().enumerate();
                all.for_each(|(index, disk)| disk.here = set >> index & 1 == 1);
                self.record(|it| format!("only {:b} are there", set & ((1 << it.disks.len()) - 1)));
                Ok(())
            }
        }
    }

    /// Replaces a device by an older copy, if that removes no information that no other device has.
    fn restore(&mut self) {
        let room = self.restored.len() < self.tolerates;
        let Some((index, copy)) = self.saved.pop().filter(|_| room) else { return };
        let newest = |disk: &Disk| disk.superblock().map(|it| it.superblock.change).ok();
        let (own, node) = (newest(&self.disks[index]), self.disks[index].data.node);
        let twin = |(other, disk): (usize, &Disk)| {
            other != index
                && !self.restored.contains(other as u8)
                && newest(disk) == own
                && self.history.acked(disk.data.node) == self.history.acked(node)
        };
        let twins = self.disks.iter().enumerate().filter(|it| twin(*it)).count();
        if twins as u32 > self.tolerates {
            self.disks[index] = Disk { here: self.disks[index].here, sick: false, ..copy };
            self.restored.insert(index as u8);
            self.given_up.insert(index as u8);
            self.record(|_| format!("an older copy of {index} takes its place"));
        }
    }

    /// Damages one of two complete copies of a superblock.
    fn rot(&mut self, index: usize) {
        let disk = &mut self.disks[index];
        if disk.copies[0].is_ok() && disk.copies[0] == disk.copies[1] && !disk.sick {
            let copy = self.dice.below(2) as usize;
            disk.copies[copy] = Err(SuperFault::Damaged);
            self.record(|_| format!("copy {copy} of {index} rots"));
        }
    }
}
