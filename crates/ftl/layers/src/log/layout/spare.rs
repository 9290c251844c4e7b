//! Automatic choice of the spare.

use core::cmp::Reverse;
use core::fmt;

use hostftl_core::{DeviceInfo, SECTORS_PER_BLOCK};

use crate::config::LayerConfig;
use crate::log::layout::Layout;

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
    /// Chooses the spare for `log`'s `spare=auto`, before a volume is planned. Returns the choice,
    /// or `None` if the spare is fixed or no volume fits.
    ///
    /// The smallest spare, from the default on, with the longest segments is chosen: at best as
    /// long as the reclaim unit of the devices, so that the device copies almost no data. If
    /// `exported` is given, at least this number of sectors is exported; otherwise the spare is at
    /// most 30 %.
    pub fn choose_spare(
        &mut self,
        devices: &[DeviceInfo],
        exported: Option<u64>,
    ) -> Option<ChosenSpare> {
        if !core::mem::take(&mut self.log.chooses_spare) {
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
        let mut config = LayerConfig::new(LayerKind::Log);
        config.set("spare", "auto").unwrap();
        let device = DeviceInfo { reclaim_unit: 64 << 11, ..DeviceInfo::block(gib << 21, 128) };
        let chosen = config.choose_spare(&[device], exported)?;
        assert_eq!((config.spare_permille, config.log.chooses_spare), (chosen.permille, false));
        Some((chosen.permille, chosen.segment >> 11))
    }

    #[test]
    fn spare_follows_from_whole_reclaim_units() {
        assert_eq!(chosen(64, None).map(|it| it.1), Some(64));
        let (permille, mib) = chosen(4, None).unwrap();
        assert_eq!(mib, 32, "half of one: whole ones would need more than 30 %");
        assert!((100..=300).contains(&permille), "{permille}");
        assert!(chosen(64, None).unwrap().0 < 100, "a large device has enough of it anyway");
    }

    #[test]
    fn the_export_bounds_the_spare() {
        let (permille, mib) = chosen(2, Some((2 << 21) * 62 / 100)).unwrap();
        assert!(permille <= 380 && mib > 4, "{permille} {mib}");
        let (permille, mib) = chosen(4, Some((4 << 21) * 80 / 100)).unwrap();
        assert!(permille <= 200 && mib < 64, "{permille} {mib}");
        assert_eq!(chosen(4, Some(4 << 21)), None, "more than any volume exports");
    }

    #[test]
    fn auto_spare_is_refused_in_a_plan() {
        let mut config = LayerConfig::new(LayerKind::Log);
        config.set("spare", "auto").unwrap();
        let device = DeviceInfo::block(4 << 21, 128);
        let why = Layout::new(&config, core::slice::from_ref(&device)).unwrap_err();
        assert!(why.0.contains("spare=auto"), "{why}");
        let chosen = config.choose_spare(core::slice::from_ref(&device), None).unwrap();
        let text = "spare=auto is 7.0 %: more spare would not lengthen segments beyond 4 MiB";
        assert_eq!(alloc::format!("{chosen}"), text);
        assert!(Layout::new(&config, &[device]).is_ok());
    }
}
