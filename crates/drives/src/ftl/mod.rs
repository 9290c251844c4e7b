//! The translation inside a superpage-mapped drive, over flash.
//!
//! Invariants
//! - A superpage is written by one operation at a time; the others wait in the order of their
//!   arrival.
//! - A host write starts only with a slot reserved for it, so that what has started can always end.
//! - A write is answered when it is programmed, and the drive's buffer outlives a power cut: there
//!   is never anything to flush.
//! - Programs are submitted in the order in which superpages were handed out, and the flash takes
//!   them in the order of submission, as a controller's channel does.
//! - Modelled flash does not fail.
//!
//! A partial write reads the old superpage first when there is one; over an unmapped superpage the
//! rest is zeros. A trim leaves superpages that it covers only in part as they are. Reading what is
//! unmapped costs nothing.

mod collect;
mod job;
mod map;
mod op;
mod path;

use std::collections::VecDeque;

use hostftl_core::{
    Ack, Counters, Credits, DeviceInfo, DeviceKind, Event, HostError, HostOp, Input, Layer, Limits,
    MAX_TOUCH, Nanos, Out, Output, Payload, Reply, Request, Token,
};

use collect::Victim;
use job::{Job, JobKind};
use map::{Map, Place};
use op::{OpKind, Ops};

/// Requests under way at once.
const JOBS: usize = 256;
/// Host operations under way at once.
const HOST_OPS: usize = 512;
/// Copies under way at once; each has an operation of its own in reserve.
const COPIES: usize = 4;
/// The token of an erase.
const ERASE: Token = Token((HOST_OPS + COPIES) as u64);
const NO_JOB: u16 = u16::MAX;
/// The longest transfer in superpages.
const MAX_SUPERPAGES: u32 = 64;

/// See the module text.
#[derive(Debug)]
pub struct SuperpageFtl {
    unit: u32,
    limits: Limits,
    map: Map,
    ops: Ops,
    jobs: Vec<Option<Job>>,
    free_jobs: Vec<u16>,
    /// Requests with parts that have no operation yet.
    reads: VecDeque<u16>,
    writes: VecDeque<u16>,
    /// Operations that just got a lock for which they waited.
    woken: VecDeque<u16>,
    /// Slots for writes that have started and not been programmed.
    reserved: u32,
    victim: Option<Victim>,
    counters: Counters,
    wake: Option<Nanos>,
    started: bool,
    stopping: bool,
    stopped: bool,
}

/// Whether one more operation and one more reply fit.
fn room(out: &Out) -> bool {
    out.room() >= 4
}

impl SuperpageFtl {
    /// How many buffers of a superpage it needs.
    pub const fn buffers() -> u32 {
        (HOST_OPS + COPIES) as u32
    }

    /// The translation of an empty drive that exports `exported` sectors of the zoned device
    /// `flash`. `buffers` are as [`SuperpageFtl::buffers`] says.
    ///
    /// # Panics
    /// When the buffers are not those, or `flash` is not zoned.
    pub fn new(flash: &DeviceInfo, exported: u64, buffers: Vec<Payload>) -> Self {
        let DeviceKind::Zoned(segments) = flash.kind else {
            panic!("the drive's own translation is for flash, which has segments");
        };
        let unit = segments.write_unit;
        assert_eq!(buffers.len(), Self::buffers() as usize, "the drive gets its own buffers");
        assert!(buffers.iter().all(|buffer| buffer.sectors() == unit));
        let (logical, pages) = ((exported / u64::from(unit)) as u32, segments.size / unit);
        let max_transfer = MAX_SUPERPAGES * unit;
        SuperpageFtl {
            unit,
            limits: Limits { exported, max_transfer, align: unit, ack: Ack::Media },
            map: Map::new(logical, segments.count, pages),
            ops: Ops::new(buffers),
            jobs: (0..JOBS).map(|_| None).collect(),
            free_jobs: (0..JOBS as u16).rev().collect(),
            reads: VecDeque::with_capacity(JOBS),
            writes: VecDeque::with_capacity(JOBS),
            woken: VecDeque::with_capacity(HOST_OPS + COPIES),
            reserved: 0,
            victim: None,
            counters: Counters::default(),
            wake: Some(0),
            started: false,
            stopping: false,
            stopped: false,
        }
    }

    /// Logical superpages that hold data.
    pub fn mapped(&self) -> u64 {
        self.map.mapped()
    }

