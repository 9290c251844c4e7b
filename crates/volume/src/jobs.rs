//! Jobs of a port as requests of a layer, and its replies as answers.
//!
//! Invariants
//! - A ticket's number is the place of its job's answer; the place is free when that is sent.
//! - Nobody answers a job twice, and a payload always goes back to the arena.
//! - What promises that something is durable is held back until the members know who is lost.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hostftl_core::{
    Cause, Credits, Event, HostError, HostOp, Layer, MAX_TOUCH, Payload, Reply, Request, SECTOR,
    Tally, Ticket,
};
use hostftl_format::roster::Standing;
use hostftl_format::superblock::Superblock;
use hostftl_io::{Host, IoError, Pull, Reserve};

use crate::events::Level;
use crate::front::{Answer, Answers, Buffer, Extent, Inbox, Job, JobOp, MAX_EXTENTS, Taken};
use crate::keeper::{Coming, Keeper, Promise};
use crate::latency::{Kind, Latencies};
use crate::quiet::Quiet;
use crate::roster::{Roster, standing};

/// See the module text.
#[derive(Debug)]
pub struct Jobs {
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
    held: Vec<(Arc<dyn Answers>, Answer)>,
    /// The devices that are known to be lost, those of them that are not needed any more, those
    /// that came in the place of others, and those of them that hold what they should.
    lost: u16,
    out: Option<u16>,
    fresh: u16,
    joined: u16,
    /// Those that were removed.
    gone: u16,
    /// Those that are left out because an operator wants that.
    ordered: u16,
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
}

impl Jobs {
    /// Takes jobs out of `inbox`, and tells `news` what happens and `latencies` how long it takes.
    pub fn new(inbox: Inbox, news: Arc<Mutex<Quiet>>, latencies: Arc<Mutex<Latencies>>) -> Self {
        let (waiting, free, told) = (Vec::new(), Vec::new(), Vec::new());
        let (asked, keeper, held, through) = (None, None, Vec::new(), false);
        let (lost, out, fresh, joined, gone, ordered, errors) = (0, Some(0), 0, 0, 0, 0, 0);
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
            held,
            lost,
            out,
            fresh,
            joined,
            gone,
            ordered,
            errors,
        }
    }

    /// Whether each write, trim and zeroing is answered only once it is durable.
    pub fn write_through(&mut self, through: bool) {
        self.through = through;
    }

    /// From now on `keeper` decides when a promise may be made.
    pub fn set_keeper(&mut self, keeper: Option<Keeper>) {
        self.keeper = keeper;
    }

    /// How the devices stand before anything is served; those of `fresh` came in the place of
    /// others.
    pub fn set_standing(&mut self, layer: &impl Layer, fresh: u16) {
        let Standing { lost, out, joined, gone, .. } = standing(layer, fresh);
        (self.lost, self.out, self.fresh, self.joined) = (lost, out, fresh, joined);
        self.gone = gone;
    }

    /// Tells of devices that the layer does without from now on, or does not need any more, and of
    /// those that hold what they should.
    fn hear_of_devices(&mut self, standing: Standing) {
        let Standing { lost, out, joined, gone, .. } = standing;
        let left = gone & !std::mem::replace(&mut self.gone, gone);
        let new = lost & !std::mem::replace(&mut self.lost, lost);
        let healed = out.unwrap_or(0) & !self.out.unwrap_or(0);
        let came = joined & !self.joined;
        (self.out, self.joined) = (out, joined);
        let news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for device in (0..16).filter(|device| new >> device & 1 == 1) {
            let name = news.name(device);
            let (level, kind, what) = match self.ordered >> device & 1 {
                0 => (Level::Error, "device-lost", "was lost"),
                _ => (Level::Warning, "degraded", "was left out by command"),
            };
            let text =
                format!("DEGRADED: device {device} ({name}) {what}; the volume goes on without it");
            news.events.tell(level, kind, text);
        }
        for device in (0..16).filter(|device| healed >> device & 1 == 1) {
            let name = news.name(device);
            let text = format!(
                "all that lay on device {device} ({name}) was made again on the others, with \
                 parity: the volume can lose another device"
            );
            news.events.tell(Level::Info, "protected", text);
        }
        for device in (0..16).filter(|device| came >> device & 1 == 1) {
            let name = news.name(device);
            let text = format!("device {device} ({name}) belongs to the volume and is written");
            news.events.tell(Level::Info, "device-joined", text);
        }
        for device in (0..16).filter(|device| left >> device & 1 == 1) {
            let name = news.name(device);
            let text = format!(
                "device {device} ({name}) was removed: nothing lies on it any more, and it can be \
                 taken away"
            );
            news.events.tell(Level::Info, "device-removed", text);
        }
    }

    /// Tells of an error that a host gets: of the first, and then whenever there are twice as many.
    fn hear_of_error(&mut self, kind: Kind, range: (u64, u64), error: HostError) {
        self.errors += 1;
        if !self.errors.is_power_of_two() {
            return;
        }
        let (level, event, why) = match error {
            HostError::NoSpace => (Level::Error, "no-space", "no room"),
            HostError::Io => (Level::Warning, "answered-error", "a device failed"),
            HostError::Range => (Level::Warning, "answered-error", "not within the volume"),
            HostError::ReadOnly => (Level::Warning, "answered-error", "the volume is only read"),
        };
        let text = format!(
            "a {} of {} bytes at {} was answered with an error: {why}; {} so far",
            kind.name(),
            range.1,
            range.0,
            self.errors
        );
        let news = self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        news.events.tell(level, event, text);
    }

    /// How the devices stand by what `layer` says: lets the members know, and answers what that
    /// holds back no longer. For how long to wait at most before the next call, while anything is
    /// held.
    pub fn keep(&mut self, layer: &impl Layer) -> Option<Duration> {
        let standing = standing(layer, self.fresh);
        let known = (self.lost, self.out, self.joined, self.gone);
        if (standing.lost, standing.out, standing.joined, standing.gone) != known {
            self.hear_of_devices(standing);
        }
        let keeper = self.keeper.as_mut()?;
        keeper.look(standing);
        if self.held.is_empty() {
            return None;
        }
        let promise = keeper.promise();
        if let Promise::Waits(most) = promise {
            return Some(most);
        }
        for (reply, mut answer) in std::mem::take(&mut self.held) {
            if promise == Promise::Broken {
                answer.result = Err(HostError::Io);
            }
            self.tell(reply, answer);
        }
        None
    }

    /// What all superblocks say; none where they never change.
    pub fn said(&self) -> Option<Superblock> {
        self.keeper.as_ref()?.said()
    }

    /// See [`Keeper::begin_seat`]; none where members never change.
    pub fn begin_seat(&mut self, coming: Coming) -> Option<Receiver<Result<(), String>>> {
        Some(self.keeper.as_mut()?.begin_seat(coming))
    }

    /// See [`Keeper::close`]; none where members never change.
    pub fn close_device(&mut self, index: u8, absent: Reserve) -> Option<Receiver<()>> {
        Some(self.keeper.as_mut()?.close(index, absent))
    }

    /// The device that was to come in place `index` came, or did not.
    pub fn end_seat(&mut self, index: u8, came: bool) {
        self.keeper.iter_mut().for_each(|keeper| keeper.end_seat(index));
        self.order(index, false);
        if came {
            (self.fresh, self.joined) = (self.fresh | 1 << index, self.joined & !(1 << index));
        }
    }

    /// An operator wants device `index` left out, or did before it came to that.
    pub fn order(&mut self, index: u8, is_wanted: bool) {
        let bit = 1 << index;
        self.ordered = if is_wanted { self.ordered | bit } else { self.ordered & !bit };
    }

    /// Whether an answer is held back.
    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The layer is closed: lets the members know who was lost to the last. What the superblocks
    /// say; none where they never change.
    ///
    /// # Errors
    /// When they can't be told.
    pub fn finish(&mut self, layer: &impl Layer) -> Result<Option<Roster>, IoError> {
        let standing = standing(layer, self.fresh);
        self.keeper.take().map_or(Ok(None), |keeper| keeper.finish(standing))
    }

    /// Who got answers since the last call, to be flushed.
    pub fn told(&mut self) -> Vec<Arc<dyn Answers>> {
        std::mem::take(&mut self.told)
    }

    fn tell(&mut self, reply: Arc<dyn Answers>, answer: Answer) {
        reply.take(answer);
        if !self.told.iter().any(|other| Arc::ptr_eq(other, &reply)) {
            self.told.push(reply);
        }
    }

    fn request(&mut self, job: Job) -> Request {
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
        let waiting = Waiting { cookie, reply, kind, since, promises, range };
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
        let held = self.held.drain(..).map(|(reply, answer)| (answer.cookie, reply));
        let waiting = self.waiting.drain(..).flatten().map(|it| (it.cookie, it.reply));
        for (cookie, reply) in held.chain(waiting) {
            reply.take(Answer::new(cookie, Err(HostError::Io), None));
            reply.flush();
        }
    }
}

