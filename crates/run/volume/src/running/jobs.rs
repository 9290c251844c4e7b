//! Translation of a port's jobs to requests of a layer, and of its replies to answers.
//!
//! # Invariants
//! - A ticket's number is the index of its waiting job; the index is free once the answer is sent.
//! - A job is answered exactly once, and a payload always returns to the arena.
//! - An answer that reports durability is held back until the superblocks record all lost members.

mod device_states;
mod errors;
mod extents;

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hostftl_core::{
    Cause, Credits, DeviceSet, Event, HostError, HostOp, Layer, Payload, Reply, Request, SECTOR,
    Tally, Ticket,
};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Host, IoError, Pull, Reserve};
use hostftl_layers::Members;

use crate::metadata::roster::Roster;
use crate::open::event_host::Quiet;
use crate::open::options::Acks;
use crate::open::session::ack_log::{Entrance, Part, Stash};
use crate::running::front::job::{Answer, Answers, Buffer, Job, JobOp};
use crate::running::front::queue::{Inbox, Taken};
use crate::running::status::latency::{Kind, Latencies};
use crate::running::superblock_writer::{Coming, Keeper, Promise};
use crate::util::error::AdminError;

use self::device_states::Reported;
use self::extents::extents;

/// Host of the layer of a served volume.
#[derive(Debug)]
pub(crate) struct Jobs {
    inbox: Inbox,
    waiting: Vec<Option<Waiting>>,
    /// Receivers of answers since the last [`Jobs::told`].
    told: Vec<Arc<dyn Answers>>,
    free: Vec<u32>,
    /// Status query that the next call of `look` answers.
    asked: Option<Job>,
    /// Events, shared with other threads.
    news: Arc<Mutex<Quiet>>,
    latencies: Arc<Mutex<Latencies>>,
    /// Records losses in the superblocks; `None` without redundancy.
    keeper: Option<Keeper>,
    /// Whether each write is acknowledged only once it is durable.
    through: bool,
    /// Acknowledgement log; `None` if acknowledged writes may be lost with the process.
    stash: Option<Stash>,
    /// Job that waits for the log, before all later ones; whether to retry it without a step.
    parked: Option<Job>,
    retries: bool,
    held: Vec<Held>,
    devices: Reported,
    /// Whether nothing is written to the devices.
    reads: bool,
    /// Number of error answers.
    errors: u64,
}

/// A job in the layer.
#[derive(Debug)]
struct Waiting {
    cookie: u64,
    reply: Arc<dyn Answers>,
    kind: Kind,
    since: Instant,
    /// Whether a successful answer reports durability.
    promises: bool,
    /// Range in bytes.
    range: (u64, u64),
    /// Role of the job for the acknowledgement log.
    part: Part,
}

/// An answer that is held back.
#[derive(Debug)]
struct Held {
    reply: Arc<dyn Answers>,
    answer: Answer,
    part: Part,
}

/// Receiver that drops answers, for flushes of the acknowledgement log.
struct Nobody;

impl Answers for Nobody {
    fn take(&self, _answer: Answer) {}
}

impl Jobs {
    /// Takes jobs from `inbox`, and reports events to `news` and durations to `latencies`.
    pub(crate) fn new(
        inbox: Inbox,
        news: Arc<Mutex<Quiet>>,
        latencies: Arc<Mutex<Latencies>>,
    ) -> Self {
        let (waiting, free, told) = (Vec::new(), Vec::new(), Vec::new());
        let (asked, keeper, held, through) = (None, None, Vec::new(), false);
        let (stash, parked, retries) = (None, None, false);
        let (devices, reads, errors) = (Reported::default(), false, 0);
        Jobs {
            inbox,
            waiting,
            told,
            free,
            asked,
            news,
            latencies,
            keeper,
            through,
            stash,
            parked,
            retries,
            held,
            devices,
            reads,
            errors,
        }
    }

    /// Sets the acknowledgement policy and the acknowledgement log.
    pub(crate) fn set_acks(&mut self, acks: Acks, stash: Option<Stash>) {
        (self.through, self.stash) = (acks == Acks::Media, stash);
    }

    /// Returns the acknowledgement log at the end of the volume.
    pub(crate) fn take_stash(&mut self) -> Option<Stash> {
        self.stash.take()
    }

    /// Returns whether the parked job may be retried although the layer made no step.
    pub(crate) fn retries(&mut self) -> bool {
        std::mem::take(&mut self.retries) && self.parked.is_some()
    }

