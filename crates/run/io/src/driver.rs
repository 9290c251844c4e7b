//! The event loop that runs one layer on real devices under the real clock.
//!
//! Invariants
//! - The layer is stepped by one thread at a time, never from within a step.
//! - Requests go in only after `Event::Ready`, within the credits; `Input::Stop` only when every
//!   request is answered.
//! - What a command uses is freed only after the command ended; if it never ends, never.

use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hostftl_core::{Answer, Event, Input, Layer, Nanos, Out, Output, Refusal, Verb};

use crate::device::Device;
use crate::engine::EngineKind;
use crate::error::IoError;
use crate::host::{Host, Pull, Tap};
use crate::memory::Memory;
use crate::overlay::LOOK_MOST;
use crate::stats::{Snapshot, Stats};
use crate::waker::Waker;
use crate::world::World;

mod exchange;

/// Requests taken in a row before finished commands are looked at again, and commands before what
/// came of them goes to the devices and to the workers.
const REQUESTS: usize = 64;
const COMMANDS: usize = 16;
/// How old a snapshot gets under load.
const SNAPSHOT_AGE: Nanos = 100_000_000;
/// The longest sleep while the layer waits for a time, and from how long a pause on this process
/// stood still: no device is to blame for that, so that time does not count.
const NAP: Duration = Duration::from_secs(1);
const STANDSTILL: Nanos = 3_000_000_000;

/// What a driver is made from, beside its layer.
pub struct Parts {
    /// The devices of the stack, with their windows set.
    pub devices: Vec<Device>,
    /// The memory that the layer's and the host's payload lies in.
    pub memory: Memory,
    /// What wakes the driver when the host has work.
    pub waker: Arc<Waker>,
    /// What does the transfers.
    pub engine: EngineKind,
    /// Listens in.
    pub tap: Option<Box<dyn Tap>>,
}

/// What is left to do after [`Driver::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// There is more to do at once.
    More,
    /// Nothing until a command is over, a request comes, or this time is over.
    Rests {
        /// When the layer wants to be woken.
        until: Option<Duration>,
        /// Whether a request would be taken; else only the end of a command helps.
        pulls: bool,
    },
    /// The host has no more, and everything is answered.
    Over,
}

/// How far a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Stopping,
    Stopped,
    Lost(&'static str),
}

/// See the module text.
pub struct Driver<L: Layer> {
    layer: L,
    world: ManuallyDrop<World>,
    out: Out,
    phase: Phase,
    /// What the last look at the host came to: it has something, but the layer takes nothing.
    starved: bool,
    over: bool,
    /// Questions answered, which are no steps.
    looks: u64,
    began: Instant,
    /// What the clock showed last, and how long the process stood still before, in ns.
    seen: Nanos,
    stood: Nanos,
    tap: Option<Box<dyn Tap>>,
    shown: Arc<Mutex<Snapshot>>,
    shown_at: Nanos,
}

impl<L: Layer> Driver<L> {
    /// A driver for `layer`, which holds the arena's layer buffers and was not stepped yet.
    ///
    /// # Errors
    /// When the system gives no thread or no io_uring.
    pub fn new(mut layer: L, parts: Parts) -> Result<Self, IoError> {
        let Parts { devices, memory, waker, engine, tap } = parts;
        let world = World::new(devices, memory, waker, engine);
        // Without a driver the layer's buffers are of no use.
        let world = world.inspect_err(|_| layer.power_off())?;
        let mut driver = Driver {
            layer,
            world: ManuallyDrop::new(world),
            out: Out::new(),
            phase: Phase::Starting,
            starved: false,
            over: false,
            looks: 0,
            began: Instant::now(),
            seen: 0,
            stood: 0,
            tap,
            shown: Arc::default(),
            shown_at: 0,
        };
        driver.show(0);
        Ok(driver)
    }

    /// From now on nothing is written to any device: the layer sees what it wrote, and nobody else
    /// ever will. For a look, before the start. Reads are done one after the other, unless they go
    /// `past` what is in memory as usual.
    pub fn look_only(&mut self, past: bool) {
        self.world.look_only(past);
    }

    /// Whether a look had too little memory for what would be written: the layer was told that the
    /// device is full.
    pub fn is_look_full(&self) -> bool {
        self.world.is_look_full()
    }

    /// Runs the layer until it is ready for requests.
    ///
    /// # Errors
    /// When the layer can't recover the volume.
    pub fn start(&mut self, host: &mut impl Host) -> Result<(), IoError> {
        self.now();
        self.step(Input::Timer, host);
        while self.phase == Phase::Starting {
            self.turn(host, "starting")?;
        }
        // This host may have said so already, but the next one has requests.
        self.over = false;
        match self.phase {
            Phase::Lost(_) if self.is_look_full() => Err(IoError::Look { most: LOOK_MOST >> 20 }),
            Phase::Lost(why) => Err(IoError::Unrecoverable(why)),
            _ => Ok(()),
        }
    }

