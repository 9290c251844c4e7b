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
use crate::open::event_host::EventHost;
use crate::open::options::Acks;
use crate::open::session::ack_log::{AckLog, Admission, LogAction};
use crate::running::front::job::{Answer, Answers, Buffer, Job, JobOp};
use crate::running::front::queue::{Inbox, NextJob};
use crate::running::status::latency::{Latencies, RequestKind};
use crate::running::superblock_writer::{Durability, Installed, NewDevice, SuperblockWriter};
use crate::util::lock;

use self::device_states::ReportedStates;
use self::extents::extents;

/// Host of the layer of a served volume.
#[derive(Debug)]
pub(crate) struct Jobs {
    inbox: Inbox,
    waiting: Vec<Option<Waiting>>,
    /// Receivers of answers since the last [`Jobs::receivers`].
    receivers: Vec<Arc<dyn Answers>>,
    free: Vec<u32>,
    /// Status query that the next call of `look` answers.
    asked: Option<Job>,
    /// Events, shared with other threads.
    event_host: Arc<Mutex<EventHost>>,
    latencies: Arc<Mutex<Latencies>>,
    /// Records losses in the superblocks; `None` without redundancy.
    writer: Option<SuperblockWriter>,
    /// Whether each write is acknowledged only once it is durable.
    through: bool,
    /// Acknowledgement log; `None` if acknowledged writes may be lost with the process.
    ack_log: Option<AckLog>,
    /// Job that waits for the log, before all later ones; whether to retry it without a step.
    parked: Option<Job>,
    retries: bool,
    held: Vec<Held>,
    devices: ReportedStates,
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
    kind: RequestKind,
    since: Instant,
    /// Whether a successful answer reports durability.
    promises: bool,
    /// Range in bytes.
    range: (u64, u64),
    /// Role of the job for the acknowledgement log.
    log_action: LogAction,
}

/// An answer that is held back.
#[derive(Debug)]
struct Held {
    reply: Arc<dyn Answers>,
    answer: Answer,
    log_action: LogAction,
}

/// Receiver that drops answers, for flushes of the acknowledgement log.
struct DiscardAnswers;

impl Answers for DiscardAnswers {
    fn take(&self, _answer: Answer) {}
}

impl Jobs {
    /// Takes jobs from `inbox`, and reports events to `event_host` and durations to `latencies`.
    pub(crate) fn new(
        inbox: Inbox,
        event_host: Arc<Mutex<EventHost>>,
        latencies: Arc<Mutex<Latencies>>,
    ) -> Self {
        let (waiting, free, receivers) = (Vec::new(), Vec::new(), Vec::new());
        let (asked, writer, held, through) = (None, None, Vec::new(), false);
        let (ack_log, parked, retries) = (None, None, false);
        let (devices, reads, errors) = (ReportedStates::default(), false, 0);
        Jobs {
            inbox,
            waiting,
            receivers,
            free,
            asked,
            event_host,
            latencies,
            writer,
            through,
            ack_log,
            parked,
            retries,
            held,
            devices,
            reads,
            errors,
        }
    }

    /// Sets the acknowledgement policy and the acknowledgement log.
    pub(crate) fn set_acks(&mut self, acks: Acks, ack_log: Option<AckLog>) {
        (self.through, self.ack_log) = (acks == Acks::Media, ack_log);
    }

    /// Returns the acknowledgement log at the end of the volume.
    pub(crate) fn take_ack_log(&mut self) -> Option<AckLog> {
        self.ack_log.take()
    }

    /// Returns whether the parked job may be retried although the layer made no step.
    pub(crate) fn retries(&mut self) -> bool {
        std::mem::take(&mut self.retries) && self.parked.is_some()
    }

    /// Sets the superblock writer, which decides when durability may be reported.
    pub(crate) fn set_superblock_writer(&mut self, writer: Option<SuperblockWriter>) {
        self.writer = writer;
    }