    /// Sets the superblock writer, which decides when durability may be reported.
    pub(crate) fn set_keeper(&mut self, keeper: Option<Keeper>) {
        self.keeper = keeper;
    }

    /// Sets the states before recovery. Devices of `out` hold no data; `reads` means read-only.
    pub(crate) fn set_standing(&mut self, members: &Members, out: u16, reads: bool) {
        (self.devices, self.reads) = (Reported::new(members, DeviceSet::from_bits(out)), reads);
        let mut news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        news.gone = members.gone.to_bits();
    }

    /// Records that the layer was reopened with the new devices `fresh`.
    pub(crate) fn reopened(&mut self, fresh: DeviceSet) {
        self.devices.reopened(fresh);
    }

    /// Passes the member states of `layer` to the superblock writer, and sends answers that need
    /// not be held any more. Returns the time until the next call while answers are held.
    pub(crate) fn keep(&mut self, layer: &impl Layer) -> Option<Duration> {
        let (members, failed) = (layer.members(), layer.has_failed() && !self.reads);
        if self.devices.is_news(&members, failed) {
            let said = self.said();
            let mut news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.devices.hear(&members, said.as_ref(), failed, &mut news);
        }
        self.devices.end_start();
        let standing = self.devices.look(layer);
        let keeper = self.keeper.as_mut()?;
        keeper.look(standing);
        if self.held.is_empty() {
            return None;
        }
        let promise = keeper.promise();
        if let Promise::Waits(most) = promise {
            return Some(most);
        }
        for Held { reply, mut answer, part } in std::mem::take(&mut self.held) {
            if promise == Promise::Broken {
                answer.result = Err(HostError::Io);
            }
            self.settle(part, answer.result.is_ok());
            self.tell(reply, answer);
        }
        // A released flush may have freed space for the parked job.
        self.retries = true;
        None
    }

    /// Returns the common state of all superblocks; `None` where they never change.
    pub(crate) fn said(&self) -> Option<Superblock> {
        self.keeper.as_ref()?.said()
    }

    /// Starts the seating of a device; `None` where members never change.
    pub(crate) fn begin_seat(&mut self, seat: Coming) -> Option<Receiver<Result<(), AdminError>>> {
        Some(self.keeper.as_mut()?.begin_seat(seat))
    }

    /// Closes the writer's handle of a device; `None` where members never change.
    pub(crate) fn close_device(&mut self, index: u8, absent: Reserve) -> Option<Receiver<()>> {
        Some(self.keeper.as_mut()?.close(index, absent))
    }

    /// Ends the seating of a device at `index`, which `came` or not.
    pub(crate) fn end_seat(&mut self, index: u8, came: bool) {
        self.keeper.iter_mut().for_each(|keeper| keeper.end_seat(index));
        self.order(index, false);
        if came {
            self.devices.came(index);
        }
    }

    /// Records whether an operator wants device `index` offline.
    pub(crate) fn order(&mut self, index: u8, is_wanted: bool) {
        self.devices.order(index, is_wanted);
    }

    /// Returns the open devices that all superblocks list as removed.
    pub(crate) fn left(&self) -> u16 {
        let open = self.devices.open_of_removed().to_bits();
        if open == 0 { 0 } else { open & self.said().map_or(0, |said| said.gone) }
    }

    /// Reports a removed device that can't be closed.
    pub(crate) fn stays_open(&self, index: u8, why: &IoError) {
        let news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        news.stays_open(index, why);
    }

    /// Records that a removed device was closed or remains open.
    pub(crate) fn is_closed(&mut self, index: u8) {
        self.devices.is_closed(index);
    }

    /// Returns whether an answer is held back.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Records the last losses in the superblocks after the layer was closed. Returns the
    /// superblocks; `None` where they never change.
    pub(crate) fn finish(&mut self, layer: &impl Layer) -> Result<Option<Roster>, IoError> {
        self.keep(layer);
        let standing = self.devices.look(layer);
        self.keeper.take().map_or(Ok(None), |keeper| keeper.finish(standing))
    }

    /// Returns the receivers of answers since the last call, to be flushed.
    pub(crate) fn told(&mut self) -> Vec<Arc<dyn Answers>> {
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, reply: Arc<dyn Answers>, answer: Answer) {
        reply.take(answer);
        if !self.told.iter().any(|other| Arc::ptr_eq(other, &reply)) {
            self.told.push(reply);
        }
    }

    /// Reports the final result of a request to the acknowledgement log.
    fn settle(&mut self, part: Part, is_ok: bool) {
        if let (Part::Covers(place, wanted), Some(stash)) = (part, &mut self.stash) {
            stash.flushed(place, wanted, is_ok);
        }
    }

