//! Jobs of a port as requests of a layer, and its replies as answers.
//!
//! Invariants
//! - A ticket's number is the place of its job's answer; the place is free when that is sent.
//! - Nobody answers a job twice, and a payload always goes back to the arena.
//! - What promises that something is durable is held back until the members know who is lost.

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

/// See the module text.
#[derive(Debug)]
pub(crate) struct Jobs {
    inbox: Inbox,
    waiting: Vec<Option<Waiting>>,
    /// Who got answers since the last [`Jobs::told`].
    told: Vec<Arc<dyn Answers>>,
    free: Vec<u32>,
    /// The question that a look will answer.
    asked: Option<Job>,
    /// What happened, for other threads.
    news: Arc<Mutex<Quiet>>,
    latencies: Arc<Mutex<Latencies>>,
    /// Tells the members of losses; none where no loss is survived.
    keeper: Option<Keeper>,
    /// Whether each write is answered only once it is durable.
    through: bool,
    /// Keeps what is answered until it is durable; none where it may die with the process.
    stash: Option<Stash>,
    /// A job that waits for the stash, and all later ones behind it; whether it may be tried again
    /// although the layer did nothing.
    parked: Option<Job>,
    retries: bool,
    held: Vec<Held>,
    devices: Reported,
    /// Whether nothing is written to the devices.
    reads: bool,
    /// Answers that were errors.
    errors: u64,
}

/// A job that the layer has.
#[derive(Debug)]
struct Waiting {
    cookie: u64,
    reply: Arc<dyn Answers>,
    kind: Kind,
    since: Instant,
    /// Whether the answer says that something is durable.
    promises: bool,
    /// What it is about, in bytes.
    range: (u64, u64),
    /// What it is for the stash.
    part: Part,
}

/// An answer that is held back.
#[derive(Debug)]
struct Held {
    reply: Arc<dyn Answers>,
    answer: Answer,
    part: Part,
}

/// Waits for no answer: whose the flushes are that the stash wants.
struct Nobody;

impl Answers for Nobody {
    fn take(&self, _answer: Answer) {}
}

impl Jobs {
    /// Takes jobs out of `inbox`, and tells `news` what happens and `latencies` how long it takes.
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

    /// When each write, trim and zeroing is answered; the stash keeps it until it is durable.
    pub(crate) fn set_acks(&mut self, acks: Acks, stash: Option<Stash>) {
        (self.through, self.stash) = (acks == Acks::Media, stash);
    }

    /// The stash, when the volume is over.
    pub(crate) fn take_stash(&mut self) -> Option<Stash> {
        self.stash.take()
    }

    /// Whether a job that was parked may be tried again, although the layer did nothing.
    pub(crate) fn retries(&mut self) -> bool {
        std::mem::take(&mut self.retries) && self.parked.is_some()
    }

    /// From now on `keeper` decides when a promise may be made.
    pub(crate) fn set_keeper(&mut self, keeper: Option<Keeper>) {
        self.keeper = keeper;
    }

    /// Sets the states of the devices before recovery; all that has changed since is reported.
    /// Nothing lies on those of `out`; a volume that only `reads` can't fail.
    pub(crate) fn set_standing(&mut self, members: &Members, out: u16, reads: bool) {
        (self.devices, self.reads) = (Reported::new(members, DeviceSet::from_bits(out)), reads);
        let mut news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        news.gone = members.gone.to_bits();
    }

    /// The layer was opened again, with devices that came, those of `fresh`.
    pub(crate) fn reopened(&mut self, fresh: DeviceSet) {
        self.devices.reopened(fresh);
    }

    /// How the devices stand by what `layer` says: lets the members know, and answers what that
    /// holds back no longer. For how long to wait at most before the next call, while anything is
    /// held.
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
        self.retries = true;
        None
    }

    /// What all superblocks say; none where they never change.
    pub(crate) fn said(&self) -> Option<Superblock> {
        self.keeper.as_ref()?.said()
    }

    /// See [`Keeper::begin_seat`]; none where members never change.
    pub(crate) fn begin_seat(&mut self, seat: Coming) -> Option<Receiver<Result<(), AdminError>>> {
        Some(self.keeper.as_mut()?.begin_seat(seat))
    }

    /// See [`Keeper::close`]; none where members never change.
    pub(crate) fn close_device(&mut self, index: u8, absent: Reserve) -> Option<Receiver<()>> {
        Some(self.keeper.as_mut()?.close(index, absent))
    }

    /// The device that was to come in place `index` came, or did not.
    pub(crate) fn end_seat(&mut self, index: u8, came: bool) {
        self.keeper.iter_mut().for_each(|keeper| keeper.end_seat(index));
        self.order(index, false);
        if came {
            self.devices.came(index);
        }
    }

    /// An operator wants device `index` left out, or did before it came to that.
    pub(crate) fn order(&mut self, index: u8, is_wanted: bool) {
        self.devices.order(index, is_wanted);
    }

    /// Devices that have left, as all superblocks say, and are open still.
    pub(crate) fn left(&self) -> u16 {
        let open = self.devices.open_of_removed().to_bits();
        if open == 0 { 0 } else { open & self.said().map_or(0, |said| said.gone) }
    }

    /// Tells of a device that has left and can't be closed.
    pub(crate) fn stays_open(&self, index: u8, why: &IoError) {
        let news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        news.stays_open(index, why);
    }

    /// A device that has left is not open any more, or stays so.
    pub(crate) fn is_closed(&mut self, index: u8) {
        self.devices.is_closed(index);
    }

    /// Whether an answer is held back.
    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The layer is closed: lets the members know who was lost to the last. What the superblocks
    /// say; none where they never change.
    ///
    /// # Errors
    /// When they can't be told.
    pub(crate) fn finish(&mut self, layer: &impl Layer) -> Result<Option<Roster>, IoError> {
        self.keep(layer);
        let standing = self.devices.look(layer);
        self.keeper.take().map_or(Ok(None), |keeper| keeper.finish(standing))
    }

    /// Who got answers since the last call, to be flushed.
    pub(crate) fn told(&mut self) -> Vec<Arc<dyn Answers>> {
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, reply: Arc<dyn Answers>, answer: Answer) {
        reply.take(answer);
        if !self.told.iter().any(|other| Arc::ptr_eq(other, &reply)) {
            self.told.push(reply);
        }
    }

    /// The stash hears of the last word about a request.
    fn settle(&mut self, part: Part, is_ok: bool) {
        if let (Part::Covers(place, wanted), Some(stash)) = (part, &mut self.stash) {
            stash.flushed(place, wanted, is_ok);
        }
    }

    /// The job for the layer, if the stash lets it in; none when it was refused.
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
        Request { ticket, op, lba, sectors, tally: Tally::of(Cause::Host, written) }
    }
}

impl Drop for Jobs {
    /// Only a driver that failed leaves jobs without an answer; their clients must not wait on.
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
                    Pull::Look
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

    fn look(&mut self, layer: &dyn Layer) {
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
        let arena = Arena::new(&HOST_CLASSES, Class::of_sectors(8, 0)).unwrap();
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
        let arena = Arena::new(&HOST_CLASSES, Class::of_sectors(8, 0)).unwrap();
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
