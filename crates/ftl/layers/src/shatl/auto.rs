//! `hatl-auto`: division of the memory budget.
//!
//! The budget covers leaves, pool, kills and movers. A twentieth of the device is the layer's own
//! hidden area, and its memory is paid first. Half of the budget is for leaves, and with the
//! remainder homes are lent to the area: a quarter of the device, or as many as the remainder pays
//! for. Memory that is still left goes to leaves, until there is one for each block of the device,
//! together with enough lent homes that half of the area is valid when each leaf is a block; then
//! to more lent homes; and finally to leaves again.
//!
//! A large volume, of 1 TiB or more, has a smaller area and half of that budget, and lends no
//! homes: a start reads the map of the whole area, which must not take long.

use hostftl_core::{DeviceInfo, SECTORS_PER_BLOCK};
use hostftl_format::hard::Width;

use crate::config::{LayerConfig, PlanError};
use crate::vsp::layout::{FLOOR, Layout};

use super::overlay::Overlay;
use super::{LEAST, MOST_SLOTS, hidden, memory, width};

/// Sectors of device for each byte of the default budget: 4 MiB for 32 GiB.
const BUDGET: u64 = 16;
/// The same for a large volume: 60 MiB for 1 TiB, which leaves 4 MiB for buffers.
const LARGE_BUDGET: u64 = 34;
/// Divisor of a large device for its hidden area.
const LARGE_SHARE: u32 = 64;
/// Minimum of the default budget, in bytes.
const LEAST_BUDGET: u64 = 4 << 20;
/// Percentage of the budget that is reserved for leaves.
const LEAVES: u64 = 50;
/// Maximum number of leaves; with more, the links between them would be too long.
const MOST_LEAVES: u32 = 1 << 28;
/// Minimum number of leaves.
const FEWEST: u32 = 512;

/// Lays out roots and map groups, the homes, and the hidden area, part of which is lent.
pub(super) fn layout(
    config: &LayerConfig,
    total: u32,
    iu_sectors: u32,
) -> Result<Layout, PlanError> {
    let sp = config.superpage;
    if !sp.is_power_of_two() {
        return Err(PlanError("hatl-auto needs a superpage that is a power of two"));
    }
    let least = PlanError("hatl-auto needs a larger memory budget for its hidden area");
    let (own, entries) = own(config, total)?;
    let large = entries == Width::Wide;
    // A unit of one sector stands for a device with an unknown map unit.
    let unit = if iu_sectors > 1 { iu_sectors } else { 0 };
    let with = |lent: u32, leaves: u32| {
        let layout = hidden(sp, total, (own + lent, lent), entries)?;
        let kills = (layout.count / 8).clamp(2 * sp, 1024.max(2 * sp));
        Ok(Layout { reserve: FLOOR + 8, leaves, kills, unit, ..layout })
    };
    let floor = |lent: u32| Ok(memory::<Overlay>(&with(lent, FEWEST)?));
    if config.shatl.fewest_leaves && !large {
        return with(total / 4, FEWEST);
    }
    let budget = match config.shatl.budget {
        Some(budget) if budget < floor(0)? => return Err(least),
        budget => budget.unwrap_or(default_budget(sp, total, entries)),
    };
    let fits = |lent: u32, leaves: u32| {
        with(lent, leaves).is_ok_and(|layout| memory::<Overlay>(&layout) <= budget)
    };
    let most = total.saturating_mul(sp).min(MOST_LEAVES);
    if large {
        let blocks = own * (sp / SECTORS_PER_BLOCK);
        let fits = |lent, leaves| fits(lent, leaves) && !config.shatl.fewest_leaves;
        return with(0, largest(FEWEST, blocks.min(most), |leaves| fits(0, leaves)));
    }
    let blocks = (most / SECTORS_PER_BLOCK).max(FEWEST);
    let in_share = |leaves: u32| {
        let bytes = with(total / 4, leaves).map(|layout| Overlay::leaf_memory(&layout));
        bytes.is_ok_and(|bytes| bytes <= budget * LEAVES / 100)
    };
    let share = largest(FEWEST, most, in_share);
    let quarter = largest(0, total / 4, |lent| fits(lent, share));
    let every = largest(0, total, |lent| with(lent, FEWEST).is_ok());
    let half = |leaves: u32| (2 * leaves / (sp / SECTORS_PER_BLOCK)).saturating_sub(own);
    let lends = |leaves: u32| half(leaves).min(every).max(quarter);
    let leaves = largest(FEWEST, blocks, |leaves| fits(lends(leaves), leaves));
    let lent = largest(lends(leaves), total, |lent| fits(lent, leaves));
    with(lent, largest(leaves, most, |leaves| fits(lent, leaves)))
}

