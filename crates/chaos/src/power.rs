//! What goes wrong in a life: power cuts, hangs, deaths and damage.

use hostftl_core::{Cause, Command, Layer, Nanos};
use hostftl_layers::Mode;

use crate::disk::{Disk, Survival};
use crate::events::Named;
use crate::exec::{Detour, has_meta};
use crate::life::{End, Flight, Life, Phase};
use crate::matrix::{Claim, Row};

/// How many causes a command in flight at a cut may have, for the table of events.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    host: bool,
    flush: bool,
    gc: bool,
    map: bool,
    checkpoint: bool,
    journal: bool,
    reset: bool,
}

impl InFlight {
    fn add(&mut self, command: &Command) {
        match command {
            Command::Flush { .. } => self.flush = true,
            Command::Reset { .. } => self.reset = true,
            Command::Read { cause, .. } => self.gc |= *cause == Cause::Gc,
            Command::Program { tally, .. } => {
                self.host |= tally.get(Cause::Host) > 0;
                self.gc |= tally.get(Cause::Gc) > 0;
                self.map |= tally.get(Cause::Map) > 0;
                self.checkpoint |= tally.get(Cause::Checkpoint) > 0;
                self.journal |= tally.get(Cause::Journal) > 0;
            }
            _ => {}
        }
    }
}

/// What is under way; of a zoned device in the order of submission, which it keeps.
fn in_order<'a>(
    zoned: bool,
    flight: &'a mut [Flight],
    hung: &'a mut [Flight],
) -> impl Iterator<Item = &'a mut Flight> {
    let mut all: Vec<_> = flight.iter_mut().chain(hung).collect();
    if zoned {
        all.sort_by_key(|flight| flight.seq);
    }
    all.into_iter()
}