    /// Sets the states before recovery. Devices of `out` hold no data; `reads` means read-only.
    pub(crate) fn set_standing(&mut self, members: &Members, out: DeviceSet, reads: bool) {
        (self.devices, self.reads) = (ReportedStates::new(members, out), reads);
        lock(&self.event_host).removed = members.removed;
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
            let recorded = self.recorded();
            let mut host = lock(&self.event_host);
            self.devices.report_changes(&members, recorded.as_ref(), failed, &mut host);
        }
        self.devices.end_start();
        let standing = self.devices.standing(layer);
        let writer = self.writer.as_mut()?;
        writer.update(standing);
        if self.held.is_empty() {
            return None;
        }
        let durability = writer.durability();
        if let Durability::Pending(most) = durability {
            return Some(most);
        }
        for Held { reply, mut answer, log_action } in std::mem::take(&mut self.held) {
            if durability == Durability::Failed {
                answer.result = Err(HostError::Io);
            }
            self.settle(log_action, answer.result.is_ok());
            self.deliver(reply, answer);
        }
        // A released flush may have freed space for the parked job.
        self.retries = true;
        None
    }

    /// Returns the common state of all superblocks; `None` where they never change.
    pub(crate) fn recorded(&self) -> Option<Superblock> {
        self.writer.as_ref()?.recorded()
    }

    /// Starts to install a device; `None` where members never change.
    pub(crate) fn begin_install(&mut self, new: NewDevice) -> Option<Installed> {
        Some(self.writer.as_mut()?.begin_install(new))
    }

    /// Closes the writer's handle of a device; `None` where members never change.
    pub(crate) fn close_device(&mut self, index: u8, absent: Reserve) -> Option<Receiver<()>> {
        Some(self.writer.as_mut()?.close(index, absent))
    }

    /// Ends the installation of a device at `index`, which `came` or not.
    pub(crate) fn end_install(&mut self, index: u8, came: bool) {
        self.writer.iter_mut().for_each(|writer| writer.end_install(index));
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
    pub(crate) fn closable(&self) -> DeviceSet {
        let open = self.devices.open_removed();
        // Usually there is none, and the superblocks need not be copied.
        let recorded = if open.is_empty() { None } else { self.recorded() };
        open & recorded.map_or(DeviceSet::EMPTY, |it| DeviceSet::from_bits(it.removed))
    }

    /// Reports a removed device that can't be closed.
    pub(crate) fn stays_open(&self, index: u8, why: &IoError) {
        lock(&self.event_host).stays_open(index, why);
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
        let standing = self.devices.standing(layer);
        self.writer.take().map_or(Ok(None), |writer| writer.finish(standing))
    }

    /// Returns the receivers of answers since the last call, to be flushed.
    pub(crate) fn receivers(&mut self) -> Vec<Arc<dyn Answers>> {
        std::mem::take(&mut self.receivers)
    }

    fn deliver(&mut self, reply: Arc<dyn Answers>, answer: Answer) {
        reply.take(answer);
        if !self.receivers.iter().any(|other| Arc::ptr_eq(other, &reply)) {
            self.receivers.push(reply);
        }
    }

    /// Reports the final result of a request to the acknowledgement log.
    fn settle(&mut self, log_action: LogAction, is_ok: bool) {
        if let (LogAction::Covers(place, wanted), Some(ack_log)) = (log_action, &mut self.ack_log) {
            ack_log.flushed(place, wanted, is_ok);
        }
    }

    /// Logs the job, if there is a log, and returns the layer's next action; `None` if refused.
    fn admit(&mut self, job: Job) -> Option<Pull> {
        let entrance = match (&mut self.ack_log, job.change()) {
            (Some(ack_log), Some(change)) => Some(ack_log.enter(&change)),
            _ => None,
        };
        let covers = self.ack_log.as_ref().map_or(0, AckLog::covers);
        let log_action = match entrance {
            None if matches!(job.op, JobOp::Flush) => LogAction::Covers(covers, false),
            None => LogAction::None,
            Some(Admission::Kept(place)) => LogAction::Kept(place),
            Some(Admission::Waits) => {
                self.parked = Some(job);
                return Some(Pull::TooLong);
            }
            Some(Admission::Flush) => {
                self.parked = Some(job);
                let (op, reply) = (JobOp::Flush, Arc::new(DiscardAnswers));
                let flush = Job { op, offset: 0, bytes: 0, cookie: 0, reply };
                return Some(Pull::Request(self.request(flush, LogAction::Covers(covers, true))));
            }
            Some(Admission::Refused) => {
                let kind = RequestKind::from_op(&job.op);
                self.report_error(kind, (job.offset, job.bytes), HostError::Io);
                job.refuse(Err(HostError::Io));
                return None;
            }
        };
        Some(Pull::Request(self.request(job, log_action)))
    }

    fn request(&mut self, job: Job, log_action: LogAction) -> Request {
        let Job { mut op, offset, bytes, cookie, reply } = job;
        // With `--ack media` each change behaves as if the client had set FUA.
        if self.through {
            op.make_durable();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.waiting.push(None);
            self.waiting.len() as u32 - 1
        });
        let (kind, since) = (RequestKind::from_op(&op), Instant::now());
        let promises = match &op {
            JobOp::Flush => true,
            JobOp::Write { fua, .. } | JobOp::Trim { fua } | JobOp::Zeroes { fua } => *fua,
            _ => false,
        };
        let range = (offset, bytes);
        let waiting = Waiting { cookie, reply, kind, since, promises, range, log_action };
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
        let tally = Tally::single(Cause::Host, written);
        Request { ticket, op, lba, sectors, tally, placement: 0 }
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
                    NextJob::TooLong
                }
                Some(job) => NextJob::Job(job),
                None => self.inbox.take(longest),
            };
            return match taken {
                NextJob::Job(job) if matches!(job.op, JobOp::Status) => {
                    self.asked = Some(job);
                    Pull::Query
                }
                NextJob::Job(job) => match self.admit(job) {
                    Some(pull) => pull,
                    None => continue,
                },
                NextJob::TooLong => Pull::TooLong,
                NextJob::Nothing => Pull::Nothing,
                NextJob::Over => Pull::Over,
            };
        }
    }

    fn query(&mut self, layer: &dyn Layer) {
        let Job { offset, bytes, cookie, reply, .. } = self.asked.take().expect("a job asked");
        let extents = extents(layer, offset / SECTOR as u64, bytes / SECTOR as u64);
        self.deliver(reply, Answer { extents, ..Answer::new(cookie, Ok(()), None) });
    }

    fn has_work(&self) -> bool {
        self.inbox.has_work()
    }

    fn answer(&mut self, reply: Reply) {
        let Reply { ticket, data, result } = reply;
        let place = ticket.close() as usize;
        let waiting = self.waiting[place].take().expect("one answer for each job");
        let Waiting { cookie, reply, kind, since, promises, range, log_action } = waiting;
        lock(&self.latencies).note(kind, since.elapsed());
        self.free.push(place as u32);
        let data = data.map(|data| Buffer(self.inbox.arena().adopt(data)));
        if let Err(error) = result {
            self.report_error(kind, range, error);
        }
        if let (LogAction::Kept(place), Some(ack_log)) = (log_action, &mut self.ack_log) {
            ack_log.answered(place, result.is_ok());
        }
        let mut answer = Answer::new(cookie, result, data);
        if promises && result.is_ok() {
            match self.writer.as_ref().map_or(Durability::Recorded, SuperblockWriter::durability) {
                Durability::Recorded => {}
                Durability::Pending(_) => {
                    return self.held.push(Held { reply, answer, log_action });
                }
                // A later start could take a stale device for current.
                Durability::Failed => answer.result = Err(HostError::Io),
            }
        }
        self.settle(log_action, answer.result.is_ok());
        self.deliver(reply, answer);
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.inbox.arena().adopt(payload));
    }

    fn event(&mut self, event: Event) {
        let loses =
            matches!(event, Event::DeviceFailed { .. } | Event::Failing { is_lost: true, .. });
        self.writer.iter_mut().filter(|_| loses).for_each(SuperblockWriter::suspect);
        lock(&self.event_host).event(event);
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
    fn a_failed_driver_releases_all_waiters() {
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
    fn jobs_wait_for_capacity_in_order() {
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
