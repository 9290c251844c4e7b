//! Power cuts, and kills of the process.

use hostftl_core::{Cause, Command};

use crate::disk::Survival;
use crate::draw::power::{self, Cut};
use crate::events::{Named, Tallies};
use crate::exec::{Detour, has_meta};
use crate::flights::Flights;
use crate::world::World;

/// Causes of the commands in flight at a cut, for the table of events.
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

impl InFlight {
    fn note(&self, tallies: &mut Tallies) {
        tallies.note_if(self.host, Named::CutHostWrite);
        tallies.note_if(self.flush, Named::CutFlush);
        tallies.note_if(self.gc, Named::CutGc);
        tallies.note_if(self.map, Named::CutMap);
        tallies.note_if(self.checkpoint, Named::CutCheckpoint);
        tallies.note_if(self.journal, Named::CutJournal);
        tallies.note_if(self.reset, Named::CutReset);
    }
}

impl World {
    /// Cuts the power while `flights` are in flight, or only kills the process.
    pub(crate) fn cut_power(&mut self, flights: &mut Flights) {
        self.cuts += 1;
        self.clean = false;
        let mut causes = InFlight::default();
        flights.all().for_each(|flight| causes.add(&flight.command));
        self.tallies.note(Named::Cut);
        causes.note(&mut self.tallies);
        match power::draw(&mut self.dice) {
            Cut::Kill => self.kill(flights),
            Cut::Power(survival) => self.fail_power(survival, flights),
        }
    }

    /// Kills the process: devices keep their caches, and execute each command in flight or not.
    fn kill(&mut self, flights: &mut Flights) {
        if self.trace {
            eprintln!("{} killed", self.steps);
        }
        self.tallies.note(Named::Killed);
        for flight in flights.in_order(self.segments.is_some()) {
            if flight.command.device().is_some() && self.dice.chance(500) {
                let (command, stamp) = (&mut flight.command, flight.stamp);
                let _ = self.machine.run(command, stamp, Detour::None, &mut self.dice);
            }
        }
    }

    /// Fails the power: devices lose parts of their caches and of the commands in flight.
    fn fail_power(&mut self, survival: Survival, flights: &mut Flights) {
        if self.trace {
            eprintln!("{} power cut: {survival:?}", self.steps);
        }
        let (mut kept, mut lost) = (0, 0);
        for disk in &mut self.machine.disks {
            let losses = disk.cut(survival, &mut self.dice);
            kept += losses.meta_kept;
            lost += losses.meta_lost;
        }
        let mut torn = (kept > 0 && lost > 0, false);
        let permille = self.dice.pick(&[0, 300, 500, 700, 1000]);
        for flight in flights.in_order(self.segments.is_some()) {
            let (kept, lost) =
                self.machine.tear(&flight.command, flight.stamp, permille, &mut self.dice);
            let partly = kept > 0 && lost > 0;
            match &flight.command {
                Command::Program { gather, .. } if has_meta(gather) => torn.0 |= partly,
                Command::Program { .. } => torn.1 |= partly,
                _ => {}
            }
        }
        self.tallies.note_if(torn.0, Named::TornMeta);
        self.tallies.note_if(torn.1, Named::TornData);
    }
}
