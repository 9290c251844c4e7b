//! The one `impl Layer` of the engines: start, stop, failure, deadlines, and the round loop.
//!
//! The rule, the same for all:
//! - A step gives the engine its input, and then goes through rounds until nothing moves, the
//!   outputs are full, or enough of the map was touched; the rest comes back by a timer.
//! - While it starts, a failed device ends it as unrecoverable. After that a failed device ends all
//!   writing: the engine winds down, what waits is answered with the error, and reads go on unless
//!   the device is gone. What hangs on a device that does not answer is answered without its
//!   payload.
//! - A stop of an engine that runs makes everything durable. A stop of one that has failed ends
//!   when every command is back, or is not waited for any more. A stop before the start is over, or
//!   after it failed, ends at once.

use alloc::vec::Vec;
use core::fmt::Debug;

use hostftl_core::{
    Answer, ArrayVec, Codec, Command, Counters, Credits, DeviceError, Done, Event, Gauges, Input,
    Layer, Limits, MAX_OUTPUTS, MAX_TOUCH, Members, Nanos, Out, Output, Piece, Refusal, Request,
    Task, Token, Verb, Verdict, View, ViewMut,
};

use super::cx::{Common, Cx};
use super::life::{Health, Life};
use super::requests::{Order, SLOTS};
use crate::plan::Plan;

/// How a command ended.
pub(crate) type Ended = Result<Verdict, DeviceError>;
/// What the parts of an engine take.
pub(crate) type CxOf<'a, C> = Cx<'a, <C as Core>::Op, <C as Core>::Mark>;

/// An engine: what a layer does that others do not.
pub(crate) trait Core: Debug {
    /// What a command was for.
    type Op: Copy + Debug;
    /// What must be durable before a request is answered.
    type Mark: Copy + Default + Debug;
    /// The most outputs of one round.
    const ROUND_OUTPUTS: usize;
    /// The most outputs of a round for which the step has more room than that; such an engine asks
    /// [`Cx::room`] as it goes.
    const MOST_OUTPUTS: usize = Self::ROUND_OUTPUTS;
    /// In which order requests are worked on.
    const ORDER: Order = Order::Arrival;
    /// Requests under way at once.
    const REQUESTS: usize = SLOTS;

    /// Whether there is more to look at than in a short round ([`Cx::is_calm`]) when a computation
    /// for `op` went well; so there always is at the end of another command.
    fn disturbs(_op: Self::Op) -> bool {
        true
    }
    /// Takes a request in.
    fn accept(&mut self, request: Request, cx: &mut CxOf<Self>);
    /// A command is over. An error that the volume can't live with is told by [`Cx::fail`].
    fn done(&mut self, op: Self::Op, command: Command, ended: Ended, cx: &mut CxOf<Self>);
    /// A block is compressed, as [`Core::done`] would be told: of these there are most, and a whole
    /// command would be copied on its way.
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
    /// Data was copied; otherwise as [`Core::packed`].
    fn placed(&mut self, op: Self::Op, from: View, into: ViewMut, cx: &mut CxOf<Self>) {
        let command = Command::Place { from: Piece::Data(from), into };
        self.done(op, command, Ok(Verdict::default()), cx);
    }
    /// A command is back that was given up ([`Cx::give_up_commands`]), and what it was for.
    fn late_done(
        &mut self,
        _token: Token,
        op: Self::Op,
        _command: Command,
        _ended: Ended,
        _cx: &mut CxOf<Self>,
    ) {
        unreachable!("no command was given up, not {op:?} either")
    }
    /// A timer came, and with `late` a command is late that was waited for until now. Whether the
    /// engine goes on without it; else nothing is written any more.
    fn woken(&mut self, _late: bool, _cx: &mut CxOf<Self>) -> bool {
        false
    }
    /// A round of the start, whether anything moved. It ends with [`Cx::become_ready`] or
    /// [`Cx::give_up`].
    fn start(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// A round of work, whether anything moved.
    fn run(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// A round of the stop in which nothing else moved, whether anything did. It ends with
    /// [`Cx::stopped`].
    fn stop(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// A round after a failure or after the end, whether anything moved: requests are brought to
    /// their end.
    fn wind_down(&mut self, cx: &mut CxOf<Self>) -> bool;
    /// As [`Layer::operate`], of an engine that runs and works.
    fn operate(&mut self, _verb: Verb) -> Result<Answer, Refusal> {
        Err(Refusal::Unable)
    }
    /// As [`Layer::tasks`].
    fn tasks(&self) -> ArrayVec<Task, 5> {
        ArrayVec::new()
    }
    /// A step is over, whatever it did.
    fn after_step(&mut self, _cx: &mut CxOf<Self>) {}

    /// As [`Layer::check`], of a volume that is open.
    fn check(&self) -> Result<(), &'static str>;
    /// As [`Layer::power_off`].
    fn power_off(&mut self);
    /// As [`Layer::idle`], of what only the engine knows.
    fn is_idle(&self) -> bool {
        true
    }
    /// As [`Layer::gauges`].
    fn gauges(&self) -> Option<Gauges> {
        None
    }
    /// As [`Layer::members`].
    fn members(&self) -> Members {
        Members::default()
    }
    /// As [`Layer::lost_ranges`].
    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// As [`Layer::facts`].
    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::new()
    }
    /// As [`Layer::mapped`].
    fn mapped(&self, _lba: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }
    /// As [`Layer::has_fast_zeroes`].
    fn has_fast_zeroes(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) struct Shell<C: Core> {
    plan: Plan,
    common: Common<C::Op, C::Mark>,
    core: C,
}

impl<C: Core> Shell<C> {
    /// An engine that is to be started, with a table of `most` commands, which are late after the
    /// `patience` of their device.
    pub(crate) fn over(core: C, plan: Plan, most: u16, patience: [Nanos; 16]) -> Self {
        let requests = (C::ORDER, C::REQUESTS);
        let common = Common::new(most, patience, plan.limits.exported, requests);
        Shell { plan, common, core }
    }

    /// The engine.
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
                assert_eq!(self.common.life(), Life::Running, "requests come to a layer that runs");
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
                let goes_on = self.with(now, out, MAX_OUTPUTS, |core, cx| core.woken(late, cx));
                if late && !goes_on {
                    self.with(now, out, 1, |_, cx| cx.fail(0, DeviceError::Gone, true));
                }
            }
            Input::Stop if self.common.stop() => out.push(Output::Event(Event::Stopped)),
            Input::Stop => {}
        }
    }

