//! Automatic choice of the spare.

use core::cmp::Reverse;
use core::fmt;

use hostftl_core::{DeviceInfo, DeviceKind, SECTORS_PER_BLOCK};

use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::log::journal::ring::split;
use crate::log::layout::Layout;
use crate::log::layout::segment_length::LengthRule;
use crate::log::params::{Params, SpareRule};
use crate::policy::Separation;

/// Maximum spare if no exported capacity is requested, in thousandths.
const MOST: u32 = 300;
/// Maximum spare of a volume.
const WHOLE: u32 = 900;
/// Step between two candidates.
const STEP: usize = 5;

/// Chosen spare and its effect; `Display` gives a sentence for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenSpare {
    /// Spare in thousandths.
    permille: u32,
    /// Sectors of a segment on each device.
    segment: u32,
    /// Sectors of a segment with the default spare.
    usual_segment: u32,
}

impl fmt::Display for ChosenSpare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChosenSpare { permille, segment, usual_segment } = *self;
        write!(f, "spare=auto is {}.{} %: ", permille / 10, permille % 10)?;
        if segment == usual_segment {
            write!(f, "more spare would not lengthen segments beyond {}", Size(segment))
        } else {
            write!(
                f,
                "segments of {} per device instead of {} reduce the copies that the devices make",
                Size(segment),
                Size(usual_segment)
            )
        }
    }
}

/// Sectors, displayed in whole MiB or in KiB.
struct Size(u32);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 >> 11, self.0 % 2048) {
            (mib, 0) => write!(f, "{mib} MiB"),
            _ => write!(f, "{} KiB", self.0 / 2),
        }
    }
}

impl LayerConfig {
    /// Chooses `log`'s separation and spare for the devices of a new volume, unless they are
    /// stated. Returns the choice of the spare, or `None` if the spare is fixed or no volume fits.
    ///
    /// Devices that place data in the order of arrival need phases, with segments of at least a
    /// reclaim unit. Others, and those too small for such segments, get several streams.
    ///
    /// The smallest spare, from the default on, with the longest segments is chosen, so that the
    /// devices copy almost no data. If `exported` is given, at least this number of sectors is
    /// exported; otherwise the spare is at most 30 % with `spare=auto`, and else the default.
    pub fn choose(&mut self, devices: &[DeviceInfo], exported: Option<u64>) -> Option<ChosenSpare> {
        if self.kind != LayerKind::Log {
            return None;
        }
        let is_plain = |it: &DeviceInfo| it.kind == DeviceKind::Block && it.placements <= 1;
        if core::mem::take(&mut self.log.chooses_separation) && devices.iter().all(is_plain) {
            let with_phases = Params { separation: Separation::Phases, ..self.log };
            let mut config = LayerConfig { log: with_phases, ..self.clone() };
            let chosen = config.choose_spare(devices, exported);
            let is_possible = Layout::new(&config, devices).is_ok();
            if is_possible && config.short_segments(devices).is_none() {
                *self = config;
                return chosen;
            }
        }
        self.choose_spare(devices, exported)
    }

    /// Returns the sectors of a segment and of a reclaim unit of the devices if segments of a `log`
    /// volume are shorter, because longer ones would need more spare. `reclaim-unit` then has no
    /// effect.
    pub fn short_segments(&self, devices: &[DeviceInfo]) -> Option<(u64, u64)> {
        let is_zoned = |it: &DeviceInfo| it.kind != DeviceKind::Block;
        if self.kind != LayerKind::Log || devices.iter().any(is_zoned) {
            return None;
        }
        // The journal has no segments.
        let (data, _) = split(self, devices).ok()?;
        let unit = LengthRule::new(self, &data).unit()?;
        let segment = u64::from(Layout::new(self, devices).ok()?.column);
        (segment < unit).then_some((segment, unit))
    }

