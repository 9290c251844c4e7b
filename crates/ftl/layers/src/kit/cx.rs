//! Context of a step: the services that a part of an engine may use besides its own state.

use hostftl_core::{
    Command, Counters, DeviceError, DeviceSet, Event, HostError, Nanos, Out, Output, Request, Token,
};

use super::commands::Commands;
use super::life::{Health, Life};
use super::requests::{self, Active, Order, Requests};

/// Token of a command that is not sent yet.
const DRAFT: Token = Token(u64::MAX);

/// State of every engine. The shell owns it, and lends it to the parts as a [`Cx`].
#[derive(Debug)]
pub(crate) struct Common<Op, Mark> {
    life: Life,
    health: Health,
    /// Whether requests with commands in flight are answered without their payload, after a
    /// timeout.
    abandoning: bool,
    commands: Commands<Op>,
    requests: Requests<Mark>,
    counters: Counters,
    exported: u64,
    /// Map entries touched in this step.
    touched: usize,
    /// Whether work is left, so that the engine must be woken at once.
    more: bool,
    /// Time at which the engine wants to be woken.
    alarm: Option<Nanos>,
    /// Whether short rounds are enough, because no event since the last full round concerns the
    /// rest.
    is_fast_path_valid: bool,
}

impl<Op: Copy, Mark: Copy + Default> Common<Op, Mark> {
    /// Creates the state of a layer that is not started. `most` is the size of the command table,
    /// `patience` the timeout of each device, and `exported` the capacity in sectors. At most
    /// `requests` requests are in flight, processed in `order`.
    pub(crate) fn new(
        most: u16,
        patience: [Nanos; 16],
        exported: u64,
        (order, requests): (Order, usize),
    ) -> Self {
        Common {
            life: Life::Starting,
            health: Health::Good,
            abandoning: false,
            commands: Commands::new(most, patience),
            requests: Requests::new(order, requests),
            counters: Counters::default(),
            exported,
            touched: 0,
            more: true,
            alarm: None,
            is_fast_path_valid: false,
        }
    }

    /// Begins a step.
    pub(super) fn begin_step(&mut self) {
        self.touched = 0;
    }

    /// Requires a full round.
    pub(super) fn invalidate_fast_path(&mut self) {
        self.is_fast_path_valid = false;
    }

    /// Begins a series of rounds.
    pub(super) fn begin_rounds(&mut self) {
        self.more = false;
    }

    /// Wakes the engine at once after this step.
    pub(super) fn leave_rest(&mut self) {
        self.more = true;
    }

    pub(super) fn touched(&self) -> usize {
        self.touched
    }

    pub(super) fn life(&self) -> Life {
        self.life
    }

    pub(super) fn health(&self) -> Health {
        self.health
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    pub(super) fn requests_left(&self) -> u32 {
        self.requests.requests_left()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.requests.is_empty() && !self.more
    }

    pub(super) fn next_timer(&self) -> Option<Nanos> {
        if self.more { Some(0) } else { self.commands.wake().into_iter().chain(self.alarm).min() }
    }

    /// Handles a timer: clears the alarm if it is due.
    pub(super) fn woken(&mut self, now: Nanos) {
        self.invalidate_fast_path();
        self.alarm = self.alarm.filter(|at| *at > now);
    }

    /// Returns whether a command has become late.
    pub(super) fn is_late(&mut self, now: Nanos) -> bool {
        self.commands.wake().is_some_and(|wake| wake <= now) && self.commands.any_late(now)
    }

    /// Removes a completed command. Returns its purpose, and whether it went to a device.
    #[inline]
    pub(super) fn end_command(&mut self, token: Token) -> (Op, bool) {
        self.commands.end(token)
    }

    /// Returns whether a command was abandoned.
    #[inline]
    pub(super) fn is_abandoned(&self, token: Token) -> bool {
        self.commands.is_abandoned(token)
    }

    /// Starts the stop. Returns whether the layer is already closed.
    pub(super) fn stop(&mut self) -> bool {
        assert!(self.requests.are_answered(), "stop follows the last answer");
        self.invalidate_fast_path();
        match self.life {
            Life::Running => self.life.go(Life::Stopping),
            Life::Starting => self.life.go(Life::Over),
            Life::Stopping | Life::Over => {}
        }
        self.life == Life::Over
    }

    pub(super) fn void(&mut self) {
        self.requests.void();
    }
}

/// Context of a step. An engine names it once, with its own purposes of commands and marks.
#[derive(Debug)]
pub(crate) struct Cx<'a, Op, Mark> {
    now: Nanos,
    out: &'a mut Out,
    /// Outputs that the round may still produce.
    budget: usize,
    common: &'a mut Common<Op, Mark>,
}

