//! One life of a layer, from its start to a clean stop or a power cut: the chaos driver.
//!
//! The driver chooses the next input. Its parts hold the commands in flight ([`Flights`]), the host
//! side ([`Host`]), the faults and their times ([`Fate`], [`Hiccups`]), the errors given to the
//! layer ([`Errors`]) and the damage that it reported ([`Heard`]). `ending.rs` checks the end of a
//! life, `verbs.rs` makes the requests of an operator.

mod admin;
mod ending;

use hostftl_core::{
    Command, DeviceError, DeviceSet, Done, Input, Layer, MAX_OUTPUTS, Out, Output, Token,
};
use hostftl_layers::{AnyLayer, Mode};

use crate::draw::fate::Fate;
use crate::draw::transient::Rates;
use crate::errors::Errors;
use crate::events::Named;
use crate::exec::{Detour, Outcome};
use crate::extent::{Extent, extent};
use crate::flights::{Flight, Flights};
use crate::host::{Excuses, Host};
use crate::matrix::Row;
use crate::model::Moment;
use crate::reported_damage::{self, ReportedDamage};
use crate::trace;
use crate::transient_faults::TransientFaults;
use crate::world::World;
use crate::zoned;
pub(crate) use ending::End;

/// Number of steps between two calls of `Layer::check`.
const CHECK_EVERY: u64 = 1024;

/// Step limit of a seed over all its lives; few seeds take a third of it.
const MOST_STEPS: u64 = 10_000_000;

/// Phase of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before the first input.
    New,
    /// Formatting or recovering.
    Starting,
    /// Serving requests.
    Ready,
    /// Stopping since the given moment.
    Stopping(Moment),
    /// Ended.
    Over(End),
}

#[derive(Debug)]
pub(crate) struct Life<'w> {
    w: &'w mut World,
    layer: AnyLayer,
    flights: Flights,
    host: Host,
    fate: Fate,
    transient_faults: TransientFaults,
    errors: Errors,
    reported_damage: ReportedDamage,
    phase: Phase,
    mode: Mode,
    audited: bool,
    /// Whether the running scrub started at the beginning.
    scrubs_all: bool,
    /// Roots that became durable since the scrub started.
    roots_of_scrub: u32,
    steps: u64,
    /// Devices whose damage the layer reported in this step.
    mended: DeviceSet,
    wrong: Option<String>,
}

impl<'w> Life<'w> {
    /// Creates a life over the contents of the devices; with `fault_free` it has no faults.
    pub(crate) fn new(w: &'w mut World, mode: Mode, fault_free: bool) -> Result<Self, String> {
        let (buffers, free) = w.issue();
        let layer = AnyLayer::new(&w.config, &w.infos, buffers, mode);
        let layer = layer.map_err(|why| format!("new after plan: {why}"))?;
        w.workload.end_audit();
        w.reopen();
        let (mut fate, mut transient_faults) = (Fate::new(fault_free), TransientFaults::default());
        let mut errors = Errors::default();
        zoned::remember_broken(&mut errors, w);
        if !fault_free {
            fate = Fate::draw(&mut w.dice, &w.swarm, w.cuts, w.start_steps);
            let (rates, full) = Rates::draw(&mut w.dice, &w.swarm, w.full);
            (transient_faults, w.full) = (TransientFaults::new(rates), full);
            w.damage(mode);
        }
        Ok(Life {
            layer,
            flights: Flights::new(),
            host: Host::new(w.swarm.depth as usize, free),
            fate,
            transient_faults,
            errors,
            reported_damage: ReportedDamage::default(),
            phase: Phase::New,
            mode,
            audited: false,
            scrubs_all: false,
            roots_of_scrub: 0,
            steps: 0,
            mended: DeviceSet::EMPTY,
            wrong: None,
            w,
        })
    }

    /// Makes this the final life, which reads the whole volume.
    pub(crate) fn demand_audit(&mut self) {
        self.audited = true;
    }

    /// Runs the life to its end.
    pub(crate) fn run(mut self) -> Result<End, String> {
        let mut out = Out::new();
        loop {
            if let Some(what) = self.wrong.take() {
                self.switch_off();
                return Err(what);
            }
            if let Phase::Over(end) = self.phase {
                self.switch_off();
                return Ok(end);
            }
            let replaces = self.phase == Phase::Ready && self.replace_online();
            if self.fate.is_cut(self.steps) {
                return Ok(self.cut());
            }
            if replaces {
                self.feed(Input::Timer, &mut out);
                continue;
            }
            match self.choose() {
                Some(input) => self.feed(input, &mut out),
                None => {
                    let waiting = self.host.waiting();
                    self.expect(Err(format!("stalled with {waiting} requests waiting")));
                }
            }
        }
    }

    /// Records the first fault of the layer.
    fn expect(&mut self, judged: Result<(), String>) {
        if let Err(what) = judged {
            self.wrong.get_or_insert(what);
        }
    }

