//! One sequence: the devices, the process that serves them, and what happens to both.

use hostftl_format::assemble::{Verdict, assemble};
use hostftl_format::roster::{Record, Roster, Stamp, Standing};
use hostftl_format::superblock::Superblock;

use super::disks::{Data, Disk};
use super::history::History;
use super::{Rule, Seen};
use crate::dice::Dice;

/// Why an event ended early.
#[derive(Debug)]
pub enum End {
    /// The process was killed.
    Crash,
    /// A rule does not hold.
    Breach(Rule),
}

/// A process that serves. Sets are of bits by index in the stack.
#[derive(Clone, Debug)]
pub struct Session {
    /// The members that took part in the start.
    pub(super) used: u16,
    /// Whom the layer does without.
    pub(super) lost: u16,
    /// Whose superblocks can't be written, so that they are done without from the next start on.
    pub(super) gave_up: u16,
    pub(super) roster: Roster,
    /// The newest moment, and the line of the history that it continues.
    pub(super) node: u32,
    pub(super) line: usize,
    pub(super) root: u64,
    pub(super) everywhere: u64,
}

/// How a start ended that no crash ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Serves,
    Asks,
    Refuses,
}

/// See the module text.
pub struct Life<'a> {
    pub(super) dice: Dice,
    /// Whether superblocks go through bytes.
    pub(super) bytes: bool,
    pub(super) story: Option<Vec<String>>,
    pub(super) seen: &'a mut Seen,
    pub(super) disks: Vec<Disk>,
    pub(super) tolerates: u32,
    pub(super) history: History,
    /// For whom somebody decided that they are done without: the layer, or who consented.
    pub(super) given_up: u16,
    /// Devices that are older copies.
    pub(super) restored: u16,
    pub(super) saved: Vec<(usize, Disk)>,
    pub(super) session: Option<Session>,
    pub(super) crash_in: Option<u64>,
    pub(super) stamps: u64,
    /// Whether the sequence is over, and only a way out is looked for.
    pub(super) is_over: bool,
}

impl<'a> Life<'a> {
    pub fn new(mut dice: Dice, bytes: bool, tells: bool, seen: &'a mut Seen) -> Self {
        let count = dice.between(2, 5) as u8;
        let most = if count >= 4 { 2 } else { 1 };
        let tolerates = if dice.chance(100) { 0 } else { dice.between(1, most) as u32 };
        let disks = (0..count).map(|index| Disk::new(index, count)).collect();
        let mut life = Life {
            dice,
            bytes,
            story: tells.then(Vec::new),
            seen,
            disks,
            tolerates,
            history: History::new(count.into()),
            given_up: 0,
            restored: 0,
            saved: Vec::new(),
            session: None,
            crash_in: None,
            stamps: 1,
            is_over: false,
        };
        life.tell(|_| format!("{count} devices, of which {tolerates} may be lost"));
        life
    }

    /// What happened, an event a line.
    pub fn story(self) -> String {
        self.story.map_or(String::new(), |story| story.join("\n"))
    }