impl Host for Jobs {
    fn pull(&mut self, credits: Credits) -> Pull {
        match self.inbox.take(u64::from(credits.sectors) * SECTOR as u64) {
            Taken::Job(job) if matches!(job.op, JobOp::Status) => {
                self.asked = Some(job);
                Pull::Look
            }
            Taken::Job(job) => Pull::Request(self.request(job)),
            Taken::TooLong => Pull::TooLong,
            Taken::Nothing => Pull::Nothing,
            Taken::Over => Pull::Over,
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
        let Waiting { cookie, reply, kind, since, promises, range } = waiting;
        let mut latencies = self.latencies.lock().unwrap_or_else(|poison| poison.into_inner());
        latencies.note(kind, since.elapsed());
        drop(latencies);
        self.free.push(place as u32);
        let data = data.map(|data| Buffer(self.inbox.arena().adopt(data)));
        if let Err(error) = result {
            self.hear_of_error(kind, range, error);
        }
        let mut answer = Answer::new(cookie, result, data);
        if promises && result.is_ok() {
            match self.keeper.as_ref().map_or(Promise::Kept, Keeper::promise) {
                Promise::Kept => {}
                Promise::Waits(_) => return self.held.push((reply, answer)),
                Promise::Broken => answer.result = Err(HostError::Io),
            }
        }
        self.tell(reply, answer);
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.inbox.arena().adopt(payload));
    }

    fn event(&mut self, event: Event) {
        if let (Event::DeviceFailed { .. }, Some(keeper)) = (event, &mut self.keeper) {
            keeper.suspect();
        }
        self.news.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).event(event);
    }
}

/// What is mapped from sector `lba` on: up to `sectors` sectors, but no more than a step may touch.
fn extents(layer: &dyn Layer, lba: u64, sectors: u64) -> Vec<Extent> {
    let mut all: Vec<Extent> = Vec::new();
    let mut at = 0;
    while at < sectors.min(MAX_TOUCH as u64) && all.len() < MAX_EXTENTS {
        let (mapped, run) = layer.mapped(lba + at, sectors - at);
        assert!(run > 0 && run <= sectors - at, "a look goes on, within what was asked");
        at += run;
        let bytes = run * SECTOR as u64;
        match all.last_mut() {
            Some(last) if last.mapped == mapped => last.bytes += bytes,
            _ => all.push(Extent { bytes, mapped }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::{Export, Port};
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
