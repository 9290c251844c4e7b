//! The smallest driver with real data: one memory device whose commands complete in a seeded order.

pub(crate) mod bare;
pub(crate) mod cache;
pub(crate) mod churn;
pub(crate) mod far;
pub(crate) mod lives;
mod start;
pub(crate) mod zoned;

use std::collections::{HashMap, HashSet};

use hostftl_compute::{Job, Tools};
use hostftl_core::{
    AdminCommand, AdminOutcome, BLOCK, Cause, Command, DeviceError, Done, Event, HostError, HostOp,
    Input, Layer, Out, Output, Payload, Piece, Refusal, Request, SECTOR, Tally, Target, Ticket,
    Token, Verdict, View,
};
use hostftl_layers::AnyLayer;

fn range(from: u32, bytes: u32) -> std::ops::Range<usize> {
    from as usize..(from + bytes) as usize
}

/// A layer over a memory device.
pub(crate) struct World {
    pub layer: AnyLayer,
    pub disk: Vec<u8>,
    pub events: Vec<Event>,
    pub steps: u64,
    /// Number of memory allocations in steps of the layer.
    pub allocations: u64,
    /// The write pointers of a zoned device.
    pub zoned: Option<zoned::Pointers>,
    /// Number of metadata reads, and of their sectors.
    pub meta_reads: (u64, u64),
    /// Number of sectors of data read.
    pub data_read: u64,
    /// Time of the clock in addition to the number of steps.
    pub elapsed: u64,
    /// Writes that a power cut reverts; `None` if the devices have no volatile cache.
    pub cache: Option<cache::Cache>,
    /// Unreadable sectors of the device.
    pub bad: HashSet<u64>,
    /// Contents of devices that are too large for a disk in memory.
    far: Option<far::Sparse>,
    /// Distance in sectors between the beginnings of two devices on the disk.
    second: u64,
    buffers: HashMap<u32, Vec<u8>>,
    tools: Tools,
    flying: Vec<(Token, Command)>,
    replies: HashMap<u64, Result<(), HostError>>,
    read_back: HashMap<u64, Vec<u8>>,
    out: Out,
    next_id: u32,
    seed: u64,
}