    /// Chooses the next input among all that are possible.
    fn choose(&mut self) -> Option<Input> {
        if self.phase == Phase::New {
            self.phase = Phase::Starting;
            return Some(Input::Timer);
        }
        self.w.now += self.w.dice.below(1000);
        if self.flights.any_timed_out()
            && self.w.dice.chance(5)
            && !self.flights.others_would_be_late(self.w.may_be_late())
        {
            self.w.now += self.w.config.deadline;
            // For the layer all commands in flight are late now.
            self.flights.all().for_each(|flight| self.w.places.strike(flight.token));
        }
        if self.phase == Phase::Ready && self.w.dice.chance(self.w.swarm.admin_commands) {
            self.operate();
            return Some(Input::Timer);
        }
        let timer = self.layer.next_timer();
        let due = timer.is_some_and(|at| at <= self.w.now);
        let may_ask = self.phase == Phase::Ready && self.host.may_ask(&self.layer, self.w);
        let weights = self.w.swarm.weights;
        let possible = [
            if due { weights[0] } else { 0 },
            if self.flights.any_going() { weights[1] } else { 0 },
            if may_ask { weights[2] } else { 0 },
        ];
        if possible == [0; 3] {
            return self.choose_rarely(timer);
        }
        match self.w.dice.weigh(&possible) {
            0 => Some(Input::Timer),
            1 => Some(self.complete_one()),
            _ => Some(self.host.ask(&self.layer, &self.errors, self.w)),
        }
    }

    /// Stops the layer, or lets time pass, when no other input is possible.
    fn choose_rarely(&mut self, timer: Option<u64>) -> Option<Input> {
        let timed_out = self.flights.any_timed_out();
        let answers = !timed_out || self.fate.all_hang() && self.w.dice.chance(500);
        if self.phase == Phase::Ready && self.host.waiting() == 0 && answers {
            self.phase = Phase::Stopping(self.w.model.begin_flush());
            self.fate.draw_for_stop(&mut self.w.dice, self.steps);
            return Some(Input::Stop);
        }
        if timer.is_none() && self.host.waiting() == 0 && timed_out {
            self.flights.release(&mut self.w.dice, (self.w.now, 0), false);
            return Some(self.complete_one());
        }
        let timer = timer?;
        self.w.now = self.w.now.max(timer);
        Some(Input::Timer)
    }

    /// Completes one command in flight.
    fn complete_one(&mut self) -> Input {
        let (order, disks) = (self.w.swarm.order, &self.w.machine.disks);
        let mut flight = self.flights.take(&mut self.w.dice, order, disks);
        self.w.tallies.note_if(flight.is_late(), Named::LateDone);
        let result = self.execute(&mut flight);
        if result.is_err() && flight.command.device().is_some() {
            self.w.places.strike(flight.token);
        }
        let is_ready = self.phase == Phase::Ready;
        let judged = self.w.follow_copy(&flight.command, result.is_ok(), is_ready);
        self.expect(judged);
        self.w.machine.arena.repay(flight.token.0, &flight.command);
        Input::Done(Done { token: flight.token, command: flight.command, result })
    }

    fn execute(&mut self, flight: &mut Flight) -> Outcome {
        let device = flight.command.device();
        if let Some(device) = device.filter(|device| self.has_failed(*device)) {
            self.errors.add(Row::FailedDevice, &self.w.claims);
            self.errors.disorder();
            self.w.mark_stale(device);
            return Err(DeviceError::Removed);
        }
        if device.is_some() && flight.is_late() && self.w.dice.chance(500) {
            self.errors.add(Row::Hang, &self.w.claims);
            self.errors.disorder();
            return Err(DeviceError::Removed);
        }
        let is_made = self.is_made();
        let (fate, errors, w) = (&self.fate, &mut self.errors, &mut *self.w);
        if let Some(error) = zoned::break_segment(&flight.command, fate, errors, w) {
            return Err(error);
        }
        if !is_made && let Some(error) = self.transient_faults.strike(flight, fate, errors, w) {
            return Err(error);
        }
        let detour = if device.is_some() { w.detour(&flight.command) } else { Detour::None };
        let result = w.machine.run(&mut flight.command, flight.stamp, detour, &mut w.dice);
        if result.is_err() && device.is_some() {
            match zoned::segment_refused(&flight.command, errors, w) {
                Ok(true) => {}
                Ok(false) => {
                    errors.add(Row::ReadError, &w.claims);
                    w.tallies.note(Named::ReadError);
                }
                Err(what) => self.expect(Err(what)),
            }
        }
        result
    }