impl Life<'_> {
    /// Chooses what fails in this life, and whether it is cut while it starts.
    pub(crate) fn choose_fate(&mut self) {
        let dice = &mut self.w.dice;
        let swarm = &self.w.swarm;
        if swarm.faults.cut && self.w.cuts < 200 && dice.chance(swarm.cut_early) {
            self.cut_at = 1 + dice.below(self.w.start_steps + 5);
        }
        if swarm.faults.hang && dice.chance(400) {
            self.hang_at = 1 + dice.below(if swarm.victim.is_some() { 3000 } else { 300 });
            self.all_hangs = swarm.victim.is_some() && dice.chance(600);
        }
        // A stack that goes on without a device has a long life before and after.
        let (often, within) = if swarm.victim.is_some() { (200, 3000) } else { (400, 300) };
        if swarm.faults.dead && dice.chance(often) {
            self.dead_at = 1 + dice.below(within);
        }
        self.choose_hiccups();
        self.damage();
    }

    /// Chooses when a life that is ready is cut.
    pub(crate) fn choose_fate_when_ready(&mut self) {
        self.w.start_steps = self.steps;
        if self.w.swarm.faults.cut && !self.calm && self.cut_at == u64::MAX {
            self.cut_at = self.steps + 1 + self.w.dice.below(2 * self.w.cut_every());
        }
    }

    /// Brings the cut forward when a command is of a rare kind, to come while it is under way.
    pub(crate) fn aim(&mut self, command: &Command) {
        let rare = match command {
            Command::Flush { .. } | Command::Reset { .. } => true,
            Command::Read { cause, .. } => *cause == Cause::Gc,
            Command::Program { tally, .. } => tally.get(Cause::Host) < tally.total(),
            _ => false,
        };
        if rare && self.cut_at < u64::MAX && self.w.dice.chance(self.w.swarm.aim) {
            self.cut_at = self.cut_at.min(self.steps + 1 + self.w.dice.below(10));
        }
    }

    /// A stop is short: it often gets a cut of its own.
    pub(crate) fn choose_fate_of_stop(&mut self) {
        if self.cut_at < u64::MAX && self.w.dice.chance(400) {
            let within = self.w.dice.pick(&[2, 2, 30]);
            self.cut_at = self.steps + 1 + self.w.dice.below(within);
        }
    }

    /// The final life: it reads the whole volume.
    pub(crate) fn demand_audit(&mut self) {
        self.audited = true;
    }

    /// Harms the media between two lives, as far as the layer claims to notice.
    fn damage(&mut self) {
        // An older copy is told from the device by what is on the others.
        let harmless = self.w.has_copy() && self.w.swarm.older.is_some();
        for device in 0..self.w.machine.disks.len() {
            if self.may_fail(device as u8) && !harmless {
                self.damage_one(device);
            }
        }
        self.w.exchange_copy(self.mode);
    }

    fn damage_one(&mut self, device: usize) {
        let faults = self.w.swarm.faults;
        if faults.read_error && self.w.dice.chance(150) {
            let disk = &mut self.w.machine.disks[device];
            disk.spoil(self.w.dice.below(disk.sectors()));
            self.w.harm(Row::ReadError);
        }
        let start = self.w.dice.below(self.w.machine.disks[device].sectors());
        let log_rot = match self.w.claims.get(Row::LogRot) {
            Claim::Kept => Disk::find_any_log,
            _ => Disk::find_log,
        };
        let known = self.w.known(device);
        let of_journal = self.w.swarm.journal == Some(device as u8);
        // Where rot is noticed only, what was written last may look torn.
        let claim = self.w.claims.get(Row::DataRot);
        let data_rot = |disk: &Disk, start| match claim {
            Claim::Detected if of_journal => disk.find_log_data(start),
            Claim::Detected => disk.find_known_data(start, known),
            _ => disk.find_data(start),
        };
        let data_may_rot = faults.data_rot && (!of_journal || self.w.swarm.mortal.is_some());
        type Find<'a> = &'a dyn Fn(&Disk, u64) -> Option<u64>;
        let kinds: [(bool, Find, Named, Row); 3] = [
            (faults.metadata_rot, &Disk::find_meta, Named::MetadataRot, Row::MetadataRot),
            (faults.log_rot, &log_rot, Named::LogRot, Row::LogRot),
            (data_may_rot, &data_rot, Named::DataRot, Row::DataRot),
        ];
        for (wanted, find, named, row) in kinds {
            if !wanted || self.w.damaged || !self.w.dice.chance(150) {
                continue;
            }
            let disk = &mut self.w.machine.disks[device];
            if let Some(sector) = find(disk, start) {
                if self.w.trace {
                    eprintln!("{} device {device}, sector {sector}: {named:?}", self.w.steps);
                }
                disk.rot(sector, self.w.dice.below(4096));
                self.w.tallies.note(named);
                self.w.harm(row);
            }
        }
        if self.w.swarm.journal == Some(device as u8) || self.w.to_copy().is_some() {
            return;
        }
        let disk = &mut self.w.machine.disks[device];
        if faults.stale && self.w.dice.chance(100) {
            self.w.tallies.note_if(disk.go_stale(), Named::Stale);
            self.w.harm(Row::StaleDevice);
        } else if faults.stale {
            disk.remember();
        }
    }

    /// Whether faults may happen to this device.
    pub(crate) fn may_fail(&self, device: u8) -> bool {
        let swarm = &self.w.swarm;
        swarm.victim.or(swarm.mortal).is_none_or(|victim| victim == device)
    }

    /// Whether a stack that needs all of its devices only to be made is being made.
    pub(crate) fn is_made(&self) -> bool {
        let starting = matches!(self.phase, Phase::New | Phase::Starting);
        self.w.swarm.victim.is_some() && self.mode == Mode::Format && starting
    }

    /// Whether a device is missing, or has died.
    pub(crate) fn is_dead(&self, device: u8) -> bool {
        let died = self.device_commands >= self.dead_at && self.may_fail(device);
        died && !self.is_made() || self.w.config.missing >> device & 1 == 1
    }

    /// Whether this command, which is being submitted, hangs.
    pub(crate) fn hangs(&self, command: &Command) -> bool {
        let due = self.device_commands >= self.hang_at && !self.is_made();
        due && command.device().is_some_and(|device| self.may_fail(device))
    }

    /// A command fails because of a fault of kind `row`.
    pub(crate) fn err(&mut self, row: Row) {
        let excused = u64::from(self.w.claims.get(row) != Claim::Kept);
        self.errors += 1;
        self.excuses += excused;
        self.deaths += if row == Row::DeadDevice { excused } else { 0 };
    }

    /// Where a write really goes.
    pub(crate) fn detour(&mut self, command: &Command) -> Detour {
        let faults = self.w.swarm.faults;
        let Command::Program { device, tally, .. } = command else { return Detour::None };
        if !self.may_fail(*device) {
            return Detour::None;
        }
        let dice = &mut self.w.dice;
        if faults.lost && dice.chance(2) {
            self.w.tallies.note(Named::LostWrite);
            return Detour::Lost;
        }
        if faults.misdirected && self.w.segments.is_none() && dice.chance(2) {
            self.w.tallies.note(Named::MisdirectedWrite);
            let size = self.w.machine.disks[*device as usize].sectors();
            return Detour::To(dice.below(size - u64::from(tally.total()) + 1));
        }
        Detour::None
    }

    /// Whether commands of devices that must not hang would be as late as those that do, if the
    /// deadline came now.
    pub(crate) fn others_would_be_late(&self) -> bool {
        let victim = self.w.swarm.victim;
        let of_others =
            |flight: &Flight| flight.command.device().is_some_and(|it| Some(it) != victim);
        victim.is_some() && self.flight.iter().any(of_others)
    }

    /// The layer has waited for `deadline`: what hangs so long may come back from now on, late.
    pub(crate) fn release_hung(&mut self, deadline: Nanos) {
        for index in (0..self.hung.len()).rev() {
            // Of a device that hangs some come back later, or never; zones keep their order.
            let may_stay = self.all_hangs && deadline > 0 && self.w.segments.is_none();
            let stays = may_stay && self.w.dice.chance(500);
            if self.hung[index].sent + deadline <= self.w.now && !stays {
                let flight = self.hung.swap_remove(index);
                self.flight.push(Flight { late: true, ..flight });
            }
        }
    }

    /// Whether a stack that can do without a device starts, and one did not answer: then it is
    /// refused, and opens without that device.
    pub(crate) fn hung_at_start(&self) -> bool {
        self.hung_once && self.w.swarm.victim.is_some() && self.phase == Phase::Starting
    }

    /// The volume is refused, and must open the next time.
    pub(crate) fn refused_at_start(&mut self) {
        self.w.refused_for_now = true;
        self.phase = Phase::Over(End::Refused);
    }

    /// Ends the life at once: the power is cut, or only the process is killed.
    pub(crate) fn cut(mut self) -> End {
        self.w.cuts += 1;
        self.w.clean = false;
        let mut causes = InFlight::default();
        self.flight.iter().chain(&self.hung).for_each(|flight| causes.add(&flight.command));
        self.note_cut(causes);
        if self.w.dice.chance(100) {
            self.kill();
        } else {
            self.fail_power();
        }
        let ready = !matches!(self.phase, Phase::New | Phase::Starting);
        self.switch_off();
        End::Cut(ready)
    }

    /// The devices keep their caches, and carry out what they had begun or do not.
    fn kill(&mut self) {
        if self.w.trace {
            eprintln!("{} killed", self.w.steps);
        }
        let w = &mut *self.w;
        w.tallies.note(Named::Killed);
        for flight in in_order(w.segments.is_some(), &mut self.flight, &mut self.hung) {
            if flight.command.device().is_some() && w.dice.chance(500) {
                let (command, stamp) = (&mut flight.command, flight.stamp);
                let _ = w.machine.run(command, stamp, Detour::None, &mut w.dice);
            }
        }
    }

    /// The devices lose some of their caches, and of what they had begun.
    fn fail_power(&mut self) {
        let survival = match self.w.dice.below(8) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::Newest,
            3 => Survival::Oldest,
            4 => Survival::Each(100),
            5 => Survival::Each(900),
            _ => Survival::Each(500),
        };
        if self.w.trace {
            eprintln!("{} power cut: {survival:?}", self.w.steps);
        }
        let w = &mut *self.w;
        let (mut kept, mut lost) = (0, 0);
        for disk in &mut w.machine.disks {
            let losses = disk.cut(survival, &mut w.dice);
            kept += losses.meta_kept;
            lost += losses.meta_lost;
        }
        let mut torn = (kept > 0 && lost > 0, false);
        let permille = w.dice.pick(&[0, 300, 500, 700, 1000]);
        for flight in in_order(w.segments.is_some(), &mut self.flight, &mut self.hung) {
            let (kept, lost) = w.machine.tear(&flight.command, flight.stamp, permille, &mut w.dice);
            let partly = kept > 0 && lost > 0;
            match &flight.command {
                Command::Program { gather, .. } if has_meta(gather) => torn.0 |= partly,
                Command::Program { .. } => torn.1 |= partly,
                _ => {}
            }
        }
        w.tallies.note_if(torn.0, Named::TornMeta);
        w.tallies.note_if(torn.1, Named::TornData);
    }

    fn note_cut(&mut self, causes: InFlight) {
        let starting = matches!(self.phase, Phase::New | Phase::Starting);
        let tallies = &mut self.w.tallies;
        let open = self.mode == Mode::Open;
        tallies.note(Named::Cut);
        tallies.note_if(starting && open, Named::CutRecovery);
        tallies.note_if(starting && !open, Named::CutFormat);
        tallies.note_if(self.served == 0 && open, Named::CutTwice);
        tallies.note_if(matches!(self.phase, Phase::Stopping(_)), Named::CutStop);
        tallies.note_if(causes.host, Named::CutHostWrite);
        tallies.note_if(causes.flush, Named::CutFlush);
        tallies.note_if(causes.gc, Named::CutGc);
        tallies.note_if(causes.map, Named::CutMap);
        tallies.note_if(causes.checkpoint, Named::CutCheckpoint);
        tallies.note_if(causes.journal, Named::CutJournal);
        tallies.note_if(causes.reset, Named::CutReset);
        tallies.note_if(self.unflushed.trim, Named::TrimThenCut);
        tallies.note_if(self.unflushed.zeroes, Named::ZeroesThenCut);
        tallies.note_if(self.unflushed.fua, Named::FuaThenCut);
        tallies.note_if(self.unflushed.flush, Named::FlushThenCut);
    }

    /// The end of a life, however it came: every handle is forgotten, every request given up.
    pub(crate) fn switch_off(&mut self) {
        self.layer.power_off();
        for flight in self.flight.drain(..).chain(self.hung.drain(..)) {
            flight.command.void();
        }
        let spans = self.pending.iter_mut().filter_map(Option::take).map(|pending| pending.span());
        for span in spans.chain(self.failed_writes.drain(..)) {
            if span.version > 0 {
                self.w.model.give_up(span);
            }
        }
        self.w.model.begin_life();
    }
}
