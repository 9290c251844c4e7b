//! State of one seed that survives power cuts.

use hostftl_core::{DeviceInfo, DeviceSet, Nanos, Payload, Segments};
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

/// Faulty devices that the layer can lose, according to its last report.
#[derive(Clone, Copy, Debug)]
pub struct Secure {
    /// Whether it can lose the victim.
    pub victim: bool,
    /// Whether it can lose the second device.
    pub second: bool,
}

impl Secure {
    /// Both can be lost.
    pub const BOTH: Secure = Secure { victim: true, second: true };
}

/// World of one seed. It is kept from seed to seed only for its memory.
#[derive(Debug)]
pub struct World {
    /// Devices and payload memory.
    pub machine: Machine,
    /// Possible contents of every sector.
    pub model: Model,
    /// Counts of named events.
    pub tallies: Tallies,
    /// Source of randomness.
    pub dice: Dice,
    /// Options of the seed.
    pub swarm: Swarm,
    /// Claims of the layer.
    pub claims: Claims,
    /// Configuration of the layer.
    pub config: LayerConfig,
    /// Properties of the devices, as the layer receives them.
    pub infos: Vec<DeviceInfo>,
    /// Segments of each device, if they are zoned.
    pub segments: Option<Segments>,
    /// Ranges of several targets.
    pub places: Places,
    /// Memory needs and limits of the layer.
    pub plan: Plan,
    /// Generator of host requests.
    pub workload: Workload,
    /// Number contained in every sector that the host writes.
    pub volume: u64,
    /// Calls of `Layer::step`.
    pub steps: u64,
    /// Current time for the layer.
    pub now: Nanos,
    /// Number of steps of the last start.
    pub start_steps: u64,
    /// Number of power cuts.
    pub cuts: u64,
    /// Number of requests sent, and of sectors written, trimmed or zeroed.
    pub sent: (u64, u64),
    /// Whether the medium was damaged, so that the volume may refuse to open.
    pub damaged: bool,
    /// Whether the victim missed writes, so that it is no longer up to date.
    pub is_victim_stale: bool,
    /// Earlier victims whose loss the layer has compensated.
    pub buried: DeviceSet,
    /// All victims so far.
    pub victims: DeviceSet,
    /// Devices whose removal was cancelled.
    pub stays: DeviceSet,
    /// Last report of the layer about the loss of the victim and of the second device.
    pub secure: Secure,
    /// Whether the last life stopped as requested, so that the journal is not needed.
    pub clean: bool,
    /// Whether the last life was refused for a reason that may pass: the journal was missing, or a
    /// device was an older copy or timed out.
    pub refused_for_now: bool,
    /// State of the copy that may replace its device.
    pub copied: Copied,
    /// Whether recovery lost sectors, which are read errors until they are written.
    pub gave_up: bool,
    /// Number of flushes of each device before this life. The layer knows that everything before
    /// them is durable.
    pub epochs: Vec<u32>,
    /// The same numbers before the last life that became ready.
    pub known: Vec<u32>,
    /// Whether there was no space for a write before this step.
    pub was_full: bool,
    /// Whether a device is full, including in the following lives.
    pub full: bool,
    /// Whether every step is printed.
    pub trace: bool,
    /// CRC-32C of all inputs and outputs, if it is wanted.
    pub digest: Option<u32>,
}

impl World {
    /// Creates the world of `seed`.
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
            places: Places::new(&config, &infos)?,
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
            is_victim_stale: false,
            buried: DeviceSet::EMPTY,
            victims: DeviceSet::EMPTY,
            stays: DeviceSet::EMPTY,
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

    /// Returns the promises of the layer beyond its claims.
    pub(crate) fn promises(&self) -> &'static Promises {
        &self.config.kind.registration().promises
    }

    /// Takes over the memory of an earlier seed's world.
    pub fn inherit(&mut self, used: World) {
        self.machine = used.machine;
        self.model = used.model;
    }

    /// Resets to blank devices and a volume of zeros.
    pub fn blank(&mut self) {
        let none = DeviceSet::EMPTY;
        (self.buried, self.secure, self.config.members.fresh) = (none, Secure::BOTH, none);
        (self.config.members.returning, self.stays) = (none, none);
        self.begin_as_made();
        let now = self.swarm.victim.into_iter().chain(self.swarm.second_victim);
        self.victims = now.collect();
        self.damaged = false;
        self.gave_up = false;
        self.full = false;
        self.known.clear();
        self.is_victim_stale = false;
        self.clean = false;
        self.copied = Copied::Not;
        let unit = self.infos[0].iu_sectors;
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

    /// Prints an input or output if steps are printed, and adds it to the digest, if one is wanted.
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

    /// Records damage by a fault of kind `row`. Unless the layer claims to tolerate it, the volume
    /// may refuse to open.
    pub fn harm(&mut self, row: Row) {
        self.damaged |= self.claims.get(row) != Claim::Kept;
    }

    /// Records that a life became ready.
    pub fn life_begun(&mut self) {
        self.copied.life_begun();
        self.known.clone_from(&self.epochs);
    }

    /// Returns the flush number of a device up to which the layer certainly knows that data is
    /// durable.
    pub fn known(&self, device: usize) -> u32 {
        if self.clean { u32::MAX } else { self.known.get(device).copied().unwrap_or(0) }
    }

    /// Issues payload memory for a new life: the layer's own buffers, and ids of the host's.
    pub fn issue(&mut self) -> (Vec<Payload>, Vec<u32>) {
        let arena = &mut self.machine.arena;
        arena.clear();
        let own = (0..self.plan.buffers).map(|_| arena.issue(self.plan.buffer_sectors)).collect();
        let host = (0..self.swarm.depth * 2).map(|_| arena.add(LONGEST)).collect();
        (own, host)
    }

    /// Returns the typical number of steps until the next cut; it grows, so that every seed ends.
    pub fn cut_every(&self) -> u64 {
        self.swarm.cut_every * (1 + self.cuts / 20)
    }

    /// Returns whether the host has done enough: 500 requests, and twice the volume's size in
    /// writes.
    pub fn enough(&self) -> bool {
        let (requests, sectors) = self.sent;
        let turned = sectors >= 2 * self.plan.limits.exported || requests >= 20_000;
        requests >= 500 && turned
    }
}