    #[inline]
    fn end_computation(&mut self, token: Token) -> C::Op {
        let (op, _) = self.common.end_command(token);
        if C::disturbs(op) {
            self.common.disturb();
        }
        op
    }

    // Not where it is called: what it works with is long.
    #[inline(never)]
    fn done(&mut self, now: Nanos, token: Token, command: Command, ended: Ended, out: &mut Out) {
        let given_up = self.common.is_given_up(token);
        let (op, of_device) = self.common.end_command(token);
        if given_up || ended.is_err() || of_device || C::disturbs(op) {
            self.common.disturb();
        }
        // Not by `with`: a closure would hold the command once more.
        let cx = &mut Cx::new(now, out, MAX_OUTPUTS, &mut self.common);
        if given_up {
            self.core.late_done(token, op, command, ended, cx)
        } else {
            self.core.done(op, command, ended, cx)
        }
    }

    /// Goes through rounds until nothing moves or the step is full.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        self.common.begin_rounds();
        loop {
            if out.room() < C::ROUND_OUTPUTS || self.common.touched() > MAX_TOUCH / 2 {
                return self.common.leave_rest();
            }
            let (life, health) = (self.common.life(), self.common.health());
            let moved = self.with(now, out, C::MOST_OUTPUTS, |core, cx| match (life, health) {
                (Life::Over, _) => core.wind_down(cx),
                (_, Health::ReadOnly(_) | Health::Dead) => fail_on(core, cx),
                (Life::Starting, _) => core.start(cx),
                (Life::Running, _) => core.run(cx),
                (Life::Stopping, _) => core.run(cx) || core.stop(cx),
            });
            // After a failure there is always one more round, by its rule.
            if !moved && self.common.health() == health {
                return;
            }
        }
    }
}

/// A round after a failure: only answering is left.
fn fail_on<C: Core>(core: &mut C, cx: &mut CxOf<C>) -> bool {
    let error = cx.health().error().expect("something failed");
    let mut moved = cx.answer_waiting(Err(error));
    moved |= core.wind_down(cx);
    if cx.is_abandoning() {
        moved |= cx.abandon();
    }
    match cx.life() {
        Life::Starting => cx.give_up("a device failed during recovery"),
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

    fn operate(&mut self, verb: Verb) -> Result<Answer, Refusal> {
        match (self.common.life(), self.common.health()) {
            (Life::Running, Health::Good) => self.core.operate(verb),
            (Life::Running, _) => Err(Refusal::Because("nothing can be written any more")),
            _ => Err(Refusal::Because("the volume is not open")),
        }
    }

    fn tasks(&self) -> ArrayVec<Task, 5> {
        self.core.tasks()
    }

    fn credits(&self) -> Credits {
        let running = self.common.life() == Life::Running;
        let requests = if running { self.common.request_room() } else { 0 };
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
