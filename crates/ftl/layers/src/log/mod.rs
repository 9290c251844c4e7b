//! Log-structured array: blocks are compressed, packed into stripes over all devices, protected by
//! parity, and written once.
//!
//! A block is compressed into scratch memory, gets space in the open stripe ([`stripe`]) of its
//! stream, is copied there and published in the [`map`]. A stripe is sealed when it is full or a
//! flush needs it. It then gets a sequence number, a head that lists its records, and parity, and
//! is written to all devices at once. Written data is never updated in place, so there is no write
//! hole. Garbage collection moves the valid records of a victim into a stream of its own; they are
//! verified but not decompressed. The map is a tree of pages, and their images are records of a
//! third stream. A root points at the top of the tree, and recovery replays the heads of the
//! stripes since that root.
//!
//! Invariants
//! - Stripes are replayed in the order of their sequence numbers. A stripe never lists a record
//!   that a stripe with a lower number has a newer version of.
//! - A segment is reused only when a durable root no longer needs its contents.
//! - A step touches at most `MAX_TOUCH` map entries and makes at most `MAX_OUTPUTS` outputs.

mod array;
mod background;
mod background_rate;
mod buffers;
mod check;
mod checkpoint;
mod chunk_placement;
mod completion;
mod devices;
mod durability;
mod fast_path;
mod gc;
mod host;
mod journal;
mod layout;
mod map;
mod mapping;
mod media;
mod operate;
mod ops;
mod output;
pub(crate) mod params;
mod plan;
mod recovery;
mod redundancy;
pub(crate) mod register;
mod rounds;
mod scrub;
mod segments;
mod stripe;
mod volume;
mod zoned;

use alloc::vec::Vec;

use hostftl_core::{
    AdminCommand, AdminOutcome, ArrayVec, BLOCK, Codec, Command, DeviceError, DeviceInfo,
    DeviceSet, Gauges, MAX_TOUCH, Members, Payload, Piece, Refusal, Request, SECTORS_PER_BLOCK,
    Setting, Task, Token, Verdict, View, ViewMut,
};

use hostftl_format::log::GRAIN;

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::kit::shell::Ended;
use crate::kit::{Core, Life, Shell};
use crate::policy::GcPolicy;
use array::Array;
use background::Background;
use background_rate::BackgroundRate;
use buffers::Buffers;
use checkpoint::Checkpoint;
use devices::Devices;
use durability::Durability;
use gc::Collection;
use gc::protect::{excess, exposed_bytes};
use host::Blocks;
use journal::Journal;
pub use layout::{At, ChosenSpare, Layout};
use map::pages::Pages;
use mapping::Mapping;
use media::Media;
use ops::{Cx, Mark, OPS, Op, fail_volume};
use output::Output;
pub use params::SpareRule;
use recovery::Recovery;
use redundancy::metadata::MetadataRepair;
use redundancy::timed_out::TimedOut;
use scrub::Scrub;
use segments::Segments;
use stripe::stripes::Stripes;
use volume::Volume;

/// Log layer.
pub(crate) type Log = Shell<Engine>;

#[derive(Debug)]
pub(crate) struct Engine {
    blocks: Blocks,
    array: Array,
    recovery: Option<Recovery>,
}

