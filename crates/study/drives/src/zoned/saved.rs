//! Saving a raw device and loading it again: its segments, and where its chances stand.

use std::io::{self, Read, Write};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Segment, Zoned, ZonedSpec};

impl Zoned {
    /// Writes the state, which [`Zoned::load`] reads. What is loaded draws other chances.
    ///
    /// # Errors
    /// When `out` can't be written.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        for Segment { pointer, erased, offline } in &self.segments {
            out.write_all(&pointer.to_le_bytes())?;
            out.write_all(&erased.to_le_bytes())?;
            out.write_all(&[u8::from(*offline)])?;
        }
        Ok(())
    }

    /// The device that [`Zoned::save`] wrote.
    ///
    /// # Errors
    /// When there can't be such a device, or `from` is no state of it.
    pub fn load(spec: ZonedSpec, from: &mut impl Read) -> io::Result<Self> {
        let wrong = |why: String| io::Error::other(why);
        let mut zoned = Zoned::new(spec).map_err(|why| wrong(why.to_string()))?;
        zoned.dice = Xoshiro256PlusPlus::seed_from_u64(spec.faults.seed ^ 0x5a7e);
        for segment in &mut zoned.segments {
            let (mut word, mut flag) = ([0; 4], [0]);
            from.read_exact(&mut word)?;
            segment.pointer = u32::from_le_bytes(word);
            from.read_exact(&mut word)?;
            segment.erased = u32::from_le_bytes(word);
            from.read_exact(&mut flag)?;
            segment.offline = flag[0] == 1;
        }
        let open = zoned
            .segments
            .iter()
            .filter(|it| !it.offline && it.pointer > 0 && it.pointer < spec.pages);
        zoned.open = open.count() as u32;
        zoned.check().map_err(|why| wrong(why.into()))?;
        Ok(zoned)
    }
}