    /// Passes an input to the layer and processes its outputs.
    fn feed(&mut self, input: Input, out: &mut Out) {
        self.w.observe("", || trace::input(&input));
        self.w.steps += 1;
        self.steps += 1;
        if self.w.steps > MOST_STEPS {
            self.expect(Err(format!("no end after {MOST_STEPS} steps")));
        }
        let timer = matches!(input, Input::Timer);
        self.w.observe_room(&self.layer);
        self.layer.step(self.w.now, input, out);
        let made = MAX_OUTPUTS - out.outputs_left();
        for output in out.drain() {
            self.w.observe("  ", || trace::output(&output));
            self.take(output);
        }
        let mended = std::mem::take(&mut self.mended);
        if self.phase == Phase::Ready {
            self.expect(reported_damage::exposed(mended, &self.layer, self.w));
        }
        self.w.observe_protection(&self.layer);
        if timer && self.flights.any_timed_out() {
            // On zones, commands keep their order, so none may stay hung forever.
            let (now, deadline) = (self.w.now, self.w.config.deadline);
            let may_stay = self.fate.all_hang() && deadline > 0 && self.w.segments.is_none();
            self.flights.release(&mut self.w.dice, (now, deadline), may_stay);
        }
        let idle = made == 0 && self.phase == Phase::Starting;
        let judged = self.host.observe_stall(self.steps, idle);
        self.expect(judged);
        if self.steps.is_multiple_of(CHECK_EVERY) || matches!(self.phase, Phase::Over(_)) {
            self.check();
        }
    }

    fn check(&mut self) {
        let checked = self.layer.check();
        self.expect(checked.map_err(|what| format!("invariant: {what}")));
    }

    fn take(&mut self, output: Output) {
        match output {
            Output::Submit(token, command) => self.submit(token, command),
            Output::Reply(reply) => {
                let (errors, transient_faults, reported_damage) =
                    (&self.errors, &self.transient_faults, &self.reported_damage);
                let excuses = Excuses { errors, transient_faults, reported_damage };
                let judged = self.host.answered(reply, self.steps, excuses, &self.layer, self.w);
                self.expect(judged);
            }
            Output::Reclaim(payload) => {
                self.w.tallies.note(Named::LeftBehind);
                self.host.regain(payload);
            }
            Output::Event(event) => self.noted(event),
        }
    }

    fn submit(&mut self, token: Token, command: Command) {
        let extent = extent(&command);
        let within = within_device(&command, extent, self.w);
        self.expect(within);
        let placed = self.w.places.within(token, extent);
        self.expect(placed);
        let lent = self.w.machine.arena.lend(token.0, &command);
        self.expect(lent);
        if self.flights.has(token) {
            self.expect(Err(format!("token {} is in flight twice", token.0)));
        }
        let stamp = match &command {
            Command::Flush { device } => self.w.machine.disks[*device as usize].begin_flush(),
            Command::Program { device, .. } => self.w.machine.disks[*device as usize].epoch(),
            _ => 0,
        };
        if command.device().is_some() {
            self.fate.begin_command(&mut self.w.dice, &command, self.steps, &self.w.swarm);
            self.w.tallies.note_if(self.flights.overlaps(extent), Named::DeviceOverlap);
            self.w.tallies.note_if(self.fate.is_death_due().1, Named::FailedDevice);
        }
        let (disks, until) = (&self.w.machine.disks, (self.w.now, self.w.config.deadline));
        let in_order = self.flights.keeps_order(&command, extent, disks, until);
        self.expect(in_order);
        let mut hangs = self.flights.is_behind_timed_out(extent, &self.w.machine.disks);
        if hangs {
            self.errors.add(Row::Hang, &self.w.claims);
        } else if self.hangs(&command) {
            self.fate.hang();
            self.errors.add(Row::Hang, &self.w.claims);
            command.device().into_iter().for_each(|device| self.w.mark_stale(device));
            hangs = true;
        }
        if hangs {
            self.w.places.strike(token);
        }
        self.flights.begin((token, command, stamp), extent, self.w.now, hangs);
    }

    /// Returns whether a stack that needs all its devices only for formatting is being formatted.
    fn is_made(&self) -> bool {
        let starting = matches!(self.phase, Phase::New | Phase::Starting);
        self.w.swarm.victim.is_some() && self.mode == Mode::Format && starting
    }

    /// Returns whether a device is missing or dead.
    fn has_failed(&self, device: u8) -> bool {
        let died = self.fate.is_death_due().0 && self.w.is_dying(device, self.fate.dying());
        let away = self.w.config.members.missing | self.w.buried;
        died && !self.is_made() || away.contains(device)
    }

    /// Returns whether this command, which is being submitted, hangs.
    fn hangs(&self, command: &Command) -> bool {
        let due = self.fate.is_hang_due() && !self.is_made();
        let dying = self.fate.dying();
        due && command.device().is_some_and(|device| self.w.is_dying(device, dying))
    }
}

/// Checks that a command stays within its device, and that its tally fits.
fn within_device(command: &Command, extent: Option<Extent>, w: &World) -> Result<(), String> {
    let Some((device, lba, sectors, _)) = extent else { return Ok(()) };
    if let Command::Program { gather, tally, .. } = command {
        let bytes: u32 = gather.iter().map(|piece| piece.bytes()).sum();
        if u64::from(bytes) != sectors * 512 {
            return Err(format!("a tally of {} for {bytes} bytes", tally.total()));
        }
    }
    let size = w.machine.disks.get(usize::from(device)).map_or(0, |disk| disk.sectors());
    match lba.checked_add(sectors) {
        Some(end) if end <= size && sectors > 0 => Ok(()),
        _ => Err(format!("{} on a device of {size} sectors", trace::command(command))),
    }
}
