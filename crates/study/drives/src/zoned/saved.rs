//! Saved state of a raw drive: its segments.

use std::io::{self, Read, Write};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Segment, Zoned, ZonedSpec};

impl Zoned {
    /// Writes the state in the form that [`Zoned::load`] reads. The loaded device draws different
    /// random faults.
    ///
    /// # Errors
    /// When writing to `out` fails.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        for Segment { pointer, erased, offline } in &self.segments {
            out.write_all(&pointer.to_le_bytes())?;
            out.write_all(&erased.to_le_bytes())?;
            out.write_all(&[u8::from(*offline)])?;
        }
        Ok(())
    }

    /// Restores the device that [`Zoned::save`] wrote.
    ///
    /// # Errors
    /// When the spec is impossible, or `from` is not a state of such a device.
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
