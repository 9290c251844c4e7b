//! One sequence: the devices, the process that serves them, and the events of both.

use hostftl_core::DeviceSet;
use hostftl_format::roster::{Roster, Stamp, Standing, Write};

use super::disks::{Data, Disk};
use super::history::History;
use super::volume_file::{Judged, VolumeFile};
use super::{Rule, Seen};
use crate::dice::Dice;

/// Reason why an event ended early.
#[derive(Debug)]
pub(super) enum End {
    /// The process was killed.
    Crash,
    /// A rule is violated.
    Breach(Rule),
}

/// Serving process. Sets are by index in the stack.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Disk of each member; `None` for a missing one.
    pub(super) member_disks: Vec<Option<usize>>,
    /// Members that take part.
    pub(super) used: DeviceSet,
    /// Members among them that still miss data because they were added or returned.
    pub(super) fresh: DeviceSet,
    /// Members among them that stay empty until another member is lost.
    pub(super) spare: DeviceSet,
    /// Indices of removed members.
    pub(super) removed: DeviceSet,
    /// Members that the layer has lost.
    pub(super) lost: DeviceSet,
    /// Members with failed superblock writes, which are excluded from the next start on.
    pub(super) excluded_next: DeviceSet,
    /// Members that are being replaced, whose losses are not recorded meanwhile.
    pub(super) replacing: DeviceSet,
    pub(super) roster: Roster,
    /// Newest node, and the branch of the history that it continues.
    pub(super) node: u32,
    pub(super) line: usize,
    pub(super) root: u64,
    pub(super) everywhere: u64,
}

impl Session {
    /// Returns the members that have all data.
    pub(super) fn whole(&self) -> DeviceSet {
        self.used - (self.lost | self.fresh | self.spare)
    }

    /// Returns the members with missing data; they count against the losses that the volume
    /// tolerates.
    pub(super) fn lacking(&self) -> DeviceSet {
        (self.lost | self.fresh) - (self.removed | self.spare)
    }

    /// Returns the disks of a set of members.
    pub(super) fn disks(&self, set: DeviceSet) -> impl Iterator<Item = usize> + Clone {
        set.iter().filter_map(|member| self.member_disks[usize::from(member)])
    }

    /// Returns the members that must be recorded as lost.
    pub(super) fn missed(&self) -> DeviceSet {
        (self.lost | self.excluded_next) - (self.removed | self.replacing)
    }
}

/// Outcome of a start that was not interrupted by a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Serves,
    Asks,
    Refuses,
}

pub(super) struct Life<'a> {
    pub(super) dice: Dice,
    /// Whether superblocks are encoded to bytes.
    pub(super) bytes: bool,
    pub(super) story: Option<Vec<String>>,
    pub(super) seen: &'a mut Seen,
    pub(super) disks: Vec<Disk>,
    pub(super) file: VolumeFile,
    pub(super) tolerates: u32,
    pub(super) history: History,
    /// Disks that were given up by the layer or an operator.
    pub(super) given_up: DeviceSet,
    /// Disks that are older copies.
    pub(super) restored: DeviceSet,
    /// Whether operators change the members.
    pub(super) has_verbs: bool,
    /// Whether a change of the members is in progress.
    pub(super) is_changing: bool,
    /// Whether a member was ever given up because its superblock could not be written.
    pub(super) has_failed: bool,
    pub(super) saved: Vec<(usize, Disk)>,
    pub(super) session: Option<Session>,
    pub(super) crash_in: Option<u64>,
    pub(super) stamps: u64,
    /// Whether the sequence has ended and only the final check is running.
    pub(super) is_over: bool,
}

impl<'a> Life<'a> {
    pub(super) fn new(mut dice: Dice, bytes: bool, tells: bool, seen: &'a mut Seen) -> Self {
        let count = dice.between(2, 5) as u8;
        let most = if count >= 4 { 2 } else { 1 };
        let tolerates = if dice.chance(100) { 0 } else { dice.between(1, most) as u32 };
        let disks = (0..count).map(|index| Disk::new(index, count)).collect();
        let file = VolumeFile::new(count.into(), &mut dice);
        let has_verbs = dice.chance(500);
        let mut life = Life {
            dice,
            file,
            has_verbs,
            is_changing: false,
            has_failed: false,
            bytes,
            story: tells.then(Vec::new),
            seen,
            disks,
            tolerates,
            history: History::new(count.into()),
            given_up: DeviceSet::EMPTY,
            restored: DeviceSet::EMPTY,
            saved: Vec::new(),
            session: None,
            crash_in: None,
            stamps: 1,
            is_over: false,
        };
        life.record(|_| format!("{count} devices, of which {tolerates} may be lost"));
        life
    }