    /// Logs the job, if there is a log, and returns the layer's next action; `None` if refused.
    fn admit(&mut self, job: Job) -> Option<Pull> {
        let entrance = match (&mut self.stash, job.change()) {
            (Some(stash), Some(change)) => Some(stash.enter(&change)),
            _ => None,
        };
        let covers = self.stash.as_ref().map_or(0, Stash::covers);
        let part = match entrance {
            None if matches!(job.op, JobOp::Flush) => Part::Covers(covers, false),
            None => Part::None,
            Some(Entrance::Kept(place)) => Part::Kept(place),
            Some(Entrance::Waits) => {
                self.parked = Some(job);
                return Some(Pull::TooLong);
            }
            Some(Entrance::Flush) => {
                self.parked = Some(job);
                let (op, reply) = (JobOp::Flush, Arc::new(Nobody));
                let flush = Job { op, offset: 0, bytes: 0, cookie: 0, reply };
                return Some(Pull::Request(self.request(flush, Part::Covers(covers, true))));
            }
            Some(Entrance::Refused) => {
                self.hear_of_error(Kind::of(&job.op), (job.offset, job.bytes), HostError::Io);
                job.refuse(Err(HostError::Io));
                return None;
            }
        };
        Some(Pull::Request(self.request(job, part)))
    }

    fn request(&mut self, job: Job, part: Part) -> Request {
        let Job { mut op, offset, bytes, cookie, reply } = job;
        // With `--ack media` each change behaves as if the client had set FUA.
        if self.through {
            op.make_durable();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        let (kind, since) = (Kind::of(&op), Instant::now());
        let promises = match &op {
            JobOp::Flush => true,
            JobOp::Write { fua, .. } | JobOp::Trim { fua } | JobOp::Zeroes { fua } => *fua,
            _ => false,
        };
        let range = (offset, bytes);
        let waiting = Waiting { cookie, reply, kind, since, promises, range, part };
        self.waiting[place as usize] = Some(waiting);
        let sectors = bytes / SECTOR as u64;
        let (op, written) = match op {
            JobOp::Read(data) => (HostOp::Read(data.0.into_payload()), 0),
            JobOp::Write { data, fua } => {
                (HostOp::Write { data: data.0.into_payload(), fua }, sectors as u32)
            }
            JobOp::Flush => (HostOp::Flush, 0),
            JobOp::Trim { fua } => (HostOp::Trim { fua }, 0),
            JobOp::Zeroes { fua } => (HostOp::Zeroes { fua }, 0),
            JobOp::Status => unreachable!("a question is no request"),
        };
        let (ticket, lba) = (Ticket::issue(place.into()), offset / SECTOR as u64);
        Request { ticket, op, lba, sectors, tally: Tally::single(Cause::Host, written) }
    }
}

impl Drop for Jobs {
    /// Answers the remaining jobs with errors. Only a driver that failed leaves any.
    fn drop(&mut self) {
        self.parked.take().into_iter().for_each(|job| job.refuse(Err(HostError::Io)));
        let held = self.held.drain(..).map(|held| (held.answer.cookie, held.reply));
        let waiting = self.waiting.drain(..).flatten().map(|it| (it.cookie, it.reply));
        for (cookie, reply) in held.chain(waiting) {
            reply.take(Answer::new(cookie, Err(HostError::Io), None));
            reply.flush();
        }
    }
}

impl Host for Jobs {
    fn pull(&mut self, credits: Credits) -> Pull {
        let longest = u64::from(credits.sectors) * SECTOR as u64;
        loop {
            let taken = match self.parked.take() {
                Some(job) if job.is_too_long(longest) => {
                    self.parked = Some(job);
                    Taken::TooLong
                }
                Some(job) => Taken::Job(job),
                None => self.inbox.take(longest),
            };
            return match taken {
                Taken::Job(job) if matches!(job.op, JobOp::Status) => {
                    self.asked = Some(job);
                    Pull::Query
                }
                Taken::Job(job) => match self.admit(job) {
                    Some(pull) => pull,
                    None => continue,
                },
                Taken::TooLong => Pull::TooLong,
                Taken::Nothing => Pull::Nothing,
                Taken::Over => Pull::Over,
            };
        }
    }

    fn query(&mut self, layer: &dyn Layer) {
        let Job { offset, bytes, cookie, reply, .. } = self.asked.take().expect("a job asked");
        let extents = extents(layer, offset / SECTOR as u64, bytes / SECTOR as u64);
        self.tell(reply, Answer { extents, ..Answer::new(cookie, Ok(()), None) });
    }