    fn accept(&mut self, request: Request, out: &mut Out) {
        assert!(!self.stopping, "a request after stop");
        if request.lba.checked_add(request.sectors) > Some(self.limits.exported) {
            let (ticket, data) = (request.ticket, payload(request.op));
            return out.push(Output::Reply(Reply { ticket, data, result: Err(HostError::Range) }));
        }
        let queue = match request.op {
            HostOp::Flush => {
                self.counters.flushes += 1;
                let reply = Reply { ticket: request.ticket, data: None, result: Ok(()) };
                return out.push(Output::Reply(reply));
            }
            HostOp::Read(_) => {
                self.counters.host_read += request.sectors;
                &mut self.reads
            }
            HostOp::Write { .. } => {
                self.counters.host_written += request.sectors;
                &mut self.writes
            }
            HostOp::Trim { .. } | HostOp::Zeroes { .. } => {
                self.counters.host_trimmed += request.sectors;
                &mut self.writes
            }
        };
        let index = self.free_jobs.pop().expect("a request came without credit");
        self.jobs[index as usize] = Some(Job::new(request, self.unit));
        queue.push_back(index);
    }

    fn job(&mut self, index: u16) -> &mut Job {
        self.jobs[index as usize].as_mut().expect("an operation belongs to a request")
    }

    /// Starts all that can start; what only lacks room in `out` goes on by the timer.
    fn pump(&mut self, now: Nanos, out: &mut Out) {
        while room(out)
            && let Some(index) = self.woken.pop_front()
        {
            self.run(index, out);
        }
        self.collect(out);
        while room(out)
            && let Some(&index) = self.reads.front()
        {
            if !self.start_parts(index, out) {
                break;
            }
            self.reads.pop_front();
            self.leave(index, out);
        }
        while room(out)
            && let Some(&index) = self.writes.front()
        {
            if !self.start_parts(index, out) {
                break;
            }
            self.writes.pop_front();
            self.leave(index, out);
        }
        if !room(out) {
            self.wake = Some(now);
        }
        if self.stopping && !self.stopped && self.idle() {
            self.stopped = true;
            out.push(Output::Event(Event::Stopped));
        }
    }

    /// Starts the parts of a request; false when something has to come free first.
    fn start_parts(&mut self, index: u16, out: &mut Out) -> bool {
        let unit = self.unit;
        for _ in 0..MAX_TOUCH {
            let job = self.jobs[index as usize].as_ref().expect("a queued request is there");
            let kind = job.kind;
            let Some(part) = job.part(unit) else { return true };
            let place = self.map.place(part.logical);
            let needs_nothing = place == Place::Unmapped && kind != JobKind::Write;
            if needs_nothing {
                self.job(index).advance(part);
                continue;
            }
            if let (JobKind::Trim, Place::At(phys)) = (kind, place) {
                self.map.unmap(part.logical, phys);
                self.job(index).advance(part);
                continue;
            }
            if !room(out) || self.ops.free() <= COPIES || !self.reserve(kind) {
                return false;
            }
            let job = self.job(index);
            job.advance(part);
            job.pending += 1;
            let kind = match kind {
                JobKind::Read => OpKind::Read,
                JobKind::Write => OpKind::Write,
                JobKind::Trim => OpKind::Trim,
            };
            let op = self.ops.take(kind, index, part);
            self.begin(op, place, out);
        }
        // The rest of a very long trim.
        self.wake = Some(0);
        false
    }

    /// Reserves a slot for a write, if collection does not need it.
    fn reserve(&mut self, kind: JobKind) -> bool {
        if kind != JobKind::Write {
            return true;
        }
        let enough = self.map.free_slots() > self.reserved + self.collector_needs();
        self.reserved += u32::from(enough);
        enough
    }
}

fn payload(op: HostOp) -> Option<Payload> {
    match op {
        HostOp::Read(data) | HostOp::Write { data, .. } => Some(data),
        HostOp::Flush | HostOp::Trim { .. } | HostOp::Zeroes { .. } => None,
    }
}

impl Layer for SuperpageFtl {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        match input {
            Input::Host(request) => self.accept(request, out),
            Input::Done(done) => self.done(done, out),
            Input::Stop => self.stopping = true,
            Input::Timer => {
                self.wake = None;
                if !self.started {
                    self.started = true;
                    out.push(Output::Event(Event::Ready { replayed: 0, dropped: 0 }));
                }
            }
        }
        self.pump(now, out);
    }

    fn credits(&self) -> Credits {
        Credits { requests: self.free_jobs.len() as u32, sectors: self.limits.max_transfer }
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.wake
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn map_bytes(&self) -> u64 {
        self.map.bytes()
    }

    fn idle(&self) -> bool {
        self.free_jobs.len() == JOBS && self.ops.idle() && self.victim.is_none()
    }

    fn check(&self) -> Result<(), &'static str> {
        if !self.idle() {
            return Err("the drive is not idle");
        }
        if self.reserved > 0 {
            return Err("the drive reserved slots for nothing");
        }
        self.map.check()
    }

    fn power_off(&mut self) {
        self.jobs.iter_mut().filter_map(Option::take).for_each(Job::void);
        self.ops.void();
    }
}
