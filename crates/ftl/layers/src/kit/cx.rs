//! What a part of an engine may do in a step, besides changing its own state.

use hostftl_core::{
    Command, Counters, DeviceError, Event, HostError, Nanos, Out, Output, Request, Token,
};

use super::commands::Commands;
use super::life::{Health, Life};
use super::requests::{self, Active, Order, Requests};

/// The token of a command that is not sent yet.
const DRAFT: Token = Token(u64::MAX);

/// What every engine has, whatever it is: the shell owns it, and lends it to the parts as a [`Cx`].
#[derive(Debug)]
pub(crate) struct Common<Op, Mark> {
    life: Life,
    health: Health,
    /// A command was late: what hangs is answered without its payload.
    abandoning: bool,
    commands: Commands<Op>,
    requests: Requests<Mark>,
    counters: Counters,
    exported: u64,
    /// Map entries that this step touched.
    touched: usize,
    /// Whether something was left undone, so that the engine is to be woken at once.
    more: bool,
    /// When the engine wants to go on with what waits for a time.
    alarm: Option<Nanos>,
    /// Whether nothing happened since the engine became calm that a short round does not look at.
    calm: bool,
}

impl<Op: Copy, Mark: Copy + Default> Common<Op, Mark> {
    /// A layer that is to be started, with a table of `most` commands, which are late after the
    /// `patience` of their device, that exports so many sectors, and takes so many requests at once
    /// in such an order.
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
            calm: false,
        }
    }

    /// A step begins.
    pub(super) fn begin_step(&mut self) {
        self.touched = 0;
    }

    /// Something came that a short round does not look at.
    pub(super) fn disturb(&mut self) {
        self.calm = false;
    }

    /// A series of rounds begins.
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

    pub(super) fn request_room(&self) -> u32 {
        self.requests.room()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.commands.is_empty() && self.requests.is_empty() && !self.more
    }

    pub(super) fn next_timer(&self) -> Option<Nanos> {
        if self.more { Some(0) } else { self.commands.wake().into_iter().chain(self.alarm).min() }
    }

    /// A timer came: what waited for this time goes on.
    pub(super) fn woken(&mut self, now: Nanos) {
        self.disturb();
        self.alarm = self.alarm.filter(|at| *at > now);
    }

    /// Whether a command is late that was waited for until now.
    pub(super) fn is_late(&mut self, now: Nanos) -> bool {
        self.commands.wake().is_some_and(|wake| wake <= now) && self.commands.any_late(now)
    }

    /// A command is over: what it was for, and whether it went to a device.
    #[inline]
    pub(super) fn end_command(&mut self, token: Token) -> (Op, bool) {
        self.commands.end(token)
    }

    /// Whether the engine went on without a command.
    #[inline]
    pub(super) fn is_given_up(&self, token: Token) -> bool {
        self.commands.is_given_up(token)
    }

    /// The host is gone. Whether there is nothing to do for that.
    pub(super) fn stop(&mut self) -> bool {
        assert!(self.requests.are_answered(), "stop comes when every request is answered");
        self.disturb();
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

/// See the module text. An engine names it once, with its own operations and marks.
#[derive(Debug)]
pub(crate) struct Cx<'a, Op, Mark> {
    now: Nanos,
    out: &'a mut Out,
    /// Outputs that the round may still make.
    budget: usize,
    common: &'a mut Common<Op, Mark>,
}

