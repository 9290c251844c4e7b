//! The only `impl Layer` of the engines: start, stop, failures, deadlines, and the loop of rounds.
//!
//! All engines follow the same rules:
//! - A step passes its input to the engine, and then runs rounds until nothing moves, the outputs
//!   are full, or enough of the map was touched. A timer continues the rest.
//! - During the start, a failed device ends the layer as unrecoverable. Later, it ends all writing:
//!   the engine winds down, waiting requests are answered with the error, and reads continue unless
//!   the device was removed. Requests to a device that does not respond are answered without their
//!   payload.
//! - Stopping a running engine makes everything durable. Stopping a failed engine ends when every
//!   command has completed or was abandoned. A stop before the start is complete, or after it
//!   failed, takes effect at once.

use alloc::vec::Vec;
use core::fmt::Debug;

use hostftl_core::{
    AdminCommand, AdminOutcome, ArrayVec, Codec, Command, Counters, Credits, DeviceError, Done,
    Event, Gauges, Input, Layer, Limits, MAX_OUTPUTS, MAX_TOUCH, Members, Nanos, Out, Output,
    Piece, Refusal, Request, Task, Token, Verdict, View, ViewMut,
};

use super::cx::{Common, Cx};
use super::life::{Health, Life};
use super::requests::{Order, SLOTS};
use crate::plan::Plan;

/// Result of a command.
pub(crate) type Ended = Result<Verdict, DeviceError>;
/// Context of the parts of an engine.
pub(crate) type CxOf<'a, C> = Cx<'a, <C as Core>::Op, <C as Core>::Mark>;

/// An engine: the behaviour that differs between layers.
pub(crate) trait Core: Debug {
    /// Purpose of a command.
    type Op: Copy + Debug;
    /// Point that must be durable before a request is answered.
    type Mark: Copy + Default + Debug;
    /// Maximum number of outputs of one round.
    const ROUND_OUTPUTS: usize;
    /// Maximum number of outputs of a round if the step has room for them. An engine that sets it
    /// checks [`Cx::room`] during the round.
    const MOST_OUTPUTS: usize = Self::ROUND_OUTPUTS;
    /// Order in which requests are processed.
    const ORDER: Order = Order::Arrival;
    /// Maximum number of requests in flight.
    const REQUESTS: usize = SLOTS;

