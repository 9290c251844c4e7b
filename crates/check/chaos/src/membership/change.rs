//! Changes of the members with the steps of real volumes ([`hostftl_format::steps`]), on the disks
//! of a sequence. Each may be cut at any of its writes.

use hostftl_core::DeviceSet;
use hostftl_format::changes::{Coming, additions, comeback, replacement, successor};
use hostftl_format::roster::{Record, Standing, Write};
use hostftl_format::steps::{self, Closed, Effects, Step};
use hostftl_format::superblock::Superblock;

use super::disks::{Data, Disk};
use super::life::{End, Life, Session};

/// Places of the devices that join.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// That of a member, which has this disk.
    Member { member: u8, old: usize },
    /// Places of their own, behind the others.
    New { is_spare: bool },
}

/// Failure of an effect. The sequence goes on unless the change has an [`End`].
pub(super) struct Refused;

/// Change of the members in progress.
struct Change<'a, 'b> {
    life: &'a mut Life<'b>,
    place: Place,
    /// Disks that join.
    disks: Vec<usize>,
    /// Whether a device that returns keeps its data.
    keeps_data: bool,
    /// Superblock of such a device.
    own: Option<Superblock>,
    is_decided: bool,
    /// Reason why the process ended during the change.
    end: Option<End>,
}

impl Life<'_> {
    /// Makes a change with the steps of a table. Returns whether it succeeded.
    pub(super) fn run_steps(
        &mut self,
        table: &[Step],
        place: Place,
        disks: Vec<usize>,
        keeps_data: bool,
    ) -> Result<bool, End> {
        let (own, is_decided, end) = (None, false, None);
        let mut change = Change { life: self, place, disks, keeps_data, own, is_decided, end };
        let done = steps::run(&mut change, table, 0);
        match change.end {
            Some(end) => Err(end),
            None => Ok(done.is_ok()),
        }
    }

    /// Clears both copies of a disk's superblock; returns false when the disk refuses.
    pub(super) fn clear_disk(&mut self, disk: usize) -> Result<bool, End> {
        for copy in [0, 1] {
            if self.is_crash() {
                return Err(End::Crash);
            }
            if self.disks[disk].sick {
                return Ok(false);
            }
            self.disks[disk].copies[copy] = Disk::blank().copies[copy];
        }
        Ok(true)
    }
}

/// Returns the device of a disk. Its UUID differs each time that the disk joins.
fn coming(disk: usize, change: u64) -> Coming {
    let mut uuid = [disk as u8 + 1; 16];
    uuid[8..].copy_from_slice(&change.to_le_bytes());
    Coming { uuid, data_start: 2048, data_len: 2048, device_sectors: 8192 }
}

impl Change<'_, '_> {
    /// Notes that the process ended, if it did.
    fn checked<T>(&mut self, result: Result<T, End>) -> Result<T, Refused> {
        result.map_err(|end| {
            self.end = Some(end);
            Refused
        })
    }

    /// Like [`Change::checked`], for an effect that may be refused.
    fn accepted(&mut self, result: Result<bool, End>) -> Result<(), Refused> {
        if self.checked(result)? { Ok(()) } else { Err(Refused) }
    }

    /// Returns the member in whose place the device joins, and its disk.
    fn member(&self) -> (u8, usize) {
        match self.place {
            Place::Member { member, old } => (member, old),
            Place::New { .. } => unreachable!("the step is about a member"),
        }
    }

    /// Calls `act` with the session, which stays unless the process ends.
    fn with_session<T>(
        &mut self,
        act: impl FnOnce(&mut Life, &mut Session) -> Result<T, End>,
    ) -> Result<T, Refused> {
        let mut session = self.life.session.take().ok_or(Refused)?;
        let done = act(self.life, &mut session);
        if done.is_ok() {
            self.life.session = Some(session);
        }
        self.checked(done)
    }

    /// Makes a disk a member: writes its superblock after all pending updates, and then those of
    /// the others. Returns whether each could be written.
    fn install_disk(
        life: &mut Life,
        session: &mut Session,
        disk: usize,
        superblock: impl FnOnce(&mut Life, &Superblock) -> Option<Superblock>,
    ) -> Result<[bool; 2], End> {
        if !life.settle(session, false, Standing::default())? {
            return Ok([false; 2]);
        }
        let newest = session.roster.target().expect("it has members");
        let Some(superblock) = superblock(life, &newest) else { return Ok([false; 2]) };
        let put = |write: &Write| match life.put(disk, write, true) {
            Ok(true) => Ok(()),
            Ok(false) => Err(None),
            Err(end) => Err(Some(end)),
        };
        match session.roster.install(superblock, put) {
            Ok(()) => {}
            Err(None) => return Ok([false; 2]),
            Err(Some(end)) => return Err(end),
        }
        let member = superblock.index;
        session.member_disks[usize::from(member)] = Some(disk);
        session.excluded_next.remove(member);
        session.replacing = session.lost & DeviceSet::single(member);
        Ok([true, life.settle(session, false, Standing::default())?])
    }
}

