//! Commands of an operator. Each may be interrupted at any of its writes.

use hostftl_core::DeviceSet;
use hostftl_format::roster::Standing;
use hostftl_format::steps;
use hostftl_format::superblock::Superblock;

use super::Rule;
use super::change::Place;
use super::disks::{Data, Disk};
use super::life::{End, Life, Outcome, Session};

/// Maximum number of disks in a sequence, and of members.
const DISKS: usize = 16;
const MEMBERS: usize = 8;

impl Life<'_> {
    /// Changes the members, as an operator.
    pub(super) fn admin_command(&mut self) -> Result<(), End> {
        // The layer does not count members with failing superblocks, so it may lose more members
        // than the volume tolerates.
        let bearable = self.session.as_ref().is_some_and(|session| {
            let set = session.lacking() | (session.excluded_next - session.spare);
            set.len() <= self.tolerates
        });
        self.is_changing = bearable;
        let done = self.change();
        self.is_changing = bearable && matches!(done, Err(End::Crash));
        done
    }

    fn change(&mut self) -> Result<(), End> {
        let Some(newest) = self.session.as_ref().and_then(|it| it.roster.target()) else {
            return Ok(());
        };
        let command = self.dice.weigh(&[20, 25, 20, 10, 15, 20, 15]);
        if (2..=3).contains(&command) {
            return self.add(command == 3);
        }
        let Some((disk, member)) = self.name(&newest)? else { return Ok(()) };
        self.seen.admin_commands += 1;
        match command {
            0 => self.offline(member),
            1 => self.replace(disk, member),
            4 => self.remove(disk, member),
            6 => self.copy(disk, member),
            _ => self.online(disk, member),
        }
    }

    /// Names a device by its path, or by the number of its member.
    fn name(&mut self, newest: &Superblock) -> Result<Option<(usize, u8)>, End> {
        let listed: Vec<usize> = self.file.devices.iter().flatten().copied().collect();
        let disk = self.dice.pick(&listed);
        if self.dice.chance(700) && self.disks[disk].here {
            return Ok(self.resolve(disk, newest)?.map(|member| (disk, member)));
        }
        let superblock = self.disks[disk].superblock().ok().map(|it| it.superblock);
        let is_it = |it: &Superblock| newest.members[usize::from(it.index)] == it.device;
        Ok(superblock.filter(is_it).map(|it| (disk, it.index)))
    }

    /// Returns whether the volume may lose another member deliberately.
    fn may_lose(&self, member: u8) -> bool {
        self.session.as_ref().is_some_and(|session| {
            let set = (session.lacking() | session.excluded_next).with(member);
            !session.removed.contains(member) && set.len() <= self.tolerates
        })
    }

    fn offline(&mut self, member: u8) -> Result<(), End> {
        self.record(|_| format!("offline {member}"));
        if !self.may_lose(member) {
            return Ok(());
        }
        self.lose(member)?;
        self.settled().map(drop)
    }

    /// Records the states of the members; returns false when that is not possible now.
    pub(super) fn settled(&mut self) -> Result<bool, End> {
        let Some(mut session) = self.session.take() else { return Ok(false) };
        let done = self.settle(&mut session, false, Standing::default());
        self.session = Some(session);
        done
    }

    fn new_disk(&mut self) -> usize {
        self.disks.push(Disk::blank());
        self.history.grow();
        self.disks.len() - 1
    }

    /// Replaces a member by an empty device, which is rebuilt.
    fn replace(&mut self, old: usize, member: u8) -> Result<(), End> {
        let is_fresh = |it: &Session| (it.fresh | it.spare).contains(member);
        let fresh = self.session.as_ref().is_none_or(is_fresh);
        if self.disks.len() == DISKS || fresh || !self.may_lose(member) {
            return Ok(());
        }
        let new = self.new_disk();
        self.record(|_| format!("{new} comes in the place of {old}, member {member}"));
        self.run_steps(steps::REBUILD, Place::Member { member, old }, vec![new], false).map(drop)
    }

    /// Replaces a member by a copy of it.
    fn copy(&mut self, old: usize, member: u8) -> Result<(), End> {
        let is_used = |it: &Session| (it.used - (it.lost | it.removed)).contains(member);
        let is_used = self.session.as_ref().is_some_and(is_used);
        if self.disks.len() == DISKS || !is_used || !self.disks[old].here {
            return Ok(());
        }
        let new = self.new_disk();
        self.record(|_| format!("{new} becomes a copy of {old}, member {member}"));
        self.run_steps(steps::COPY, Place::Member { member, old }, vec![new], false).map(drop)
    }

    /// Brings a lost device back, with its data or erased.
    fn online(&mut self, disk: usize, member: u8) -> Result<(), End> {
        let Some(session) = &self.session else { return Ok(()) };
        let (node, data) = (session.node, self.disks[disk].data);
        let is_lost = session.lost.contains(member) && self.disks[disk].here;
        if !is_lost || !self.history.leads_to(data.node, node) {
            return Ok(());
        }
        self.record(|_| format!("{disk}, member {member}, comes back"));
        let keeps_data = self.dice.chance(850);
        let place = Place::Member { member, old: disk };
        self.run_steps(steps::TAKE_BACK, place, vec![disk], keeps_data).map(drop)
    }

    /// Adds devices as new members.
    fn add(&mut self, is_spare: bool) -> Result<(), End> {
        let count = self.dice.between(1, 2) as usize;
        let Some(session) = &self.session else { return Ok(()) };
        let is_full =
            session.member_disks.len() + count > MEMBERS || self.disks.len() + count > DISKS;
        if !(session.lacking() | session.excluded_next).is_empty() || is_full || !self.settled()? {
            return Ok(());
        }
        self.seen.admin_commands += 1;
        let new: Vec<_> = (0..count).map(|_| self.new_disk()).collect();
        self.record(|_| format!("{new:?} come, as spares {is_spare}"));
        self.run_steps(steps::ADD, Place::New { is_spare }, new, false).map(drop)
    }

    /// Removes a member permanently, once the others have its data.
    fn remove(&mut self, disk: usize, member: u8) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        let whole = session.whole();
        let enough = whole.len() > self.tolerates.max(1) + 1;
        let lacks = !(session.lacking() | session.excluded_next).is_empty();
        if lacks || !whole.contains(member) || !enough {
            self.session = Some(session);
            return Ok(());
        }
        self.record(|_| format!("{disk}, member {member}, is removed"));
        let leaves =
            Standing { leaving: Some(DeviceSet::single(member).to_bits()), ..Standing::default() };
        if !self.settle(&mut session, false, leaves)? {
            self.session = Some(session);
            return Ok(());
        }
        session.used.remove(member);
        session.removed.insert(member);
        self.given_up.insert(disk as u8);
        self.write_root(&mut session)?;
        let removed = Standing { leaving: Some(0), ..Standing::default() };
        self.settle(&mut session, false, removed)?;
        self.session = Some(session);
        self.unlist(disk)
    }

    /// Records that a joining member has all data.
    pub(super) fn join(&mut self) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        let Some(member) = session.fresh.first() else {
            self.session = Some(session);
            return Ok(());
        };
        self.record(|_| format!("{member} has all data"));
        let Session { node, root, everywhere, .. } = session;
        session.fresh.remove(member);
        let lost = session.lacking();
        for disk in session.disks(DeviceSet::single(member)).collect::<Vec<_>>() {
            self.disks[disk].data = Data { node, root, lost, everywhere, whole: true };
        }
        self.write_root(&mut session)?;
        let joined =
            Standing { joined: DeviceSet::single(member).to_bits(), ..Standing::default() };
        self.settle(&mut session, false, joined)?;
        self.session = Some(session);
        Ok(())
    }

    /// Checks that a start after a crash during a command serves without consent.
    pub(super) fn after_cut(&mut self) -> Result<(), Rule> {
        if !std::mem::take(&mut self.is_changing) || self.dice.chance(300) {
            return Ok(());
        }
        self.seen.cut_commands += 1;
        self.disks.iter_mut().for_each(|disk| disk.sick = false);
        self.is_over = true;
        let apart = self.seen.apart;
        let started = self.start(false);
        self.is_over = false;
        match started {
            Ok(Outcome::Serves) => Ok(()),
            // A member given up for its failing superblock does not record that, and may contradict
            // the others; a refusal is then correct.
            Ok(Outcome::Refuses) if self.has_failed && self.seen.apart > apart => Ok(()),
            Ok(_) => Err(Rule::ACutVerbAsksNobody),
            Err(End::Breach(rule)) => Err(rule),
            Err(End::Crash) => unreachable!("no crash is planned"),
        }
    }
}