impl Log {
    /// Returns the resources that the layer needs over `devices`, and its capacity.
    pub(crate) fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        let layout = Layout::new(config, devices)?;
        Ok(layout.plan(&config.log, Buffers::needed(&layout)))
    }

    /// Returns the layer. `buffers` become its stripes and scratch memory.
    pub(crate) fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let layout = Layout::new(config, devices)?;
        let members = config.members;
        let journal = Journal::new(&layout, members.missing);
        let members = crate::Members {
            // The journal device is no member of stripes; its state is that of the journal.
            missing: (members.missing - journal.device_set()) | layout.hole(),
            fresh: members.fresh - journal.device_set(),
            removed: members.removed | layout.hole(),
            // A zoned device cannot resume at its old write pointers: a returning device is erased.
            returning: if layout.zoned { DeviceSet::EMPTY } else { members.returning },
            ..members
        }
        .states(DeviceSet::EMPTY);
        // Only the root records the lost devices that parity need not make up for.
        let most = match mode {
            Mode::Format => config.tolerates(),
            Mode::Open => u32::from(layout.devices) - 1,
        };
        if members.inactive().len() > most {
            buffers.into_iter().for_each(|buffer| {
                buffer.void();
            });
            return Err(PlanError("too many devices are missing"));
        }
        let plan = layout.plan(&config.log, Buffers::needed(&layout));
        let media = Media {
            segments: Segments::new(&layout, &config.log),
            devices: Devices::new(layout, members, config.tolerates(), devices)
                .with_fault_limit(config.log.fault_after),
            buffers: Buffers::new(buffers, &layout),
            metadata_repair: MetadataRepair::new(&layout),
            background_rate: BackgroundRate::new(config.log.rebuild_share, layout.lanes()),
            gauges: Gauges::default(),
        };
        let output = Output {
            volume: Volume { uuid: config.uuid, life: 0 },
            stripes: Stripes::new(&layout),
            journal,
            durability: Durability::new(1),
            timed_out: TimedOut::new(&layout),
        };
        let mapping = Mapping {
            pages: Pages::new(&layout, config.uuid),
            checkpoint: Checkpoint::new(&layout, config.uuid),
        };
        let background = Background {
            collection: Collection::new(&layout, config.log.separation, config.uuid),
            scrub: Scrub::new(&layout, config.uuid),
        };
        let array = Array { media, output, mapping, background };
        let engine = Engine {
            blocks: Blocks::new(config.log.compress),
            array,
            recovery: Some(Recovery::new(&layout, config.uuid, mode)),
        };
        Ok(Shell::over(engine, plan, OPS, config.patience()))
    }
}

impl Core for Engine {
    type Op = Op;
    type Mark = Mark;
    const ROUND_OUTPUTS: usize = ops::ROUND_OUTPUTS;
    const MOST_OUTPUTS: usize = hostftl_core::MAX_OUTPUTS;

    #[inline]
    fn invalidates_fast_path(op: Op) -> bool {
        !matches!(op, Op::Block { .. } | Op::JointRead { .. })
    }

    fn accept(&mut self, request: Request, cx: &mut Cx) {
        self.array.media.background_rate.host_asks(cx.now());
        self.blocks.accept_request(request, &mut self.array, cx);
    }

    fn packed(
        &mut self,
        op: Op,
        views: (View, ViewMut),
        _: (Codec, u64),
        verdict: Verdict,
        cx: &mut Cx,
    ) {
        match op {
            Op::Block { index } => {
                self.blocks.pack_done(index, views, verdict, &mut self.array, cx);
            }
            other => unreachable!("{other:?} does not pack blocks"),
        }
    }

    fn placed(&mut self, op: Op, from: View, into: ViewMut, cx: &mut Cx) {
        if let Op::Block { index } = op {
            return self.blocks.place_done(index, (from, into), &mut self.array, cx);
        }
        let command = Command::Place { from: Piece::Data(from), into };
        self.finish(op, command, Ok(Verdict::default()), cx);
    }

    #[inline(always)]
    fn done(&mut self, op: Op, command: Command, ended: Ended, cx: &mut Cx) {
        self.command_done(op, command, ended, cx);
    }

    fn late_done(&mut self, token: Token, op: Op, command: Command, _ended: Ended, cx: &mut Cx) {
        self.abandoned_done(token, op, command, cx);
    }

    fn woken(&mut self, late: bool, cx: &mut Cx) -> bool {
        late && self.array.abandon_late(cx)
    }

    fn start(&mut self, cx: &mut Cx) -> bool {
        let moved = self.continue_without_devices(cx);
        let recovery = self.recovery.as_mut().expect("the volume is being recovered");
        let moved = recovery.pump(&mut self.array, cx) | moved;
        if cx.life() != Life::Starting {
            self.recovery = None;
        }
        moved
    }

    #[inline]
    fn run(&mut self, cx: &mut Cx) -> bool {
        if self.is_fast_path_valid(cx) { self.pump_fast_path(cx) } else { self.pump_all(cx) }
    }

    fn stop(&mut self, cx: &mut Cx) -> bool {
        self.pump_stop(cx)
    }

    fn wind_down(&mut self, cx: &mut Cx) -> bool {
        self.continue_without_devices(cx) | self.pump_failed(cx)
    }

