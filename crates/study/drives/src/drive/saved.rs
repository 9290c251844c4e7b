//! Saved state of a drive, so that a preconditioned drive can be reused.
//!
//! The state consists of the pools, the rows that are not full yet, and the partial units in the
//! write buffer. Counters restart at zero. Data that was not on flash yet counts as written by the
//! host after loading. The caller protects this state with a checksum; pools have their own.

use std::io::{self, Read, Write};

use hostftl_core::{Cause, Tally};

use super::Drive;
use super::window::Data;
use crate::model::Clock;
use crate::pool::{LoadError, Pool};
use crate::spec::DriveSpec;
use crate::zoned::Zoned;

impl Drive {
    /// Writes the state of the drive in the form that [`Drive::load`] reads.
    ///
    /// # Errors
    /// When writing to `out` fails.
    ///
    /// # Panics
    /// When a command or an operation is in flight.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        assert!(self.idle(), "a drive is saved only when idle");
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

    /// Restores the drive that [`Drive::save`] wrote, under [`Clock::Timed`].
    ///
    /// # Errors
    /// When the model does not fit into memory, or the data is not a drive that was saved from
    /// `spec`.
    pub fn load(spec: &DriveSpec, from: &mut impl Read) -> Result<Self, LoadError> {
        let mut drive = Drive::new(spec).map_err(|error| io::Error::other(error.to_string()))?;
        if let Some(zoned) = spec.zoned {
            drive.raw = Some(Zoned::load(zoned, from)?);
            return Ok(drive);
        }
        // Operations restored under this clock are counted and not queued, so the drive is idle
        // afterwards.
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
                return Err(LoadError::Damaged("an invalid row"));
            }
            drive.back.reopen(pool, row, units, held);
        }
        for _ in 0..take(from)? {
            let (unit, placement) = (take(from)?, take(from)? as u8);
            let mut mask = [0; 16];
            from.read_exact(&mut mask)?;
            let mask = u128::from_le_bytes(mask);
            let tally = Tally::single(Cause::Host, mask.count_ones());
            let data = Data { unit, mask, tally, placement };
            let window = drive.window.as_mut();
            let window = window.ok_or(LoadError::Damaged("a buffer beyond those of the drive"))?;
            if window.add(data, u128::MAX).is_some() {
                return Err(LoadError::Damaged("too much buffered data"));
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
