//! One layer over drives, in virtual time.
//!
//! Invariants
//! - Time never goes back; everything that happens is an event or a request of the caller.
//! - After every public call the layer has had every `Done` and every due `Timer`: only events are
//!   left.
//! - A command is in `flying` from its submission to its `Done`.

use std::collections::VecDeque;

use hostftl_core::{
    CAUSES, Cause, Command, Credits, DeviceError, Done, Event as LayerEvent, HostError, Input,
    Layer, Nanos, Out, Output, Payload, Request, StreamDigest, Token, Verdict,
};
use hostftl_drives::{Clock, Drive, DriveSpec, Ended, Model, Soon, Spent};

use crate::costs::HostCosts;
use crate::error::Violation;
use crate::events::{Event, Events};
use crate::latency::Legs;
use crate::media::{self, Media};
use crate::series::Sample;

/// Timer steps in a row at one moment that nothing can justify.
const TOO_MANY_TIMERS: u32 = 1_000_000;

/// What will have come of a command.
type Learned = Result<Verdict, DeviceError>;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's ticket.
    pub id: u64,
    /// What came of it.
    pub result: Result<(), HostError>,
    /// Where the time went of the command that ended just before the layer answered: that on which
    /// it waited longest.
    pub legs: Legs,
}

/// See the module text.
pub struct World<L: Layer, D: Model = Drive> {
    now: Nanos,
    events: Events,
    layer: L,
    out: Option<Out>,
    pub(crate) drives: Vec<D>,
    /// By slot, what the layer will be told when the command is over: it lies where it will be
    /// taken from, because commands are long. `Timer` in a free slot.
    flying: Vec<Input>,
    free: Vec<u32>,
    ended: VecDeque<Ended>,
    /// Of the command that is over now; nothing when no command ended at this moment.
    legs: Legs,
    /// By slot: of the command whose end made the layer send a command of the host's own.
    inherited: Vec<Legs>,
    /// Whether everything is over at once.
    counts: bool,
    answers: VecDeque<Answer>,
    timer_at: Option<Nanos>,
    costs: HostCosts,
    /// What metadata reads find; without it they are a violation.
    media: Option<Media>,
    digest: StreamDigest,
    steps: u64,
    /// Sectors that the layer sent to each device, by cause.
    pub(crate) sent_to: Vec<[u64; CAUSES]>,
    ready: bool,
    stopped: bool,
    broken: Option<Violation>,
}

impl<L: Layer> World<L> {
    /// `layer` over empty drives, run until it is ready.
    ///
    /// # Errors
    /// When a drive can't be made, or the layer does not become ready.
    pub fn new(layer: L, specs: &[DriveSpec], costs: HostCosts) -> Result<Self, Violation> {
        let drives = specs.iter().map(Drive::new);
        let drives: Result<_, _> = drives.collect();
        let drives = drives.map_err(|why| Violation::Drive(why.to_string()))?;
        Self::over(layer, drives, None, costs)
    }
}

impl<L: Layer, D: Model> World<L, D> {
    /// `layer` over modelled devices of any kind, run until it is ready.
    ///
    /// # Errors
    /// When the layer does not become ready.
    pub fn of(layer: L, drives: Vec<D>, costs: HostCosts) -> Result<Self, Violation> {
        Self::over(layer, drives, None, costs)
    }

    /// The devices.
    pub fn devices(&self) -> &[D] {
        &self.drives
    }

