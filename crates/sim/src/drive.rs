//! A drive as a device under a layer: commands become requests to the drive's own translation.
//!
//! Invariants
//! - Each request's ticket is the slot of the command that it stands for; its payload is only a
//!   length.
//! - Flash ends its commands in the order in which it got them, so `flying` is a queue.

use std::collections::VecDeque;

use hostftl_core::{
    Cause, Command, Done, HostError, HostOp, Input, Layer, Nanos, Out, Output, Payload, Request,
    StreamDigest, Tally, Ticket, Token, Verdict,
};
use hostftl_drives::{DriveSpec, Flash, SuperpageFtl};

use crate::error::Violation;
use crate::events::{Event, Events};

/// The name of a payload that stands for a command's bytes.
const COMMAND_PAYLOAD: u32 = u32::MAX;
/// Timer steps in a row at one moment that nothing can justify.
pub const TOO_MANY_TIMERS: u32 = 1_000_000;

/// One drive.
#[derive(Debug)]
pub struct Drive {
    index: u8,
    pub ftl: SuperpageFtl,
    pub flash: Flash,
    pub digest: StreamDigest,
    pub stopped: bool,
    out: Out,
    waiting: VecDeque<Request>,
    flying: VecDeque<(Token, Command)>,
    pub steps: u64,
}

/// What a drive needs of the world around it.
pub struct Around<'a> {
    pub now: Nanos,
    pub events: &'a mut Events,
    /// Slots of commands that are over.
    pub ended: &'a mut VecDeque<(u32, Result<(), HostError>)>,
}

impl Drive {
    /// An empty drive, which has been started.
    pub fn new(index: u8, spec: &DriveSpec, around: &mut Around) -> Result<Self, Violation> {
        let buffers = (0..SuperpageFtl::buffers()).map(|id| Payload::issue(id, spec.superpage));
        let mut drive = Drive {
            index,
            ftl: SuperpageFtl::new(&spec.flash_info(), spec.exported, buffers.collect()),
            flash: Flash::new(spec),
            digest: StreamDigest::default(),
            stopped: false,
            out: Out::new(),
            waiting: VecDeque::with_capacity(1024),
            flying: VecDeque::with_capacity(1024),
            steps: 0,
        };
        drive.step(Input::Timer, around)?;
        Ok(drive)
    }

    /// Whether nothing is under way.
    pub fn idle(&self) -> bool {
        self.waiting.is_empty() && self.flying.is_empty() && self.ftl.idle()
    }

    /// Takes the command in `slot`.
    pub fn submit(
        &mut self,
        slot: u32,
        command: &Command,
        around: &mut Around,
    ) -> Result<(), Violation> {
        self.waiting.push_back(request(slot, command));
        self.feed(around)
    }

    /// The oldest flash command is over.
    pub fn flash_done(&mut self, around: &mut Around) -> Result<(), Violation> {
        let (token, command) = self.flying.pop_front().expect("the event has its command");
        let result = Ok(Verdict::default());
        self.step(Input::Done(Done { token, command, result }), around)?;
        self.feed(around)
    }

    /// Ends the drive, which is idle.
    pub fn stop(&mut self, around: &mut Around) -> Result<(), Violation> {
        self.step(Input::Stop, around)
    }

    fn feed(&mut self, around: &mut Around) -> Result<(), Violation> {
        while self.ftl.credits().requests > 0
            && let Some(request) = self.waiting.pop_front()
        {
            self.step(Input::Host(request), around)?;
        }
        Ok(())
    }

    fn step(&mut self, input: Input, around: &mut Around) -> Result<(), Violation> {
        self.one_step(input, around);
        for _ in 0..TOO_MANY_TIMERS {
            match self.ftl.next_timer() {
                Some(at) if at <= around.now => self.one_step(Input::Timer, around),
                Some(_) => unreachable!("a drive's timers are for at once"),
                None => return Ok(()),
            }
        }
        Err(Violation::Livelock("the drive"))
    }

    fn one_step(&mut self, input: Input, around: &mut Around) {
        self.steps += 1;
        self.ftl.step(around.now, input, &mut self.out);
        for output in self.out.drain() {
            self.digest.absorb(around.now, &output);
            match output {
                Output::Submit(token, command) => {
                    let at = self.flash.start(around.now, &command);
                    self.flying.push_back((token, command));
                    around.events.push(at, Event::Flash(self.index));
                }
                Output::Reply(reply) => {
                    if let Some(data) = reply.data {
                        data.surrender();
                    }
                    around.ended.push_back((reply.ticket.close() as u32, reply.result));
                }
                Output::Event(event) => self.stopped |= event == hostftl_core::Event::Stopped,
                Output::Reclaim(_) => unreachable!("a drive abandons nothing"),
            }
        }
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.ftl.power_off();
        self.flying.drain(..).for_each(|(_, command)| command.void());
        for request in self.waiting.drain(..) {
            request.ticket.close();
            if let HostOp::Read(data) | HostOp::Write { data, .. } = request.op {
                data.void();
            }
        }
    }
}

/// The request that stands for `command`; a read's tally has its cause.
fn request(slot: u32, command: &Command) -> Request {
    let ticket = Ticket::issue(slot.into());
    let data = |sectors| Payload::issue(COMMAND_PAYLOAD, sectors);
    match command {
        Command::Read { lba, into, cause, .. } => {
            let sectors = into.sectors();
            let tally = Tally::of(*cause, sectors);
            Request {
                ticket,
                op: HostOp::Read(data(sectors)),
                lba: *lba,
                sectors: sectors.into(),
                tally,
            }
        }
        Command::Program { lba, gather, tally, .. } => {
            let sectors = tally.total();
            let bytes: u64 = gather.iter().map(|piece| u64::from(piece.bytes())).sum();
            assert_eq!(bytes, u64::from(sectors) * 512, "a tally is as long as its program");
            let op = HostOp::Write { data: data(sectors), fua: false };
            Request { ticket, op, lba: *lba, sectors: sectors.into(), tally: *tally }
        }
        Command::Reset { lba, sectors, .. } => {
            let (op, tally) = (HostOp::Trim { fua: false }, Tally::of(Cause::Host, 0));
            Request { ticket, op, lba: *lba, sectors: *sectors, tally }
        }
        Command::Flush { .. } => {
            let tally = Tally::default();
            Request { ticket, op: HostOp::Flush, lba: 0, sectors: 0, tally }
        }
        other => unreachable!("{other:?} goes to no device"),
    }
}