impl<'a, Op: Copy, Mark: Copy + Default> Cx<'a, Op, Mark> {
    /// Creates a context with a budget of outputs.
    pub(super) fn new(
        now: Nanos,
        out: &'a mut Out,
        budget: usize,
        common: &'a mut Common<Op, Mark>,
    ) -> Self {
        Cx { now, out, budget, common }
    }

    #[inline]
    fn spend_one(&mut self) {
        assert!(self.budget > 0, "a step makes at most the reserved outputs");
        self.budget -= 1;
    }

    /// Counts outputs against the budget.
    fn spend(&mut self, before: usize) {
        let made = before - self.out.outputs_left();
        assert!(made <= self.budget, "a step makes at most the reserved outputs");
        self.budget -= made;
    }

    /// Returns the stage of the engine's life.
    pub(crate) fn life(&self) -> Life {
        self.common.life
    }

    /// Returns whether the engine is running.
    pub(crate) fn is_running(&self) -> bool {
        self.common.life == Life::Running
    }

    /// Returns the health.
    pub(crate) fn health(&self) -> Health {
        self.common.health
    }

    /// Returns whether everything works.
    pub(crate) fn is_good(&self) -> bool {
        self.common.health == Health::Good
    }

    /// Returns the number of commands that can still be sent.
    pub(crate) fn commands_left(&self) -> usize {
        self.common.commands.commands_left()
    }

    /// Returns whether no command is in flight, except abandoned ones.
    pub(crate) fn is_quiet(&self) -> bool {
        self.common.commands.is_empty()
    }

    /// Returns the number of outputs that still fit in the step. An engine with
    /// [`Core::MOST_OUTPUTS`] checks it before it produces more than its minimum.
    ///
    /// [`Core::MOST_OUTPUTS`]: super::Core::MOST_OUTPUTS
    pub(crate) fn outputs_left(&self) -> usize {
        self.out.outputs_left()
    }

    /// Wakes the engine at once after this step, even if nothing else moves.
    pub(crate) fn wake(&mut self) {
        self.common.leave_rest();
    }

