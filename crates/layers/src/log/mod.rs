//! The log array: blocks are compressed, packed into rows over all devices, protected, and written
//! once.
//!
//! How a block moves: it is compressed into scratch, gets room in the open [`row`] of its stream,
//! is copied there and published in the [`map`]. A row that is full, or that a flush needs, is
//! sealed: it gets a number, a head that lists what it holds, and parity, and goes to all devices
//! at once.
//! Nothing written is ever updated in place, so there is no write hole. Collection moves what is
//! live in a victim into a stream of its own, checked but not unpacked. The map is a tree of pages
//! whose images are records of a third stream; a root points at its top, and recovery replays the
//! heads of the rows since then.
//!
//! Invariants
//! - Rows are replayed in the order of their numbers; a row lists nothing of which a row with a
//!   lower number has a newer version.
//! - A segment is written again only when a root is durable that needs nothing of it.
//! - A step touches at most `MAX_TOUCH` map entries and makes at most `MAX_OUTPUTS` outputs.

mod buffers;
mod check;
mod checkpoint;
mod completion;
mod durability;
mod fast_path;
mod gc;
mod host;
mod journal;
mod layout;
mod map;
mod ops;
pub(crate) mod params;
mod recovery;
mod redundancy;
pub(crate) mod register;
mod rounds;
mod row;
mod segments;
mod zoned;

use alloc::vec::Vec;

use hostftl_core::{
    BLOCK, Codec, Command, Counters, Credits, DeviceError, DeviceInfo, Done, Event, Few, Gauges,
    HostError, Input, Layer, Limits, MAX_TOUCH, Nanos, Out, Output, Payload, Piece, SECTOR,
    SECTORS_PER_BLOCK,
};
use hostftl_format::log::STREAMS;

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::requests::Requests;
use buffers::Buffers;
use checkpoint::Checkpoint;
use checkpoint::roots::Roots;
use durability::Durability;
use gc::Collection;
use gc::throttle::Pace;
use host::blocks::Blocks;
use host::requests::Mark;
use journal::Journal;
use layout::ROWS;
pub use layout::{At, Layout};
use map::Map;
use map::directory::Directory;
use map::page_reads::Loads;
use ops::{OPS, Ops};
use recovery::Recovery;
use redundancy::failed_devices::Lost;
use redundancy::metadata::Salvage;
use redundancy::timed_out::Hung;
use row::Row;
use row::append::Stream;
use segments::Segments;
use zoned::write_pointers::Pointers;

/// Commands kept for everything that is not a block operation.
const OWN_OPS: usize = 512;

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Recovering,
    Running,
    Stopping,
    Over,
}

/// See the module text.
#[derive(Debug)]
pub struct Log {
    plan: Plan,
    layout: Layout,
    uuid: [u8; 16],
    codec: Codec,
    life: Life,
    /// What all but reads is answered with since a device failed.
    failed: Option<HostError>,
    /// The blocks, the images of the pages in which they are mapped, and those that are read.
    map: Map,
    directory: Directory,
    loads: Loads,
    segments: Segments,
    /// What is known of the zones of zoned devices.
    pointers: Pointers,
    roots: Roots,
    streams: [Stream; STREAMS],
    rows: Vec<Row>,
    /// The rows that are closed, being sealed or drained: a round may move them on.
    active: u32,
    buffers: Buffers,
    blocks: Blocks,
    requests: Requests<Mark>,
    /// The map page that is kept for the first trim.
    trimming: Option<u32>,
    ops: Ops,
    lost: Lost,
    hung: Hung,
    journal: Journal,
    salvage: Salvage,
    durability: Durability,
    /// Counts versions; its low bits go into checksums and the map.
    generation: u8,
    /// What the rows of this life carry.
    life_number: u32,
    collection: Collection,
    pace: Pace,
    checkpoint: Checkpoint,
    recovery: Option<Recovery>,
    /// Which devices gain from knowing what is free, and how many of them were told of a segment
    /// and have not answered.
    discard: Vec<bool>,
    discarding: Vec<u8>,
    counters: Counters,
    gauges: Gauges,
    touched: usize,
    more: bool,
    /// What [`Segments::changes`] was when the layer became [`fast_path`]; `None` when it is not.
    calm: Option<u64>,
    /// Sectors that were read until the volume was ready.
    start_read: u64,
    /// A command ran past its deadline: what hangs is answered without its payload.
    abandoning: bool,
}