    /// `layer` over `drives`, whose metadata is `media` if it is kept at all, run until it is
    /// ready. What waits in the drives counts as sent by the host.
    pub(crate) fn over(
        layer: L,
        drives: Vec<D>,
        media: Option<Media>,
        costs: HostCosts,
    ) -> Result<Self, Violation> {
        let sent_to = drives.iter().map(Model::work).map(|work| {
            let mut sent = [0; CAUSES];
            sent[Cause::Host as usize] = work.programmed() + work.waiting.iter().sum::<u64>();
            sent
        });
        let sent_to = sent_to.collect();
        let mut world = World {
            now: 0,
            events: Events::default(),
            layer,
            out: Some(Out::new()),
            drives,
            flying: Vec::with_capacity(1024),
            free: Vec::with_capacity(1024),
            ended: VecDeque::with_capacity(1024),
            legs: Legs::default(),
            inherited: Vec::with_capacity(1024),
            counts: false,
            answers: VecDeque::with_capacity(1024),
            timer_at: None,
            costs,
            media,
            digest: StreamDigest::default(),
            steps: 0,
            sent_to,
            ready: false,
            stopped: false,
            broken: None,
        };
        world.tell(Input::Timer)?;
        world.settle()?;
        while !world.ready {
            if !world.advance()? {
                return Err(Violation::Stall { now: world.now, outstanding: 0 });
            }
        }
        Ok(world)
    }

    /// Keeps the metadata that the layer writes from now on, for layers that read it back. It takes
    /// as much memory as there is metadata on the devices.
    pub fn keep_metadata(&mut self) {
        self.media.get_or_insert_default();
    }

    /// The metadata that is kept.
    pub(crate) fn media(&self) -> Option<&Media> {
        self.media.as_ref()
    }

    /// The time in ns.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// The layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    /// How much the layer takes now.
    pub fn credits(&self) -> Credits {
        self.layer.credits()
    }

    /// Steps that the layer has made.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What all drives have done by now.
    pub(crate) fn sample(&self) -> Sample {
        self.drives.iter().map(Model::work).fold(Sample::default(), |sum, work| Sample {
            programmed: sum.programmed + work.programmed(),
            busy: sum.busy + work.busy(),
        })
    }

    /// Changes the clock. Under [`Clock::Counts`] commands take no time at all.
    ///
    /// # Panics
    /// When a command is under way.
    pub fn set_clock(&mut self, clock: Clock) {
        self.counts = clock == Clock::Counts;
        self.legs = Legs::default();
        self.drives.iter_mut().for_each(|drive| drive.set_clock(clock));
    }

    /// Sends a request, for which there was credit.
    ///
    /// # Errors
    /// What the layer broke.
    #[inline(always)]
    pub fn send(&mut self, request: Request) -> Result<(), Violation> {
        let mut out = self.begin_step();
        self.layer.step(self.now, Input::Host(request), &mut out);
        self.heed(out)?;
        self.settle()
    }

