//! Everything of one seed that outlives a power cut.

use hostftl_core::{DeviceInfo, Nanos, Payload, Segments};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Plan, Promises};

use crate::dice::Dice;
use crate::disk::Disk;
use crate::draw::copies::Copied;
use crate::draw::swarm::{ROOMY, Swarm};
use crate::draw::{self, Seed};
use crate::events::Tallies;
use crate::exec::Machine;
use crate::matrix::{Claim, Claims, Row};
use crate::model::Model;
use crate::places::Places;
use crate::trace;
use crate::workload::{LONGEST, Workload};

/// Of which devices the layer said last that it can do without them.
#[derive(Clone, Copy, Debug)]
pub struct Secure {
    /// Without the victim.
    pub victim: bool,
    /// Without the second one.
    pub second: bool,
}

impl Secure {
    /// Without both.
    pub const BOTH: Secure = Secure { victim: true, second: true };
}

/// The world of one seed. It is kept from seed to seed for its memory only.
#[derive(Debug)]
pub struct World {
    /// Devices and payload memory.
    pub machine: Machine,
    /// What every sector may hold.
    pub model: Model,
    /// What happened.
    pub tallies: Tallies,
    /// Chance.
    pub dice: Dice,
    /// The seed's options.
    pub swarm: Swarm,
    /// What the layer claims.
    pub claims: Claims,
    /// How the layer is made.
    pub config: LayerConfig,
    /// What the layer is told of its devices.
    pub infos: Vec<DeviceInfo>,
    /// The segments of each device, if they are zoned.
    pub segments: Option<Segments>,
    /// What each of several targets has.
    pub places: Places,
    /// What the layer needs and gives.
    pub plan: Plan,
    /// What the host asks next.
    pub workload: Workload,
    /// The number in every sector that the host writes.
    pub volume: u64,
    /// Calls of `Layer::step`.
    pub steps: u64,
    /// The time that the layer is told.
    pub now: Nanos,
    /// Steps that the last start took.
    pub start_steps: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Requests sent, and sectors written, trimmed or zeroed.
    pub sent: (u64, u64),
    /// Whether the medium was damaged, so that the volume may refuse to open.
    pub damaged: bool,
    /// Whether the victim missed writes, so that it does not belong to the volume any more.
    pub gone: bool,
    /// Earlier victims, without which the layer made itself able to lose another device.
    pub buried: u16,
    /// All that were victims so far.
    pub victims: u16,
    /// Devices that were told to stay after all.
    pub stays: u16,
    /// Whether the layer said last that it can lose the victim, and the second one.
    pub secure: Secure,
    /// Whether the last life stopped as asked, so that the journal is not needed.
    pub clean: bool,
    /// Whether the last life was refused, and the next may be opened: the journal was not there, or
    /// a device was an older copy, or did not answer.
    pub refused_for_now: bool,
    /// The copy of a device that may come in its place.
    pub copied: Copied,
    /// Whether recovery had to give sectors up: reads of them are errors until they are written.
    pub gave_up: bool,
    /// Flushes of each device before this life, and before the last one that was ready: what was
    /// durable then a layer knows to be durable.
    pub epochs: Vec<u32>,
    /// The second of them.
    pub known: Vec<u32>,
    /// Whether there was no room for a write before this step.
    pub was_full: bool,
    /// Whether a device is full, also in the lives to come.
    pub full: bool,
    /// Whether every step is printed.
    pub trace: bool,
    /// The CRC-32C of what every step was given and made, if it is wanted.
    pub digest: Option<u32>,
}

impl World {
    /// The world of `seed`.
    ///
    /// # Errors
    /// When SEMANTICS.md or the layer's own plan does not admit the run.
    pub fn new(seed: u64, layer: LayerKind, trace: bool) -> Result<Self, String> {
        let mut drawn = draw::seed(seed, layer)?;
        let (infos, plan) = loop {
            let infos = drawn.infos();
            match AnyLayer::plan(&drawn.config, &infos) {
                Ok(plan) => break (infos, plan),
                Err(why) if drawn.swarm.sectors >= ROOMY => return Err(format!("plan: {why}")),
                Err(_) => drawn.double(),
            }
        };
        let Seed { mut dice, claims, swarm, config, segments, .. } = drawn;
        trace.then(|| eprintln!("{swarm:?}"));
        Ok(World {
            machine: Machine::default(),
            model: Model::default(),
            tallies: Tallies::default(),
            workload: Workload::new(plan.limits.exported, swarm.fill),
            places: Places::of(&config, &infos)?,
            volume: dice.bits() | 1 << 63,
            dice,
            swarm,
            claims,
            config,
            infos,
            segments,
            plan,
            steps: 0,
            start_steps: 10,
            now: 0,
            cuts: 0,
            sent: (0, 0),
            damaged: false,
            gone: false,
            buried: 0,
            victims: 0,
            stays: 0,
            secure: Secure::BOTH,
            clean: false,
            refused_for_now: false,
            copied: Copied::Not,
            gave_up: false,
            epochs: Vec::new(),
            known: Vec::new(),
            was_full: false,
            full: false,
            trace,
            digest: None,
        })
    }