    fn choose_spare(
        &mut self,
        devices: &[DeviceInfo],
        exported: Option<u64>,
    ) -> Option<ChosenSpare> {
        let rule = core::mem::replace(&mut self.log.spare, SpareRule::Stated);
        let is_chosen = match rule {
            SpareRule::Usual => exported.is_some(),
            SpareRule::Auto => true,
            SpareRule::Stated => false,
        };
        if !is_chosen {
            return None;
        }
        let usual = self.spare_permille;
        let most = if exported.is_some() { WHOLE } else { MOST };
        let column = |permille: u32| {
            let config = LayerConfig { spare_permille: permille, ..self.clone() };
            let layout = Layout::new(&config, devices).ok()?;
            let gives = layout.blocks * u64::from(SECTORS_PER_BLOCK);
            exported.is_none_or(|least| gives >= least).then_some(layout.column)
        };
        let tried = (usual..=most.max(usual)).step_by(STEP);
        let fits = tried.filter_map(|permille| Some((permille, column(permille)?)));
        let longest = fits.max_by_key(|&(permille, column)| (column, Reverse(permille)));
        // If no volume is possible, planning it reports the reason.
        let (permille, segment) = longest?;
        let usual_segment = column(usual).unwrap_or(segment);
        self.spare_permille = permille;
        Some(ChosenSpare { permille, segment, usual_segment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    /// Returns the choice on a device of `gib` GiB with a reclaim unit of 64 MiB: the spare in
    /// thousandths, and MiB of a segment.
    fn chosen(gib: u64, exported: Option<u64>) -> Option<(u32, u32)> {
        choice("auto", 1, gib, exported)
    }

    /// Returns the same for a device with `placements` placement ids and the parameter `spare`.
    fn choice(spare: &str, placements: u8, gib: u64, exported: Option<u64>) -> Option<(u32, u32)> {
        let mut config = LayerConfig::new(LayerKind::Log);
        config.set("spare", spare).unwrap();
        let block = DeviceInfo::block(gib << 21, 128);
        let device = DeviceInfo { reclaim_unit: 64 << 11, placements, ..block };
        let chosen = config.choose(&[device], exported)?;
        assert_eq!((config.spare_permille, config.log.spare), (chosen.permille, SpareRule::Stated));
        let separation = if placements > 1 { Separation::Lifetime } else { Separation::Phases };
        assert_eq!(config.log.separation, separation);
        Some((chosen.permille, chosen.segment >> 11))
    }

    #[test]
    fn auto_allows_segments_of_two_and_a_half_units() {
        let (permille, mib) = chosen(64, None).unwrap();
        assert_eq!(mib, 160);
        assert!(permille < 130, "{permille}");
        let (permille, mib) = chosen(16, None).unwrap();
        assert_eq!(mib, 128, "longer segments would need more than 30 %");
        assert!((150..=300).contains(&permille), "{permille}");
    }

    #[test]
    fn devices_too_small_for_long_segments_get_streams() {
        let separation = |gib: u64| {
            let mut config = LayerConfig::new(LayerKind::Log);
            let block = DeviceInfo::block(gib << 21, 128);
            config.choose(&[DeviceInfo { reclaim_unit: 64 << 11, ..block }], None);
            config.log.separation
        };
        assert_eq!(separation(4), Separation::Lifetime, "64 units");
        assert_eq!(separation(64), Separation::Phases, "1024 units");
    }

    #[test]
    fn segments_shorter_than_a_unit_are_reported() {
        let short = |gib: u64, unit: &str| {
            let mut config = LayerConfig::new(LayerKind::Log);
            config.set("reclaim-unit", unit).unwrap();
            config.short_segments(&[DeviceInfo::block(gib << 21, 128)])
        };
        assert_eq!(short(4, "64m"), Some((4 << 11, 64 << 11)));
        assert_eq!((short(256, "64m"), short(4, "4m")), (None, None));
    }

    #[test]
    fn with_placement_ids_segments_have_one_unit() {
        assert_eq!(choice("auto", 8, 64, None).map(|it| it.1), Some(64));
        assert_eq!(choice("auto", 8, 4, None).map(|it| it.1), Some(32), "half of one");
    }

    #[test]
    fn a_stated_capacity_bounds_the_spare() {
        let (permille, mib) = chosen(16, Some((16 << 21) * 62 / 100)).unwrap();
        assert!(permille <= 380 && mib == 160, "{permille} {mib}");
        let (permille, mib) = chosen(16, Some((16 << 21) * 80 / 100)).unwrap();
        assert!(permille <= 150 && mib == 64, "{permille} {mib}");
        assert_eq!(chosen(4, Some(4 << 21)), None, "more than any volume exports");
    }

    #[test]
    fn auto_spare_is_refused_in_a_plan() {
        let mut config = LayerConfig::new(LayerKind::Log);
        config.set("spare", "auto").unwrap();
        let device = DeviceInfo::block(4 << 21, 128);
        let why = Layout::new(&config, core::slice::from_ref(&device)).unwrap_err();
        assert!(why.0.contains("spare=auto"), "{why}");
        let chosen = config.choose(core::slice::from_ref(&device), None).unwrap();
        let text = "spare=auto is 9.5 %: segments of 8 MiB per device instead of 4 MiB reduce the \
                    copies that the devices make";
        assert_eq!(alloc::format!("{chosen}"), text);
        assert!(Layout::new(&config, &[device]).is_ok());
    }
}