    /// Does the host's requests until there are no more and all are answered.
    ///
    /// # Errors
    /// When the layer stalls.
    pub fn serve(&mut self, host: &mut impl Host) -> Result<(), IoError> {
        assert_eq!(self.phase, Phase::Ready, "a layer serves when it is ready");
        self.over = false;
        while !self.over || self.waiting() > 0 {
            self.turn(host, "serving")?;
        }
        // The next host may have requests.
        self.over = false;
        Ok(())
    }

    /// Does what can be done without waiting, for at most `turns` turns.
    ///
    /// # Errors
    /// When the layer stalls.
    pub fn advance(&mut self, host: &mut impl Host, turns: u32) -> Result<Pace, IoError> {
        assert_eq!(self.phase, Phase::Ready, "a layer serves when it is ready");
        for _ in 0..turns {
            if self.progress(host) {
                continue;
            }
            if self.over && self.waiting() == 0 {
                return Ok(Pace::Over);
            }
            self.check_stall("serving")?;
            let (until, pulls) = self.rests();
            return Ok(Pace::Rests { until, pulls });
        }
        Ok(Pace::More)
    }

    /// How long to wait at most after a turn that came to nothing, and whether for requests too.
    fn rests(&mut self) -> (Option<Duration>, bool) {
        let now = self.looked();
        self.show(now);
        let timer = self.layer.next_timer();
        let until = timer.map(|at| Duration::from_nanos(at.saturating_sub(now)).min(NAP));
        (until, self.pulls())
    }

    /// Whether commands are under way.
    pub fn is_flying(&self) -> bool {
        self.world.flying() > 0
    }

    /// What is readable when a command is over, if it is not the waker.
    pub fn ring_fd(&self) -> Option<RawFd> {
        self.world.ring_fd()
    }

    /// Closes the layer; afterwards everything is durable.
    ///
    /// # Errors
    /// When the layer stalls.
    pub fn stop(&mut self, host: &mut impl Host) -> Result<(), IoError> {
        assert!(self.phase == Phase::Ready && self.waiting() == 0, "stop comes when all is done");
        self.phase = Phase::Stopping;
        self.now();
        self.step(Input::Stop, host);
        while self.phase == Phase::Stopping {
            self.turn(host, "stopping")?;
        }
        let now = self.now();
        self.show(now);
        Ok(())
    }

    /// One turn of the loop: take what is finished, wake the layer, take requests, or sleep.
    fn turn(&mut self, host: &mut impl Host, doing: &'static str) -> Result<(), IoError> {
        if self.progress(host) { Ok(()) } else { self.rest(host, doing) }
    }

    /// What a turn does before it sleeps: whether anything came of it.
    fn progress(&mut self, host: &mut impl Host) -> bool {
        let before = (self.world.stats.steps, self.looks, self.over);
        let began = self.now();
        self.world.poll();
        for _ in 0..COMMANDS {
            let Some(done) = self.world.take_done() else { break };
            self.step(Input::Done(done), host);
        }
        let is_idle = before.0 == self.world.stats.steps;
        let now = if is_idle { began } else { self.now() };
        if self.layer.next_timer().is_some_and(|at| at <= now) {
            self.step(Input::Timer, host);
        }
        if self.phase == Phase::Ready {
            self.pull(host);
        }
        if before == (self.world.stats.steps, self.looks, self.over) {
            return false;
        }
        if now - self.shown_at > SNAPSHOT_AGE {
            self.show(now);
        }
        true
    }

    fn pull(&mut self, host: &mut impl Host) {
        for _ in 0..REQUESTS {
            let credits = self.layer.credits();
            self.starved = credits.requests == 0;
            if self.starved || self.over {
                return;
            }
            match host.pull(credits) {
                Pull::Request(request) => {
                    self.world.stats.requests_in += 1;
                    self.step(Input::Host(request), host);
                }
                Pull::Look => {
                    self.looks += 1;
                    host.look(&self.layer);
                }
                Pull::TooLong => return self.starved = true,
                Pull::Nothing => return,
                Pull::Over => return self.over = true,
            }
        }
    }

    /// Sleeps until something happens.
    fn rest(&mut self, host: &mut impl Host, doing: &'static str) -> Result<(), IoError> {
        self.check_stall(doing)?;
        let (most, pulls) = self.rests();
        self.world.sleep(most, || pulls && host.has_work());
        Ok(())
    }

    /// Whether a request would be taken now.
    fn pulls(&self) -> bool {
        self.phase == Phase::Ready && !self.starved && !self.over
    }

    fn check_stall(&self, doing: &'static str) -> Result<(), IoError> {
        let waits = self.layer.next_timer().is_some() || self.world.flying() > 0 || self.pulls();
        if waits { Ok(()) } else { Err(IoError::Stalled(doing)) }
    }