    /// Returns the events, one per line.
    pub(super) fn story(self) -> String {
        self.story.map_or(String::new(), |story| story.join("\n"))
    }

    /// Runs the sequence.
    pub(super) fn run(&mut self) -> Result<(), Rule> {
        for _ in 0..self.dice.between(8, 28) {
            self.seen.events += 1;
            if self.crash_in.is_none() && self.dice.chance(300) {
                self.crash_in = Some(self.dice.below(14));
            }
            match self.event() {
                Ok(()) => {}
                Err(End::Crash) => {
                    self.record(|_| "  killed".into());
                    (self.session, self.crash_in) = (None, None);
                    self.after_cut()?;
                }
                Err(End::Breach(rule)) => return Err(rule),
            }
        }
        if self.has_verbs { Ok(()) } else { self.way_out() }
    }

    pub(super) fn record(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.story.is_some() {
            let what = what(self);
            self.story.iter_mut().for_each(|story| story.push(what.clone()));
        }
    }

    pub(super) fn inspect(&mut self) -> Result<(), End> {
        self.record(|_| "look".into());
        let before = self.disks.clone();
        if let Some(Judged { member_disks, .. }) = self.judge() {
            let absent = (0..).zip(&member_disks).filter(|(_, member_disk)| member_disk.is_none());
            let lost = absent.map(|(index, _)| index).collect::<DeviceSet>();
            let records = member_disks.iter().map(|it| it.map(|(_, record)| record));
            let mut roster = Roster::new(records).read_only();
            if let Some(write) = roster
                .next(Standing::from_lost(lost.to_bits()), || Stamp { change: u64::MAX, at: 1 })
            {
                let (disk, _) = member_disks[usize::from(write.member)].expect("it is there");
                self.disks[disk].write(write.copy, &write.superblock, false);
            }
        }
        if before == self.disks { Ok(()) } else { Err(End::Breach(Rule::ALookChangesNothing)) }
    }

    /// Starts the volume; with consent, even without absent members.
    pub(super) fn start(&mut self, consent: bool) -> Result<Outcome, End> {
        self.record(|_| format!("start, consent {consent}"));
        let Some(judged) = self.judge() else {
            self.seen.refused += 1;
            return Ok(Outcome::Refuses);
        };
        if !judged.unsaid.is_empty() && !consent {
            self.seen.asked += 1;
            return Ok(Outcome::Asks);
        }
        let Some((mut session, base)) = self.recover(&judged, !judged.unsaid.is_empty())? else {
            self.seen.refused += 1;
            self.record(|_| "  the layer refuses".into());
            return Ok(Outcome::Refuses);
        };
        // With member changes, no operator consents to a start on an older state; forks occur only
        // in the sequences without them.
        let is_newest = self.history.leaves() == [base] && !self.has_newer(&judged.newest());
        if !judged.unsaid.is_empty() && self.has_verbs && !is_newest {
            self.seen.asked += 1;
            return Ok(Outcome::Asks);
        }
        if !judged.unsaid.is_empty() {
            let taking_part: Vec<usize> = session.disks(session.used).collect();
            let excluded = self.file.disks().filter(|disk| !taking_part.contains(disk));
            self.given_up |= excluded.map(|disk| disk as u8).collect();
            // The consent is valid from now on, even if the start is interrupted.
            self.history.consent(session.disks(session.whole()), base);
        }
        self.settle_file(&judged)?;
        self.write_root(&mut session)?;
        let newest = judged.newest();
        let fresh = DeviceSet::from_bits(newest.fresh & !newest.spare);
        let joined = ((fresh - session.fresh) & session.used).to_bits();
        if !self.settle(&mut session, true, Standing { joined, ..Standing::default() })? {
            return Ok(Outcome::Refuses);
        }
        self.check_record(&session, Rule::ConsentOnce)?;
        self.check_thrown_out(&session)?;
        self.check_forks(session.node)?;
        self.seen.served += 1;
        self.seen.degraded += u64::from(!session.lost.is_within(session.removed));
        self.record(|_| {
            let Session { node, used, lost, fresh, member_disks, .. } = &session;
            format!(
                "  serves {node} with {used:?}, lost {lost:?}, fresh {fresh:?}, {member_disks:?}"
            )
        });
        self.session = Some(session);
        Ok(Outcome::Serves)
    }