    /// Goes through the sequence.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn run(&mut self) -> Result<(), Rule> {
        for _ in 0..self.dice.between(8, 28) {
            self.seen.events += 1;
            if self.crash_in.is_none() && self.dice.chance(300) {
                self.crash_in = Some(self.dice.below(14));
            }
            match self.event() {
                Ok(()) => {}
                Err(End::Crash) => {
                    self.tell(|_| "  killed".into());
                    (self.session, self.crash_in) = (None, None);
                }
                Err(End::Breach(rule)) => return Err(rule),
            }
        }
        self.way_out()
    }

    pub(super) fn tell(&mut self, what: impl FnOnce(&Self) -> String) {
        if self.story.is_some() {
            let what = what(self);
            self.story.iter_mut().for_each(|story| story.push(what.clone()));
        }
    }

    /// The superblocks that are in reach, in any order.
    fn list(&mut self) -> Vec<Record> {
        let here = self.disks.iter().filter(|disk| disk.here);
        let read = here.filter_map(|disk| disk.superblock().ok());
        let mut list: Vec<Record> =
            read.map(|it| Record { superblock: it.superblock, sound: it.sound }).collect();
        for at in (1..list.len()).rev() {
            list.swap(at, self.dice.below(at as u64 + 1) as usize);
        }
        list
    }

    /// Who would take part, and who has to be consented to; `None` when that is refused.
    fn judge(&mut self) -> Option<(Vec<Option<Record>>, u16)> {
        let mut list = self.list();
        if !self.is_over && self.dice.chance(10) && !list.is_empty() {
            list.push(list[0]);
        }
        let superblocks: Vec<Superblock> = list.iter().map(|record| record.superblock).collect();
        let verdict = assemble(&superblocks, self.tolerates);
        self.tell(|_| format!("  {verdict:?}"));
        match verdict {
            Verdict::Complete { order } => {
                Some((order.into_iter().map(|at| Some(list[at])).collect(), 0))
            }
            Verdict::Degraded { order, unsaid, .. } => {
                Some((order.into_iter().map(|at| Some(list[at?])).collect(), unsaid))
            }
            Verdict::Apart { .. } => {
                self.seen.apart += 1;
                None
            }
            _ => None,
        }
    }

    pub(super) fn look(&mut self) -> Result<(), End> {
        self.tell(|_| "look".into());
        let before = self.disks.clone();
        if let Some((records, _)) = self.judge() {
            let absent = records.iter().enumerate().filter(|(_, record)| record.is_none());
            let lost = absent.fold(0, |set, (index, _)| set | 1 << index);
            let mut roster = Roster::new(records).look_only();
            if let Some(write) =
                roster.next(Standing::of_lost(lost), || Stamp { change: u64::MAX, at: 1 })
            {
                let disk = &mut self.disks[usize::from(write.member)];
                disk.write(write.copy, &write.superblock, false);
            }
        }
        match before == self.disks {
            true => Ok(()),
            false => Err(End::Breach(Rule::ALookChangesNothing)),
        }
    }

    /// A start; with consent, it goes on without whoever is away.
    pub(super) fn start(&mut self, consent: bool) -> Result<Outcome, End> {
        self.tell(|_| format!("start, consent {consent}"));
        let Some((records, unsaid)) = self.judge() else {
            self.seen.refused += 1;
            return Ok(Outcome::Refuses);
        };
        if unsaid != 0 && !consent {
            self.seen.asked += 1;
            return Ok(Outcome::Asks);
        }
        self.given_up |= unsaid;
        let all = (1_u16 << self.disks.len()) - 1;
        let is_there = |(index, record): (usize, &Option<Record>)| record.map(|_| 1 << index);
        let used = records.iter().enumerate().filter_map(is_there).sum::<u16>();
        let Some((mut session, base)) = self.recover(used, all & !used, unsaid != 0)? else {
            self.seen.refused += 1;
            self.tell(|_| "  the layer refuses".into());
            return Ok(Outcome::Refuses);
        };
        session.roster = Roster::new(records);
        if unsaid != 0 {
            // That holds from now on, also when the start ends early.
            self.history.consent(bits(used & !session.lost), base);
        }
        self.write_root(&mut session)?;
        if !self.settle(&mut session, true)? {
            return Ok(Outcome::Refuses);
        }
        self.check_record(&session, Rule::ConsentOnce)?;
        self.check_thrown_out(&session)?;
        self.check_forks(session.node)?;
        self.seen.served += 1;
        self.seen.degraded += u64::from(session.lost != 0);
        self.tell(|_| format!("  serves {} with {used:b}, lost {:b}", session.node, session.lost));
        self.session = Some(session);
        Ok(Outcome::Serves)
    }

    /// What the layer makes of its members: the session, and the newest flush that it serves.
    fn recover(
        &mut self,
        used: u16,
        absent: u16,
        consented: bool,
    ) -> Result<Option<(Session, u32)>, End> {
        let data = |index: usize| self.disks[index].data;
        let Some(best) = bits(used).map(data).max_by_key(|data| data.root) else {
            return Ok(None);
        };
        let stale = bits(used).filter(|index| data(*index).root < best.everywhere);
        let lost = stale.fold(absent | best.lost, |set, index| set | 1 << index);
        if lost.count_ones() > self.tolerates {
            return Ok(None);
        }
        let takes_part = used & !lost;
        let newest = bits(takes_part).map(|index| data(index).node);
        let Some(node) = newest.max_by_key(|node| self.history.depth(*node)) else {
            return Ok(None);
        };
        let base = self.history.acked(node);
        let has_all = |index: usize| {
            let own = data(index).node;
            self.history.leads_to(base, own) && self.history.leads_to(own, node)
        };
        if !bits(takes_part).all(has_all) {
            return Err(End::Breach(Rule::NoStaleMember));
        }
        let line = match self.history.line(base, bits(takes_part)) {
            Some(line) => line,
            None if consented => self.history.fork(base),
            None => return Err(End::Breach(Rule::NothingIsLostSilently)),
        };
        let (root, everywhere, roster) = (best.root, best.everywhere, Roster::default());
        let session = Session { used, lost, gave_up: 0, roster, node, line, root, everywhere };
        Ok(Some((session, base)))
    }

    /// The next write may be the last.
    fn is_crash(&mut self) -> bool {
        match &mut self.crash_in {
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        }
    }

    /// Writes a root, with what came before it, to all that are not lost.
    fn write_root(&mut self, session: &mut Session) -> Result<(), End> {
        session.root += 1;
        for index in bits(session.used & !session.lost) {
            if self.is_crash() {
                return Err(End::Crash);
            }
            let Session { node, root, lost, everywhere, .. } = *session;
            self.disks[index].data = Data { node, root, lost, everywhere };
        }
        session.everywhere = session.root;
        Ok(())
    }

    /// Writes what the superblocks should say; whether all of it could be written.
    fn settle(&mut self, session: &mut Session, at_start: bool) -> Result<bool, End> {
        loop {
            let lost = session.lost | session.gave_up;
            let stamps = &mut self.stamps;
            let stamp = || {
                *stamps += 1;
                Stamp { change: *stamps, at: *stamps }
            };
            let Some(write) = session.roster.next(Standing::of_lost(lost), stamp) else {
                return Ok(true);
            };
            let (index, bit) = (usize::from(write.member), 1 << write.member);
            let crash = self.is_crash();
            let disk = &mut self.disks[index];
            if crash || disk.sick {
                disk.tear(write.copy, &write.superblock, &mut self.dice);
            } else {
                disk.write(write.copy, &write.superblock, self.bytes);
            }
            if disk.superblock().is_err() {
                return Err(End::Breach(Rule::OneCopyIsWhole));
            }
            if crash {
                self.seen.torn += 1;
                return Err(End::Crash);
            }
            if !disk.sick {
                session.roster.wrote(&write);
                continue;
            }
            session.roster.failed(&write);
            if at_start || (lost | bit).count_ones() > self.tolerates {
                return Ok(false);
            }
            session.gave_up |= bit;
            self.given_up |= bit;
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        session.node = self.history.write(session.node);
        self.tell(|_| format!("flush of {}", session.node));
        self.write_root(&mut session)?;
        let lost = session.lost | session.gave_up;
        if session.roster.may_promise(lost) || self.settle(&mut session, false)? {
            self.check_record(&session, Rule::LossesBeforeFlushes)?;
            let members = bits(session.used & !session.lost);
            self.history.promise(session.node, session.line, members);
            self.seen.flushes += 1;
        }
        self.session = Some(session);
        Ok(())
    }

    pub(super) fn lose(&mut self, index: usize) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        let bit = 1 << index;
        if session.used & !session.lost & bit == 0 {
            self.session = Some(session);
            return Ok(());
        }
        self.tell(|_| format!("the layer loses {index}"));
        if (session.lost | bit).count_ones() > self.tolerates {
            return Ok(()); // The volume fails, and the process ends.
        }
        (session.lost, self.given_up) = (session.lost | bit, self.given_up | bit);
        self.seen.losses += 1;
        // Should somebody consent to go on with the lost device alone, these have their own line.
        let base = self.history.acked(session.node);
        self.history.consent(bits(session.used & !session.lost), base);
        self.write_root(&mut session)?;
        if self.dice.chance(500) {
            self.settle(&mut session, false)?;
        }
        self.session = Some(session);
        Ok(())
    }

    pub(super) fn stop(&mut self) -> Result<(), End> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        self.tell(|_| "stop".into());
        self.write_root(&mut session)?;
        self.settle(&mut session, false).map(drop)
    }
}

/// The members of a set.
pub(super) fn bits(set: u16) -> impl Iterator<Item = usize> + Clone {
    (0..16).filter(move |index| set >> index & 1 == 1)
}