impl Effects for Change<'_, '_> {
    type Error = Refused;

    fn begin(&mut self, step: &'static str) {
        self.life.record(|_| format!("  {step}"));
    }

    fn is_decided(&self) -> bool {
        self.is_decided
    }

    fn decide(&mut self) {
        self.is_decided = true;
    }

    fn announce(&mut self) -> Result<(), Refused> {
        let done = self.life.announce(&self.disks);
        self.checked(done)
    }

    fn forget_pending(&mut self) {
        if self.end.is_none() {
            let disks = self.disks.clone();
            let forget = self.life.write_file(|file| file.pending.retain(|it| !disks.contains(it)));
            self.checked(forget).ok();
        }
    }

    fn publish(&mut self) -> Result<(), Refused> {
        let (place, disks) = (self.place, self.disks.clone());
        let done = self.life.write_file(|file| {
            file.pending.retain(|it| !disks.contains(it));
            match place {
                Place::Member { old, .. } => file.put(old, Some(disks[0])),
                Place::New { .. } => file.devices.extend(disks.into_iter().map(Some)),
            }
        });
        self.checked(done)
    }

    fn withdraw_note(&mut self) -> Result<(), Refused> {
        let done = self.life.write_file(|_| ());
        self.checked(done)
    }

    fn restore_note(&mut self) {
        if self.end.is_none() {
            let done = self.life.write_file(|_| ());
            self.checked(done).ok();
        }
    }

