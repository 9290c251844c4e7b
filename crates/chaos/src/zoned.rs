//! Zoned devices in a life: which a layer gets, and what breaks.

use hostftl_core::{Command, DeviceError, DeviceInfo, DeviceKind, Segments};
use hostftl_layers::chaos::Strips;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind};

use crate::dice::Dice;
use crate::disk::Refusal;
use crate::errors::Errors;
use crate::events::Named;
use crate::fate::Fate;
use crate::matrix::{Claim, Claims, Row};
use crate::swarm::Swarm;
use crate::world::{ROOMY, World};

/// Keeps this stream of chance apart from the seed's other one.
const SALT: u64 = 0x5e67;
/// Segments of each parallel unit that a layer needs at the least.
const LEAST_SEGMENTS: u32 = 14;
/// At most one in so many segments breaks.
const BAD_SHARE: usize = 32;
/// So many of a device may be what a layer needs of certain segments: it may fail at any time.
const MANY_BAD: usize = 3;

/// What a layer is told of a device of `segments`.
pub fn info(segments: Segments, volatile: bool) -> DeviceInfo {
    let sectors = u64::from(segments.size) * u64::from(segments.count);
    let kind = DeviceKind::Zoned(segments);
    DeviceInfo { volatile_cache: volatile, kind, ..DeviceInfo::block(sectors, segments.write_unit) }
}

/// The segments of a seed's devices: for a layer that takes them, and always for one that takes
/// nothing else; what is claimed of hangs is less then.
pub fn choose(
    seed: u64,
    config: &LayerConfig,
    swarm: &Swarm,
    claims: &mut Claims,
) -> Option<Segments> {
    if swarm.journal.is_some() {
        return None; // A log has a journal only beside other devices.
    }
    let mut dice = Dice::new(seed, SALT);
    let mut segments = draw(&mut dice, swarm.sectors);
    if let Some(strips) = &config.kind.registration().chaos.segments {
        segments = lengthen(segments, strips, config.superpage, swarm.sectors, &mut dice);
    }
    if config.kind == LayerKind::Targets {
        // After a cut a target may have more of them open than its share, because what closed some
        // was not flushed; then the device refuses one of another target.
        segments.max_open = 0;
    }
    let fits =
        |info: DeviceInfo| AnyLayer::plan(config, &vec![info; swarm.devices as usize]).is_ok();
    let many = (ROOMY.div_ceil(segments.size.into()) as u32).max(segments.count);
    let roomy = Segments { count: many.next_multiple_of(segments.units), ..segments };
    let by_block = fits(DeviceInfo::block(ROOMY, swarm.map_unit));
    let wanted = fits(info(roomy, swarm.volatile)) && (!by_block || dice.chance(500));
    if wanted && claims.admits(Row::Hang) {
        claims.on_zones();
    }
    wanted.then_some(segments)
}

/// A geometry of at least `sectors` sectors.
fn draw(dice: &mut Dice, sectors: u64) -> Segments {
    let units = dice.pick(&[1, 2, 4, 8]);
    let write_unit = dice.pick(&[8, 8, 16, 32]);
    let write_best = write_unit * dice.pick(&[1, 2, 4]);
    let size = write_best * dice.pick(&[4, 8, 16]);
    let open = units * dice.pick(&[0, 0, 4, 6]);
    let each = sectors.div_ceil(u64::from(size) * u64::from(units)) as u32;
    Segments {
        size,
        write_unit,
        write_best,
        unreadable: write_unit * dice.pick(&[0, 0, 1, 3]),
        max_open: open,
        count: each.max(8) * units,
        units,
    }
}

