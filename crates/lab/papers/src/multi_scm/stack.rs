//! The SSD, a tier of two storage-class memories, and its runs.

use hostftl_core::{Nanos, Payload};
use hostftl_drives::Model;
use hostftl_lab_devices::scm::{Scm, ScmSpec, Wear};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode, TierPolicy};
use hostftl_sim::{End, Front, HostCosts, Pace, Player, World};

use super::loads::Load;
use crate::Error;

/// Variable parameters of the SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    /// Writes between two moves of a page, in M and in S; 0 = no wear levelling.
    pub intervals: [u32; 2],
    /// Share of M in thousandths of all memory.
    pub share: u32,
    /// Policy for bringing pages to M.
    pub policy: TierPolicy,
}

impl Setup {
    /// Returns the parameters of the paper's case 1 to 4.
    pub(super) fn case(number: usize) -> Self {
        let (in_m, in_s) = [(5, 5), (5, 0), (0, 5), (0, 0)][number - 1];
        Setup { intervals: [in_m, in_s], share: 50, policy: TierPolicy::Lru }
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Reads and writes per second.
    pub iops: f64,
    /// The same without overlap: the work of both memories in sequence.
    pub in_turn: f64,
    /// Sectors written by the host.
    pub written: u64,
    /// Wear of M and S.
    pub wear: [Wear; 2],
    /// Sectors moved between them.
    pub moved: u64,
    /// A violated law.
    pub violation: Option<String>,
}

/// Figures for the choice of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Requests per second.
    pub iops: f64,
    /// Maximum number of writes of a sector, of M and of S.
    pub most: [u32; 2],
}

impl Figures {
    /// Returns the maximum number of writes of a sector of M and of S for data `times` times as
    /// large, with the same number of accesses per page. S is unchanged: it wears evenly, or by
    /// fetches and write-backs of each page. So is M with wear levelling. Without it, the hottest
    /// sector of M keeps its share of all writes.
    pub(super) fn most_at(&self, times: u32, levelled: bool) -> [f64; 2] {
        let [m, s] = self.most.map(|most| f64::from(most.max(1)));
        [if levelled { m } else { m * f64::from(times) }, s]
    }
}

impl Outcome {
    /// Returns the figures for the choice of a case.
    pub(super) fn figures(&self) -> Figures {
        Figures { iops: self.iops, most: self.wear.map(|wear| wear.most) }
    }

    /// Returns the sectors that the host can write until a sector of one memory is worn out.
    pub(super) fn life(&self) -> f64 {
        let [m, s] = self.wear.map(|wear| f64::from(wear.most.max(1)));
        (1e9 / m).min(1e5 / s) * self.written as f64
    }

    /// Returns the writes of M's most written sector when a sector of S reaches its endurance, if
    /// wear continues in the same way.
    pub(super) fn m_at_the_end_of_s(&self) -> f64 {
        let [m, s] = self.wear.map(|wear| f64::from(wear.most));
        m * 1e5 / s.max(1.0)
    }
}

/// Returns the memories for `user` pages of data. Their total is a quarter larger, and M has
/// `share` thousandths of it. One page of S is for the ledger of the layer.
fn memories(setup: &Setup, user: u32) -> [ScmSpec; 2] {
    let all = user + user / 4;
    let fast = (all * setup.share / 1000).max(40);
    let spare = fast / 20;
    let slow = all.saturating_sub(fast).max(user + 2);
    let [in_m, in_s] = setup.intervals;
    [
        ScmSpec {
            interval: in_m,
            overwrites_only: true,
            ..ScmSpec::memory_type(fast - spare, spare)
        },
        ScmSpec { interval: in_s, ..ScmSpec::storage_type(user + 1, slow - user - 1) },
    ]
}

/// Plays a workload, one request at a time. Returns `None` when cancelled.
pub(super) fn play(
    setup: &Setup,
    load: &Load,
    seed: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Outcome>, Error> {
    let failed = |why: String| Error::Failed(format!("{}: {why}", load.name));
    let specs = memories(setup, load.pages);
    let infos = specs.each_ref().map(ScmSpec::device_info);
    let mut config = LayerConfig::new(LayerKind::Tier);
    (config.tier.policy, config.tier.free) = (setup.policy, 5);
    let plan = AnyLayer::plan(&config, &infos).map_err(|why| failed(why.to_string()))?;
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
    let layer = AnyLayer::new(&config, &infos, buffers, Mode::Format);
    let layer = layer.map_err(|why| failed(why.to_string()))?;
    // The layer runs inside the SSD, where processing time is not modelled.
    let costs = HostCosts { command_ns: 0, copy_rate: u64::MAX / 8192, ..HostCosts::default() };
    let drives = specs.iter().map(Scm::new).collect();
    let world = World::of(layer, drives, costs);
    let mut world = world.map_err(|why| failed(why.to_string()))?;
    let mut front = Front::new(&world);
    let start = world.now();
    let mut player = Player::new(load.open(seed)?, Pace::Closed(1), start);
    match player.play(&mut world, &mut front, |_| stop()) {
        Ok(End::Whole) => {}
        Ok(End::Cancelled) => return Ok(None),
        Err(why) => return Err(failed(why.named("tier", "multi-scm").to_string())),
    }
    let took = (world.now() - start) as f64 / 1e9;
    let worked: Nanos = world.devices().iter().map(Scm::worked).sum();
    let totals = front.totals();
    world.drain().map_err(|why| failed(why.to_string()))?;
    let wear = [world.devices()[0].wear(), world.devices()[1].wear()];
    let moved = hostftl_core::Layer::counters(world.layer()).gc_copied;
    let checked = world.devices().iter().try_for_each(Scm::check);
    let checked = checked.and_then(|()| hostftl_core::Layer::check(world.layer()));
    let idle = world.devices().iter().all(Model::idle);
    let violation = match (checked, idle) {
        (Err(why), _) => Some(format!("{}: {why}", load.name)),
        (Ok(()), false) => Some(format!("{}: a memory is not idle", load.name)),
        (Ok(()), true) => None,
    };
    Ok(Some(Outcome {
        iops: totals.transfers as f64 / took,
        in_turn: totals.transfers as f64 * 1e9 / worked as f64,
        written: totals.written_sectors,
        wear,
        moved,
        violation,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_larger_data_only_an_unlevelled_m_wears_more() {
        let of = Figures { iops: 1.0, most: [7, 3] };
        assert_eq!(of.most_at(10, true), [7.0, 3.0]);
        assert_eq!(of.most_at(10, false), [70.0, 3.0]);
    }
}
