//! Fault-free driver: a layer over memory devices with one request at a time and commands in order
//! of submission. The same calls produce the same bytes on the devices.
//!
//! It creates golden images, and opens images that were modified by tests.

use std::collections::VecDeque;

use hostftl_core::{
    Cause, Command, DeviceInfo, Done, Event, HostError, HostOp, Input, Layer, Nanos, Out, Output,
    Payload, Request, SECTOR, SECTORS_PER_BLOCK, Segments, Tally, Ticket, Token,
};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};

use crate::dice::Dice;
use crate::disk::Disk;
use crate::draw::zones;
use crate::exec::{Detour, Machine};
use crate::extent::extent;
use crate::trace;

/// Maximum length of a request in sectors.
const LONGEST: u32 = 64;
/// Device length in sectors at which every layer works.
const MOST_SECTORS: u64 = 1 << 16;
/// Limit of inputs for a request or a start of such a small volume.
const MOST_STEPS: u32 = 400_000;

/// Layer with its devices.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// Configuration of the layer.
    pub config: LayerConfig,
    /// Properties of its devices.
    pub infos: Vec<DeviceInfo>,
    segments: Option<Segments>,
}

impl Case {
    fn new(name: &'static str, text: &str, devices: usize) -> Self {
        let mut config = LayerConfig::parse(text).expect("a text of ours");
        config.uuid = *b"a golden  volume";
        let mut case = Case { name, config, infos: Vec::new(), segments: None };
        let unit = if case.config.kind.needs_hint() { 16 } else { SECTORS_PER_BLOCK };
        let mut sectors = 2048;
        // Search for the smallest devices on which the layer works.
        loop {
            let mut info = DeviceInfo::block(sectors, unit);
            info.volatile_cache = false;
            info.merges = case.config.kind != LayerKind::Log;
            info.collection_hint = case.config.kind.needs_hint();
            case.infos = vec![info; devices];
            match AnyLayer::plan(&case.config, &case.infos) {
                Ok(_) => return case,
                Err(why) => assert!(sectors < MOST_SECTORS, "{name}: {why}"),
            }
            sectors += 512;
        }
    }

    fn zoned(name: &'static str, text: &str, units: u32) -> Self {
        let mut config = LayerConfig::parse(text).expect("a text of ours");
        config.uuid = *b"a golden  volume";
        let mut segments = Segments {
            size: 256,
            write_unit: 8,
            write_best: 16,
            unreadable: 0,
            max_open: 0,
            count: 8 * units,
            units,
        };
        loop {
            let infos = vec![zones::info(segments, false)];
            match AnyLayer::plan(&config, &infos) {
                Ok(_) => return Case { name, config, infos, segments: Some(segments) },
                Err(why) => assert!(infos[0].sectors < MOST_SECTORS, "{name}: {why}"),
            }
            segments.count += units;
        }
    }

    /// Returns one case for each layer, and more for layers with several kinds of data.
    pub fn all() -> Vec<Case> {
        let log = "log:superpage=16k:compress=none";
        vec![
            Case::new("passthrough", "passthrough", 1),
            Case::new("hard", "hard:superpage=16k", 1),
            Case::new("mhatl", "mhatl:superpage=16k", 1),
            Case::new("shatl", "shatl:superpage=16k:hidden=1m", 1),
            Case::new("hatl-auto", "hatl-auto:superpage=16k", 1),
            Case::new("scrambler", "scrambler", 1),
            Case::new("log", log, 1),
            Case::new("log-parity", &format!("{log}:parity=yes"), 3),
            Case::new("log-two-parities", &format!("{log}:parity=2"), 4),
            Case::new("log-journal", &format!("{log}:journal=yes"), 2),
            Case::zoned("log-zoned", log, 1),
            Case::new("tier", "tier:page=16k", 2),
            // The segment reuse policy is not part of the format, so it is fixed here.
            Case::zoned("pblk", "pblk:superpage=16k:reuse=fifo", 2),
            Case::zoned("rrpc", "rrpc:superpage=16k:reuse=fifo", 1),
        ]
    }