    /// The next answer.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Nanos> {
        match (self.events.next_at(), self.next_drive()) {
            (Some(event), Some((drive, _))) => Some(event.min(drive)),
            (event, drive) => event.or(drive.map(|(at, _)| at)),
        }
    }

    /// The drive in which something happens first, and when.
    #[inline]
    fn next_drive(&self) -> Option<(Nanos, usize)> {
        if let [drive] = &self.drives[..] {
            return drive.next_at().map(|at| (at, 0));
        }
        let drives = self.drives.iter().enumerate();
        drives.filter_map(|(index, drive)| drive.next_at().map(|at| (at, index))).min()
    }

    /// Lets time pass until `to`, before which nothing happens.
    pub fn wait_until(&mut self, to: Nanos) {
        assert!(self.next_at().is_none_or(|at| to <= at), "an event would be passed over");
        self.now = self.now.max(to);
    }

    /// Lets time pass until something happens that the layer has to know; false when nothing will.
    ///
    /// # Errors
    /// What the layer broke.
    pub fn advance(&mut self) -> Result<bool, Violation> {
        self.advance_until(Nanos::MAX)
    }

    /// As [`World::advance`], but not beyond `limit`, before which something happens in a drive or
    /// nothing at all.
    ///
    /// # Errors
    /// What the layer broke.
    pub fn advance_until(&mut self, limit: Nanos) -> Result<bool, Violation> {
        let event = self.events.next_at();
        let now = match self.next_drive() {
            Some((at, index)) if event.is_none_or(|event| at < event) => {
                let limit = limit.min(event.unwrap_or(Nanos::MAX)).max(at);
                let others = self.drives.iter().enumerate().filter(|&(other, _)| other != index);
                let others = others.filter_map(|(_, drive)| drive.next_at()).min();
                let limit = limit.min(others.unwrap_or(Nanos::MAX));
                self.drives[index].advance(limit, &mut self.ended)
            }
            _ => {
                let Some((at, event)) = self.events.pop() else { return Ok(false) };
                match event {
                    Event::Host(slot) => {
                        let spent = Spent::default();
                        self.ended.push_back(Ended { slot, result: Ok(()), spent });
                    }
                    Event::Timer if self.timer_at == Some(at) => self.timer_at = None,
                    Event::Timer => {}
                }
                at
            }
        };
        assert!(now >= self.now, "time went back");
        self.now = now;
        self.legs = Legs::default();
        self.settle()?;
        Ok(true)
    }

    /// Tells which sectors will be written soon, which changes nothing but how long that takes.
    pub(crate) fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        if self.layer.map_bytes() == 0
            && let [drive] = &self.drives[..]
        {
            drive.look_ahead(lbas, soon);
        }
    }

    /// Whether a command is under way anywhere.
    pub fn is_busy(&self) -> bool {
        self.free.len() < self.flying.len() || !self.drives.iter().all(Model::idle)
    }

    /// Lets everything end that is under way.
    ///
    /// # Errors
    /// What the layer or a drive broke, or a stall.
    pub fn drain(&mut self) -> Result<(), Violation> {
        while self.is_busy() {
            if !self.advance()? {
                return Err(Violation::Stall { now: self.now, outstanding: 0 });
            }
        }
        Ok(())
    }

    /// Stops the layer.
    ///
    /// # Errors
    /// What the layer broke, or a stall.
    pub fn stop(&mut self) -> Result<(), Violation> {
        self.tell(Input::Stop)?;
        self.settle()?;
        while !self.stopped {
            if !self.advance()? {
                return Err(Violation::Stall { now: self.now, outstanding: 0 });
            }
        }
        self.drain()
    }

    /// One number for all that the layer said and its drives did.
    pub fn digest(&self) -> u64 {
        let mut text = format!("{:x}", self.digest.value());
        for drive in &self.drives {
            text += &format!(" {:?}", drive.work());
        }
        twox_hash::XxHash3_64::oneshot(text.as_bytes())
    }

    /// Gives the layer an input that is not often given.
    fn tell(&mut self, input: Input) -> Result<(), Violation> {
        let mut out = self.begin_step();
        self.layer.step(self.now, input, &mut out);
        self.heed(out)
    }

    /// Gives the layer every `Done` and every due `Timer`.
    fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..TOO_MANY_TIMERS {
            while let Some(Ended { slot, result, spent }) = self.ended.pop_front() {
                let entry = &mut self.flying[slot as usize];
                let Input::Done(done) = entry else { unreachable!("a command ends once") };
                if let Err(error) = result {
                    done.result = Err(error);
                }
                if !self.counts {
                    self.legs = match done.command.device() {
                        Some(_) => Legs::of_command(&done.command, spent),
                        None => self.inherited[slot as usize],
                    };
                }
                if !media::transfer(&mut self.media, &mut done.command) {
                    self.broken = Some(Violation::Metadata);
                }
                self.free.push(slot);
                let mut out = self.begin_step();
                let input = std::mem::replace(&mut self.flying[slot as usize], Input::Timer);
                self.layer.step(self.now, input, &mut out);
                self.heed(out)?;
            }
            match self.layer.next_timer() {
                Some(at) if at <= self.now => self.tell(Input::Timer)?,
                timer => {
                    if let Some(at) = timer
                        && self.timer_at.is_none_or(|set| at < set)
                    {
                        self.timer_at = Some(at);
                        self.events.push(at, Event::Timer);
                    }
                    return Ok(());
                }
            }
        }
        Err(Violation::Livelock("the layer"))
    }

    /// Where the layer will say something. Whoever calls this steps the layer and heeds what it
    /// said: no function between takes the input, which is too long to be copied.
    #[inline]
    fn begin_step(&mut self) -> Out {
        self.steps += 1;
        self.out.take().expect("a step does not step")
    }

    /// Does what the layer said.
    fn heed(&mut self, mut out: Out) -> Result<(), Violation> {
        out.each(|output| {
            self.digest.absorb(self.now, output);
            self.take(output);
        });
        self.out = Some(out);
        match &self.broken {
            None => Ok(()),
            Some(violation) => Err(violation.clone()),
        }
    }

    #[inline]
    fn take(&mut self, output: &mut Output) {
        match output {
            Output::Submit(token, command) => self.execute(*token, command),
            Output::Reply(reply) => {
                reply.data.take().map(Payload::surrender);
                let id = reply.ticket.close_in_place();
                self.answers.push_back(Answer { id, result: reply.result, legs: self.legs });
            }
            Output::Reclaim(_) => {
                let output = std::mem::replace(output, Output::Event(LayerEvent::Full));
                let Output::Reclaim(data) = output else { unreachable!("it was one just now") };
                data.surrender();
            }
            Output::Event(LayerEvent::Ready { .. }) => self.ready = true,
            Output::Event(LayerEvent::Stopped) => self.stopped = true,
            Output::Event(LayerEvent::Unrecoverable(why)) => {
                self.broken = Some(Violation::Unrecoverable(why));
            }
            Output::Event(_) => {}
        }
    }

    /// Takes a command and leaves another in its place.
    #[inline]
    fn execute(&mut self, token: Token, sent: &mut Command) {
        if let Command::Program { device, tally, .. } = sent {
            let sent_to = &mut self.sent_to[*device as usize];
            // A count of sectors can't overflow, and without a check this is one addition.
            for (sent, cause) in sent_to.iter_mut().zip(Cause::ALL) {
                *sent = sent.wrapping_add(tally.get(cause).into());
            }
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flying.push(Input::Timer);
            self.inherited.push(Legs::default());
            (self.flying.len() - 1) as u32
        });
        let entry = &mut self.flying[slot as usize];
        assert!(matches!(entry, Input::Timer), "a free slot has no command");
        let (command, result) = (Command::Flush { device: 0 }, Ok(Verdict::default()));
        *entry = Input::Done(Done { token, command, result });
        let learned = match sent.device() {
            Some(device) => self.begin(slot, device, sent),
            None => Ok(self.compute(slot, sent)),
        };
        // Only now: to read what was copied just before, a processor would wait for the memory.
        let entry = &mut self.flying[slot as usize];
        let Input::Done(Done { command, result, .. }) = entry else { unreachable!("it is one") };
        *result = learned;
        std::mem::swap(command, sent);
    }

    /// Gives a command to its device.
    #[inline]
    fn begin(&mut self, slot: u32, device: u8, command: &mut Command) -> Learned {
        let drive = &mut self.drives[device as usize];
        let (found, over) = match command {
            Command::Report { about, into, .. } => {
                let found = drive.report(*about, into);
                (found, Some(found.map(|_| ())))
            }
            command => (Ok(Verdict::default()), drive.submit(self.now, slot, command)),
        };
        if let Some(result) = over {
            self.ended.push_back(Ended { slot, result, spent: Spent::default() });
        }
        found
    }

    /// Begins a command of the host's own.
    fn compute(&mut self, slot: u32, command: &Command) -> Verdict {
        let (took, verdict) = self.costs.of(command);
        self.inherited[slot as usize] = self.legs;
        if self.counts {
            self.ended.push_back(Ended { slot, result: Ok(()), spent: Spent::default() })
        } else {
            self.events.push(self.now + took, Event::Host(slot))
        }
        verdict
    }

    /// Whether the layer said that it stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }
}

impl<L: Layer, D: Model> Drop for World<L, D> {
    fn drop(&mut self) {
        self.layer.power_off();
        for input in self.flying.drain(..) {
            if let Input::Done(done) = input {
                done.command.void();
            }
        }
    }
}