    fn clear(&mut self) -> Result<(), Refused> {
        for disk in self.disks.clone() {
            let cleared = self.life.clear_disk(disk);
            self.accepted(cleared)?;
            self.life.disks[disk].data = Disk::blank().data;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), Refused> {
        let (member, disk) = self.member();
        let own = self.life.disks[disk].superblock().map_err(|_| Refused)?.superblock;
        let session = self.life.session.as_ref().ok_or(Refused)?;
        let newest = session.roster.target().expect("it has members");
        let is_it = own.device == newest.members[usize::from(member)];
        if !is_it || own.generation >= newest.generation {
            return Err(Refused);
        }
        self.own = self.keeps_data.then_some(own);
        Ok(())
    }

    fn keeps_data(&self) -> bool {
        self.own.is_some()
    }

    fn claim(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn exclude(&mut self) -> Result<(), Refused> {
        let (member, _) = self.member();
        let lost = self.life.lose(member);
        self.checked(lost)?;
        let settled = self.life.settled();
        self.accepted(settled)
    }

    fn install(&mut self) -> Result<(), Refused> {
        let ((member, _), disk, own) = (self.member(), self.disks[0], self.own);
        let [_, all] = self.with_session(|life, session| {
            life.disks[disk].data.whole = false;
            let written = Self::install_disk(life, session, disk, |life, newest| {
                let stamp = life.stamp();
                Some(match own {
                    Some(own) => comeback(newest, &own, stamp),
                    None => replacement(newest, member, coming(disk, stamp.change), stamp),
                })
            })?;
            if !written[1] {
                session.replacing = DeviceSet::EMPTY;
            }
            Ok(written)
        })?;
        if all { Ok(()) } else { Err(Refused) }
    }

    fn exchange(&mut self) -> Result<(), Refused> {
        let (member, old) = self.member();
        if old != self.disks[0] {
            self.life.given_up.insert(old as u8);
        }
        self.with_session(|life, session| {
            session.replacing = DeviceSet::EMPTY;
            session.lost.remove(member);
            session.used.insert(member);
            session.fresh.insert(member);
            life.write_root(session)
        })
    }

    fn reopen(&mut self) -> Result<(), Refused> {
        let mut session = self.life.session.take().ok_or(Refused)?;
        let closed = self.life.write_root(&mut session);
        self.checked(closed)?;
        let settled = self.life.settle(&mut session, true, Standing::default());
        if !self.checked(settled)? {
            // The volume is over.
            self.decide();
            return Err(Refused);
        }
        let joined = steps::join(&mut Joining { change: self, session: &mut session })?;
        if self.end.is_some() {
            return Err(Refused);
        }
        let opened = self.open_layer(&mut session);
        self.accepted(opened)?;
        self.life.session = Some(session);
        joined
    }

    fn copy(&mut self) -> Result<(), Refused> {
        let (member, old) = self.member();
        let is_lost = |it: &Session| it.lost.contains(member);
        if self.life.session.as_ref().is_none_or(is_lost) {
            return Err(Refused);
        }
        if self.life.is_crash() {
            return self.checked(Err(End::Crash));
        }
        self.life.disks[self.disks[0]].data = self.life.disks[old].data;
        Ok(())
    }

    fn defer(&mut self) -> Result<(), Refused> {
        self.copy()
    }

    fn release(&mut self) {}

    fn install_copy(&mut self) -> Result<(), Refused> {
        let ((member, old), disk) = (self.member(), self.disks[0]);
        let [own, _] = self.with_session(|life, session| {
            Self::install_disk(life, session, disk, |life, newest| {
                let stamp = life.stamp();
                let is_out = newest.missing | newest.removed;
                let new = successor(newest, member, coming(disk, stamp.change), stamp);
                (!DeviceSet::from_bits(is_out).contains(member)).then_some(new)
            })
        })?;
        if !own {
            return Err(Refused);
        }
        self.life.given_up.insert(old as u8);
        self.life.history.copy(old, disk);
        Ok(())
    }

    fn withdraw_copy(&mut self) {
        if self.end.is_none() {
            let cleared = self.life.clear_disk(self.disks[0]);
            self.checked(cleared).ok();
        }
    }

    fn switch(&mut self) -> Result<(), Refused> {
        Ok(())
    }
}

impl Change<'_, '_> {
    /// Opens the layer, whose members record the devices that joined. Returns whether they could.
    fn open_layer(&mut self, session: &mut Session) -> Result<bool, End> {
        for disk in self.disks.iter().filter(|_| self.is_decided) {
            // It is empty, so it misses nothing.
            let Session { node, root, everywhere, .. } = *session;
            let lost = DeviceSet::EMPTY;
            self.life.disks[*disk].data = Data { node, root, lost, everywhere, whole: true };
        }
        let target = session.roster.target().expect("it has members");
        let fresh = DeviceSet::from_bits(target.fresh) - session.fresh;
        let joined = (fresh & session.used).to_bits();
        self.life.write_root(session)?;
        self.life.settle(session, true, Standing { joined, ..Standing::default() })
    }
}

/// Disks that join while the layer is closed.
struct Joining<'a, 'b, 'c> {
    change: &'a mut Change<'b, 'c>,
    session: &'a mut Session,
}

impl Closed for Joining<'_, '_, '_> {
    type Error = Refused;

    fn superblocks(&mut self) -> Result<Vec<Superblock>, Refused> {
        let Place::New { is_spare } = self.change.place else { unreachable!("devices are added") };
        let stamp = self.change.life.stamp();
        let devices = self.change.disks.iter().map(|disk| coming(*disk, stamp.change));
        let devices: Vec<_> = devices.collect();
        let newest = self.session.roster.target().expect("it has members");
        Ok(additions(&newest, &devices, (newest.exported, is_spare), stamp))
    }

    fn describe(&mut self, at: usize, superblock: &Superblock) -> Result<(), Refused> {
        for copy in [0, 1] {
            let write = Write { member: superblock.index, copy, superblock: *superblock };
            let put = self.change.life.put(self.change.disks[at], &write, true);
            self.change.accepted(put)?;
        }
        Ok(())
    }

    fn decide(&mut self) {
        self.change.decide();
    }

    fn admit(&mut self, superblocks: &[Superblock]) -> Result<(), Refused> {
        let Place::New { is_spare } = self.change.place else { unreachable!("devices are added") };
        let record = |superblock: &Superblock| Record { superblock: *superblock, sound: [true; 2] };
        self.session.roster.add(superblocks.iter().map(record));
        for disk in &self.change.disks {
            let member = self.session.member_disks.len() as u8;
            self.session.member_disks.push(Some(*disk));
            self.session.used.insert(member);
            self.session.spare |= DeviceSet::single_if(is_spare, member);
        }
        let settled = self.change.life.settle(self.session, true, Standing::default());
        self.change.accepted(settled)
    }
}
