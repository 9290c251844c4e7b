//! Random choices of a run: faults, members, requests of an operator.
//!
//! Each function draws one part from the dice and from a read-only view of the claims and of the
//! parts drawn earlier. None changes the world, which applies the parts, so each can be tested in
//! isolation. The parts of a whole seed have separate dice, with different salts: if one part draws
//! more numbers than before, the others are unchanged.

pub(crate) mod admin;
pub(crate) mod changes;
pub(crate) mod copies;
pub(crate) mod damage;
pub(crate) mod fate;
mod journal;
mod large;
pub(crate) mod members;
mod mixed_sizes;
pub(crate) mod power;
mod second_victim;
mod stress;
pub(crate) mod swarm;
pub(crate) mod transient;
pub(crate) mod zones;

use hostftl_core::{BLOCK, DeviceInfo, SECTOR, Segments};
use hostftl_layers::{Devices, LayerConfig, LayerKind};

use crate::dice::Dice;
use crate::matrix::{Claims, Row};
use journal::{Journal, Mortal};
use swarm::{Stack, Swarm};

/// Choices of a seed before its first life.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    /// Number of the seed.
    number: u64,
    /// Dice for everything that follows.
    pub dice: Dice,
    /// Claims of the layer.
    pub claims: Claims,
    /// Options of the seed.
    pub swarm: Swarm,
    /// Configuration of the layer.
    pub config: LayerConfig,
    /// Segments of the devices, if they are zoned.
    pub segments: Option<Segments>,
    journal: Option<DeviceInfo>,
}

/// Draws the choices of a seed for `layer`.
pub(crate) fn seed(number: u64, layer: LayerKind) -> Result<Seed, String> {
    let mut dice = Dice::new(number, layer as u64);
    let stack = Stack::draw(&mut dice, layer, second_victim::with_two_parities(number, layer));
    let mut claims = Claims::for_layer(layer, stack.parity > 0)?;
    let mut swarm = Swarm::draw(&mut dice, &claims, layer, stack);
    (swarm.changes, swarm.online_changes) = changes::draw(number, layer);
    if let Some(large) = large::draw(number, layer) {
        swarm.enlarge(large);
    }
    swarm.admin_commands = admin::rate(number, layer);
    let journal = journal::draw(number, layer, &swarm)?;
    if let Some(Journal { mortal, flushes, .. }) = &journal {
        swarm.add_journal(*mortal, *flushes);
        claims = mortal.map_or(claims, |mortal| mortal.claims);
    }
    (swarm.faults.stale, swarm.older) = copies::draw(number, &claims, layer, &swarm);
    swarm.faults = transient::draw(number, &claims, &swarm);
    swarm.second_victim = second_victim::draw(number, &swarm);
    if let Some(stress) = stress::draw(number, &claims, layer, &swarm) {
        swarm.apply_stress(stress);
    }
    swarm.mixed_sizes = mixed_sizes::draw(number, layer, swarm.devices);
    let mut config = configure(&mut dice, layer, &swarm, journal.is_some());
    config.uuid[..8].copy_from_slice(&number.to_le_bytes());
    if let Some(limit) = transient::fault_limit(number) {
        config.log.fault_after = limit;
    }
    let segments = zones::draw(number, &config, &swarm);
    if segments.is_some() && claims.admits(Row::Hang) {
        claims.on_zones();
    }
    let journal = journal.map(|it| it.info);
    Ok(Seed { number, dice, claims, swarm, config, segments, journal })
}

/// Draws the configuration of the layer, including options that only this layer has.
fn configure(dice: &mut Dice, layer: LayerKind, swarm: &Swarm, journal: bool) -> LayerConfig {
    let mut config = LayerConfig::new(layer);
    config.log.journal = journal;
    config.superpage = swarm.superpage;
    config.spare_permille = swarm.spare;
    config.log.parity = swarm.parity;
    config.log.compress = swarm.compress;
    if layer.registration().devices == Devices::FastAndSlow {
        config.tier.page = swarm.superpage;
        (config.tier.policy, config.tier.free) = (swarm.tier, swarm.spare / 10);
    }
    config.deadline = swarm.deadline;
    let choices = &layer.registration().chaos;
    (choices.vary)(&mut config, dice);
    if swarm.thin {
        let all = swarm.sectors * SECTOR as u64 * u64::from(swarm.devices);
        config.log.logical_size = Some(all.next_multiple_of(BLOCK as u64));
    }
    if let Some(large) = choices.large.filter(|_| swarm.also) {
        (large.also.1)(&mut config);
    }
    config
}

