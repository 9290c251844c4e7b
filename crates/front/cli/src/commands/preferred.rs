//! Parameters of a volume that follow from the preferences of its devices, and hints for file
//! systems and pools on a device.

use hostftl_core::SECTOR;
use hostftl_io::{Preferences, Preferred};
use hostftl_layers::{LayerConfig, LayerKind};

use crate::units::bytes;

/// Minimum of a superpage that is not the unit itself.
const USUAL: u64 = 64 << 10;
/// Minimum superpage of the layers that gather small writes.
const LEAST: u64 = 8 << 10;

/// Preferences of all devices of a volume.
pub(super) struct Devices<'a>(Vec<(&'a str, Preferences)>);

impl<'a> Devices<'a> {
    pub(super) fn query(devices: &'a [String]) -> Self {
        Devices(devices.iter().map(|it| (it.as_str(), Preferences::query(it))).collect())
    }

    /// Returns the preferences of the device with the largest unit.
    fn largest(&self) -> Option<&Preferences> {
        let bytes = |it: &Preferences| it.unit.map_or(0, |unit| unit.bytes);
        self.0.iter().map(|(_, it)| it).max_by_key(|it| bytes(it))
    }

    /// Returns the superpage for `--superpage auto`: the unit, or a multiple of at least 64 KiB for
    /// layers that gather larger amounts anyway.
    pub(super) fn unit(&self, kind: LayerKind) -> Option<Preferred> {
        let largest = self.largest()?;
        match kind {
            LayerKind::Hard | LayerKind::Mhatl | LayerKind::Shatl | LayerKind::HatlAuto => {
                let unit = largest.unit?;
                Some(Preferred { bytes: unit.bytes.max(LEAST), ..unit })
            }
            _ => largest.superpage(USUAL),
        }
    }

    /// Sets the superpage of a layer to the smallest multiple of the unit that has at least 64 KiB,
    /// as in studies. Returns a note if the devices report a unit.
    pub(super) fn set_superpage(&self, layer: &mut LayerConfig) -> Option<String> {
        layer.kind.registration().parameter("superpage")?;
        let chosen = self.largest()?.superpage(USUAL)?;
        layer.superpage = (chosen.bytes / SECTOR as u64) as u32;
        Some(note("superpage", chosen))
    }

    /// Sets the reclaim unit of a `log` to the largest that a device reports, unless the user gave
    /// one. Returns a note if it was set.
    pub(super) fn set_reclaim_unit(&self, layer: &mut LayerConfig) -> Option<String> {
        if layer.kind != LayerKind::Log || layer.log.reclaim_unit.is_some() {
            return None;
        }
        let units = self.0.iter().filter_map(|(_, it)| it.reclaim_unit);
        let unit = units.max_by_key(|unit| unit.bytes)?;
        layer.log.reclaim_unit = Some(unit.bytes);
        Some(note("reclaim unit", unit))
    }

    /// Returns notes on devices that start between two unit boundaries, and for a layer that
    /// changes no writes the hints for what is put on it.
    pub(super) fn notes(&self, layer: &LayerConfig) -> Vec<String> {
        let misaligned = self.0.iter().filter(|(_, it)| it.misaligned > 0);
        let mut notes: Vec<_> = misaligned.map(|(name, it)| misalignment(name, it)).collect();
        let unit = self.largest().and_then(|it| it.unit);
        if let (LayerKind::Passthrough, Some(unit)) = (layer.kind, unit) {
            let hints = hints(unit.bytes).into_iter();
            notes.extend(hints.map(|(name, hint)| format!("{name} on this volume: {hint}")));
        }
        notes
    }
}

fn note(name: &str, chosen: Preferred) -> String {
    format!("{name} {} (reported by the drive, {})", bytes(chosen.bytes), chosen.source)
}

/// Returns a note on a device that starts between two unit boundaries.
pub(super) fn misalignment(name: &str, preferences: &Preferences) -> String {
    format!(
        "{name} starts {} after a boundary of its unit, so aligned writes straddle units; move the \
         partition",
        bytes(preferences.misaligned)
    )
}

/// Returns the settings of file systems and pools on a device with a unit of `unit` bytes, where
/// they support it.
pub(super) fn hints(unit: u64) -> Vec<(&'static str, String)> {
    let mut hints = Vec::new();
    if unit <= 4096 || !unit.is_power_of_two() {
        return hints;
    }
    let kib = unit >> 10;
    if unit <= 64 << 10 {
        let sector = kib.min(32);
        let text = format!("mkfs.xfs -b size={kib}k -s size={sector}k (Linux 6.12 or later)");
        hints.push(("XFS", text));
    }
    let text = format!("bluestore_min_alloc_size={unit}, set before the OSD is created");
    hints.push(("Ceph", text));
    if unit <= 64 << 10 {
        hints.push(("ZFS", format!("zpool create -o ashift={}", unit.trailing_zeros())));
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(units: &[u64]) -> Devices<'static> {
        let of = |bytes: &u64| {
            let unit = Some(Preferred { bytes: *bytes, source: "NPWG" });
            ("/dev/x", Preferences { unit, ..Preferences::default() })
        };
        Devices(units.iter().map(of).collect())
    }

    #[test]
    fn the_largest_unit_decides_the_superpage() {
        let superpage = |units: &[u64], layer: &str| {
            let mut layer = LayerConfig::parse(layer).unwrap();
            let note = devices(units).set_superpage(&mut layer);
            (layer.superpage / 2, note.unwrap_or_default())
        };
        let note = "superpage 64 KiB (reported by the drive, NPWG)".to_owned();
        assert_eq!(superpage(&[16 << 10, 4 << 10], "hard"), (64, note));
        assert_eq!(superpage(&[16 << 10, 128 << 10], "log").0, 128);
        assert_eq!(superpage(&[128 << 10], "tier").1, "", "it has no superpage");
        let unit = |kind| devices(&[16 << 10]).unit(kind).map(|it| it.bytes);
        assert_eq!((unit(LayerKind::Hard), unit(LayerKind::Log)), (Some(16384), Some(65536)));
        assert_eq!(Devices(vec![("mem:1g", Preferences::default())]).unit(LayerKind::Hard), None);
    }

    #[test]
    fn a_reported_reclaim_unit_does_not_replace_a_stated_one() {
        let mut devices = devices(&[16 << 10]);
        devices.0[0].1.reclaim_unit = Some(Preferred { bytes: 64 << 20, source: "FDP" });
        let mut layer = LayerConfig::new(LayerKind::Log);
        let note = devices.set_reclaim_unit(&mut layer);
        assert_eq!(note.as_deref(), Some("reclaim unit 64 MiB (reported by the drive, FDP)"));
        assert_eq!(layer.log.reclaim_unit, Some(64 << 20));
        layer.log.reclaim_unit = Some(4096);
        assert_eq!(devices.set_reclaim_unit(&mut layer), None);
    }

    #[test]
    fn hints_are_given_only_for_units_that_are_supported() {
        let names = |unit| hints(unit).iter().map(|it| it.0).collect::<Vec<_>>().join(" ");
        assert_eq!(
            [4096, 16384, 65536, 1 << 17].map(names),
            ["", "XFS Ceph ZFS", "XFS Ceph ZFS", "Ceph"]
        );
        let all = hints(65536);
        assert!(all[0].1.contains("-b size=64k -s size=32k"), "{all:?}");
        assert_eq!(all[2].1, "zpool create -o ashift=16");
        let of = |kind| devices(&[16384]).notes(&LayerConfig::new(kind)).len();
        assert_eq!((of(LayerKind::Passthrough), of(LayerKind::Hard)), (3, 0));
    }
}
