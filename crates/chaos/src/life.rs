//! One life of a layer: from its start to a clean stop or a power cut. This is the chaos driver.
//!
//! Invariants
//! - Every command submitted is in `flight` or `hung` until its `Done` was given back.
//! - A host buffer is in `free` exactly when no payload of it is out.
//! - The layer is asked for credits before each request.

use hostftl_core::{
    Command, DeviceError, Done, Event, Input, Layer, MAX_OUTPUTS, Nanos, Out, Output, Payload,
    Token,
};
use hostftl_layers::{AnyLayer, Mode};

use crate::events::Named;
use crate::exec::{Detour, Outcome};
use crate::extent::{Extent, extent, overlap};
use crate::heard::Heard;
use crate::hiccup::Hiccups;
use crate::host::Pending;
use crate::matrix::Row;
use crate::model::{Moment, Span};
use crate::swarm::Order;
use crate::trace;
use crate::world::World;
use crate::zoned;

/// So many steps without a reply to a request that waits are a stall.
const PATIENCE: u64 = 200_000;
/// `Layer::check` is called so often, in steps.
const CHECK_EVERY: u64 = 1024;

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The layer stopped as asked.
    Stopped,
    /// The power was cut; whether the layer had become ready before.
    Cut(bool),
    /// The layer refused what a fault had damaged.
    Refused,
}

/// A command under way.
#[derive(Debug)]
pub struct Flight {
    /// Its token.
    pub token: Token,
    /// The command.
    pub command: Command,
    /// What the device said when a flush or program was submitted.
    pub stamp: u32,
    /// What it touches on a device.
    pub extent: Option<Extent>,
    /// When it was submitted.
    pub sent: Nanos,
    /// How many commands were submitted before it.
    pub seq: u64,
    /// Whether it is past its deadline.
    pub late: bool,
}

/// What a life goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before its first input.
    New,
    /// Formatting or recovering.
    Starting,
    /// Serving.
    Ready,
    /// Asked to stop, at the moment that is given.
    Stopping(Moment),
    /// Over.
    Over(End),
}

/// See the module text.
#[derive(Debug)]
pub struct Life<'w> {
    pub(crate) w: &'w mut World,
    pub(crate) layer: AnyLayer,
    pub(crate) flight: Vec<Flight>,
    pub(crate) hung: Vec<Flight>,
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
    pub(crate) pending: Vec<Option<Pending>>,
    pub(crate) waiting: usize,
    pub(crate) free: Vec<u32>,
    pub(crate) failed_writes: Vec<Span>,
    pub(crate) served: u64,
    pub(crate) audited: bool,
    /// Device errors that the layer was given in this life, hangs included.
    pub(crate) errors: u64,
    /// Those of them for which the host may be given an error.
    pub(crate) excuses: u64,
    /// What the layer said of the medium.
    pub(crate) heard: Heard,
    /// Those of them that say that a device is dead.
    pub(crate) deaths: u64,
    pub(crate) unflushed: Unflushed,
    pub(crate) steps: u64,
    /// Whether this life has any trouble.
    pub(crate) calm: bool,
    pub(crate) cut_at: u64,
    pub(crate) hang_at: u64,
    /// Whether all commands of the victim hang from then on, not just one, and whether any did.
    pub(crate) all_hangs: bool,
    pub(crate) hung_once: bool,
    pub(crate) dead_at: u64,
    pub(crate) hiccups: Hiccups,
    pub(crate) device_commands: u64,
    pub(crate) commands: u64,
    /// Whether a program was given up, so that those behind it in its segment can't be right.
    pub(crate) disordered: bool,
    pub(crate) last_reply: u64,
    pub(crate) wrong: Option<String>,
}

/// What completed since the last flush was answered, for the table of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unflushed {
    pub(crate) trim: bool,
    pub(crate) zeroes: bool,
    pub(crate) fua: bool,
    pub(crate) flush: bool,
}