impl Swarm {
    /// Adds a journal device behind the others.
    fn add_journal(&mut self, mortal: Option<Mortal>, flushes: Option<u32>) {
        self.journal = Some(self.devices as u8);
        if let Some(Mortal { faults, deadline, .. }) = mortal {
            self.mortal = self.journal;
            (self.faults, self.deadline) = (faults, deadline);
        }
        self.mix[4] = flushes.unwrap_or(self.mix[4]);
    }
}

impl Seed {
    /// Returns the properties of the devices.
    pub(crate) fn infos(&self) -> Vec<DeviceInfo> {
        let (config, swarm) = (&self.config, &self.swarm);
        let mut info = DeviceInfo::block(swarm.sectors, swarm.iu_sectors);
        info.volatile_cache = swarm.volatile;
        // `log` aligns its writes to indirection units only on devices that do not merge them.
        info.merges = !swarm.volatile && config.kind != LayerKind::Log;
        info.discard = swarm.discard;
        info.collection_hint = config.kind.needs_hint();
        let info = self.segments.map_or(info, |it| zones::info(it, swarm.volatile));
        let mut infos = vec![info; swarm.devices as usize];
        if config.kind.registration().devices == Devices::FastAndSlow {
            infos[0].sectors = swarm.fast;
        }
        if swarm.mixed_sizes && self.segments.is_none() {
            mixed_sizes::lengthen(&mut mixed_sizes::dice(self.number), &mut infos);
        }
        infos.extend(self.journal.clone());
        infos
    }

    /// Doubles the length of the devices.
    pub(crate) fn double(&mut self) {
        self.swarm.sectors *= 2;
        self.segments.iter_mut().for_each(|segments| segments.count *= 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns seeds of layers that sometimes have parity or a journal, and of one that never has.
    fn seeds() -> impl Iterator<Item = Seed> {
        let layers = [LayerKind::Log, LayerKind::Tier, LayerKind::Hard];
        layers.into_iter().flat_map(|layer| {
            (0..300).map(move |number| seed(number, layer).expect("it is admitted"))
        })
    }

    #[test]
    fn faults_are_drawn_only_if_the_layer_makes_a_claim() {
        for Seed { claims, swarm, .. } in seeds() {
            let faults = swarm.faults;
            for (drawn, row) in [
                (faults.cut, Row::PowerCut),
                (faults.hang, Row::Hang),
                (faults.device_failure, Row::FailedDevice),
                (faults.metadata_rot, Row::MetadataRot),
                (faults.log_rot, Row::LogRot),
                (faults.data_rot, Row::DataRot),
                (faults.lost, Row::LostWrite),
                (faults.misdirected, Row::MisdirectedWrite),
                (faults.write_error, Row::WriteError),
                (faults.flush_error, Row::FlushError),
                (faults.no_space, Row::NoSpace),
            ] {
                assert!(!drawn || claims.admits(row), "{row:?}: {swarm:?}");
            }
        }
    }

    #[test]
    fn two_devices_with_faults_are_two_and_a_journal_is_neither() {
        let mut count = (0, 0);
        for Seed { swarm, .. } in seeds() {
            if let Some(second) = swarm.second_victim {
                assert!(swarm.parity == 2 && swarm.victim.is_some_and(|it| it != second));
                count.0 += 1;
            }
            if let Some(journal) = swarm.journal {
                assert_eq!(u32::from(journal), swarm.devices, "it is behind the others");
                assert!(swarm.second_victim != Some(journal) && swarm.victim != Some(journal));
                count.1 += 1;
            }
            assert!(swarm.older.is_none_or(|it| u32::from(it) < swarm.devices && it < 16));
        }
        assert!(count.0 > 10 && count.1 > 10, "{count:?}");
    }

    #[test]
    fn busy_stacks_are_cut_and_lose_devices() {
        let stress = seeds().filter(|it| it.swarm.is_stress);
        let count =
            stress.map(|it| assert!(it.swarm.faults.cut && it.swarm.admin_commands > 0)).count();
        assert!(count > 10, "{count}");
    }

    #[test]
    fn a_seed_fixes_all_of_its_choices() {
        for layer in [LayerKind::Log, LayerKind::Pblk] {
            for number in 0..30 {
                let text = || {
                    let drawn = seed(number, layer).expect("it is admitted");
                    format!("{drawn:?} {:?}", drawn.infos())
                };
                assert_eq!(text(), text());
            }
        }
    }
}