/// Segments with room for some strips of a layer that writes nothing shorter, so that `sectors` are
/// there; for one that wants many segments in each unit there are few units.
fn lengthen(
    it: Segments,
    strips: &Strips,
    superpage: u32,
    sectors: u64,
    dice: &mut Dice,
) -> Segments {
    let units = it.units.min(strips.units);
    let count = dice.pick(strips.counts).min(strips.most / units);
    let size = superpage.next_multiple_of(it.write_best) * count;
    let each = sectors.div_ceil(u64::from(size) * u64::from(units)) as u32;
    let least = (strips.least * units).max(LEAST_SEGMENTS);
    let max_open = it.max_open / it.units * units;
    let unreadable = if strips.reads_at_once { 0 } else { it.unreadable };
    Segments { size, units, max_open, unreadable, count: each.max(least) * units, ..it }
}

/// Some segments of blank devices are offline from the beginning.
pub fn break_some(world: &mut World) {
    if world.segments.is_none() || !world.swarm.faults.bad_segment {
        return;
    }
    for device in 0..world.machine.disks.len() {
        while may_break(world, device as u8) && world.dice.chance(300) {
            let lba = world.dice.below(world.machine.disks[device].sectors());
            if is_spared(world, device as u8, lba) {
                break;
            }
            world.machine.disks[device].break_segment(lba, true);
        }
    }
}

/// Whether one more segment of a device may break: not too many in all, and where a layer can do
/// without one device only its own.
fn may_break(world: &World, device: u8) -> bool {
    let disks = &world.machine.disks;
    let bad: usize = disks.iter().map(|disk| disk.offline().0).sum();
    let spared = world.swarm.victim.is_some_and(|victim| victim != device);
    let spared = spared && !world.is_second(device);
    let may = !spared && (world.swarm.victim.is_none() || world.may_fail(device));
    may && bad < disks[usize::from(device)].offline().1 / BAD_SHARE
}

/// Whether a target that has this sector lost as many as it can do without.
fn is_spared(world: &World, device: u8, lba: u64) -> bool {
    let disk = &world.machine.disks[usize::from(device)];
    world.places.place_at(lba).is_some_and(|place| {
        let (bad, all) = disk.offline_in(place);
        bad >= all / BAD_SHARE
    })
}

/// What broke in earlier lives may be the last that could be done without.
pub fn remember_broken(errors: &mut Errors, w: &World) {
    let does_without = w.claims.get(Row::BadSegment) == Claim::Kept;
    let many = w.machine.disks.iter().any(|disk| disk.offline().0 >= MANY_BAD);
    if many && (w.swarm.victim.is_some() || !does_without) {
        errors.add(Row::BadSegment, &w.claims);
    }
}

/// Now and then a program or a reset fails, and its segment with it.
pub fn break_segment(
    command: &Command,
    fate: &Fate,
    errors: &mut Errors,
    w: &mut World,
) -> Option<DeviceError> {
    let (&Command::Program { device, lba, .. } | &Command::Reset { device, lba, .. }) = command
    else {
        return None;
    };
    let breaks = w.swarm.faults.bad_segment
        && !fate.is_calm()
        && w.machine.disks[usize::from(device)].segment_of(lba).is_some()
        && w.dice.chance(3)
        && may_break(w, device)
        && !is_spared(w, device, lba);
    if !breaks {
        return None;
    }
    let disk = &mut w.machine.disks[usize::from(device)];
    disk.break_segment(lba, matches!(command, Command::Reset { .. }));
    w.tallies.note(Named::BadSegment);
    errors.add(Row::BadSegment, &w.claims);
    Some(DeviceError::Media)
}

/// Whether a segment refused `command` and no fault of the device is to blame. What is against
/// the rules is a fault of the layer.
pub fn segment_refused(command: &Command, errors: &mut Errors, w: &World) -> Result<bool, String> {
    match w.machine.refusal {
        None => return Ok(false),
        Some(Refusal::Rule(_)) if errors.is_disordered() => {}
        Some(Refusal::Rule(what)) => {
            return Err(format!("{}: {what}", crate::trace::command(command)));
        }
        Some(Refusal::Unreadable) => {}
        Some(Refusal::Offline) => {
            errors.add(Row::BadSegment, &w.claims);
        }
    }
    Ok(true)
}