impl<'w> Life<'w> {
    /// A new life over what the devices hold; with `calm` nothing goes wrong in it.
    ///
    /// # Errors
    /// When the layer refuses a plan that it made before.
    pub fn new(w: &'w mut World, mode: Mode, calm: bool) -> Result<Self, String> {
        let (buffers, free) = w.issue();
        let layer = AnyLayer::new(&w.config, &w.infos, buffers, mode);
        let layer = layer.map_err(|why| format!("new after plan: {why}"))?;
        w.workload.end_audit();
        w.reopen();
        let depth = w.swarm.depth as usize;
        let mut life = Life {
            layer,
            flight: Vec::with_capacity(256),
            hung: Vec::new(),
            phase: Phase::New,
            mode,
            pending: (0..depth).map(|_| None).collect(),
            waiting: 0,
            free,
            failed_writes: Vec::new(),
            served: 0,
            audited: false,
            errors: 0,
            excuses: 0,
            heard: Heard::default(),
            deaths: 0,
            unflushed: Unflushed::default(),
            steps: 0,
            calm,
            cut_at: u64::MAX,
            hang_at: u64::MAX,
            all_hangs: false,
            hung_once: false,
            dead_at: u64::MAX,
            hiccups: Hiccups::default(),
            device_commands: 0,
            commands: 0,
            disordered: false,
            last_reply: 0,
            wrong: None,
            w,
        };
        life.remember_broken();
        if !calm {
            life.choose_fate();
        }
        Ok(life)
    }