    fn after_step(&mut self, cx: &mut Cx) {
        // Detected deep inside a step, where no failure can be handled.
        if let Some(device) = self.array.media.segments.take_disproved() {
            match cx.life() {
                Life::Starting => {
                    fail_volume("the valid counts of segments differ from the map", cx)
                }
                _ => cx.fail(device, DeviceError::Media, false),
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.array.output.timed_out.is_quiet() && self.array.media.devices.is_quiet()
    }

    fn check(&self) -> Result<(), &'static str> {
        let Array { mapping, media, .. } = &self.array;
        check::check_valid(mapping, media)
    }

    fn operate(&mut self, command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        match command {
            AdminCommand::Scrub(wish) => {
                let Array { background, media, .. } = &mut self.array;
                background.scrub.control(wish, media.gauges.beyond_repair, &media.segments)
            }
            AdminCommand::Set(Setting::RebuildShare(percent)) => {
                self.array.media.background_rate.change(percent)
            }
            AdminCommand::Set(Setting::Gc(number)) => {
                let policy = GcPolicy::from_number(number);
                let policy = policy.ok_or(Refusal::Because("unknown victim policy"))?;
                self.array.media.segments.choose_by(policy);
                Ok(AdminOutcome::Started)
            }
            _ => self.array.do_command(command),
        }
    }

    fn tasks(&self) -> ArrayVec<Task, 5> {
        let Array { background: Background { collection, scrub }, media, .. } = &self.array;
        let Media { segments, devices, .. } = media;
        let protects = collection.protection_task(segments, devices);
        let protects = protects.or_else(|| self.array.repair_task());
        let leaves = collection.evacuation_task(segments, devices);
        protects.into_iter().chain(leaves).chain(scrub.task(segments)).collect()
    }

    fn gauges(&self) -> Option<Gauges> {
        let (valid, free, stale) = self.array.media.segments.space();
        let mapped = self.array.mapping.pages.map().mapped() * BLOCK as u64;
        let exposed = exposed_bytes(&self.array.media.segments, &self.array.media.devices);
        let devices = &self.array.media.devices;
        let (may_lose, lacking) = (devices.may_lose(), devices.lacking());
        let most = self.array.valid_limit();
        let valid_limit = most.map_or(0, |grains| grains * u64::from(GRAIN));
        let known = self.array.media.gauges;
        let exposed = exposed + self.array.damaged_bytes();
        let (failing, damaged) = (devices.health().failing(), devices.health().damaged());
        let known = Gauges { may_lose, lacking, failing, damaged, ..known };
        let unreadable = self.array.unreadable_bytes();
        let excess = excess(&self.array.media.segments, devices, self.array.layout());
        Some(Gauges {
            mapped,
            valid,
            free,
            stale,
            exposed,
            unreadable,
            excess,
            valid_limit,
            ..known
        })
    }

    fn members(&self) -> Members {
        let members = self.array.media.devices.members();
        let journal = self.array.output.journal.member();
        journal.map_or(*members, |(device, member)| members.with(device, member))
    }

    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        let (used, frames) = self.array.mapping.pages.map().use_of_frames();
        let pages = self.array.layout().tree.pages.into();
        let mut facts = ArrayVec::new();
        self.array.output.journal.add_facts(&mut facts);
        facts.push(("map_pages", pages));
        facts.push(("map_frames", frames.into()));
        facts.push(("map_frames_used", used.into()));
        facts.push((
            "replay_bytes",
            self.array
                .mapping
                .checkpoint
                .delta(&self.array.output.durability, &self.array.mapping.pages),
        ));
        facts.push(("start_read_bytes", self.array.media.devices.read_at_start()));
        facts.push((
            "map_warmed_percent",
            u64::from(self.array.mapping.pages.loads().warmed()) * 100 / pages,
        ));
        facts
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        let per = u64::from(SECTORS_PER_BLOCK);
        let is = |block: u64| self.array.may_be_mapped(block);
        let (first, last) = (lba / per, (lba + sectors - 1) / per);
        // The search is bounded, so the range may end before the state changes.
        let mapped = is(first);
        let most = last.min(first + MAX_TOUCH as u64 - 1);
        let end = (first + 1..=most).find(|block| is(*block) != mapped).unwrap_or(most + 1);
        (mapped, (end * per).min(lba + sectors) - lba)
    }

    fn has_fast_zeroes(&self) -> bool {
        true
    }

    fn power_off(&mut self) {
        self.array.media.devices.void();
        self.array.media.buffers.void();
    }
}