    /// Recovers the layer from its members. Returns the session and the newest flush that it
    /// serves.
    fn recover(&mut self, judged: &Judged, consented: bool) -> Result<Option<(Session, u32)>, End> {
        let newest = judged.newest();
        let disks = judged.member_disks.iter().map(|it| it.map(|(disk, _)| disk));
        let member_disks: Vec<_> = disks.collect();
        let disk_at = |member: u8| member_disks[usize::from(member)];
        let all = DeviceSet::first_n(member_disks.len());
        let used = all.iter().filter(|member| disk_at(*member).is_some()).collect::<DeviceSet>();
        let [fresh, spare, removed] =
            [newest.fresh, newest.spare, newest.removed].map(DeviceSet::from_bits);
        let came = (fresh & used) - spare;
        let data = |member: u8| self.disks[disk_at(member).expect("it is there")].data;
        let has_data = (used - spare).iter().filter(|member| data(*member).whole);
        let Some(best) = has_data.map(data).max_by_key(|data| data.root) else {
            return Ok(None);
        };
        let lacking = came.iter().filter(|member| !data(*member).whole).collect::<DeviceSet>();
        let fresh = lacking & best.lost;
        // A member that the newest root does not know was just added and is empty.
        for disk in (lacking - fresh).iter().filter_map(disk_at) {
            self.disks[disk].data = best;
        }
        let data = |member: u8| self.disks[disk_at(member).expect("it is there")].data;
        let held = used - (fresh | spare);
        let stale = held.iter().filter(|index| data(*index).root < best.everywhere);
        let lost = stale.collect::<DeviceSet>() | (all - used) | best.lost;
        let lost = lost - (fresh | spare & used | removed);
        // A joining member that was interrupted while it received the last data misses it again.
        let (fresh, lost) = (fresh | came & lost, lost - came);
        fresh.iter().filter_map(disk_at).for_each(|disk| self.disks[disk].data.whole = false);
        let data = |member: u8| self.disks[disk_at(member).expect("it is there")].data;
        let takes_part = held - (lost | fresh);
        let members = takes_part.iter().map(|index| data(index).node);
        let depth = |node: &u32| self.history.depth(*node);
        let (Some(node), true) =
            (members.max_by_key(depth), ((lost | fresh) - spare).len() <= self.tolerates)
        else {
            return Ok(None);
        };
        let base = self.history.acked(node);
        let has_all = |index: u8| {
            let own = data(index).node;
            self.history.leads_to(base, own) && self.history.leads_to(own, node)
        };
        if !takes_part.iter().all(has_all) {
            return Err(End::Breach(Rule::NoStaleMember));
        }
        let line = match self.history.line(base, takes_part.iter().filter_map(disk_at)) {
            Some(line) => line,
            None if consented => self.history.fork(base),
            None => return Err(End::Breach(Rule::NothingIsLostSilently)),
        };
        let roster = Roster::new(judged.member_disks.iter().map(|it| it.map(|(_, record)| record)));
        let session = Session {
            member_disks,
            used,
            fresh,
            spare,
            removed,
            lost,
            excluded_next: DeviceSet::EMPTY,
            replacing: DeviceSet::EMPTY,
            roster,
            node,
            line,
            root: best.root,
            everywhere: best.everywhere,
        };
        Ok(Some((session, base)))
    }