    /// Lives until the end.
    ///
    /// # Errors
    /// What was expected and what was found instead.
    pub fn run(mut self) -> Result<End, String> {
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
            if self.steps >= self.cut_at {
                return Ok(self.cut());
            }
            match self.choose() {
                Some(input) => self.feed(input, &mut out),
                None => self.fail(format!("stalled with {} requests waiting", self.waiting)),
            }
        }
    }

    /// Records the first thing that is wrong.
    pub(crate) fn fail(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// The next input: any that is possible.
    fn choose(&mut self) -> Option<Input> {
        if self.phase == Phase::New {
            self.phase = Phase::Starting;
            return Some(Input::Timer);
        }
        self.w.now += self.w.dice.below(1000);
        if !self.hung.is_empty() && self.w.dice.chance(5) && !self.others_would_be_late() {
            self.w.now += self.w.config.deadline;
        }
        let timer = self.layer.next_timer();
        let due = timer.is_some_and(|at| at <= self.w.now);
        let weights = self.w.swarm.weights;
        let possible = [
            if due { weights[0] } else { 0 },
            if self.flight.is_empty() { 0 } else { weights[1] },
            if self.may_ask() { weights[2] } else { 0 },
        ];
        if possible == [0; 3] {
            return self.choose_rarely(timer);
        }
        match self.w.dice.weigh(&possible) {
            0 => Some(Input::Timer),
            1 => Some(self.complete_one()),
            _ => Some(self.ask()),
        }
    }

    /// Nothing is possible now: stop, or let time pass.
    fn choose_rarely(&mut self, timer: Option<u64>) -> Option<Input> {
        let answers = self.hung.is_empty() || self.all_hangs && self.w.dice.chance(500);
        if self.phase == Phase::Ready && self.waiting == 0 && answers {
            self.phase = Phase::Stopping(self.w.model.begin_flush());
            self.choose_fate_of_stop();
            return Some(Input::Stop);
        }
        if timer.is_none() && self.waiting == 0 && !self.hung.is_empty() {
            self.release_hung(0);
            return Some(self.complete_one());
        }
        let timer = timer?;
        self.w.now = self.w.now.max(timer);
        Some(Input::Timer)
    }

    /// Completes one command in flight.
    fn complete_one(&mut self) -> Input {
        let count = self.flight.len() as u64;
        let dice = &mut self.w.dice;
        let (order, stubborn) = self.w.swarm.order;
        let index = match order {
            Order::Oldest if dice.chance(stubborn) => 0,
            Order::Newest if dice.chance(stubborn) => count - 1,
            _ => dice.below(count),
        };
        let index = zoned::first_of_segment(&self.flight, &self.w.machine.disks, index as usize);
        let mut flight = match order {
            Order::Any => self.flight.swap_remove(index),
            Order::Oldest | Order::Newest => self.flight.remove(index),
        };
        let result = self.execute(&mut flight);
        self.follow_copy(&flight.command, result.is_ok());
        self.w.tallies.note_if(flight.late, Named::LateDone);
        self.w.machine.arena.repay(flight.token.0, &flight.command);
        Input::Done(Done { token: flight.token, command: flight.command, result })
    }

    fn execute(&mut self, flight: &mut Flight) -> Outcome {
        let device = flight.command.device();
        if device.is_some_and(|device| self.is_dead(device)) {
            self.err(Row::DeadDevice);
            self.disordered = true;
            self.w.gone = self.w.swarm.victim.is_some();
            return Err(DeviceError::Gone);
        }
        if device.is_some() && flight.late && self.w.dice.chance(500) {
            self.err(Row::Hang);
            self.disordered = true;
            return Err(DeviceError::Gone);
        }
        if let Some(error) = self.break_segment(&flight.command) {
            return Err(error);
        }
        if let Some(error) = self.hiccup(flight) {
            return Err(error);
        }
        let detour = if device.is_some() { self.detour(&flight.command) } else { Detour::None };
        let dice = &mut self.w.dice;
        let result = self.w.machine.run(&mut flight.command, flight.stamp, detour, dice);
        if result.is_err() && device.is_some() && !self.segment_refused(&flight.command) {
            self.err(Row::ReadError);
            self.w.tallies.note(Named::ReadError);
        }
        result
    }

    /// Gives the layer an input and takes its outputs.
    fn feed(&mut self, input: Input, out: &mut Out) {
        self.w.observe("", || trace::input(&input));
        self.w.steps += 1;
        self.steps += 1;
        let timer = matches!(input, Input::Timer);
        self.layer.step(self.w.now, input, out);
        let made = MAX_OUTPUTS - out.room();
        for output in out.drain() {
            self.w.observe("  ", || trace::output(&output));
            self.take(output);
        }
        if timer && !self.hung.is_empty() {
            self.release_hung(self.w.config.deadline);
        }
        if self.waiting == 0 || made == 0 && self.phase == Phase::Starting {
            self.last_reply = self.steps;
        } else if self.steps - self.last_reply > PATIENCE {
            self.fail(format!("no request was answered for {PATIENCE} steps"));
        }
        if self.steps.is_multiple_of(CHECK_EVERY) || matches!(self.phase, Phase::Over(_)) {
            self.check();
        }
    }

    fn check(&mut self) {
        if let Err(what) = self.layer.check() {
            self.fail(format!("invariant: {what}"));
        }
    }

    fn take(&mut self, output: Output) {
        match output {
            Output::Submit(token, command) => self.submit(token, command),
            Output::Reply(reply) => self.answered(reply),
            Output::Reclaim(payload) => {
                self.w.tallies.note(Named::LeftBehind);
                self.regain(payload);
            }
            Output::Event(event) => self.noted(event),
        }
    }

    /// A host payload came home.
    pub(crate) fn regain(&mut self, payload: Payload) {
        self.free.push(payload.surrender());
    }

    fn submit(&mut self, token: Token, command: Command) {
        let extent = extent(&command);
        if let Err(what) = self.within_device(&command, extent) {
            self.fail(what);
        }
        if let Err(race) = self.w.machine.arena.lend(token.0, &command) {
            self.fail(race);
        }
        if self.flight.iter().chain(&self.hung).any(|other| other.token == token) {
            self.fail(format!("token {} is in flight twice", token.0));
        }
        let stamp = match &command {
            Command::Flush { device } => self.w.machine.disks[*device as usize].begin_flush(),
            Command::Program { device, .. } => self.w.machine.disks[*device as usize].epoch(),
            _ => 0,
        };
        if command.device().is_some() {
            self.device_commands += 1;
            self.aim(&command);
            let overlaps = self.flight.iter().any(|other| overlap(other.extent, extent));
            self.w.tallies.note_if(overlaps, Named::DeviceOverlap);
            self.w.tallies.note_if(self.device_commands == self.dead_at, Named::DeadDevice);
        }
        if let Err(what) = self.keeps_order(&command, extent) {
            self.fail(what);
        }
        let (sent, seq) = (self.w.now, self.commands);
        self.commands += 1;
        let flight = Flight { token, command, stamp, extent, sent, seq, late: false };
        if self.behind_a_hung_one(extent) {
            self.err(Row::Hang);
            self.hung.push(flight);
        } else if self.hangs(&flight.command) {
            if !self.all_hangs {
                self.hang_at = u64::MAX;
            }
            self.hung_once = true;
            self.err(Row::Hang);
            self.w.gone = self.w.swarm.victim.is_some();
            self.hung.push(flight);
        } else {
            self.flight.push(flight);
        }
    }

    fn within_device(&self, command: &Command, extent: Option<Extent>) -> Result<(), String> {
        let Some((device, lba, sectors, _)) = extent else { return Ok(()) };
        if let Command::Program { gather, tally, .. } = command {
            let bytes: u32 = gather.iter().map(|piece| piece.bytes()).sum();
            if u64::from(bytes) != sectors * 512 {
                return Err(format!("a tally of {} for {bytes} bytes", tally.total()));
            }
        }
        let size = self.w.machine.disks.get(usize::from(device)).map_or(0, |disk| disk.sectors());
        match lba.checked_add(sectors) {
            Some(end) if end <= size && sectors > 0 => Ok(()),
            _ => Err(format!("{} on a device of {size} sectors", trace::command(command))),
        }
    }

    fn noted(&mut self, event: Event) {
        match event {
            Event::Ready { replayed, dropped } => self.became_ready(replayed, dropped),
            Event::Stopped => self.stopped(),
            Event::Unrecoverable(_) if self.lacks_journal() => self.refused_without_journal(),
            Event::Unrecoverable(_) if self.has_copy() => self.refused_with_copy(),
            Event::Unrecoverable(_) if self.hung_at_start() => self.refused_at_start(),
            Event::Unrecoverable(_) if self.has_passing_faults() => {
                self.w.tallies.note(Named::RefusedForNow);
                self.refused_at_start();
            }
            Event::Unrecoverable(_) if self.w.damaged || self.excuses > 0 => {
                self.w.tallies.note(Named::Refused);
                self.phase = Phase::Over(End::Refused);
            }
            Event::Unrecoverable(why) => {
                self.fail(format!("expected to open, found unrecoverable: {why}"));
            }
            Event::DeviceFailed { device, abandoned, .. } => {
                if self.errors == 0 {
                    self.fail(format!("device {device} is said to have failed and did not"));
                }
                self.w.tallies.note_if(abandoned, Named::Abandoned);
            }
            Event::Lost { sectors } => self.heard_lost(sectors),
            Event::Corrupt { lba, sectors } => self.heard_corrupt(lba, sectors),
            Event::Mended { device, lba, sectors } => self.heard_mended(device, lba, sectors),
            Event::Older { device } if self.w.to_copy().is_some_and(|it| it != device) => {
                self.fail(format!("device {device} is said to be an older copy and is not"));
            }
            Event::Older { .. } => self.w.tallies.note(Named::OlderTold),
            Event::GcStarted => self.w.tallies.note(Named::Gc),
            Event::CheckpointDone => {
                self.w.copied.root_done();
                self.w.tallies.note(Named::Checkpoint);
            }
            Event::Full => self.w.tallies.note(Named::Full),
        }
    }

    fn became_ready(&mut self, replayed: u64, dropped: u64) {
        if self.phase != Phase::Starting {
            self.fail("ready, but the layer was not starting".into());
        }
        self.phase = Phase::Ready;
        self.w.clean = false;
        self.ready_with_copy();
        self.w.life_begun();
        self.choose_fate_when_ready();
        self.w.tallies.note_if(replayed > 0, Named::CutReplayed);
        self.w.tallies.note_if(dropped > 0, Named::CutDropped);
        self.check();
        let (lost, missing) = (self.layer.lost_devices(), self.w.config.missing);
        if lost & missing != missing || self.w.swarm.victim.is_some_and(|it| lost & !(1 << it) != 0)
        {
            self.fail(format!("missing are {missing:#b}, the layer does without {lost:#b}"));
        }
        if self.mode == Mode::Open && (self.audited || self.w.dice.chance(self.w.swarm.audit)) {
            self.audited = true;
            self.w.workload.audit();
        }
    }

    fn stopped(&mut self) {
        let Phase::Stopping(begin) = self.phase else {
            return self.fail("stopped, but nobody asked".into());
        };
        self.phase = Phase::Over(End::Stopped);
        self.hear_failure();
        let late = |flight: &Flight| flight.late || flight.command.device().is_none();
        if self.errors == 0 && (!self.layer.idle() || !self.flight.iter().all(late)) {
            self.fail("stopped with something under way".into());
        }
        if self.excuses == 0 {
            self.w.model.end_flush(begin);
            self.w.clean = true;
            self.w.tallies.note(Named::CleanStop);
            self.w.tallies.note_if(self.audited, Named::Audit);
        }
    }
}
