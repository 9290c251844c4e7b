//! The event loop that runs one layer on real devices under the real clock.
//!
//! Invariants
//! - The layer is stepped by one thread at a time, never from within a step.
//! - Requests go in only after `Event::Ready` and within the credits; `Input::Stop` only when every
//!   request is answered.
//! - Memory of a command is freed only after the command ended. If it never ends, the memory is
//!   never freed.

use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hostftl_core::{AdminCommand, AdminOutcome, Event, Input, Layer, Nanos, Out, Output, Refusal};

use crate::device::Device;
use crate::engine::EngineKind;
use crate::error::IoError;
use crate::host::{Host, Pull, Tap};
use crate::memory::Memory;
use crate::overlay::OVERLAY_MAX_BYTES;
use crate::stats::{Snapshot, Stats};
use crate::waker::Waker;
use crate::world::World;

mod exchange;

/// Requests taken in a row before completed commands are polled again, and completed commands
/// processed before the resulting commands are passed to the devices and workers.
const REQUESTS: usize = 64;
const COMMANDS: usize = 16;
/// Maximum age of a snapshot under load, in ns.
const SNAPSHOT_AGE: Nanos = 100_000_000;
/// Longest sleep while the layer waits for a timer, and pause (ns) from which this process counts
/// as suspended. A suspension is not the fault of a device, so the driver's clock excludes it.
const NAP: Duration = Duration::from_secs(1);
const STANDSTILL: Nanos = 3_000_000_000;

/// Parts of a driver other than its layer.
pub struct Parts {
    /// The devices of the stack, with their windows set.
    pub devices: Vec<Device>,
    /// Memory of the payload buffers of the layer and of the host.
    pub memory: Memory,
    /// Wakes the driver when the host has work.
    pub waker: Arc<Waker>,
    /// Engine that executes transfers.
    pub engine: EngineKind,
    /// Observer of the layer's inputs and outputs.
    pub tap: Option<Box<dyn Tap>>,
}

/// Result of [`Driver::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// More work can be done at once.
    More,
    /// No work until a command ends, a request arrives, or this time has passed.
    Rests {
        /// Time until the layer's timer.
        until: Option<Duration>,
        /// Whether the layer accepts a request; if not, only the end of a command allows progress.
        pulls: bool,
    },
    /// The host has no more requests, and all are answered.
    Over,
}

/// Life cycle of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Stopping,
    Stopped,
    Lost(&'static str),
}

/// Driver of one layer on real devices.
pub struct Driver<L: Layer> {
    layer: L,
    world: ManuallyDrop<World>,
    out: Out,
    phase: Phase,
    /// Whether the layer accepted no request at the last pull: no credits, or the request was too
    /// long.
    starved: bool,
    /// Whether the host announced that no more requests will come.
    over: bool,
    /// Queries answered for the host. They are not steps.
    queries: u64,
    began: Instant,
    /// Last reading of the clock, and total suspended time before it, in ns.
    seen: Nanos,
    stood: Nanos,
    tap: Option<Box<dyn Tap>>,
    shown: Arc<Mutex<Snapshot>>,
    /// Time of the last snapshot.
    shown_at: Nanos,
}

