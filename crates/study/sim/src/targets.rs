//! A study of targets: several layers on one raw drive, each with its own host.
//!
//! A host keeps a number of requests in progress at random addresses of its target. It depends on
//! the credits of its own target only, like hosts with separate queues.

use std::ops::Range;

use hostftl_core::{DeviceInfo, Layer, Nanos, Payload, SECTOR};
use hostftl_drives::{Clock, Drive, DriveSpec};
use hostftl_layers::targets::{Targets, View};
use hostftl_layers::{AnyLayer, LayerConfig, Mode, Plan};
use hostftl_trace::Op;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::conserve;
use crate::costs::{HostCosts, payload_name};
use crate::front::{self, Totals};
use crate::layer_spec::LayerSpec;
use crate::media::Media;
use crate::world::World;

/// Position of the target's number in a ticket.
const SHIFT: u32 = 24;

/// A drive and its targets, as in a TOML file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetsFile {
    /// Drive, as for `--drive`; it must be a raw drive.
    pub drive: String,
    /// Targets.
    #[serde(rename = "target")]
    pub targets: Vec<TargetSpec>,
}

/// One target and its host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// First and last of its parallel units, as in `0-3`, or a single one.
    pub pus: String,
    /// Layer with its parameters.
    pub layer: String,
    /// Percentage of writes.
    #[serde(default)]
    pub write_percent: u32,
    /// Length of requests in KiB.
    #[serde(default = "four")]
    pub kib: u32,
    /// Queue depth; 0 for a target that is only filled.
    #[serde(default = "four")]
    pub depth: u32,
    /// Number of requests to measure; 0 for a host that runs until the others are done.
    #[serde(default)]
    pub requests: u64,
}

fn four() -> u32 {
    4
}

/// Results of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetRow {
    /// Parallel units.
    pub pus: String,
    /// Layer.
    pub layer: String,
    /// Completed requests.
    pub requests: u64,
    /// Victims that its layer collected during the run.
    pub gc_runs: u64,
    /// Median latency in ns.
    pub p50_ns: Nanos,
    /// 99th percentile in ns.
    pub p99_ns: Nanos,
    /// 99.9th percentile in ns.
    pub p999_ns: Nanos,
    /// Maximum in ns.
    pub max_ns: Nanos,
}

impl TargetsFile {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The error with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim().replace('\n', " "))
    }
}

impl TargetSpec {
    /// Parses the range of parallel units.
    fn units(&self) -> Result<Range<u32>, String> {
        let (first, last) = self.pus.split_once('-').unwrap_or((&self.pus, &self.pus));
        let wrong = || {
            format!(
                "pus = \"{}\" is invalid; use the first and the last unit, as in \
                 \"0-3\"",
                self.pus
            )
        };
        let first: u32 = first.trim().parse().map_err(|_| wrong())?;
        let last: u32 = last.trim().parse().map_err(|_| wrong())?;
        if first <= last { Ok(first..last + 1) } else { Err(wrong()) }
    }
}

/// Fills all targets, then runs their hosts concurrently until each has completed its requests.
///
/// # Errors
/// An invalid drive, target or layer, or a violation by a layer or the drive.
pub fn run_targets(file: &TargetsFile, seed: u64) -> Result<Vec<TargetRow>, String> {
    let spec = DriveSpec::find(&file.drive).map_err(|why| why.to_string())?;
    let planned = file.targets.iter().map(|target| planned(target, &spec));
    let planned = planned.collect::<Result<Vec<_>, _>>()?;
    Targets::fit(planned.iter().map(|one| &one.view)).map_err(|why| why.to_string())?;
    let layers = planned.into_iter().map(Planned::layer).collect();
    let targets = Targets::new(layers).expect("they fit");
    let drive = Drive::new(&spec).map_err(|why| why.to_string())?;
    let media = Some(Media::default());
    let world = World::over(targets, vec![drive], media, HostCosts::default());
    let hosts = file.targets.iter().zip(1..);
    let mut study = Hosts {
        world: world.map_err(|why| why.to_string())?,
        hosts: hosts.map(|(target, salt)| Host::of(target, seed ^ salt << 32)).collect(),
        asked: Totals::default(),
    };
    study.fill()?;
    let before: Vec<u64> = study.collected();
    study.ask()?;
    let collected: Vec<u64> = study.collected();
    study.world.stop().map_err(|why| why.to_string())?;
    conserve::check(&study.world, &study.asked).map_err(|why| why.to_string())?;
    let rows = study.hosts.iter_mut().zip(&file.targets).zip(collected.iter().zip(&before));
    Ok(rows.map(|((host, target), (now, was))| host.row(target, now - was)).collect())
}

/// A valid target.
struct Planned {
    config: LayerConfig,
    info: DeviceInfo,
    plan: Plan,
    view: View,
}

fn planned(target: &TargetSpec, spec: &DriveSpec) -> Result<Planned, String> {
    let about = |why: String| format!("target {}: {why}", target.pus);
    let device = spec.device_info();
    let view = View::new(&device, target.units()?).map_err(|why| about(why.to_string()))?;
    let info = view.info(&device);
    let mut config = LayerSpec::parse(&target.layer).map_err(about)?.on(device.iu_sectors);
    config.choose(std::slice::from_ref(&info), None);
    let plan = AnyLayer::plan(&config, std::slice::from_ref(&info));
    let plan = plan.map_err(|why| about(why.to_string()))?;
    Ok(Planned { config, info, plan, view })
}

impl Planned {
    fn layer(self) -> (AnyLayer, View) {
        let Planned { config, info, plan, view } = self;
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
        let layer = AnyLayer::new(&config, &[info], buffers, Mode::Format);
        (layer.expect("the target was planned"), view)
    }
}