/// Returns the superpages of the hidden area without lent homes, and the width of the entries of
/// its map, which is [`Width::Wide`] on a large volume.
fn own(config: &LayerConfig, total: u32) -> Result<(u32, Width), PlanError> {
    let sp = config.superpage;
    let most = (MOST_SLOTS / u64::from(sp)) as u32;
    let share = LEAST.max(total / 20).min(most);
    let entries = width(hidden(sp, total, (share, 0), Width::Narrow)?.exported);
    Ok(match entries {
        Width::Narrow if !config.shatl.far => (share, entries),
        _ => (LEAST.max(total / LARGE_SHARE).min(most), Width::Wide),
    })
}

/// Returns the default budget in bytes on a device of `total` superpages of `sp` sectors.
fn default_budget(sp: u32, total: u32, entries: Width) -> u64 {
    let sectors = u64::from(total) * u64::from(sp);
    match entries {
        Width::Narrow => LEAST_BUDGET.max(sectors / BUDGET),
        Width::Wide => sectors / LARGE_BUDGET,
    }
}

/// Reduces the budget on `whole` to that on a slice, which is smaller by `factor`. On a slice that
/// is too small for this budget, it is the next larger one that suffices.
pub(crate) fn slice(config: &mut LayerConfig, whole: &DeviceInfo, factor: f64) {
    let total = Layout::superpages(config, core::slice::from_ref(whole));
    let Ok((total, (_, entries))) = total.and_then(|total| Ok((total, own(config, total)?))) else {
        return;
    };
    let default = default_budget(config.superpage, total, entries);
    let given = config.shatl.budget.unwrap_or(default);
    config.shatl.far |= entries == Width::Wide;
    let mut budget = ((given as f64 / factor) as u64).max(1);
    let small = (f64::from(total) / factor) as u32;
    loop {
        config.shatl.budget = Some(budget);
        if layout(config, small, whole.iu_sectors).is_ok() || 2 * budget > given {
            break;
        }
        budget *= 2;
    }
}

/// Returns the largest number in `least..=most` that fits. `least` is assumed to fit.
fn largest(least: u32, most: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut least, mut beyond) = (least, most.max(least) + 1);
    while least + 1 < beyond {
        let middle = least.midpoint(beyond);
        if fits(middle) { least = middle } else { beyond = middle }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;
    use crate::vsp::Scheme;

    fn planned(budget: Option<u64>, sectors: u64) -> Result<Layout, PlanError> {
        let mut config = LayerConfig::new(LayerKind::HatlAuto);
        config.shatl.budget = budget;
        super::super::Hidden::<Overlay>::layout(&config, &[DeviceInfo::block(sectors, 128)])
    }

    #[test]
    fn the_total_budget_is_4_mib_per_32_gib() {
        let layout = planned(None, 1 << 26).unwrap();
        let bytes = memory::<Overlay>(&layout);
        assert!(bytes <= 4 << 20 && bytes > (4 << 20) - 4096, "{bytes} bytes");
        assert!(layout.leaves > 131_072, "{} leaves, twice those of mHATL", layout.leaves);
        assert!(layout.exported >= (1 << 26) * 94 / 100, "{} sectors", layout.exported);
        assert!(layout.count > 32 * 2048, "{} superpages are hidden", layout.count);
    }

    #[test]
    fn half_of_the_area_of_a_small_device_is_valid_when_each_leaf_is_a_block() {
        let layout = planned(None, 1 << 23).unwrap();
        assert!(memory::<Overlay>(&layout) <= 4 << 20);
        let valid = layout.leaves / (layout.superpage / SECTORS_PER_BLOCK);
        assert!(layout.count >= 2 * valid, "{valid} of {} superpages", layout.count);
        assert!(layout.count > 30_000, "{}: a quarter of the device is 16,384", layout.count);
    }

    #[test]
    fn a_slice_of_a_drive_has_the_shares_of_the_whole() {
        for (whole, factor) in [(1 << 26, 16_u32), (1 << 33, 2048), (120_000_000_000, 11_000)] {
            let mut config = LayerConfig::new(LayerKind::HatlAuto);
            let planned = |config: &LayerConfig, sectors: u64| {
                let device = DeviceInfo::block(sectors, 128);
                super::super::Hidden::<Overlay>::layout(config, &[device]).unwrap()
            };
            let large = planned(&config, whole);
            slice(&mut config, &DeviceInfo::block(whole, 128), f64::from(factor));
            let small = planned(&config, whole / u64::from(factor));
            let share = |small: u32, large| f64::from(small) * f64::from(factor) / f64::from(large);
            let shares = (share(small.count, large.count), share(small.leaves, large.leaves));
            // A leaf needs more bytes where there are more of them.
            let is_near = (0.9..1.1).contains(&shares.0) && (0.8..1.3).contains(&shares.1);
            assert!(is_near, "1/{factor}: {shares:?}");
        }
    }

    #[test]
    fn a_small_budget_gives_a_small_area_and_zero_is_refused() {
        let layout = planned(Some(1 << 20), 1 << 26).unwrap();
        assert!(memory::<Overlay>(&layout) <= 1 << 20);
        assert!(layout.leaves < planned(None, 1 << 26).unwrap().leaves / 3);
        assert!(planned(Some(1 << 12), 1 << 26).is_err());
    }
}