    fn has_work(&self) -> bool {
        self.inbox.has_work()
    }

    fn answer(&mut self, reply: Reply) {
        let Reply { ticket, data, result } = reply;
        let place = ticket.close() as usize;
        let waiting = self.waiting[place].take().expect("one answer for each job");
        let Waiting { cookie, reply, kind, since, promises, range, part } = waiting;
        let mut latencies = self.latencies.lock().unwrap_or_else(|poison| poison.into_inner());
        latencies.note(kind, since.elapsed());
        drop(latencies);
        self.free.push(place as u32);
        let data = data.map(|data| Buffer(self.inbox.arena().adopt(data)));
        if let Err(error) = result {
            self.hear_of_error(kind, range, error);
        }
        if let (Part::Kept(place), Some(stash)) = (part, &mut self.stash) {
            stash.answered(place, result.is_ok());
        }
        let mut answer = Answer::new(cookie, result, data);
        if promises && result.is_ok() {
            match self.keeper.as_ref().map_or(Promise::Kept, Keeper::promise) {
                Promise::Kept => {}
                Promise::Waits(_) => return self.held.push(Held { reply, answer, part }),
                // A later start could take a stale device for current.
                Promise::Broken => answer.result = Err(HostError::Io),
            }
        }
        self.settle(part, answer.result.is_ok());
        self.tell(reply, answer);
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.inbox.arena().adopt(payload));
    }

    fn event(&mut self, event: Event) {
        let loses =
            matches!(event, Event::DeviceFailed { .. } | Event::Failing { is_lost: true, .. });
        self.keeper.iter_mut().filter(|_| loses).for_each(Keeper::suspect);
        self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).event(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::front::Port;
    use crate::running::front::job::Export;
    use hostftl_io::{Arena, Class, HOST_CLASSES, Waker};
    use std::sync::mpsc::channel;

    fn export(max_transfer: u32) -> Export {
        let (name, bytes) = ("v".into(), 1 << 20);
        Export {
            volume: [7; 16],
            lasts: false,
            name,
            also: None,
            held: None,
            bytes,
            max_transfer,
            align: 4096,
            fast_zeroes: false,
            forgot: false,
            read_only: false,
        }
    }

    #[test]
    fn a_driver_that_fails_leaves_nobody_waiting() {
        let arena = Arena::new(&HOST_CLASSES, Class::with_sectors(8, 0)).unwrap();
        let export = export(4096);
        let (port, inbox) = Port::new(export, arena, Arc::new(Waker::new().unwrap()));
        let mut jobs = Jobs::new(inbox, Arc::default(), Arc::default());
        let (reply, answers) = channel();
        let reply: Arc<dyn Answers> = Arc::new(reply);
        for cookie in 0..2 {
            let (op, reply) = (JobOp::Flush, reply.clone());
            port.submit(Job { op, offset: 0, bytes: 0, cookie, reply });
        }
        let Pull::Request(request) = jobs.pull(Credits { requests: 1, sectors: 8 }) else {
            panic!("two jobs wait");
        };
        request.ticket.close();
        drop(jobs);
        for _ in 0..2 {
            assert_eq!(answers.recv().unwrap().result, Err(HostError::Io));
        }
    }

    #[test]
    fn a_job_waits_until_it_fits_and_later_ones_behind_it() {
        let arena = Arena::new(&HOST_CLASSES, Class::with_sectors(8, 0)).unwrap();
        let export = export(8192);
        let (port, inbox) = Port::new(export, arena, Arc::new(Waker::new().unwrap()));
        let mut jobs = Jobs::new(inbox, Arc::default(), Arc::default());
        let (reply, _answers) = channel();
        let reply = Arc::new(reply);
        let op = JobOp::Read(port.buffer(8192));
        port.submit(Job { op, offset: 0, bytes: 8192, cookie: 0, reply });
        let pulled = jobs.pull(Credits { requests: 9, sectors: 8 });
        assert!(matches!(pulled, Pull::TooLong), "{pulled:?}");
        port.close();
        assert!(jobs.has_work());
        let Pull::Request(request) = jobs.pull(Credits { requests: 9, sectors: 16 }) else {
            panic!("it fits now");
        };
        assert!(matches!(jobs.pull(Credits { requests: 9, sectors: 16 }), Pull::Over));
        let HostOp::Read(data) = request.op else { panic!("a read") };
        jobs.answer(Reply { ticket: request.ticket, data: Some(data), result: Ok(()) });
        assert_eq!(jobs.free, [0]);
    }
}
