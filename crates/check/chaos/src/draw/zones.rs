//! Segments of zoned devices.

use hostftl_core::{DeviceInfo, DeviceKind, Segments};
use hostftl_layers::chaos::Strips;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind};

use super::swarm::{ROOMY, Swarm};
use crate::dice::Dice;

/// Separates this random stream from the others of the seed.
const SALT: u64 = 0x5e67;
/// Minimum number of segments of each parallel unit that a layer needs.
const LEAST_SEGMENTS: u32 = 14;

/// Returns the properties of a device with `segments`.
pub(crate) fn info(segments: Segments, volatile: bool) -> DeviceInfo {
    let sectors = u64::from(segments.size) * u64::from(segments.count);
    let kind = DeviceKind::Zoned(segments);
    DeviceInfo { volatile_cache: volatile, kind, ..DeviceInfo::block(sectors, segments.write_unit) }
}

/// Draws the segments of a seed's devices, for a layer that supports zoned devices; always, for a
/// layer that requires them.
pub(crate) fn draw(seed: u64, config: &LayerConfig, swarm: &Swarm) -> Option<Segments> {
    if swarm.journal.is_some() {
        return None; // A log has a journal only beside other devices.
    }
    let mut dice = Dice::new(seed, SALT);
    let mut segments = geometry(&mut dice, swarm.sectors);
    if let Some(strips) = &config.kind.registration().chaos.segments {
        segments = lengthen(segments, strips, config.superpage, swarm.sectors, &mut dice);
    }
    if config.kind == LayerKind::Targets {
        // After a cut a target may have more open segments than its share, because the end of some
        // was not flushed. With a limit, the device would then refuse a segment of another target.
        segments.max_open = 0;
    }
    let fits =
        |info: DeviceInfo| AnyLayer::plan(config, &vec![info; swarm.devices as usize]).is_ok();
    let many = (ROOMY.div_ceil(segments.size.into()) as u32).max(segments.count);
    let roomy = Segments { count: many.next_multiple_of(segments.units), ..segments };
    let by_block = fits(DeviceInfo::block(ROOMY, swarm.iu_sectors));
    let wanted = fits(info(roomy, swarm.volatile)) && (!by_block || dice.chance(500));
    wanted.then_some(segments)
}

/// Draws segments of at least `sectors` sectors in total.
fn geometry(dice: &mut Dice, sectors: u64) -> Segments {
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

/// Enlarges segments for a layer that only writes long strips, keeping at least `sectors` sectors.
/// A layer that needs many segments per unit gets few units.
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
