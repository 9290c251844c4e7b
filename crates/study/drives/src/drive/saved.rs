//! Saving a drive and loading it again, so that a warm one need not be made twice.
//!
//! What is saved is where everything lies: the pools, the rows that are not full yet, and what
//! waits in the write buffer. Counters begin at zero again, and what was not on flash yet counts as
//! written by the host then. Who saves keeps a checksum over the rest; pools have their own.

use std::io::{self, Read, Write};

use hostftl_core::{Cause, Tally};

use super::Drive;
use super::window::Data;
use crate::model::Clock;
use crate::pool::{LoadError, Pool};
use crate::spec::DriveSpec;
use crate::zoned::Zoned;

impl Drive {
    /// Writes the state of the drive, which [`Drive::load`] reads.
    ///
    /// # Errors
    /// When `out` can't be written.
    ///
    /// # Panics
    /// When something is under way.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        assert!(self.idle(), "a drive is saved when nothing is under way");
        if let Some(raw) = &self.raw {
            return raw.save(out);
        }
        self.pools.iter().try_for_each(|pool| pool.save(out))?;
        let rows: Vec<[u32; 4]> = self.back.rows().collect();
        put(out, rows.len() as u32)?;
        rows.iter().flatten().try_for_each(|&word| put(out, word))?;
        let waiting: Vec<&Data> = self.window.iter().flat_map(|window| window.iter()).collect();
        put(out, waiting.len() as u32)?;
        for data in waiting {
            put(out, data.unit)?;
            put(out, data.placement.into())?;
            out.write_all(&data.mask.to_le_bytes())?;
        }
        Ok(())
    }

    /// The drive that [`Drive::save`] wrote, under [`Clock::Timed`].
    ///
    /// # Errors
    /// When there is no memory for it, or what is read is no drive that was saved from `spec`.
    pub fn load(spec: &DriveSpec, from: &mut impl Read) -> Result<Self, LoadError> {
        let mut drive = Drive::new(spec).map_err(|error| io::Error::other(error.to_string()))?;
        if let Some(zoned) = spec.zoned {
            drive.raw = Some(Zoned::load(zoned, from)?);
            return Ok(drive);
        }
        drive.set_clock(Clock::Counts);
        for (index, pool) in drive.pools.iter_mut().enumerate() {
            *pool = Pool::load(spec.pool(index as u32), from)?;
        }
        for _ in 0..take(from)? {
            let [pool, row, units, held] = [take(from)?, take(from)?, take(from)?, take(from)?];
            if pool >= spec.pool_count()
                || units >= spec.units_per_row()
                || held > units * spec.map_unit
            {
                return Err(LoadError::Damaged("a row that can't be"));
            }
            drive.back.reopen(pool, row, units, held);
        }
        for _ in 0..take(from)? {
            let (unit, placement) = (take(from)?, take(from)? as u8);
            let mut mask = [0; 16];
            from.read_exact(&mut mask)?;
            let mask = u128::from_le_bytes(mask);
            let tally = Tally::of(Cause::Host, mask.count_ones());
            let data = Data { unit, mask, tally, placement };
            let window = drive.window.as_mut();
            let window = window.ok_or(LoadError::Damaged("a buffer that the drive has not"))?;
            if window.add(data, u128::MAX).is_some() {
                return Err(LoadError::Damaged("more waits than there is room for"));
            }
        }
        drive.set_clock(Clock::Timed);
        drive.check().map_err(LoadError::Damaged)?;
        Ok(drive)
    }
}

fn put(out: &mut impl Write, word: u32) -> io::Result<()> {
    out.write_all(&word.to_le_bytes())
}

fn take(from: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    from.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}
