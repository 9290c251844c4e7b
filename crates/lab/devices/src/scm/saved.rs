//! Saved state of a memory: wear and map. All writes count as written by the host after loading.

use std::io::{self, Read, Write};

use hostftl_core::Cause;

use super::level::Level;
use super::{Scm, ScmSpec};
use hostftl_drives::Model;
use hostftl_drives::pool::LoadError;

impl Scm {
    /// Writes the state of the memory in the form that [`Scm::load`] reads.
    ///
    /// # Errors
    /// When writing to `out` fails.
    ///
    /// # Panics
    /// When a command is in flight.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        assert!(self.idle(), "a memory is saved only when idle");
        self.level.words().try_for_each(|word| out.write_all(&word.to_le_bytes()))
    }

    /// Restores the memory that [`Scm::save`] wrote.
    ///
    /// # Errors
    /// When the data is not a memory that was saved from `spec`.
    pub fn load(spec: &ScmSpec, from: &mut impl Read) -> Result<Self, LoadError> {
        let pages = spec.pages as usize + spec.spare as usize;
        let mut bytes = vec![0; 4 * pages * (2 + spec.page as usize)];
        from.read_exact(&mut bytes)?;
        let words =
            bytes.chunks_exact(4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
        let words: Vec<u32> = words.collect();
        let mut scm = Scm::new(spec);
        scm.level = Level::of_words(spec, &words).map_err(LoadError::Damaged)?;
        scm.counts.sectors[Cause::Host as usize] = scm.level.wear().total;
        Ok(scm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_memory_continues_like_the_saved_one() {
        let spec = ScmSpec::memory_type(8, 2);
        let mut scm = Scm::new(&spec);
        for write in 0..60 {
            scm.level.write(write % 3 * 32, 8, true);
        }
        scm.counts.sectors[Cause::Host as usize] = scm.wear().total;
        let mut bytes = Vec::new();
        scm.save(&mut bytes).expect("memory takes all");
        let mut again = Scm::load(&spec, &mut &bytes[..]).expect("it was just saved");
        assert_eq!(again.check(), Ok(()));
        assert_eq!(again.worn(), scm.worn());
        assert_eq!(again.level.write(0, 8, true), scm.level.write(0, 8, true));
        assert_eq!(again.worn(), scm.worn());
        bytes[0] = 200;
        assert!(Scm::load(&spec, &mut &bytes[..]).is_err(), "a page that can't be");
        assert!(Scm::load(&spec, &mut &bytes[..40]).is_err(), "cut short");
    }
}