    /// A step at the time that was looked at last: a turn's steps are too short to look for each.
    fn step(&mut self, input: Input, host: &mut impl Host) {
        let now = self.looked();
        self.world.stats.steps += 1;
        if let Some(tap) = &mut self.tap {
            tap.input(now, &input);
        }
        self.layer.step(now, input, &mut self.out);
        for output in self.out.drain() {
            if let Some(tap) = &mut self.tap {
                tap.output(now, &output);
            }
            match output {
                Output::Submit(token, command) => self.world.submit(token, command),
                Output::Reply(reply) => {
                    self.world.stats.requests_out += 1;
                    self.world.stats.requests_failed += u64::from(reply.result.is_err());
                    host.answer(reply);
                }
                Output::Reclaim(payload) => host.reclaim(payload),
                Output::Event(event) => {
                    match event {
                        Event::Ready { .. } => self.phase = Phase::Ready,
                        Event::Stopped => self.phase = Phase::Stopped,
                        Event::Unrecoverable(why) => self.phase = Phase::Lost(why),
                        _ => {}
                    }
                    host.event(event);
                }
            }
        }
    }

    /// Lets the layer do what an operator wants.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn operate(&mut self, verb: Verb, host: &mut impl Host) -> Result<Answer, Refusal> {
        if self.phase != Phase::Ready {
            return Err(Refusal::Because("the volume is not open"));
        }
        let now = self.now();
        if let Some(tap) = &mut self.tap {
            tap.verb(now, verb);
        }
        let answer = self.layer.operate(verb);
        self.step(Input::Timer, host);
        self.show(now);
        answer
    }

    /// Requests that are not answered yet.
    fn waiting(&self) -> u64 {
        self.world.stats.requests_in - self.world.stats.requests_out
    }

    /// Nanoseconds since the driver was made, without those in which the process stood still.
    fn now(&mut self) -> Nanos {
        let real = self.began.elapsed().as_nanos() as Nanos;
        let pause = real - core::mem::replace(&mut self.seen, real);
        self.stood += if pause > STANDSTILL { pause } else { 0 };
        real - self.stood
    }

    /// What [`Driver::now`] was when it was asked last.
    fn looked(&self) -> Nanos {
        self.seen - self.stood
    }

    fn show(&mut self, now: Nanos) {
        let (stats, counters) = (self.world.stats.clone(), self.layer.counters());
        let (map_bytes, gauges) = (self.layer.map_bytes(), self.layer.gauges());
        let facts = self.layer.facts().into_iter().collect();
        let (members, failed) = (self.layer.members(), self.layer.has_failed());
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // They are looked for once: a layer that lost something writes nothing more.
        let lost_ranges = if shown.members.lost() == members.lost() {
            shown.lost_ranges.clone()
        } else {
            self.layer.lost_ranges().into()
        };
        let tasks = self.layer.tasks().into_iter().collect();
        *shown = Snapshot {
            stats,
            counters,
            map_bytes,
            gauges,
            facts,
            tasks,
            members,
            failed,
            lost_ranges,
        };
        drop(shown);
        self.shown_at = now;
    }

    /// The layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    /// The devices, in the order of the stack.
    pub fn devices(&self) -> &[Device] {
        self.world.devices()
    }

    /// Whether somebody listens in.
    pub fn is_tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// The engine's name, and what is to be said of it.
    pub fn engine(&self) -> (&'static str, Option<String>) {
        self.world.engine()
    }

    /// What was counted so far.
    pub fn stats(&self) -> &Stats {
        &self.world.stats
    }

    /// A picture of the driver for other threads; exact whenever it sleeps, else 0.1 s old at most.
    pub fn shown(&self) -> Arc<Mutex<Snapshot>> {
        self.shown.clone()
    }

    /// The picture is `shown` from now on; the one before stays as it is.
    pub fn show_in(&mut self, shown: Arc<Mutex<Snapshot>>) {
        self.shown = shown;
        let now = self.now();
        self.show(now);
    }
}

impl<L: Layer> Driver<L> {
    /// Ends the driver. Dropping it does the same without a word.
    ///
    /// # Errors
    /// When a device never ended some commands. The kernel may still use their memory, so that,
    /// the devices and their threads are kept for as long as the process lives.
    pub fn close(mut self) -> Result<(), IoError> {
        if self.world.power_off() {
            return Ok(());
        }
        let list = self.world.unanswered().into_iter();
        let words: Vec<_> = list.map(|(name, count)| format!("{name} ({count})")).collect();
        Err(IoError::Unanswered { devices: words.join(", ") })
    }

    /// Ends the driver of a layer that is closed; its devices, for another one.
    ///
    /// # Errors
    /// As [`Driver::close`].
    pub fn into_devices(mut self) -> Result<Vec<Device>, IoError> {
        assert_eq!(self.phase, Phase::Stopped, "the layer is closed first");
        // Connections stay open, unless something is under way that the layer did not wait for.
        let devices = if self.is_flying() { Vec::new() } else { self.world.take_devices() };
        let is_lost = self.is_flying();
        self.close()?;
        if is_lost { Err(IoError::Stalled("closing")) } else { Ok(devices) }
    }
}

impl<L: Layer> Drop for Driver<L> {
    /// Waits for the devices, then forgets what the layer holds.
    fn drop(&mut self) {
        let over = if std::thread::panicking() {
            self.world.flying() == 0
        } else {
            self.layer.power_off();
            self.world.power_off()
        };
        if over {
            // SAFETY: this is the only drop, and nothing uses the world after it.
            unsafe { ManuallyDrop::drop(&mut self.world) };
        }
    }
}