    /// Returns cases with other parameters that write the same kinds of pages.
    pub fn more() -> Vec<Case> {
        vec![
            Case::new("log-packed", "log:superpage=16k:parity=yes:journal=yes", 4),
            Case::new("log-wide", "log:superpage=64k", 1),
            Case::new("shatl-ressd", "shatl:superpage=16k:hidden=1m:mode=ressd", 1),
        ]
    }

    /// Returns the version of the layer's format.
    pub fn format(&self) -> u32 {
        self.config.kind.format()
    }

    /// Returns blank devices.
    pub fn blank(&self) -> Image {
        let blank = |info: &DeviceInfo| {
            let mut disk = Disk::default();
            disk.reset(info.sectors, false, 0, self.segments);
            disk
        };
        Image(self.infos.iter().map(blank).collect())
    }

    /// Returns the devices after a life that was stopped, and one that was cut after a flush; and
    /// the version of each sector of the volume, 0 for zeros.
    ///
    /// # Errors
    /// When the layer fails.
    pub fn image(&self) -> Result<(Image, Vec<u32>), String> {
        let mut versions = Vec::new();
        let mut image = self.blank();
        for (mode, stops) in [(Mode::Format, true), (Mode::Open, false)] {
            let mut run = FaultFreeRun::start(self, image, mode)?;
            if let Some(why) = run.refusal() {
                return Err(format!("refused: {why}"));
            }
            versions.resize(run.exported() as usize, 0);
            run.play(&mut versions)?;
            image = if stops { run.stop()? } else { run.cut() };
        }
        Ok((image, versions))
    }
}

/// Contents of the devices.
#[derive(Clone, Debug)]
pub struct Image(Vec<Disk>);

impl Image {
    /// Returns the number of devices.
    pub fn devices(&self) -> usize {
        self.0.len()
    }

    /// Returns the content of a device.
    pub fn bytes(&self, device: usize) -> &[u8] {
        self.0[device].bytes()
    }

    /// Returns the write pointers of a zoned device, in sectors from the start of each segment.
    pub fn pointers(&self, device: usize) -> Vec<u32> {
        self.0[device].pointers()
    }

    /// Overwrites a device from byte `at` on.
    pub fn patch(&mut self, device: usize, at: usize, bytes: &[u8]) {
        self.0[device].patch(at, bytes);
    }

    /// Sets the write pointers of a zoned device.
    pub fn set_pointers(&mut self, device: usize, pointers: &[u32]) {
        self.0[device].set_pointers(pointers);
    }
}

/// Returns the content of version `version` of a sector.
pub fn content(lba: u64, version: u32) -> [u8; SECTOR] {
    let word = if version == 0 { 0 } else { lba << 32 | u64::from(version) };
    let mut bytes = [0; SECTOR];
    bytes.as_chunks_mut::<8>().0.fill(word.to_le_bytes());
    bytes
}

/// Layer that is ready, or that refused its volume.
#[derive(Debug)]
pub struct FaultFreeRun {
    layer: AnyLayer,
    machine: Machine,
    flight: VecDeque<(Token, Command, u32)>,
    host: u32,
    now: Nanos,
    dice: Dice,
    over: Option<Result<(), &'static str>>,
    ready: bool,
    answer: Option<Result<(), HostError>>,
    read: Vec<u8>,
}

impl FaultFreeRun {
    /// Opens the volume of `image`, or formats it.
    ///
    /// # Errors
    /// When the layer violates the contract: it stops making progress, never ends, or accesses a
    /// range outside a device.
    pub fn start(case: &Case, image: Image, mode: Mode) -> Result<Self, String> {
        let plan = AnyLayer::plan(&case.config, &case.infos).map_err(|why| why.to_string())?;
        let hint = if case.config.kind.needs_hint() { case.infos[0].iu_sectors } else { 0 };
        let mut machine = Machine::default();
        (machine.disks, machine.hint) = (image.0, hint);
        let arena = &mut machine.arena;
        let buffers = (0..plan.buffers).map(|_| arena.issue(plan.buffer_sectors)).collect();
        let host = arena.add(LONGEST);
        let layer = AnyLayer::new(&case.config, &case.infos, buffers, mode);
        let layer = layer.map_err(|why| why.to_string())?;
        let mut run = FaultFreeRun {
            layer,
            machine,
            flight: VecDeque::new(),
            host,
            now: 0,
            dice: Dice::new(1, 1),
            over: None,
            ready: false,
            answer: None,
            read: Vec::new(),
        };
        let started = run.feed(Input::Timer);
        let started = started.and_then(|()| run.run_until(|it| it.ready || it.over.is_some()));
        run.unless(started)?;
        Ok(run)
    }