impl<'a, Op: Copy, Mark: Copy + Default> Cx<'a, Op, Mark> {
    /// A context in which `budget` outputs may be made.
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
        assert!(self.budget > 0, "a round makes no more outputs than were reserved");
        self.budget -= 1;
    }

    /// Counts outputs against the budget.
    fn spend(&mut self, before: usize) {
        let made = before - self.out.room();
        assert!(made <= self.budget, "a round makes no more outputs than were reserved");
        self.budget -= made;
    }

    /// How far the engine has come.
    pub(crate) fn life(&self) -> Life {
        self.common.life
    }

    /// Whether the engine runs.
    pub(crate) fn is_running(&self) -> bool {
        self.common.life == Life::Running
    }

    /// What of it works.
    pub(crate) fn health(&self) -> Health {
        self.common.health
    }

    /// Whether everything works.
    pub(crate) fn is_good(&self) -> bool {
        self.common.health == Health::Good
    }

    /// How many more commands can be under way.
    pub(crate) fn command_room(&self) -> usize {
        self.common.commands.room()
    }

    /// Whether no command is under way, but for those that were given up.
    pub(crate) fn is_quiet(&self) -> bool {
        self.common.commands.is_empty()
    }

    /// How many more outputs fit in the step; what an engine with [`Core::MOST_OUTPUTS`] asks.
    ///
    /// [`Core::MOST_OUTPUTS`]: super::Core::MOST_OUTPUTS
    pub(crate) fn room(&self) -> usize {
        self.out.room()
    }

    /// Wakes the engine at once after this step, although nothing moves in this one any more.
    pub(crate) fn wake(&mut self) {
        self.common.leave_rest();
    }

    /// The time of this step.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// Wakes the engine at this time, if nothing does before.
    pub(crate) fn wake_at(&mut self, at: Nanos) {
        self.common.alarm = Some(self.common.alarm.map_or(at, |alarm| alarm.min(at)));
    }

    /// A whole round found nothing to do: a short one will do until something disturbs the engine.
    #[inline]
    pub(crate) fn become_calm(&mut self) {
        self.common.calm = true;
    }

    /// A short round would not find what there is to do now.
    #[inline]
    pub(crate) fn disturb(&mut self) {
        self.common.calm = false;
    }

    /// Whether a short round will do.
    #[inline]
    pub(crate) fn is_calm(&self) -> bool {
        self.common.calm
    }

    /// Sends a command, and knows what it was for when it comes back.
    ///
    /// # Panics
    /// When there is no room for it: see [`Cx::command_room`].
    #[inline(always)]
    pub(crate) fn submit(&mut self, op: Op, command: Command) {
        self.draft(command);
        self.send(op);
    }

    /// Puts a command where it is sent from, for a look at it before: it is too long to be handed
    /// on. [`Cx::send`] follows, or [`Cx::take_back`].
    #[inline(always)]
    pub(crate) fn draft(&mut self, command: Command) -> &Command {
        self.out.push_with(|| Output::Submit(DRAFT, command));
        self.out.last_command().expect("it was put there").1
    }

    /// Sends the command that was put in its place.
    ///
    /// # Panics
    /// As [`Cx::submit`]; and when there is none.
    #[inline]
    pub(crate) fn send(&mut self, op: Op) {
        let (token, command) = self.out.last_command().expect("a command was put there");
        assert!(*token == DRAFT, "a command is sent once");
        *token = self.common.commands.begin(self.now, op, command.device());
        self.spend_one();
    }

    /// Takes back the command that was put in its place, and is not sent.
    pub(crate) fn take_back(&mut self) -> Command {
        match self.out.take_back() {
            Some(Output::Submit(DRAFT, command)) => command,
            other => unreachable!("{other:?} can't be taken back"),
        }
    }

    /// As [`Cx::submit`], for a command that goes to no device, and is made where it is needed:
    /// commands are long.
    #[inline(always)]
    pub(crate) fn compute(&mut self, op: Op, make: impl FnOnce() -> Command) {
        let token = self.common.commands.begin(self.now, op, None);
        self.spend_one();
        self.out.push_with(|| Output::Submit(token, make()));
    }

    /// The devices of which a command is late, as a set of bits.
    pub(crate) fn late_devices(&self) -> u16 {
        self.common.commands.late_devices(self.now)
    }

    /// Whether a command is under way that was given up.
    pub(crate) fn has_given_up(&self) -> bool {
        self.common.commands.has_given_up()
    }

    /// Goes on without the commands of these devices: tells `each` of them, what it is for, and its
    /// device. When one is back after all, [`Core::late_done`] gets it.
    ///
    /// [`Core::late_done`]: super::Core::late_done
    pub(crate) fn give_up_commands(&mut self, devices: u16, each: impl FnMut(Token, Op, u8)) {
        self.common.commands.give_up(devices, each);
        self.common.commands.any_late(self.now); // Those that are left set the next wake-up.
    }

    /// As [`Cx::give_up_commands`], of the commands that are late and of no others.
    pub(crate) fn give_up_late_commands(&mut self, each: impl FnMut(Op, u8)) {
        self.common.commands.give_up_late(self.now, each);
    }

    /// Tells what happened.
    pub(crate) fn tell(&mut self, event: Event) {
        self.push(Output::Event(event));
    }

    fn push(&mut self, output: Output) {
        let before = self.out.room();
        self.out.push(output);
        self.spend(before);
    }

    /// Counts map entries that were looked at or changed.
    pub(crate) fn touch(&mut self, entries: usize) {
        self.common.touched += entries;
    }

    /// How many this step touched so far.
    pub(crate) fn touched(&self) -> usize {
        self.common.touched
    }

    /// What the engine counts.
    pub(crate) fn counters(&mut self) -> &mut Counters {
        &mut self.common.counters
    }

    /// A device failed: nothing is written any more. `abandoned` when it did not answer in time.
    pub(crate) fn fail(&mut self, device: u8, error: DeviceError, abandoned: bool) {
        let fresh = abandoned && !self.common.abandoning;
        self.common.abandoning |= abandoned;
        let worse = self.common.health.worsen(Health::after(error));
        if worse || fresh {
            self.tell(Event::DeviceFailed { device, error, abandoned });
        }
    }

    /// One of several devices failed, and the others can't make up for it: nothing is written any
    /// more, and what the others hold is read all the same.
    pub(crate) fn fail_one(&mut self, device: u8, error: DeviceError) {
        let left = Health::after(error).error().map_or(Health::Good, Health::ReadOnly);
        if self.common.health.worsen(left) {
            self.tell(Event::DeviceFailed { device, error, abandoned: false });
        }
    }

    /// Nothing is written any more; the engine has told why, and knows which devices are gone.
    pub(crate) fn end_writing(&mut self, error: HostError) {
        self.common.health.worsen(Health::ReadOnly(error));
    }

    /// The volume can't be opened.
    pub(crate) fn give_up(&mut self, why: &'static str) {
        self.common.life.go(Life::Over);
        self.tell(Event::Unrecoverable(why));
    }

    /// The volume is open: so many log writes were applied, and so many did not count.
    pub(crate) fn become_ready(&mut self, replayed: u64, dropped: u64) {
        self.common.life.go(Life::Running);
        self.tell(Event::Ready { replayed, dropped });
    }

    /// The layer is closed.
    pub(crate) fn stopped(&mut self) {
        self.common.life.go(Life::Over);
        (self.common.more, self.common.alarm) = (false, None);
        self.tell(Event::Stopped);
    }

    /// Takes a request in, counted, and tells which it is now; none when it is answered already.
    /// `pending` is whether a flush finds something that is not durable.
    pub(crate) fn take_request(&mut self, request: Request, pending: bool) -> Option<u16> {
        requests::count(&mut self.common.counters, &request, pending);
        let before = self.out.room();
        let taken = self.common.requests.take(request, self.common.exported, self.out);
        self.spend(before);
        taken
    }

    /// The requests under way.
    pub(crate) fn requests(&mut self) -> &mut Requests<Mark> {
        &mut self.common.requests
    }

    /// A request under way.
    pub(crate) fn request(&mut self, req: u16) -> &mut Active<Mark> {
        self.common.requests.at(req)
    }

    /// Ends a request that is complete, with the error that the engine's health gives it, and tells
    /// whether it waits for `mark`.
    pub(crate) fn end_request(&mut self, req: u16, mark: Mark, is_durable: bool) -> bool {
        let health = self.common.health;
        self.common.requests.at(req).blame(health);
        let before = self.out.room();
        let waits = self.common.requests.end(req, mark, is_durable, self.out);
        self.spend(before);
        waits
    }

    /// Answers the first request that waits; false when none does.
    pub(crate) fn answer_waiting(&mut self, result: Result<(), HostError>) -> bool {
        let before = self.out.room();
        let answered = self.common.requests.answer_waiting(result, self.out);
        self.spend(before);
        answered
    }

    /// Ends a request of which nothing is under way, of those that go on in any order.
    pub(crate) fn answer(&mut self, req: u16, result: Result<(), HostError>) {
        let before = self.out.room();
        self.common.requests.answer(req, result, self.out);
        self.spend(before);
    }

    /// Answers a request if its parts hang; its payload follows when the device lets go.
    pub(crate) fn abandon_request(&mut self, req: u16) {
        let before = self.out.room();
        self.common.requests.abandon_one(req, self.out);
        self.spend(before);
    }

    /// Whether what hangs is given up.
    pub(super) fn is_abandoning(&self) -> bool {
        self.common.abandoning
    }

    /// Answers some requests whose parts hang.
    pub(super) fn abandon(&mut self) -> bool {
        let before = self.out.room();
        let moved = self.common.requests.abandon(self.out);
        self.spend(before);
        moved
    }
}

/// Calls a part of an engine in a test: in a step of a layer that starts, with nothing under way.
#[cfg(test)]
pub(crate) fn trial<Op: Copy, Mark: Copy + Default, T>(
    act: impl FnOnce(&mut Cx<'_, Op, Mark>) -> T,
) -> T {
    let requests = (Order::Arrival, requests::SLOTS);
    let (mut common, mut out) = (Common::new(1024, [0; 16], 1 << 20, requests), Out::new());
    let budget = out.room();
    act(&mut Cx::new(0, &mut out, budget, &mut common))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_put_in_its_place_is_sent_or_taken_back() {
        trial::<u8, u64, ()>(|cx| {
            let (room, commands) = (cx.room(), cx.command_room());
            assert_eq!(cx.draft(Command::Flush { device: 3 }).device(), Some(3));
            let back = cx.take_back();
            assert_eq!((back.device(), cx.room(), cx.command_room()), (Some(3), room, commands));
            cx.submit(7, back);
            assert_eq!((cx.room(), cx.command_room()), (room - 1, commands - 1));
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