impl World {
    /// Executes an administrative command as a driver does.
    pub(crate) fn operate(&mut self, command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        let answer = self.layer.operate(command);
        self.step(Input::Timer);
        answer
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) as usize % below
    }

    fn step(&mut self, input: Input) {
        self.steps += 1;
        let now = self.steps + self.elapsed;
        let (layer, out) = (&mut self.layer, &mut self.out);
        let step = allocation_counter::measure(|| layer.step(now, input, out));
        self.allocations += step.count_total;
        let outputs: Vec<Output> = self.out.drain().collect();
        for output in outputs {
            match output {
                Output::Submit(token, command) => {
                    if let (Some(cache), Command::Flush { .. }) = (&mut self.cache, &command) {
                        cache.flush_sent(token);
                    }
                    self.flying.push((token, command));
                }
                Output::Event(event) => self.events.push(event),
                Output::Reclaim(payload) => drop(payload.surrender()),
                Output::Reply(reply) => {
                    let id = reply.ticket.close();
                    if let Some(data) = reply.data {
                        let bytes = self.buffers.remove(&data.surrender()).expect("a buffer");
                        self.read_back.insert(id, bytes);
                    }
                    self.replies.insert(id, reply.result);
                }
            }
        }
    }

    /// Completes commands in random order until nothing moves.
    pub(crate) fn settle(&mut self) {
        loop {
            if self.layer.next_timer() == Some(0) {
                self.step(Input::Timer);
            } else if !self.flying.is_empty() {
                self.complete_one();
            } else {
                return;
            }
        }
    }

    /// Completes one command.
    pub(crate) fn complete_one(&mut self) {
        let pick = self.random(self.flying.len());
        let pick = match &self.zoned {
            Some(zoned) => zoned.first(&self.flying, pick),
            None => pick,
        };
        self.complete(pick);
    }

    /// Completes all commands except those selected by `held`, until nothing else moves.
    pub(crate) fn settle_but(&mut self, held: impl Fn(Token, &Command) -> bool) {
        loop {
            if self.layer.next_timer() == Some(0) {
                self.step(Input::Timer);
            } else if !self.complete_newest(|token, command| !held(token, command)) {
                return;
            }
        }
    }

    /// Completes the newest command selected by `wanted`, without a timer before it. Returns
    /// `false` if there is none.
    pub(crate) fn complete_newest(&mut self, wanted: impl Fn(Token, &Command) -> bool) -> bool {
        let pick = self.flying.iter().rposition(|(token, command)| wanted(*token, command));
        pick.map(|pick| self.complete(pick)).is_some()
    }

    /// Returns the number of commands in flight selected by `wanted`.
    pub(crate) fn count(&self, wanted: impl Fn(Token, &Command) -> bool) -> usize {
        self.flying.iter().filter(|(token, command)| wanted(*token, command)).count()
    }

    /// Returns the newest command in flight.
    pub(crate) fn newest(&self) -> Token {
        self.flying.last().expect("a command is in flight").0
    }

    fn complete(&mut self, pick: usize) {
        let (token, mut command) = self.flying.remove(pick);
        let unreadable = match &command {
            Command::Read { lba, into, .. } => {
                (*lba..*lba + u64::from(into.sectors())).any(|sector| self.bad.contains(&sector))
            }
            _ => false,
        };
        let result = if unreadable { Err(DeviceError::Media) } else { self.perform(&mut command) };
        if let (Some(cache), Command::Flush { device }) = (&mut self.cache, &command) {
            cache.flushed(token, *device);
        }
        self.step(Input::Done(Done { token, command, result }));
    }

    fn payload_bytes(&self, piece: &Piece) -> Vec<u8> {
        match piece {
            Piece::Data(view) => {
                let from = view.from() as usize;
                self.buffers[&view.id()][from..from + view.bytes() as usize].to_vec()
            }
            Piece::Meta { buf, pages } => {
                buf.pages()[..*pages as usize].iter().flat_map(|page| page.0).collect()
            }
            Piece::Zeros(bytes) => vec![0; *bytes as usize],
        }
    }

    fn perform(&mut self, command: &mut Command) -> Result<Verdict, DeviceError> {
        if let Some(zoned) = &mut self.zoned
            && let Some(verdict) = zoned.perform(command)
        {
            return Ok(verdict);
        }
        let device = command.device().unwrap_or(0);
        let first = u64::from(device) * self.second;
        match command {
            Command::Read { lba, into, .. } => {
                let bytes = self.medium(first + *lba, into.sectors());
                match into {
                    Target::Data(view) => {
                        self.data_read += (bytes.len() / SECTOR) as u64;
                        let from = view.from() as usize;
                        let buffer = self.buffers.get_mut(&view.id()).expect("a buffer");
                        buffer[from..from + bytes.len()].copy_from_slice(&bytes);
                    }
                    Target::Meta { buf, .. } => {
                        self.meta_reads.0 += 1;
                        self.meta_reads.1 += (bytes.len() / SECTOR) as u64;
                        for (page, bytes) in buf.pages_mut().iter_mut().zip(bytes.chunks(4096)) {
                            page.0.copy_from_slice(bytes);
                        }
                    }
                }
            }
            Command::Program { lba, gather, tally, .. } => {
                let bytes: Vec<u8> = gather.iter().flat_map(|p| self.payload_bytes(p)).collect();
                assert_eq!(bytes.len(), tally.total() as usize * SECTOR, "a tally is the length");
                self.put(device, first + *lba, &bytes);
            }
            Command::Reset { lba, sectors, .. } => {
                self.put(device, first + *lba, &vec![0; *sectors as usize * SECTOR]);
            }
            Command::Flush { .. } | Command::Report { .. } => {}
            Command::Peek { from, into, pages } => {
                let bytes = &self.buffers[&from.id()][range(from.from(), from.bytes())];
                let pages = &mut into.pages_mut()[..*pages as usize];
                assert_eq!(bytes.len(), size_of_val(pages), "a copy is as long as its source");
                let each = pages.iter_mut().zip(bytes.chunks_exact(BLOCK));
                each.for_each(|(page, bytes)| page.0.copy_from_slice(bytes));
            }
            other => return self.compute(other),
        }
        Ok(Verdict::default())
    }

    /// Returns the contents of the medium.
    fn medium(&self, first: u64, sectors: u32) -> Vec<u8> {
        let at = first as usize * SECTOR;
        match &self.far {
            Some(far) => far.read(first, sectors),
            None => self.disk[at..at + sectors as usize * SECTOR].to_vec(),
        }
    }

    fn put(&mut self, device: u8, first: u64, bytes: &[u8]) {
        let at = first as usize * SECTOR;
        if let Some(far) = &mut self.far {
            return far.write(first, bytes);
        }
        let place = &mut self.disk[at..at + bytes.len()];
        if let Some(cache) = &mut self.cache {
            cache.overwrites(device, at, place);
        }
        place.copy_from_slice(bytes);
    }

    /// Executes a command that accesses no device. Only zeros are compressible here. With several
    /// devices, data may be damaged, and the result reports it.
    fn compute(&mut self, command: &Command) -> Result<Verdict, DeviceError> {
        let job = Job::new(command).expect("no layer here sends anything else");
        let read =
            |view: &View| self.buffers[&view.id()][range(view.from(), view.bytes())].to_vec();
        let (from, into): (Vec<Vec<u8>>, _) = match command {
            Command::Place { from, into } => (vec![self.payload_bytes(from)], Some(into)),
            Command::Pack { from, .. } | Command::Digest { from, .. } => (vec![read(from)], None),
            Command::Unpack { from, into, .. } | Command::Move { from, into, .. } => {
                (vec![read(from)], Some(into))
            }
            Command::Fold { from, into, .. } => (from.iter().map(read).collect(), Some(into)),
            _ => unreachable!("it has a job"),
        };
        let into = match into {
            Some(into) => {
                let buffer = self.buffers.get_mut(&into.id()).expect("a buffer");
                &mut buffer[range(into.from(), into.bytes())]
            }
            None => &mut [],
        };
        let from = from.iter().map(|bytes| &bytes[..]).collect();
        let verdict = job.run(&from, into, &mut self.tools);
        if self.second == 0 {
            let verdict = verdict.expect("a record has its checksum");
            if let Command::Move { parts, .. } = command {
                assert_eq!(verdict.bytes as usize, parts.len(), "a record has its checksum");
            }
        }
        verdict
    }

    /// Sends a request without waiting. Returns its id.
    pub(crate) fn send(
        &mut self,
        lba: u64,
        sectors: u64,
        op: impl FnOnce(&mut Self) -> HostOp,
    ) -> u64 {
        while self.layer.credits().requests == 0 {
            assert!(!self.flying.is_empty() || self.layer.next_timer() == Some(0), "a stall");
            self.settle_once();
        }
        self.next_id += 1;
        let id = u64::from(self.next_id);
        let op = op(self);
        let tally = Tally::single(
            Cause::Host,
            if matches!(op, HostOp::Write { .. }) { sectors as u32 } else { 0 },
        );
        let ticket = Ticket::issue(id);
        self.step(Input::Host(Request { ticket, op, lba, sectors, tally, placement: 0 }));
        id
    }

    fn settle_once(&mut self) {
        if self.layer.next_timer() == Some(0) {
            self.step(Input::Timer);
        } else {
            self.complete_one();
        }
    }

    /// Creates a buffer with `bytes`.
    pub(crate) fn payload(&mut self, bytes: Vec<u8>) -> Payload {
        self.next_id += 1;
        let sectors = (bytes.len() / SECTOR) as u32;
        self.buffers.insert(self.next_id, bytes);
        Payload::issue(self.next_id, sectors)
    }

    /// Drives the layer until a request is answered.
    pub(crate) fn wait(&mut self, id: u64) -> Result<(), HostError> {
        loop {
            if let Some(result) = self.replies.remove(&id) {
                return result;
            }
            assert!(
                !self.flying.is_empty() || self.layer.next_timer() == Some(0),
                "request {id} is never answered"
            );
            self.settle_once();
        }
    }

    /// Returns the result of a request, with the data read, if it is answered.
    pub(crate) fn answer(&mut self, id: u64) -> Option<Result<Vec<u8>, HostError>> {
        let result = self.replies.remove(&id)?;
        Some(result.map(|()| self.read_back.remove(&id).unwrap_or_default()))
    }

    /// Advances the clock to the next timer.
    pub(crate) fn wait_for_timer(&mut self) {
        let due = self.layer.next_timer().expect("there is a timer");
        self.elapsed = self.elapsed.max(due);
        self.step(Input::Timer);
    }

    pub(crate) fn write(&mut self, lba: u64, bytes: Vec<u8>, fua: bool) -> u64 {
        let sectors = (bytes.len() / SECTOR) as u64;
        self.send(lba, sectors, |world| HostOp::Write { data: world.payload(bytes), fua })
    }

    pub(crate) fn read(&mut self, lba: u64, sectors: u64) -> Result<Vec<u8>, HostError> {
        let id = self.send(lba, sectors, |world| {
            HostOp::Read(world.payload(vec![0xdd; sectors as usize * SECTOR]))
        });
        self.wait(id).map(|()| self.read_back.remove(&id).expect("a read gives bytes"))
    }

    pub(crate) fn flush(&mut self) {
        let id = self.send(0, 0, |_| HostOp::Flush);
        self.wait(id).expect("a flush");
    }

    /// Cuts the power: commands in flight have no effect, and a volatile cache is lost.
    pub(crate) fn cut(mut self) -> Vec<u8> {
        self.layer.power_off();
        self.flying.drain(..).for_each(|(_, command)| command.void());
        let mut disk = std::mem::take(&mut self.disk);
        self.cache.take().into_iter().for_each(|cache| cache.lose(&mut disk));
        disk
    }

    /// Completes single commands until `is_over`. Returns `false` if nothing moves any more.
    pub(crate) fn run_until(&mut self, is_over: impl Fn(&Self) -> bool) -> bool {
        while !is_over(self) {
            let is_due = self.layer.next_timer() == Some(0);
            if !is_due && self.flying.is_empty() {
                return false;
            }
            self.settle_once();
        }
        true
    }

    /// Flushes and cuts the power.
    pub(crate) fn cut_flushed(mut self) -> Vec<u8> {
        self.flush();
        self.cut()
    }

    /// Stops cleanly.
    pub(crate) fn stop(mut self) -> Vec<u8> {
        self.end();
        self.cut()
    }

    /// Requests a stop.
    pub(crate) fn begin_stop(&mut self) {
        self.step(Input::Stop);
    }

    fn end(&mut self) {
        self.settle();
        self.begin_stop();
        self.settle();
        assert!(self.events.contains(&Event::Stopped), "a stop ends");
        self.layer.check().expect("sound at the end");
    }
}