    /// Returns the reason why the volume was refused, if it was.
    pub fn refusal(&self) -> Option<&'static str> {
        self.over.and_then(Result::err)
    }

    /// Returns the sectors of the volume.
    pub fn exported(&self) -> u64 {
        self.layer.limits().exported
    }

    /// Passes an input to the layer and processes its outputs.
    fn feed(&mut self, input: Input) -> Result<(), String> {
        let mut out = Out::new();
        self.layer.step(self.now, input, &mut out);
        let mut wrong = None;
        for output in out.drain() {
            match output {
                Output::Submit(token, command) => {
                    wrong = wrong.or(self.beyond(&command));
                    let stamp = match &command {
                        Command::Flush { device } => {
                            self.machine.disks[usize::from(*device)].begin_flush()
                        }
                        _ => 1,
                    };
                    self.flight.push_back((token, command, stamp));
                }
                Output::Reply(reply) => {
                    reply.ticket.close();
                    reply.data.map(Payload::surrender);
                    self.answer = Some(reply.result);
                }
                Output::Reclaim(payload) => drop(payload.surrender()),
                Output::Event(Event::Ready { .. }) => self.ready = true,
                Output::Event(Event::Stopped) => self.over = Some(Ok(())),
                Output::Event(Event::Unrecoverable(why)) => self.over = Some(Err(why)),
                Output::Event(_) => {}
            }
        }
        wrong.map_or(Ok(()), Err)
    }

    /// Returns the fault of a command that exceeds its device.
    fn beyond(&self, command: &Command) -> Option<String> {
        let (device, lba, sectors, _) = extent(command)?;
        let size = self.machine.disks.get(usize::from(device)).map_or(0, |disk| disk.sectors());
        let fits = lba.checked_add(sectors).is_some_and(|end| end <= size && sectors > 0);
        (!fits).then(|| format!("{} on a device of {size} sectors", trace::command(command)))
    }

    /// Completes commands and lets time pass until `done`.
    fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), String> {
        for _ in 0..MOST_STEPS {
            if done(self) {
                return Ok(());
            }
            if let Some((token, mut command, stamp)) = self.flight.pop_front() {
                let dice = &mut self.dice;
                let result = self.machine.run(&mut command, stamp, Detour::None, dice);
                self.feed(Input::Done(Done { token, command, result }))?;
                continue;
            }
            let Some(at) = self.layer.next_timer() else {
                let when = if self.ready { "with something to do" } else { "in its start" };
                return Err(format!("the layer stands still {when}"));
            };
            self.now = self.now.max(at);
            self.feed(Input::Timer)?;
        }
        Err(format!("no end after {MOST_STEPS} steps"))
    }

    /// Switches the layer off after a fault.
    fn unless(&mut self, result: Result<(), String>) -> Result<(), String> {
        if result.is_err() {
            self.switch_off();
        }
        result
    }

    fn switch_off(&mut self) {
        self.layer.power_off();
        self.flight.drain(..).for_each(|(_, command, _)| command.void());
    }

    fn ask(&mut self, op: HostOp, lba: u64, sectors: u64) -> Result<Result<(), HostError>, String> {
        let tally = match op {
            HostOp::Write { .. } => Tally::single(Cause::Host, sectors as u32),
            _ => Tally::default(),
        };
        let ticket = Ticket::issue(1);
        let request = Request { ticket, op, lba, sectors, tally, placement: 0 };
        let what = format!("{:?}", request.op);
        let asked = self.feed(Input::Host(request));
        let asked = asked.and_then(|()| self.run_until(|it| it.answer.is_some()));
        self.unless(asked.map_err(|why| format!("{why}: {what}, {sectors} sectors at {lba}")))?;
        Ok(self.answer.take().expect("waited for"))
    }

    /// Reads sectors; `None` when they are an error.
    ///
    /// # Errors
    /// When the layer violates the contract.
    pub fn read(&mut self, lba: u64, sectors: u32) -> Result<Option<&[u8]>, String> {
        let payload = Payload::issue(self.host, sectors);
        let result = self.ask(HostOp::Read(payload), lba, sectors.into())?;
        let bytes = self.machine.arena.slice(self.host, 0, sectors * SECTOR as u32);
        self.read.clear();
        self.read.extend_from_slice(bytes);
        Ok(result.is_ok().then_some(&self.read))
    }

    /// Writes version `version` of sectors.
    ///
    /// # Errors
    /// When the layer violates the contract.
    pub fn write(
        &mut self,
        lba: u64,
        sectors: u32,
        version: u32,
    ) -> Result<Result<(), HostError>, String> {
        let bytes = self.machine.arena.slice_mut(self.host, 0, sectors * SECTOR as u32);
        for (at, sector) in (lba..).zip(bytes.chunks_exact_mut(SECTOR)) {
            sector.copy_from_slice(&content(at, version));
        }
        let data = Payload::issue(self.host, sectors);
        self.ask(HostOp::Write { data, fua: version.is_multiple_of(5) }, lba, sectors.into())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// When the layer violates the contract.
    pub fn flush(&mut self) -> Result<Result<(), HostError>, String> {
        self.ask(HostOp::Flush, 0, 0)
    }

    /// Trims sectors.
    ///
    /// # Errors
    /// When the layer violates the contract.
    pub fn trim(&mut self, lba: u64, sectors: u64) -> Result<Result<(), HostError>, String> {
        self.ask(HostOp::Trim { fua: false }, lba, sectors)
    }

    /// Writes, trims and flushes some sectors of every kind, and updates `versions`.
    ///
    /// # Errors
    /// When a request fails.
    pub fn play(&mut self, versions: &mut [u32]) -> Result<(), String> {
        let exported = self.exported();
        let first = versions.iter().max().map_or(1, |newest| newest + 1);
        for step in 0..48 {
            let version = first + step;
            let sectors = [1, 8, 3, 16, 32, 8][step as usize % 6];
            let lba = u64::from(step) * 7919 % 40 * 8 % (exported - 64) + u64::from(step % 4);
            let range = lba as usize..lba as usize + sectors as usize;
            let answer = if step % 11 == 10 {
                versions[range].fill(0);
                self.trim(lba, sectors.into())?
            } else {
                versions[range].fill(version);
                self.write(lba, sectors, version)?
            };
            answer.map_err(|error| format!("request {step}: {error:?}"))?;
            if step % 7 == 6 {
                self.flush()?.map_err(|error| format!("flush {step}: {error:?}"))?;
            }
        }
        self.flush()?.map_err(|error| format!("the last flush: {error:?}"))
    }

    /// Checks the invariants of the layer.
    ///
    /// # Errors
    /// The first violated invariant.
    pub fn check(&self) -> Result<(), &'static str> {
        self.layer.check()
    }

    /// Stops the layer and returns the devices.
    ///
    /// # Errors
    /// When the layer violates the contract.
    pub fn stop(mut self) -> Result<Image, String> {
        self.over = None;
        let stopped = self.feed(Input::Stop);
        let stopped = stopped.and_then(|()| self.run_until(|it| it.over.is_some()));
        self.unless(stopped)?;
        Ok(self.cut())
    }

    /// Ends the layer without a stop and returns the devices.
    pub fn cut(mut self) -> Image {
        self.switch_off();
        Image(std::mem::take(&mut self.machine.disks))
    }
}