    /// Returns whether the process crashes at the next write.
    pub(super) fn is_crash(&mut self) -> bool {
        match &mut self.crash_in {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Writes a root, and the data before it, to all members that have all data.
    pub(super) fn write_root(&mut self, session: &mut Session) -> Result<(), End> {
        session.root += 1;
        let lost = (session.lost | session.fresh) - session.removed;
        for disk in session.disks(session.whole()).collect::<Vec<_>>() {
            if self.is_crash() {
                return Err(End::Crash);
            }
            let Session { node, root, everywhere, .. } = *session;
            self.disks[disk].data = Data { node, root, lost, everywhere, whole: true };
        }
        session.everywhere = session.root;
        Ok(())
    }

    /// Returns the stamp of a new change.
    pub(super) fn stamp(&mut self) -> Stamp {
        self.stamps += 1;
        Stamp { change: self.stamps, at: self.stamps }
    }

    /// Writes one copy of a superblock of a joining device or a member. Returns false when the
    /// device refuses.
    pub(super) fn put(&mut self, disk: usize, write: &Write, comes: bool) -> Result<bool, End> {
        let crash = self.is_crash();
        let it = &mut self.disks[disk];
        if crash || it.sick {
            it.tear(write.copy, &write.superblock, &mut self.dice);
        } else {
            it.write(write.copy, &write.superblock, self.bytes);
        }
        if it.superblock().is_err() && !comes {
            return Err(End::Breach(Rule::OneCopyIsWhole));
        }
        if crash {
            self.seen.torn += 1;
            return Err(End::Crash);
        }
        Ok(!it.sick)
    }

    /// Writes superblocks that record the lost members and the changes of `more`. Returns whether
    /// everything could be written.
    pub(super) fn settle(
        &mut self,
        session: &mut Session,
        at_start: bool,
        more: Standing,
    ) -> Result<bool, End> {
        loop {
            let (lost, removed) = (session.missed(), session.removed.to_bits());
            let stamp = self.stamp();
            let out = Some((session.spare & lost | session.removed).to_bits());
            let standing = Standing { lost: lost.to_bits(), out, removed, ..more };
            let Session { roster, member_disks, .. } = &mut *session;
            let disk_at = |member: u8| member_disks[usize::from(member)].expect("it is there");
            let put = |write: &Write| match self.put(disk_at(write.member), write, false) {
                Ok(true) => Ok(()),
                Ok(false) => Err(None),
                Err(end) => Err(Some(end)),
            };
            let member = match roster.settle(standing, || stamp, put) {
                Ok(()) => return Ok(true),
                Err((member, None)) => member,
                Err((_, Some(end))) => return Err(end),
            };
            let disk = disk_at(member);
            let used = session.used - (session.lost | session.removed);
            let may_lose = self.tolerates.saturating_sub(session.lacking().len());
            let can_exclude = standing.can_exclude(member, used.to_bits(), may_lose);
            if at_start || !can_exclude || more != Standing::default() {
                return Ok(false);
            }
            session.excluded_next.insert(member);
            self.has_failed = true;
            self.given_up.insert(disk as u8);
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        session.node = self.history.write(session.node);
        self.record(|_| format!("flush of {}", session.node));
        self.write_root(&mut session)?;
        let settled = session.roster.may_promise(session.missed().to_bits())
            || self.settle(&mut session, false, Standing::default())?;
        if settled && session.roster.may_promise(session.missed().to_bits()) {
            self.check_record(&session, Rule::LossesBeforeFlushes)?;
            self.history.promise(session.node, session.line, session.disks(session.whole()));
            self.seen.flushes += 1;
        }
        self.session = Some(session);
        Ok(())
    }

    /// Loses a member of the layer.
    pub(super) fn lose(&mut self, member: u8) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        if !(session.used - (session.lost | session.removed)).contains(member) {
            self.session = Some(session);
            return Ok(());
        }
        self.record(|_| format!("the layer loses {member}"));
        if (session.lacking().with(member) - session.spare).len() > self.tolerates {
            return Ok(()); // The volume fails, and the process ends.
        }
        session.lost.insert(member);
        session.fresh.remove(member);
        let disks = session.disks(DeviceSet::single(member));
        self.given_up |= disks.map(|disk| disk as u8).collect();
        self.seen.losses += 1;
        // If an operator later consents to start with the lost device alone, the present members
        // form a separate branch.
        let base = self.history.acked(session.node);
        self.history.consent(session.disks(session.whole()), base);
        self.write_root(&mut session)?;
        if self.dice.chance(500) {
            self.settle(&mut session, false, Standing::default())?;
        }
        self.session = Some(session);
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        self.record(|_| "stop".into());
        self.write_root(&mut session)?;
        self.settle(&mut session, false, Standing::default()).map(drop)
    }
}