    /// Returns the time of this step.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// Wakes the engine at this time, or earlier.
    pub(crate) fn wake_at(&mut self, at: Nanos) {
        self.common.alarm = Some(self.common.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    /// Makes short rounds enough until [`Cx::invalidate_fast_path`].
    #[inline]
    pub(crate) fn validate_fast_path(&mut self) {
        self.common.is_fast_path_valid = true;
    }

    /// Requires a full round.
    #[inline]
    pub(crate) fn invalidate_fast_path(&mut self) {
        self.common.is_fast_path_valid = false;
    }

    /// Returns whether a short round is enough.
    #[inline]
    pub(crate) fn is_fast_path_valid(&self) -> bool {
        self.common.is_fast_path_valid
    }

    /// Sends a command, and remembers its purpose.
    ///
    /// # Panics
    /// If the table is full; see [`Cx::command_room`].
    #[inline(always)]
    pub(crate) fn submit(&mut self, op: Op, command: Command) {
        self.draft(command);
        self.send(op);
    }

    /// Places a command in the outputs, where it can be inspected before it is sent; commands are
    /// too large to be passed around. [`Cx::send`] or [`Cx::take_back`] follows.
    #[inline(always)]
    pub(crate) fn draft(&mut self, command: Command) -> &Command {
        self.out.push_with(|| Output::Submit(DRAFT, command));
        self.out.last_command().expect("the slot is occupied").1
    }

    /// Sends the drafted command.
    ///
    /// # Panics
    /// If there is no draft, or the table is full.
    #[inline]
    pub(crate) fn send(&mut self, op: Op) {
        let (token, command) = self.out.last_command().expect("the slot holds a command");
        assert!(*token == DRAFT, "a command is sent once");
        *token = self.common.commands.begin(self.now, op, command.device());
        self.spend_one();
    }

    /// Takes back the drafted command, which is not sent.
    pub(crate) fn take_back(&mut self) -> Command {
        match self.out.take_back() {
            Some(Output::Submit(DRAFT, command)) => command,
            other => unreachable!("{other:?} can't be withdrawn"),
        }
    }

    /// Sends a computation, which goes to no device. The command is made in place, because commands
    /// are large. Panics like [`Cx::submit`].
    #[inline(always)]
    pub(crate) fn compute(&mut self, op: Op, make: impl FnOnce() -> Command) {
        let token = self.common.commands.begin(self.now, op, None);
        self.spend_one();
        self.out.push_with(|| Output::Submit(token, make()));
    }

    /// Returns the devices with late commands.
    pub(crate) fn late_devices(&self) -> DeviceSet {
        self.common.commands.late_devices(self.now)
    }

    /// Returns whether an abandoned command is in flight.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.common.commands.has_abandoned()
    }

    /// Abandons the commands of a bit set of devices, and calls `each` with their token, purpose
    /// and device. [`Core::late_done`] is called when one completes after all.
    ///
    /// [`Core::late_done`]: super::Core::late_done
    pub(crate) fn abandon_commands(&mut self, devices: DeviceSet, each: impl FnMut(Token, Op, u8)) {
        self.common.commands.abandon(devices, each);
        self.common.commands.any_late(self.now); // Sets the next wake-up for the rest.
    }

    /// Abandons only the late commands; otherwise like [`Cx::abandon_commands`].
    pub(crate) fn abandon_late_commands(&mut self, each: impl FnMut(Op, u8)) {
        self.common.commands.abandon_late(self.now, each);
    }

    /// Reports an event.
    pub(crate) fn report(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    fn push(&mut self, output: Output) {
        let before = self.out.outputs_left();
        self.out.push(output);
        self.spend(before);
    }

    /// Counts map entries that were read or changed.
    pub(crate) fn touch(&mut self, entries: usize) {
        self.common.touched += entries;
    }

    /// Returns the number of map entries touched in this step.
    pub(crate) fn touched(&self) -> usize {
        self.common.touched
    }

    /// Returns the counters.
    pub(crate) fn counters(&mut self) -> &mut Counters {
        &mut self.common.counters
    }

    /// Ends all writing after a device failure. `abandoned` is whether the device timed out.
    pub(crate) fn fail(&mut self, device: u8, error: DeviceError, abandoned: bool) {
        let fresh = abandoned && !self.common.abandoning;
        self.common.abandoning |= abandoned;
        let worse = self.common.health.worsen(Health::after(error));
        if worse || fresh {
            self.report(Event::DeviceFailed { device, error, abandoned });
        }
    }

    /// Ends all writing after the failure of one of several devices that the others can't replace.
    /// Their data can still be read.
    pub(crate) fn fail_one(&mut self, device: u8, error: DeviceError) {
        let left = Health::after(error).error().map_or(Health::Good, Health::ReadOnly);
        if self.common.health.worsen(left) {
            self.report(Event::DeviceFailed { device, error, abandoned: false });
        }
    }

    /// Ends all writing without an event; the engine has reported the failed devices itself.
    pub(crate) fn end_writing(&mut self, error: HostError) {
        self.common.health.worsen(Health::ReadOnly(error));
    }

    /// Ends recovery: the volume can't be opened.
    pub(crate) fn fail_volume(&mut self, why: &'static str) {
        self.common.life.go(Life::Over);
        self.report(Event::Unrecoverable(why));
    }

    /// Opens the volume, and reports the number of log writes applied and dropped.
    pub(crate) fn become_ready(&mut self, replayed: u64, dropped: u64) {
        self.common.life.go(Life::Running);
        self.report(Event::Ready { replayed, dropped });
    }

    /// Closes the layer.
    pub(crate) fn stopped(&mut self) {
        self.common.life.go(Life::Over);
        (self.common.more, self.common.alarm) = (false, None);
        self.report(Event::Stopped);
    }

    /// Counts and accepts a request, and returns its index, or `None` if it is answered already.
    /// `pending` is whether a flush finds data that is not durable.
    pub(crate) fn take_request(&mut self, request: Request, pending: bool) -> Option<u16> {
        requests::count(&mut self.common.counters, &request, pending);
        let before = self.out.outputs_left();
        let taken = self.common.requests.take(request, self.common.exported, self.out);
        self.spend(before);
        taken
    }

    /// Returns the requests in flight.
    pub(crate) fn requests(&mut self) -> &mut Requests<Mark> {
        &mut self.common.requests
    }

    /// Returns a request in flight.
    pub(crate) fn request(&mut self, req: u16) -> &mut Active<Mark> {
        self.common.requests.at(req)
    }

    /// Ends a completed request, with the error of the engine's health. Returns whether it waits
    /// for `mark` to be durable.
    pub(crate) fn end_request(&mut self, req: u16, mark: Mark, is_durable: bool) -> bool {
        let health = self.common.health;
        self.common.requests.at(req).blame(health);
        let before = self.out.outputs_left();
        let waits = self.common.requests.end(req, mark, is_durable, self.out);
        self.spend(before);
        waits
    }

    /// Answers the first waiting request. Returns false if there is none.
    pub(crate) fn answer_waiting(&mut self, result: Result<(), HostError>) -> bool {
        let before = self.out.outputs_left();
        let answered = self.common.requests.answer_waiting(result, self.out);
        self.spend(before);
        answered
    }

    /// Ends a request without parts in flight, of an engine that processes requests in any order.
    pub(crate) fn answer(&mut self, req: u16, result: Result<(), HostError>) {
        let before = self.out.outputs_left();
        self.common.requests.answer(req, result, self.out);
        self.spend(before);
    }

    /// Answers a request if it has parts in flight. Its payload follows when the device returns it.
    pub(crate) fn abandon_request(&mut self, req: u16) {
        let before = self.out.outputs_left();
        self.common.requests.abandon_one(req, self.out);
        self.spend(before);
    }

    /// Returns whether requests with commands in flight are abandoned.
    pub(super) fn is_abandoning(&self) -> bool {
        self.common.abandoning
    }

    /// Abandons some requests with parts in flight.
    pub(super) fn abandon(&mut self) -> bool {
        let before = self.out.outputs_left();
        let moved = self.common.requests.abandon(self.out);
        self.spend(before);
        moved
    }
}

/// Calls a part of an engine in a test, in a step of a starting layer without commands in flight.
#[cfg(test)]
pub(crate) fn trial<Op: Copy, Mark: Copy + Default, T>(
    act: impl FnOnce(&mut Cx<'_, Op, Mark>) -> T,
) -> T {
    let requests = (Order::Arrival, requests::SLOTS);
    let (mut common, mut out) = (Common::new(1024, [0; 16], 1 << 20, requests), Out::new());
    let budget = out.outputs_left();
    act(&mut Cx::new(0, &mut out, budget, &mut common))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placed_command_is_sent_or_withdrawn() {
        trial::<u8, u64, ()>(|cx| {
            let (room, commands) = (cx.outputs_left(), cx.commands_left());
            assert_eq!(cx.draft(Command::Flush { device: 3 }).device(), Some(3));
            let back = cx.take_back();
            assert_eq!(
                (back.device(), cx.outputs_left(), cx.commands_left()),
                (Some(3), room, commands)
            );
            cx.submit(7, back);
            assert_eq!((cx.outputs_left(), cx.commands_left()), (room - 1, commands - 1));
        });
    }

    #[test]
    #[should_panic(expected = "sent once")]
    fn a_command_is_sent_once() {
        trial::<u8, u64, ()>(|cx| {
            cx.submit(7, Command::Flush { device: 3 });
            cx.send(7);
        });
    }
}
