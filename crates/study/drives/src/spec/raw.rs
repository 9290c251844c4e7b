//! Keys of a raw drive (`kind = "zoned"`): constraints of its segments, and faults.

use toml::Spanned;

use super::file::File;
use super::{DriveSpec, Pooling};
use crate::text::{Fault, optional};
use crate::zoned::{ZonedFaults, ZonedSpec};

/// Returns the position of a key that is set.
fn at<T>(value: &Option<Spanned<T>>) -> Option<usize> {
    value.as_ref().map(|it| it.span().start)
}

impl File {
    /// Returns whether the drive is raw, after a check that no key belongs to the other kind.
    pub(super) fn is_raw(&self) -> Result<bool, Fault> {
        let kind = self.kind.as_ref().map(|kind| (kind.span().start, kind.get_ref().as_str()));
        let raw = match kind {
            None | Some((_, "block")) => false,
            Some((_, "zoned")) => true,
            Some((at, other)) => {
                return Err((at, format!("no kind '{other}'; use block or zoned")));
            }
        };
        let of_raw = [
            ("write_pages", at(&self.write_pages)),
            ("write_best_pages", at(&self.write_best_pages)),
            ("unreadable_pages", at(&self.unreadable_pages)),
            ("max_open", at(&self.max_open)),
            ("wears_out", at(&self.wears_out)),
            ("bad_percent", at(&self.bad_percent)),
            ("failing_programs_ppm", at(&self.failing_programs_ppm)),
            ("failing_erases_ppm", at(&self.failing_erases_ppm)),
            ("fault_seed", at(&self.fault_seed)),
        ];
        let of_block = [
            ("over_provisioning_percent", at(&self.over_provisioning_percent)),
            ("map_unit_kib", at(&self.map_unit_kib)),
            ("pools", at(&self.pools)),
            ("gc", at(&self.gc)),
            ("gc_early_percent", at(&self.gc_early_percent)),
            ("gc_early_copies", at(&self.gc_early_copies)),
            ("frontiers", at(&self.frontiers)),
            ("write_buffer_kib", at(&self.write_buffer_kib)),
        ];
        let (foreign, other) = if raw { (&of_block[..], "block") } else { (&of_raw[..], "zoned") };
        match foreign.iter().find_map(|(key, at)| at.map(|at| (key, at))) {
            Some((key, at)) => Err((at, format!("{key} is a key of kind = \"{other}\""))),
            None => Ok(raw),
        }
    }

    /// Sets the segments of a raw drive in `spec`.
    pub(super) fn make_raw(&self, spec: &mut DriveSpec) -> Result<(), Fault> {
        let shape = spec.shape;
        spec.pools = Pooling::Plane;
        spec.exported = shape.sectors();
        let pages = |key: &str, value, or| optional(key, value, 1, shape.rows, or);
        let write = pages("write_pages", &self.write_pages, 1)?;
        let bad = optional("bad_percent", &self.bad_percent, 0.0, 50.0, 0.0)?;
        let ppm = |key: &str, value| optional(key, value, 0, 1_000_000, 0);
        let wears_out = self.wears_out.as_ref().is_some_and(|it| *it.get_ref());
        let zoned = ZonedSpec {
            units: shape.lanes(),
            segments: shape.blocks,
            pages: shape.rows,
            page_sectors: shape.row_sectors,
            write,
            write_best: pages("write_best_pages", &self.write_best_pages, write)?,
            unreadable: optional("unreadable_pages", &self.unreadable_pages, 0, shape.rows, 0)?,
            max_open: optional("max_open", &self.max_open, 0, u32::MAX, 0)?,
            cycles: if wears_out { spec.cycles } else { 0 },
            faults: ZonedFaults {
                bad_permille: (bad * 10.0).round() as u32,
                programs_ppm: ppm("failing_programs_ppm", &self.failing_programs_ppm)?,
                resets_ppm: ppm("failing_erases_ppm", &self.failing_erases_ppm)?,
                seed: optional("fault_seed", &self.fault_seed, 0, u32::MAX, 1)?.into(),
            },
        };
        let at = at(&self.kind).unwrap_or(0);
        zoned.check().map_err(|why| (at, why.to_string()))?;
        spec.zoned = Some(zoned);
        Ok(())
    }
}