    /// Returns whether a successful computation for `op` requires a full round (see
    /// [`Cx::is_fast_path_valid`]). Every other completed command requires one.
    fn invalidates_fast_path(_op: Self::Op) -> bool {
        true
    }
    /// Accepts a request.
    fn accept(&mut self, request: Request, cx: &mut CxOf<Self>);
    /// Completes a command. The engine reports a fatal error by [`Cx::fail`].
    fn done(&mut self, op: Self::Op, command: Command, ended: Ended, cx: &mut CxOf<Self>);
    /// Completes a compression. It replaces [`Core::done`] for the most frequent command, so that
    /// the whole command is not copied.
    fn packed(
        &mut self,
        op: Self::Op,
        (from, into): (View, ViewMut),
        (codec, seed): (Codec, u64),
        verdict: Verdict,
        cx: &mut CxOf<Self>,
    ) {
        self.done(op, Command::Pack { from, into, codec, seed }, Ok(verdict), cx);
    }
    /// Completes a copy of data, like [`Core::packed`].
    fn placed(&mut self, op: Self::Op, from: View, into: ViewMut, cx: &mut CxOf<Self>) {
        let command = Command::Place { from: Piece::Data(from), into };
        self.done(op, command, Ok(Verdict::default()), cx);
    }
    /// Completes a command that was abandoned by [`Cx::abandon_commands`].
    fn late_done(
        &mut self,
        _token: Token,
        op: Self::Op,
        _command: Command,
        _ended: Ended,
        _cx: &mut CxOf<Self>,
    ) {
        unreachable!("command {op:?} was not abandoned")
    }
    /// Handles a timer; `late` is whether a command has become late. Returns whether the engine
    /// continues without that command. Otherwise all writing ends.
    fn woken(&mut self, _late: bool, _cx: &mut CxOf<Self>) -> bool {
        false
    }
    /// Runs a round of the start. Returns whether anything moved. The start ends with
    /// [`Cx::become_ready`] or [`Cx::fail_volume`].
    fn start(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// Runs a round of work. Returns whether anything moved.
    fn run(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// Runs a round of the stop, when no work is left. Returns whether anything moved. The stop
    /// ends with [`Cx::stopped`].
    fn stop(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// Runs a round after a failure or after the end, which completes requests. Returns whether
    /// anything moved.
    fn wind_down(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// Implements [`Layer::operate`] for an engine that is running and healthy.
    fn operate(&mut self, _command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        Err(Refusal::Unable)
    }
    /// Implements [`Layer::tasks`].
    fn tasks(&self) -> ArrayVec<Task, 5> {
        ArrayVec::new()
    }
    /// Ends a step.
    fn after_step(&mut self, _cx: &mut CxOf<Self>) {}

    /// Implements [`Layer::check`] for an open volume.
    fn check(&self) -> Result<(), &'static str>;
    /// Implements [`Layer::power_off`].
    fn power_off(&mut self);
    /// Implements [`Layer::idle`] for the state of the engine.
    fn is_idle(&self) -> bool {
        true
    }
    /// Implements [`Layer::gauges`].
    fn gauges(&self) -> Option<Gauges> {
        None
    }
    /// Implements [`Layer::members`].
    fn members(&self) -> Members {
        Members::default()
    }
    /// Implements [`Layer::lost_ranges`].
    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// Implements [`Layer::facts`].
    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
    /// Implements [`Layer::mapped`].
    fn mapped(&self, _lba: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }
    /// Implements [`Layer::has_fast_zeroes`].
    fn has_fast_zeroes(&self) -> bool {
        false
    }
}

/// A layer: an engine in the common shell.
#[derive(Debug)]
pub(crate) struct Shell<C: Core> {
    plan: Plan,
    common: Common<C::Op, C::Mark>,
    core: C,
}

impl<C: Core> Shell<C> {
    /// Creates a layer that is not started, with a table of `most` commands and a timeout per
    /// device.
    pub(crate) fn over(core: C, plan: Plan, most: u16, patience: [Nanos; 16]) -> Self {
        let requests = (C::ORDER, C::REQUESTS);
        let common = Common::new(most, patience, plan.limits.exported, requests);
        Shell { plan, common, core }
    }

    /// Returns the engine.
    pub(crate) fn core(&self) -> &C {
        &self.core
    }

    fn with<T>(
        &mut self,
        now: Nanos,
        out: &mut Out,
        budget: usize,
        act: impl FnOnce(&mut C, &mut CxOf<C>) -> T,
    ) -> T {
        act(&mut self.core, &mut Cx::new(now, out, budget, &mut self.common))
    }

    fn take(&mut self, now: Nanos, input: Input, out: &mut Out) {
        match input {
            Input::Host(request) => {
                assert_eq!(self.common.life(), Life::Running, "requests arrive at a running layer");
                let cx = &mut Cx::new(now, out, MAX_OUTPUTS, &mut self.common);
                self.core.accept(request, cx);
            }
            Input::Done(Done {
                token,
                command: Command::Pack { from, into, codec, seed },
                result: Ok(verdict),
            }) => {
                let op = self.end_computation(token);
                self.with(now, out, MAX_OUTPUTS, |core, cx| {
                    core.packed(op, (from, into), (codec, seed), verdict, cx);
                });
            }
            Input::Done(Done {
                token,
                command: Command::Place { from: Piece::Data(from), into },
                result: Ok(_),
            }) => {
                let op = self.end_computation(token);
                self.with(now, out, MAX_OUTPUTS, |core, cx| core.placed(op, from, into, cx));
            }
            Input::Done(Done { token, command, result }) => {
                self.done(now, token, command, result, out);
            }
            Input::Timer => {
                self.common.woken(now);
                let late = self.common.is_late(now);
                let continues = self.with(now, out, MAX_OUTPUTS, |core, cx| core.woken(late, cx));
                if late && !continues {
                    self.with(now, out, 1, |_, cx| cx.fail(0, DeviceError::Removed, true));
                }
            }
            Input::Stop if self.common.stop() => out.push(Output::Event(Event::Stopped)),
            Input::Stop => {}
        }
    }

    #[inline]
    fn end_computation(&mut self, token: Token) -> C::Op {
        let (op, _) = self.common.end_command(token);
        if C::invalidates_fast_path(op) {
            self.common.invalidate_fast_path();
        }
        op
    }

    // Not inlined, because its arguments are large.
    #[inline(never)]
    fn done(&mut self, now: Nanos, token: Token, command: Command, ended: Ended, out: &mut Out) {
        let is_abandoned = self.common.is_abandoned(token);
        let (op, of_device) = self.common.end_command(token);
        if is_abandoned || ended.is_err() || of_device || C::invalidates_fast_path(op) {
            self.common.invalidate_fast_path();
        }
        // Without `with`: a closure would copy the command once more.
        let cx = &mut Cx::new(now, out, MAX_OUTPUTS, &mut self.common);
        if is_abandoned {
            self.core.late_done(token, op, command, ended, cx)
        } else {
            self.core.done(op, command, ended, cx)
        }
    }

    /// Runs rounds until nothing moves or the step is full.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.common.begin_rounds();
        loop {
            if out.outputs_left() < C::ROUND_OUTPUTS || self.common.touched() > MAX_TOUCH / 2 {
                return self.common.leave_rest();
            }
            let (life, health) = (self.common.life(), self.common.health());
            let moved = self.with(now, out, C::MOST_OUTPUTS, |core, cx| match (life, health) {
                (Life::Over, _) => core.wind_down(cx),
                (_, Health::ReadOnly(_) | Health::Failed) => fail_on(core, cx),
                (Life::Starting, _) => core.start(cx),
                (Life::Running, _) => core.run(cx),
                (Life::Stopping, _) => core.run(cx) || core.stop(cx),
            });
            // A failure in this round requires another one, by the rule for failures.
            if !moved && self.common.health() == health {
                return;
            }
        }
    }
}

/// Runs a round after a failure, which only answers requests.
fn fail_on<C: Core>(core: &mut C, cx: &mut CxOf<C>) -> bool {
    let error = cx.health().error().expect("something failed");
    let mut moved = cx.answer_waiting(Err(error));
    moved |= core.wind_down(cx);
    if cx.is_abandoning() {
        moved |= cx.abandon();
    }
    match cx.life() {
        Life::Starting => cx.fail_volume("a device failed during recovery"),
        Life::Stopping if cx.is_quiet() || cx.is_abandoning() => cx.stopped(),
        _ => {}
    }
    moved
}

impl<C: Core> Layer for Shell<C> {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        self.common.begin_step();
        self.take(now, input, out);
        self.pump(now, out);
        self.with(now, out, MAX_OUTPUTS, |core, cx| core.after_step(cx));
        let touched = self.common.touched();
        assert!(touched <= MAX_TOUCH, "a step touched {touched} map entries");
    }

    fn operate(&mut self, command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        match (self.common.life(), self.common.health()) {
            (Life::Running, Health::Good) => self.core.operate(command),
            (Life::Running, _) => Err(Refusal::Because("the volume is read-only")),
            _ => Err(Refusal::Because("the volume is not open")),
        }
    }

    fn tasks(&self) -> ArrayVec<Task, 5> {
        self.core.tasks()
    }

    fn credits(&self) -> Credits {
        let running = self.common.life() == Life::Running;
        let requests = if running { self.common.requests_left() } else { 0 };
        Credits { requests, sectors: self.plan.limits.max_transfer }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.common.next_timer()
    }

    fn limits(&self) -> Limits {
        self.plan.limits
    }

    fn counters(&self) -> Counters {
        self.common.counters()
    }

    fn gauges(&self) -> Option<Gauges> {
        self.core.gauges()
    }

    fn members(&self) -> Members {
        self.core.members()
    }

    fn has_failed(&self) -> bool {
        self.common.health() != Health::Good
    }

    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        self.core.lost_ranges()
    }

    fn map_bytes(&self) -> u64 {
        self.plan.map_bytes
    }

    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        self.core.facts()
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        self.core.mapped(lba, sectors)
    }

    fn has_fast_zeroes(&self) -> bool {
        self.core.has_fast_zeroes()
    }

    fn idle(&self) -> bool {
        self.common.is_idle() && self.core.is_idle()
    }

    fn check(&self) -> Result<(), &'static str> {
        match self.common.life() {
            Life::Running | Life::Stopping => self.core.check(),
            Life::Starting | Life::Over => Ok(()),
        }
    }

    fn power_off(&mut self) {
        self.common.void();
        self.core.power_off();
    }
}
