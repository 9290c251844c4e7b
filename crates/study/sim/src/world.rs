//! One layer over drives in virtual time.
//!
//! Invariants
//! - Time never decreases. All activity is caused by an event or a request of the caller.
//! - After every public call, the layer has received every `Done` and every due `Timer`. Only
//!   events are pending.
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

/// Number of consecutive timer steps at one moment that counts as a failure.
const TOO_MANY_TIMERS: u32 = 1_000_000;

/// Result of a command.
type Learned = Result<Verdict, DeviceError>;

/// Completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Ticket of the request.
    pub id: u64,
    /// Result of the request.
    pub result: Result<(), HostError>,
    /// Breakdown of the last command that completed before the request: the one for which the
    /// request waited longest.
    pub legs: Legs,
}

/// A layer, its devices, and the virtual clock.
pub struct World<L: Layer, D: Model = Drive> {
    now: Nanos,
    events: Events,
    layer: L,
    out: Option<Out>,
    pub(crate) drives: Vec<D>,
    /// Inputs of the completed commands by slot, `Timer` in free slots. They are stored where the
    /// layer receives them, because commands are too large to be moved often.
    flying: Vec<Input>,
    free: Vec<u32>,
    ended: VecDeque<Ended>,
    /// Legs of the command that has just completed; zero if none completed at this moment.
    legs: Legs,
    /// By slot, the legs of the command whose completion caused a command on the host's processors.
    inherited: Vec<Legs>,
    /// Whether commands complete immediately.
    counts: bool,
    answers: VecDeque<Answer>,
    timer_at: Option<Nanos>,
    costs: HostCosts,
    /// Metadata for reads by the layer. Without it such a read is a violation.
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
    /// Creates a world with `layer` over empty drives and runs it until the layer is ready.
    ///
    /// # Errors
    /// If a drive is invalid or the layer does not become ready.
    pub fn new(layer: L, specs: &[DriveSpec], costs: HostCosts) -> Result<Self, Violation> {
        let drives = specs.iter().map(Drive::new);
        let drives: Result<_, _> = drives.collect();
        let drives = drives.map_err(|why| Violation::Drive(why.to_string()))?;
        Self::over(layer, drives, None, costs)
    }
}

impl<L: Layer, D: Model> World<L, D> {
    /// Creates a world with `layer` over devices of any model and runs it until the layer is ready.
    ///
    /// # Errors
    /// If the layer does not become ready.
    pub fn of(layer: L, drives: Vec<D>, costs: HostCosts) -> Result<Self, Violation> {
        Self::over(layer, drives, None, costs)
    }

    /// Returns the devices.
    pub fn devices(&self) -> &[D] {
        &self.drives
    }

    /// Creates a world with `layer` over `drives` and runs it until the layer is ready. `media` is
    /// the metadata, if it is kept. Sectors in the write buffers of the drives count as sent by the
    /// host.
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

    /// Keeps the metadata that the layer writes from now on, for layers that read it back. It needs
    /// as much memory as there is metadata on the devices.
    pub fn keep_metadata(&mut self) {
        self.media.get_or_insert_default();
    }

    /// Returns the stored metadata.
    pub(crate) fn media(&self) -> Option<&Media> {
        self.media.as_ref()
    }

    /// Returns the time in ns.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the layer.
    pub fn layer(&self) -> &L {
        &self.layer
    }

    /// Returns the layer's current credits.
    pub fn credits(&self) -> Credits {
        self.layer.credits()
    }

    /// Returns the number of steps of the layer.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the totals of all drives.
    pub(crate) fn sample(&self) -> Sample {
        self.drives.iter().map(Model::work).fold(Sample::default(), |sum, work| Sample {
            programmed: sum.programmed + work.programmed(),
            busy: sum.busy + work.busy(),
        })
    }

    /// Sets the timing mode. With [`Clock::Counts`], commands take no time.
    ///
    /// # Panics
    /// If a command is in progress.
    pub fn set_clock(&mut self, clock: Clock) {
        self.counts = clock == Clock::Counts;
        self.legs = Legs::default();
        self.drives.iter_mut().for_each(|drive| drive.set_clock(clock));
    }

    /// Sends a request within the layer's credits.
    ///
    /// # Errors
    /// A violation by the layer.
    #[inline(always)]
    pub fn send(&mut self, request: Request) -> Result<(), Violation> {
        let mut out = self.begin_step();
        self.layer.step(self.now, Input::Host(request), &mut out);
        self.heed(out)?;
        self.settle()
    }

