//! Flash of a modelled drive: its pools follow the writes, and the side region follows the pools.
//!
//! # Invariants
//! - `owner` has, for each page of flash, the logical page that was programmed there last.
//! - The side region marks the pools as saved only between a clean close and the next opening.

use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use hostftl_core::{About, Command, DeviceError, MetaBuf, Verdict};
use hostftl_drives::DriveSpec;
use hostftl_drives::pool::{FlashOp, Pool};
use hostftl_format::report;
use hostftl_io::Model;

use super::side::{Head, Side};

/// Model of a drive's flash, with its side region.
#[derive(Debug)]
pub(super) struct Flash {
    drive: String,
    unit: u64,
    pools: Vec<Pool>,
    /// First page of flash of each pool.
    first: Vec<u64>,
    owner: Vec<u32>,
    seq: u64,
    side: Side,
    ops: Vec<FlashOp>,
}

impl Flash {
    /// Opens the drive `drive` of model `spec`, whose side region is in the file `path`.
    pub(super) fn open(spec: &DriveSpec, drive: &str, path: &Path) -> Result<Self, String> {
        let side = Side::open(spec, path).map_err(|why| why.to_string())?;
        let head = side.head().map_err(|why| why.to_string())?;
        let pools = (0..spec.pool_count()).map(|index| Pool::new(spec.pool(index)));
        let pools = pools.collect::<Result<Vec<_>, _>>().map_err(|why| why.to_string())?;
        let pages: Vec<u64> = pools.iter().map(|pool| pool.spec().physical()).collect();
        let first = pages.iter().scan(0, |sum, pages| {
            *sum += pages;
            Some(*sum - pages)
        });
        let mut flash = Flash {
            drive: drive.into(),
            unit: spec.map_unit.into(),
            pools,
            first: first.collect(),
            owner: vec![0; pages.iter().sum::<u64>() as usize],
            seq: 1,
            side,
            ops: Vec::new(),
        };
        match head {
            Some(head) if head.drive != drive => {
                return Err(format!("its file was made for drive {}, not {drive}", head.drive));
            }
            Some(head) if head.clean => flash.load(spec, head.seq)?,
            Some(_) => flash.rebuild().map_err(|why| why.to_string())?,
            None => {}
        }
        // From here on the saved pools are outdated.
        flash.set_head(false).map_err(|why| why.to_string())?;
        Ok(flash)
    }

    fn set_head(&self, clean: bool) -> std::io::Result<()> {
        self.side.set_head(&Head { clean, seq: self.seq, drive: self.drive.clone() })
    }

    /// Loads the pools that a clean close saved.
    fn load(&mut self, spec: &DriveSpec, seq: u64) -> Result<(), String> {
        self.seq = seq;
        let mut saved = BufReader::new(self.side.saved().map_err(|why| why.to_string())?);
        for (index, pool) in self.pools.iter_mut().enumerate() {
            let loaded = Pool::load(spec.pool(index as u32), &mut saved);
            *pool = loaded.map_err(|why| why.to_string())?;
        }
        for (pool, first) in self.pools.iter().zip(&self.first) {
            for logical in 0..pool.spec().logical {
                let Some(page) = pool.find(logical) else { continue };
                self.owner[(first + u64::from(page)) as usize] = logical;
            }
        }
        Ok(())
    }

    /// Rewrites every logical page in the records, in their original order. This restores the
    /// complete map, and pages of similar age share blocks again.
    fn rebuild(&mut self) -> std::io::Result<()> {
        for index in 0..self.pools.len() {
            let spec = *self.pools[index].spec();
            let mut newest = vec![0; spec.logical as usize];
            let records = self.side.records(self.first[index], spec.physical())?;
            for (seq, logical) in records {
                // New records must be newer than all old ones, also those of overwritten pages.
                self.seq = self.seq.max(seq + 1);
                if let Some(known) = newest.get_mut(logical as usize) {
                    *known = seq.max(*known);
                }
            }
            // The pool starts empty, so the old records must not be found again.
            self.side.erased(self.first[index], spec.physical())?;
            let known = newest.iter().zip(0..).filter(|(seq, _)| **seq > 0);
            let mut order: Vec<(u64, u32)> = known.map(|(seq, logical)| (*seq, logical)).collect();
            order.sort_unstable();
            order.iter().try_for_each(|(_, logical)| self.write(index, *logical, 0))?;
        }
        Ok(())
    }

    /// Writes a logical page of a pool, and records the resulting flash operations.
    fn write(&mut self, pool: usize, logical: u32, placement: u8) -> std::io::Result<()> {
        let (ops, first) = (&mut self.ops, self.first[pool]);
        ops.clear();
        self.pools[pool].write_to(logical, placement, &mut |op| ops.push(op));
        let pages = u64::from(self.pools[pool].spec().pages);
        for op in &self.ops {
            let (page, logical) = match *op {
                FlashOp::Program { page } => (page, logical),
                FlashOp::Copy { from, to } => (to, self.owner[(first + u64::from(from)) as usize]),
                FlashOp::Erase { segment } => {
                    self.side.erased(first + u64::from(segment) * pages, pages)?;
                    continue;
                }
            };
            let page = first + u64::from(page);
            self.owner[page as usize] = logical;
            // In the order of the operations, so that after a power cut the newest record of a page
            // wins.
            self.side.programmed(page, logical, self.seq)?;
            self.seq += 1;
        }
        Ok(())
    }