impl Log {
    /// What the layer needs over `devices`.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config, devices)?;
        Ok(layout.plan(config.log.gc, Buffers::needed(&layout)))
    }

    /// The layer; `buffers` become its rows and scratch.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config, devices)?;
        let journal = Journal::new(&layout, config.missing);
        let missing = config.missing & !journal.bit();
        if missing.count_ones() > config.tolerates() {
            buffers.into_iter().for_each(|buffer| {
                buffer.void();
            });
            return Err(PlanError("too many devices are missing"));
        }
        Ok(Log {
            plan: layout.plan(config.log.gc, Buffers::needed(&layout)),
            layout,
            uuid: config.uuid,
            codec: config.log.compress,
            life: Life::Recovering,
            failed: None,
            map: Map::new(&layout),
            directory: Directory::new(layout.pages),
            loads: Loads::new(),
            segments: Segments::new(&layout, &config.log),
            pointers: Pointers::new(&layout),
            roots: Roots::new(&layout),
            streams: [Stream::default(); STREAMS],
            rows: (0..ROWS).map(|_| Row::new(&layout)).collect(),
            active: 0,
            buffers: Buffers::new(buffers, &layout),
            blocks: Blocks::new(),
            requests: Requests::new(),
            trimming: None,
            ops: Ops::new(OPS, config.patience()),
            lost: Lost::new(missing, config.tolerates()),
            hung: Hung::new(&layout),
            journal,
            salvage: Salvage::new(&layout),
            durability: Durability::new(1),
            generation: 0,
            life_number: 0,
            collection: Collection::new(&layout),
            pace: Pace::new(&layout),
            checkpoint: Checkpoint::new(&layout),
            recovery: Some(Recovery::new(&layout, mode)),
            discarding: alloc::vec![0; layout.segments as usize],
            discard: devices.iter().map(|device| device.discard).collect(),
            counters: Counters::default(),
            gauges: Gauges::default(),
            touched: 0,
            more: true,
            calm: None,
            start_read: 0,
            abandoning: false,
        })
    }

    /// A device can no longer be trusted with what is written.
    fn fail(&mut self, device: u8, error: DeviceError, abandoned: bool, out: &mut Out) {
        self.counters.device_errors += 1;
        if self.failed.is_some() {
            return;
        }
        self.failed = Some(match error {
            DeviceError::NoSpace => HostError::NoSpace,
            _ => HostError::Io,
        });
        out.push(Output::Event(Event::DeviceFailed { device, error, abandoned }));
        if self.life == Life::Recovering {
            self.give_up("a device failed during recovery", out);
        }
    }

    fn give_up(&mut self, why: &'static str, out: &mut Out) {
        self.failed = Some(HostError::Io);
        self.life = Life::Over;
        out.push(Output::Event(Event::Unrecoverable(why)));
    }

    /// A command hangs: its device is given up, and the volume with it when that is needed.
    fn look_for_late(&mut self, now: Nanos, out: &mut Out) {
        let late = self.ops.wake().is_some_and(|at| at <= now) && self.ops.any_late(now);
        if late && !self.give_up_late(now, out) {
            self.abandoning = true;
            self.fail(0, DeviceError::Gone, true, out);
        }
    }
}

impl Layer for Log {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        self.touched = 0;
        match input {
            Input::Host(request) => self.accept(request, out),
            // Of these there are most, and whole they would be copied on their way.
            Input::Done(Done {
                token,
                command: Command::Pack { from, into, .. },
                result: Ok(it),
            }) => {
                self.end_pack(now, token, (from, into), it, out);
            }
            Input::Done(Done {
                token,
                command: Command::Place { from: Piece::Data(from), into },
                result: Ok(_),
            }) => self.end_place(now, token, (from, into), out),
            Input::Done(done) => self.done(now, done, out),
            Input::Timer => {
                self.disturb();
                self.look_for_late(now, out);
            }
            Input::Stop => {
                self.disturb();
                self.life = Life::Stopping;
            }
        }
        self.pump(now, out);
        assert!(self.touched <= MAX_TOUCH, "a step touched {} map entries", self.touched);
    }

    fn credits(&self) -> Credits {
        let running = self.life == Life::Running;
        let requests = if running { self.requests.room() } else { 0 };
        Credits { requests, sectors: self.plan.limits.max_transfer }
    }

    fn next_timer(&self) -> Option<Nanos> {
        if self.more { Some(0) } else { self.ops.wake() }
    }

    fn limits(&self) -> Limits {
        self.plan.limits
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn map_bytes(&self) -> u64 {
        self.plan.map_bytes
    }

    fn facts(&self) -> Few<(&'static str, u64), 8> {
        let (used, frames) = self.map.use_of_frames();
        let pages = self.layout.pages.into();
        let mut facts = Few::new();
        self.journal.tell(&mut facts);
        facts.push(("map_pages", pages));
        facts.push(("map_frames", frames.into()));
        facts.push(("map_frames_used", used.into()));
        facts.push(("replay_bytes", self.delta()));
        facts.push(("start_read_bytes", self.start_read * SECTOR as u64));
        facts.push(("map_warmed_percent", self.loads.warmed() * 100 / pages));
        facts
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        let per = u64::from(SECTORS_PER_BLOCK);
        let is = |block: u64| self.may_be_mapped(block);
        let (first, last) = (lba / per, (lba + sectors - 1) / per);
        let mapped = is(first);
        let most = last.min(first + MAX_TOUCH as u64 - 1);
        let end = (first + 1..=most).find(|block| is(*block) != mapped).unwrap_or(most + 1);
        (mapped, (end * per).min(lba + sectors) - lba)
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }

    fn idle(&self) -> bool {
        self.requests.is_empty() && self.all_back() && self.lost.is_quiet() && !self.more
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.life == Life::Running { self.check_live() } else { Ok(()) }
    }

    fn gauges(&self) -> Option<Gauges> {
        let (live, free, stale) = self.segments.space();
        let mapped = self.map.mapped() * BLOCK as u64;
        Some(Gauges { mapped, live, free, stale, ..self.gauges })
    }

    fn lost_devices(&self) -> u16 {
        self.lost.set() | self.journal.lost()
    }

    fn power_off(&mut self) {
        self.lost.void();
        self.requests.void();
        self.buffers.void();
    }
}

impl Log {
    /// Whether a block may hold something other than zeros: only a page that is here can tell.
    fn may_be_mapped(&self, block: u64) -> bool {
        let away = || !self.directory.place(self.map.page_of(block)).is_nowhere();
        self.map.look(block).map_or_else(away, |place| !place.is_nowhere())
    }
}