    /// Returns the next completion.
    pub fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Nanos> {
        match (self.events.next_at(), self.next_drive()) {
            (Some(event), Some((drive, _))) => Some(event.min(drive)),
            (event, drive) => event.or(drive.map(|(at, _)| at)),
        }
    }

    /// Returns the time of the first event of the drives, and the drive's index.
    #[inline]
    fn next_drive(&self) -> Option<(Nanos, usize)> {
        if let [drive] = &self.drives[..] {
            return drive.next_at().map(|at| (at, 0));
        }
        let drives = self.drives.iter().enumerate();
        drives.filter_map(|(index, drive)| drive.next_at().map(|at| (at, index))).min()
    }

    /// Advances time to `to`. There must be no earlier event.
    pub fn wait_until(&mut self, to: Nanos) {
        assert!(self.next_at().is_none_or(|at| to <= at), "an event would be skipped");
        self.now = self.now.max(to);
    }

    /// Advances time to the next event for the layer. Returns false if there is none.
    ///
    /// # Errors
    /// A violation by the layer.
    pub fn advance(&mut self) -> Result<bool, Violation> {
        self.advance_until(Nanos::MAX)
    }

    /// Advances like [`World::advance`], but not beyond `limit` while a drive processes events
    /// without completions. The next event must not be later than `limit`.
    ///
    /// # Errors
    /// A violation by the layer.
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
        assert!(now >= self.now, "time went backwards");
        self.now = now;
        self.legs = Legs::default();
        self.settle()?;
        Ok(true)
    }

    /// Prefetches the drive's state for sectors that will be written soon. This affects only the
    /// speed of the simulation.
    pub(crate) fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        if self.layer.map_bytes() == 0
            && let [drive] = &self.drives[..]
        {
            drive.look_ahead(lbas, soon);
        }
    }

    /// Returns whether a command is in progress.
    pub fn is_busy(&self) -> bool {
        self.free.len() < self.flying.len() || !self.drives.iter().all(Model::idle)
    }

    /// Runs until no command is in progress.
    ///
    /// # Errors
    /// A violation by the layer or a drive, or a stall.
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
    /// A violation by the layer, or a stall.
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

    /// Returns a digest of all outputs of the layer and the work of its drives.
    pub fn digest(&self) -> u64 {
        let mut text = format!("{:x}", self.digest.value());
        for drive in &self.drives {
            text += &format!(" {:?}", drive.work());
        }
        twox_hash::XxHash3_64::oneshot(text.as_bytes())
    }

    /// Steps the layer with an infrequent input.
    fn tell(&mut self, input: Input) -> Result<(), Violation> {
        let mut out = self.begin_step();
        self.layer.step(self.now, input, &mut out);
        self.heed(out)
    }

    /// Steps the layer with every `Done` and every due `Timer`.
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
                        // A later timer event stays in the queue and is ignored when it fires.
                        self.timer_at = Some(at);
                        self.events.push(at, Event::Timer);
                    }
                    return Ok(());
                }
            }
        }
        Err(Violation::Livelock("the layer"))
    }

    /// Returns the outputs for a step. The caller steps the layer and then applies the outputs. No
    /// function in between takes the input, because it is too large to be copied.
    #[inline]
    fn begin_step(&mut self) -> Out {
        self.steps += 1;
        self.out.take().expect("a step has no nested step")
    }

    /// Applies the outputs of a step.
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
                let Output::Reclaim(data) = output else { unreachable!("it is a payload") };
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

    /// Takes a command and leaves a stored one in its place.
    #[inline]
    fn execute(&mut self, token: Token, sent: &mut Command) {
        if let Command::Program { device, tally, .. } = sent {
            let sent_to = &mut self.sent_to[*device as usize];
            // A count of sectors can't overflow; the wrapping addition needs no check.
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
        // Writes the result last: a processor would stall on reading memory that was just copied.
        let entry = &mut self.flying[slot as usize];
        let Input::Done(Done { command, result, .. }) = entry else { unreachable!("it is Done") };
        *result = learned;
        std::mem::swap(command, sent);
    }

    /// Submits a command to its device.
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

    /// Starts a command on the host's processors.
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

    /// Returns whether the layer has stopped.
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