impl<L: Layer> Driver<L> {
    /// Creates a driver for `layer`, which has the arena's layer buffers and was not stepped yet.
    ///
    /// # Errors
    /// When the system cannot provide a thread or io_uring.
    pub fn new(mut layer: L, parts: Parts) -> Result<Self, IoError> {
        let Parts { devices, memory, waker, engine, tap } = parts;
        let world = World::new(devices, memory, waker, engine);
        // No driver will return the buffers of the layer, so it has to forget them.
        let world = world.inspect_err(|_| layer.power_off())?;
        let mut driver = Driver {
            layer,
            world: ManuallyDrop::new(world),
            out: Out::new(),
            phase: Phase::Starting,
            starved: false,
            over: false,
            queries: 0,
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

    /// Makes the driver write to no device from now on. The layer reads back its own writes from
    /// memory, and they are discarded at the end. Must be called before the start. Reads are
    /// executed one after the other; with `past`, those of data that is not in memory take the
    /// usual path.
    pub fn discard_writes(&mut self, past: bool) {
        self.world.discard_writes(past);
    }

    /// Returns whether a read-only run exceeded the memory for its writes. The layer got the error
    /// that the device is full.
    pub fn is_overlay_full(&self) -> bool {
        self.world.is_overlay_full()
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
        // This host may have announced its end already, but the next one has requests.
        self.over = false;
        match self.phase {
            Phase::Lost(_) if self.is_overlay_full() => {
                Err(IoError::OverlayFull { most: OVERLAY_MAX_BYTES >> 20 })
            }
            Phase::Lost(why) => Err(IoError::Unrecoverable(why)),
            _ => Ok(()),
        }
    }

    /// Processes the host's requests until there are no more and all are answered.
    ///
    /// # Errors
    /// When the layer stalls.
    pub fn serve(&mut self, host: &mut impl Host) -> Result<(), IoError> {
        assert_eq!(self.phase, Phase::Ready, "only a ready layer takes requests");
        self.over = false;
        while !self.over || self.waiting() > 0 {
            self.turn(host, "serving")?;
        }
        // The next host may have requests.
        self.over = false;
        Ok(())
    }

    /// Works without waiting, for at most `turns` turns.
    ///
    /// # Errors
    /// When the layer stalls.
    pub fn advance(&mut self, host: &mut impl Host, turns: u32) -> Result<Pace, IoError> {
        assert_eq!(self.phase, Phase::Ready, "only a ready layer takes requests");
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

    /// Returns how long to wait at most after a turn without progress, and whether to wait for
    /// requests.
    fn rests(&mut self) -> (Option<Duration>, bool) {
        let now = self.clock();
        self.show(now);
        let timer = self.layer.next_timer();
        let until = timer.map(|at| Duration::from_nanos(at.saturating_sub(now)).min(NAP));
        (until, self.pulls())
    }

    /// Returns whether commands are in flight.
    pub fn is_flying(&self) -> bool {
        self.world.flying() > 0
    }

    /// Returns the descriptor that becomes readable when a command ends, if it is not the waker's.
    pub fn ring_fd(&self) -> Option<RawFd> {
        self.world.ring_fd()
    }

    /// Stops the layer; afterwards all data is durable.
    ///
    /// # Errors
    /// When the layer stalls.
    pub fn stop(&mut self, host: &mut impl Host) -> Result<(), IoError> {
        assert!(
            self.phase == Phase::Ready && self.waiting() == 0,
            "the layer stops after the last command"
        );
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

    /// Runs one turn of the loop: processes completions, timers and requests, or sleeps.
    fn turn(&mut self, host: &mut impl Host, doing: &'static str) -> Result<(), IoError> {
        if self.progress(host) { Ok(()) } else { self.rest(host, doing) }
    }

    /// Runs the part of a turn before the sleep. Returns whether there was any progress.
    fn progress(&mut self, host: &mut impl Host) -> bool {
        let before = (self.world.stats.steps, self.queries, self.over);
        let began = self.now();
        self.world.poll();
        for _ in 0..COMMANDS {
            let Some(done) = self.world.take_done() else { break };
            self.step(Input::Done(done), host);
        }
        let is_idle = before.0 == self.world.stats.steps;
        // Without steps hardly any time has passed since the turn began.
        let now = if is_idle { began } else { self.now() };
        if self.layer.next_timer().is_some_and(|at| at <= now) {
            self.step(Input::Timer, host);
        }
        if self.phase == Phase::Ready {
            self.pull(host);
        }
        if before == (self.world.stats.steps, self.queries, self.over) {
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
                Pull::Query => {
                    self.queries += 1;
                    host.query(&self.layer);
                }
                Pull::TooLong => return self.starved = true,
                Pull::Nothing => return,
                Pull::Over => return self.over = true,
            }
        }
    }

    /// Sleeps until an event occurs.
    fn rest(&mut self, host: &mut impl Host, doing: &'static str) -> Result<(), IoError> {
        self.check_stall(doing)?;
        let (most, pulls) = self.rests();
        self.world.sleep(most, || pulls && host.has_work());
        Ok(())
    }

    /// Returns whether the layer would accept a request now.
    fn pulls(&self) -> bool {
        self.phase == Phase::Ready && !self.starved && !self.over
    }

    fn check_stall(&self, doing: &'static str) -> Result<(), IoError> {
        // Without a timer, a command or a possible request nothing would ever wake the layer.
        let waits = self.layer.next_timer().is_some() || self.world.flying() > 0 || self.pulls();
        if waits { Ok(()) } else { Err(IoError::Stalled(doing)) }
    }

    /// Runs one step with the last reading of the clock. Steps are too short to read it for each.
    fn step(&mut self, input: Input, host: &mut impl Host) {
        let now = self.clock();
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

    /// Executes a command of the administrator.
    ///
    /// # Errors
    /// The reason, when nothing was changed.
    pub fn operate(
        &mut self,
        command: AdminCommand,
        host: &mut impl Host,
    ) -> Result<AdminOutcome, Refusal> {
        if self.phase != Phase::Ready {
            return Err(Refusal::Because("the volume is not open"));
        }
        let now = self.now();
        if let Some(tap) = &mut self.tap {
            tap.admin_command(now, command);
        }
        let answer = self.layer.operate(command);
        // The layer may have commands to submit now, and only a step returns them.
        self.step(Input::Timer, host);
        self.show(now);
        answer
    }

    /// Returns the number of requests that are not answered yet.
    fn waiting(&self) -> u64 {
        self.world.stats.requests_in - self.world.stats.requests_out
    }

    /// Reads the clock: nanoseconds since the driver was created, without suspended time.
    fn now(&mut self) -> Nanos {
        let real = self.began.elapsed().as_nanos() as Nanos;
        let pause = real - core::mem::replace(&mut self.seen, real);
        self.stood += if pause > STANDSTILL { pause } else { 0 };
        real - self.stood
    }

    /// Returns the last reading of [`Driver::now`].
    fn clock(&self) -> Nanos {
        self.seen - self.stood
    }

    fn show(&mut self, now: Nanos) {
        let (stats, counters) = (self.world.stats.clone(), self.layer.counters());
        let (map_bytes, gauges) = (self.layer.map_bytes(), self.layer.gauges());
        let facts = self.layer.facts().into_iter().collect();
        let (members, failed) = (self.layer.members(), self.layer.has_failed());
        let mut shown = self.shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Lost ranges are searched only after another device was lost: such a layer accepts no
        // writes, so they do not change in between.
        let known = (shown.members.lost() == members.lost()).then(|| shown.lost_ranges.clone());
        let lost_ranges = known.unwrap_or_else(|| self.layer.lost_ranges().into());
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

    /// Returns the layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    /// Returns the devices, in the order of the stack.
    pub fn devices(&self) -> &[Device] {
        self.world.devices()
    }

    /// Returns whether the driver has a tap.
    pub fn is_tapped(&self) -> bool {
        self.tap.is_some()
    }

    /// Returns the engine's name and a remark about it.
    pub fn engine(&self) -> (&'static str, Option<String>) {
        self.world.engine()
    }

    /// Returns the counters.
    pub fn stats(&self) -> &Stats {
        &self.world.stats
    }

    /// Returns the shared snapshot. It is exact while the driver sleeps, else at most 0.1 s old.
    pub fn shown(&self) -> Arc<Mutex<Snapshot>> {
        self.shown.clone()
    }

    /// Publishes snapshots in `shown` from now on. The previous target keeps its last content.
    pub fn show_in(&mut self, shown: Arc<Mutex<Snapshot>>) {
        self.shown = shown;
        let now = self.now();
        self.show(now);
    }
}

impl<L: Layer> Driver<L> {
    /// Ends the driver, as dropping it does, but reports commands that never ended.
    ///
    /// # Errors
    /// When a device did not end some commands. The kernel may still use their memory, so that
    /// memory, the devices and their threads are kept until the process ends.
    pub fn close(mut self) -> Result<(), IoError> {
        if self.world.power_off() {
            return Ok(());
        }
        let list = self.world.unanswered().into_iter();
        let words: Vec<_> = list.map(|(name, count)| format!("{name} ({count})")).collect();
        Err(IoError::Unanswered { devices: words.join(", ") })
    }

    /// Ends the driver of a stopped layer and returns its devices for another driver.
    ///
    /// # Errors
    /// When the layer left commands in flight, and those of [`Driver::close`].
    pub fn into_devices(mut self) -> Result<Vec<Device>, IoError> {
        assert_eq!(self.phase, Phase::Stopped, "the layer is closed first");
        // The connections of the devices stay open, except when commands are in flight for which
        // the layer did not wait.
        let devices = if self.is_flying() { Vec::new() } else { self.world.take_devices() };
        let is_lost = self.is_flying();
        self.close()?;
        if is_lost { Err(IoError::Stalled("closing")) } else { Ok(devices) }
    }
}

impl<L: Layer> Drop for Driver<L> {
    /// Waits for the devices, then drops the buffers that the layer holds.
    fn drop(&mut self) {
        // After a panic the layer's state is unknown, so it is not called, and the world is leaked
        // if the kernel may still use its memory.
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
