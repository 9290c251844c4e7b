//! A drive with a clock: the smallest driver that there is.

use std::collections::VecDeque;

use hostftl_core::{
    Cause, Command, Done, Event, HostOp, Input, Layer, Nanos, Out, Output, Payload, Request, Tally,
    Ticket, Token, Verdict,
};
use hostftl_drives::{DriveSpec, Flash, SuperpageFtl};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// See the module text.
pub struct Rig {
    pub ftl: SuperpageFtl,
    pub flash: Flash,
    pub now: Nanos,
    /// Runs each step.
    pub around: fn(&mut dyn FnMut()),
    spec: DriveSpec,
    out: Out,
    flying: VecDeque<(Nanos, Token, Command)>,
    sent: u64,
    answered: u64,
    stopped: bool,
    rng: Xoshiro256PlusPlus,
}

impl Rig {
    pub fn new(spec: &DriveSpec) -> Self {
        let buffers = (0..SuperpageFtl::buffers()).map(|id| Payload::issue(id, spec.superpage));
        let mut rig = Rig {
            ftl: SuperpageFtl::new(&spec.flash_info(), spec.exported, buffers.collect()),
            flash: Flash::new(spec),
            now: 0,
            around: |step| step(),
            spec: spec.clone(),
            out: Out::new(),
            flying: VecDeque::new(),
            sent: 0,
            answered: 0,
            stopped: false,
            rng: Xoshiro256PlusPlus::seed_from_u64(1),
        };
        rig.step(Input::Timer);
        rig
    }

    fn step(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let (ftl, now, out) = (&mut self.ftl, self.now, &mut self.out);
            let mut input = Some(input);
            (self.around)(&mut || ftl.step(now, input.take().expect("one step"), out));
            for output in self.out.drain() {
                match output {
                    Output::Submit(token, command) => {
                        let at = self.flash.start(self.now, &command);
                        self.flying.push_back((at, token, command));
                    }
                    Output::Reply(reply) => {
                        reply.result.expect("the drive serves every request");
                        reply.ticket.close();
                        if let Some(data) = reply.data {
                            data.surrender();
                        }
                        self.answered += 1;
                    }
                    Output::Event(event) => self.stopped |= event == Event::Stopped,
                    Output::Reclaim(_) => unreachable!("the drive abandons nothing"),
                }
            }
            if self.ftl.next_timer().is_some_and(|at| at <= self.now) {
                next = Some(Input::Timer);
            }
        }
    }

    /// Ends the oldest command; false when there is none.
    fn advance(&mut self) -> bool {
        let Some((at, token, command)) = self.flying.pop_front() else { return false };
        self.now = at;
        self.step(Input::Done(Done { token, command, result: Ok(Verdict::default()) }));
        true
    }

    pub fn drain(&mut self) {
        while self.advance() {}
        assert_eq!(self.sent, self.answered, "a request was not answered");
    }

    fn send(&mut self, op: HostOp, lba: u64, sectors: u64) {
        while self.ftl.credits().requests == 0 {
            assert!(self.advance(), "no credit and nothing under way");
        }
        self.sent += 1;
        let tally = Tally::of(Cause::Host, sectors.min(1 << 20) as u32);
        let ticket = Ticket::issue(self.sent);
        self.step(Input::Host(Request { ticket, op, lba, sectors, tally }));
    }

    pub fn send_write(&mut self, lba: u64, sectors: u32) {
        let data = Payload::issue(1 << 20, sectors);
        self.send(HostOp::Write { data, fua: false }, lba, sectors.into());
    }

    pub fn send_trim(&mut self, lba: u64, sectors: u64) {
        self.send(HostOp::Trim { fua: false }, lba, sectors);
    }

    pub fn write(&mut self, lba: u64, sectors: u32) {
        self.send_write(lba, sectors);
        self.drain();
    }

    pub fn read(&mut self, lba: u64, sectors: u32) {
        self.send(HostOp::Read(Payload::issue(1 << 20, sectors)), lba, sectors.into());
        self.drain();
    }

    /// Writes every superpage once, in order.
    pub fn fill(&mut self) {
        let unit = self.spec.superpage;
        for page in 0..self.spec.exported / u64::from(unit) {
            self.send_write(page * u64::from(unit), unit);
        }
        self.drain();
    }

    /// Writes `count` superpages, each as likely as any other.
    pub fn overwrite(&mut self, count: u64) {
        let unit = self.spec.superpage;
        for _ in 0..count {
            let page = self.rng.random_range(0..self.spec.exported / u64::from(unit));
            self.send_write(page * u64::from(unit), unit);
        }
        self.drain();
    }

    /// Sectors programmed for `cause`.
    pub fn sectors(&self, cause: Cause) -> u64 {
        self.flash.work().sectors_by[cause as usize]
    }

    /// Stops the drive and checks everything.
    pub fn finish(&mut self) {
        self.step(Input::Stop);
        self.drain();
        assert!(self.stopped && self.ftl.idle(), "the drive did not stop");
        self.ftl.check().expect("the drive's invariants hold");
        let work = self.flash.work();
        let sectors: u64 = work.sectors_by.iter().sum();
        assert_eq!(sectors, work.programs * u64::from(self.spec.superpage));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.ftl.power_off();
        self.flying.drain(..).for_each(|(_, _, command)| command.void());
    }
}