    fn home(&self, unit: u64) -> (usize, u32) {
        let pools = self.pools.len() as u64;
        ((unit % pools) as usize, (unit / pools) as u32)
    }

    fn save(&mut self) -> std::io::Result<()> {
        let mut out = BufWriter::new(self.side.saved()?);
        self.pools.iter().try_for_each(|pool| pool.save(&mut out))?;
        out.flush()?;
        // The pools must be durable before the head marks them as saved.
        out.get_ref().sync_all()?;
        drop(out);
        self.set_head(true)
    }
}

impl Model for Flash {
    fn map_unit(&self) -> u32 {
        self.unit as u32
    }

    fn follow(&mut self, command: &Command, base: u64) -> Result<(), DeviceError> {
        match command {
            Command::Program { lba, tally, placement, .. } => {
                let from = base + lba;
                let end = from + u64::from(tally.total());
                for unit in from / self.unit..end.div_ceil(self.unit) {
                    let (pool, logical) = self.home(unit);
                    self.write(pool, logical, *placement).map_err(|_| DeviceError::Removed)?;
                }
            }
            Command::Reset { lba, sectors, .. } => {
                let from = base + lba;
                // Only units inside the range are discarded completely.
                for unit in from.div_ceil(self.unit)..(from + sectors) / self.unit {
                    let (pool, logical) = self.home(unit);
                    // Trims leave no record: after a power cut a trimmed page may be valid again.
                    self.pools[pool].trim(logical);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn report(
        &mut self,
        about: About,
        into: &mut MetaBuf,
        base: u64,
        sectors: u64,
    ) -> Result<Verdict, DeviceError> {
        if about != About::Collectible {
            return Err(DeviceError::Unsupported);
        }
        let (mut count, pools) = (0, self.pools.len() as u64);
        for (index, pool) in self.pools.iter_mut().enumerate() {
            let Some(victim) = pool.victim_after() else { continue };
            for logical in pool.live_pages(victim) {
                let lba = (u64::from(logical) * pools + index as u64) * self.unit;
                let Some(seen) = lba.checked_sub(base).filter(|lba| *lba < sectors) else {
                    continue;
                };
                count += usize::from(report::put_unit(into.pages_mut(), count, seen));
            }
        }
        Ok(Verdict { bytes: (count * report::UNIT_BYTES) as u32, crc: 0 })
    }
}

impl Drop for Flash {
    /// Saves the pools (a clean close). When saving fails, the head still marks them as not saved,
    /// and the next opening rebuilds them from the records.
    fn drop(&mut self) {
        let _ = self.save();
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{Cause, Gather, Tally};

    use super::*;

    const DRIVE: &str = "mlc-32g:capacity=64m";

    fn program(lba: u64, sectors: u32) -> Command {
        let (gather, tally) = (Gather::new(), Tally::single(Cause::Host, sectors));
        Command::Program { device: 0, lba, gather, tally, placement: 0 }
    }

    fn report_units(flash: &mut Flash) -> Vec<u64> {
        let mut into = MetaBuf::new(8);
        let about = About::Collectible;
        let verdict = flash.report(about, &mut into, 0, u64::MAX).expect("it reports");
        let count = verdict.bytes as usize / report::UNIT_BYTES;
        (0..count).map(|at| report::unit(into.pages(), at).expect("it was told")).collect()
    }

    fn mapped(flash: &Flash) -> u64 {
        flash.pools.iter().map(Pool::mapped).sum()
    }

    #[test]
    fn a_drive_is_restored_after_a_clean_close_and_after_a_kill() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("back");
        let spec = DriveSpec::find(DRIVE).expect("a drive");
        let file = std::fs::File::create_new(&path).expect("a file");
        file.set_len(Side::end(&spec)).expect("its size");
        let open = || Flash::open(&spec, DRIVE, &path).expect("a drive");
        let mut flash = open();
        let units = spec.exported / u64::from(spec.map_unit);
        for at in 0..3 * units {
            let drawn = (at.wrapping_mul(6_364_136_223_846_793_005) >> 40) % units;
            let unit = if at < units { at } else { drawn };
            let lba = unit * u64::from(spec.map_unit);
            flash.follow(&program(lba, spec.map_unit), 0).expect("it follows");
        }
        let (before, all) = (report_units(&mut flash), mapped(&flash));
        assert_eq!((before.is_empty(), all), (false, units));
        drop(flash);
        let mut flash = open();
        assert_eq!(report_units(&mut flash), before, "saved as it was");
        let seq = flash.seq;
        // Simulate a kill: nothing is saved, and only the records remain.
        std::mem::forget(flash);
        let mut flash = open();
        assert_eq!(mapped(&flash), units, "every page is mapped again");
        assert!(flash.seq > seq && flash.pools.iter().all(|pool| pool.check().is_ok()));
        flash.follow(&program(0, 1), 0).expect("it goes on");
        drop(flash);
        let other = Flash::open(&spec, "tlc", &path).expect_err("another drive");
        assert!(other.contains("made for drive mlc-32g:capacity=64m"), "{other}");
    }
}