    /// What the layer promises beside what it claims.
    pub(crate) fn promises(&self) -> &'static Promises {
        &self.config.kind.registration().promises
    }

    /// Takes over the memory of an earlier seed's world.
    pub fn inherit(&mut self, used: World) {
        self.machine = used.machine;
        self.model = used.model;
    }

    /// Blank devices and a volume of zeros.
    pub fn blank(&mut self) {
        (self.buried, self.secure, self.config.members.fresh) = (0, Secure::BOTH, 0);
        (self.config.members.returning, self.stays) = (0, 0);
        self.begin_as_made();
        let now = self.swarm.victim.into_iter().chain(self.swarm.second);
        self.victims = now.fold(0, |set, it| set | 1 << it);
        self.damaged = false;
        self.gave_up = false;
        self.full = false;
        self.known.clear();
        self.gone = false;
        self.clean = false;
        self.copied = Copied::Not;
        let unit = self.infos[0].map_unit;
        self.machine.hint = if self.infos[0].collection_hint { unit } else { 0 };
        self.machine.disks.resize_with(self.infos.len(), Disk::default);
        for (disk, info) in self.machine.disks.iter_mut().zip(&self.infos) {
            disk.reset(info.sectors, self.swarm.volatile, self.swarm.destage, self.segments);
        }
        self.places.blank();
        self.workload.divide(self.places.hosts());
        self.break_some();
        let fixed = self.claims.get(Row::FixedAfterRecovery) == Claim::Kept;
        self.model.reset(self.plan.limits.exported, fixed);
    }

    /// Prints an input or output, when every step is printed, and adds it to the digest, if one is
    /// wanted.
    pub(crate) fn observe(&mut self, indent: &str, line: impl Fn() -> String) {
        if self.trace {
            match indent {
                "" => eprintln!("{} {}", self.steps, line()),
                _ => eprintln!("{indent}{}", line()),
            }
        }
        if let Some(digest) = &mut self.digest {
            trace::weigh(digest, &line());
        }
    }

    /// A fault of kind `row` harmed what is on a device: unless the layer claims to hold under it,
    /// the volume may refuse to open.
    pub fn harm(&mut self, row: Row) {
        self.damaged |= self.claims.get(row) != Claim::Kept;
    }

    /// A life is ready.
    pub fn life_begun(&mut self) {
        self.copied.life_begun();
        self.known.clone_from(&self.epochs);
    }

    /// The flush of a device up to which a layer knows for sure what is durable.
    pub fn known(&self, device: usize) -> u32 {
        if self.clean { u32::MAX } else { self.known.get(device).copied().unwrap_or(0) }
    }

    /// Payload memory for a new life: the layer's own buffers, and names of those for the host.
    pub fn issue(&mut self) -> (Vec<Payload>, Vec<u32>) {
        let arena = &mut self.machine.arena;
        arena.clear();
        let own = (0..self.plan.buffers).map(|_| arena.issue(self.plan.buffer_sectors)).collect();
        let host = (0..self.swarm.depth * 2).map(|_| arena.add(LONGEST)).collect();
        (own, host)
    }

    /// Steps until the next cut, typically; ever more, so that every seed comes to its end.
    pub fn cut_every(&self) -> u64 {
        self.swarm.cut_every * (1 + self.cuts / 20)
    }

    /// Whether the host has done enough: 500 requests, and the volume turned over twice.
    pub fn enough(&self) -> bool {
        let (requests, sectors) = self.sent;
        let turned = sectors >= 2 * self.plan.limits.exported || requests >= 20_000;
        requests >= 500 && turned
    }
}