/// The host of one target.
#[derive(Debug)]
struct Host {
    sectors: u64,
    write_percent: u32,
    depth: u32,
    wanted: u64,
    under_way: u32,
    issued: u64,
    /// Send time of the request in each slot, and the free slots.
    sent: Vec<Nanos>,
    free: Vec<u32>,
    took: Vec<Nanos>,
    dice: Xoshiro256PlusPlus,
}

impl Host {
    fn of(target: &TargetSpec, seed: u64) -> Self {
        Host {
            sectors: u64::from(target.kib.max(1)) * 1024 / SECTOR as u64,
            write_percent: target.write_percent,
            depth: target.depth,
            wanted: target.requests,
            under_way: 0,
            issued: 0,
            sent: vec![0; target.depth as usize],
            free: (0..target.depth).collect(),
            took: Vec::new(),
            dice: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    fn is_done(&self) -> bool {
        self.took.len() as u64 >= self.wanted
    }

    fn row(&mut self, target: &TargetSpec, gc_runs: u64) -> TargetRow {
        self.took.sort_unstable();
        let at = |permille: usize| {
            let index = (self.took.len() * permille).div_ceil(1000).max(1) - 1;
            self.took.get(index).copied().unwrap_or(0)
        };
        TargetRow {
            pus: target.pus.clone(),
            layer: target.layer.clone(),
            requests: self.took.len() as u64,
            gc_runs,
            p50_ns: at(500),
            p99_ns: at(990),
            p999_ns: at(999),
            max_ns: at(1000),
        }
    }
}

/// The world of all targets with its hosts.
struct Hosts {
    world: World<Targets>,
    hosts: Vec<Host>,
    asked: Totals,
}

impl Hosts {
    fn collected(&self) -> Vec<u64> {
        let runs = |target| self.world.layer().target_counters(target).gc_runs;
        (0..self.hosts.len()).map(runs).collect()
    }

    /// Writes the exported sectors of every target once, in order and without modelled time.
    fn fill(&mut self) -> Result<(), String> {
        self.world.drain().map_err(|why| why.to_string())?;
        self.world.set_clock(Clock::Counts);
        let step = u64::from(self.world.layer().limits().max_transfer);
        for target in 0..self.hosts.len() {
            let (first, sectors) = self.world.layer().extent(target);
            for lba in (0..sectors).step_by(step as usize) {
                let sectors = step.min(sectors - lba);
                while self.world.layer().target_credits(target).requests == 0 {
                    self.advance()?;
                }
                self.send(target, 0, Op::Write, first + lba, sectors)?;
                while let Some(answer) = self.world.answer() {
                    answer.result.map_err(|error| format!("filling failed: {error:?}"))?;
                }
            }
        }
        self.world.drain().map_err(|why| why.to_string())?;
        while self.world.answer().is_some() {}
        self.world.set_clock(Clock::Timed);
        Ok(())
    }

    fn advance(&mut self) -> Result<(), String> {
        match self.world.advance() {
            Ok(true) => Ok(()),
            Ok(false) => Err("no event is pending, but requests are outstanding".into()),
            Err(why) => Err(why.to_string()),
        }
    }

    fn send(
        &mut self,
        target: usize,
        slot: u32,
        op: Op,
        lba: u64,
        sectors: u64,
    ) -> Result<(), String> {
        let asked = &mut self.asked;
        (asked.issued, asked.transfers) = (asked.issued + 1, asked.transfers + 1);
        match op {
            Op::Write => asked.written_sectors += sectors,
            _ => asked.read_sectors += sectors,
        }
        let ticket = (target as u32) << SHIFT | slot;
        let request = front::request(ticket, payload_name(ticket.into(), None), op, lba, sectors);
        self.world.send(request).map_err(|why| why.to_string())
    }

    /// Runs all hosts until each is done and all requests have completed.
    fn ask(&mut self) -> Result<(), String> {
        loop {
            let over = self.hosts.iter().all(Host::is_done);
            if !over {
                for target in 0..self.hosts.len() {
                    self.ask_more(target)?;
                }
            } else if self.hosts.iter().all(|host| host.under_way == 0) {
                return Ok(());
            }
            self.take_answers()?;
            if self.hosts.iter().any(|host| host.under_way > 0) {
                self.advance()?;
                self.take_answers()?;
            }
        }
    }

    fn ask_more(&mut self, target: usize) -> Result<(), String> {
        let (first, exported) = self.world.layer().extent(target);
        while self.hosts[target].under_way < self.hosts[target].depth {
            let host = &mut self.hosts[target];
            let enough = host.wanted > 0 && host.issued >= host.wanted;
            if enough || self.world.layer().target_credits(target).requests == 0 {
                return Ok(());
            }
            let slot = host.free.pop().expect("a slot is free");
            let sectors = host.sectors;
            let lba = first + host.dice.random_range(0..exported / sectors) * sectors;
            let writes = host.dice.random_range(0..100) < host.write_percent;
            (host.under_way, host.issued) = (host.under_way + 1, host.issued + 1);
            host.sent[slot as usize] = self.world.now();
            self.send(target, slot, if writes { Op::Write } else { Op::Read }, lba, sectors)?;
            self.take_answers()?;
        }
        Ok(())
    }

    fn take_answers(&mut self) -> Result<(), String> {
        let now = self.world.now();
        while let Some(answer) = self.world.answer() {
            answer.result.map_err(|error| format!("a request failed: {error:?}"))?;
            let (target, slot) = (answer.id >> SHIFT, answer.id as u32 & ((1 << SHIFT) - 1));
            let host = &mut self.hosts[target as usize];
            host.took.push(now - host.sent[slot as usize]);
            host.free.push(slot);
            host.under_way -= 1;
        }
        Ok(())
    }
}
