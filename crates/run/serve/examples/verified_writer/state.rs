//! Versions of all sectors, stored in a file between runs.
//!
//! Invariants
//! - Versions grow with every request. `durable <= issued`, and between runs they are equal.
//! - A version found after a crash was issued since the last check, or is the durable one.

use std::fs;
use std::io;
use std::path::Path;

use crate::content::Found;

/// Number of sectors in use: 32 MiB.
pub(crate) const SECTORS: usize = 65536;

/// Versions of one sector; 0 is the untouched sector.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sector {
    /// Latest version that must survive a crash.
    pub durable: u64,
    /// Latest version that was sent.
    pub issued: u64,
    /// Latest version that was a trim or a write of zeros.
    pub zeroed: u64,
}

/// State of the writer.
pub(crate) struct State {
    /// Version of the next request.
    pub next: u64,
    /// First version since the last check.
    pub epoch: u64,
    /// Answered requests of all runs.
    pub answered: u64,
    /// Answered flushes of all runs.
    pub flushes: u64,
    /// Sectors whose latest version was lost, as is permitted without a flush.
    pub lost: u64,
    /// All sectors.
    pub sectors: Vec<Sector>,
}

impl State {
    /// Reads the state from `path`; without that file, returns the state of an untouched volume.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let bytes = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => vec![0; (5 + 3 * SECTORS) * 8],
            other => other?,
        };
        if bytes.len() != (5 + 3 * SECTORS) * 8 {
            return Err(io::Error::other(format!("{} is no state file", path.display())));
        }
        let mut words = bytes.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk));
        let mut word = || words.next().expect("the length was checked");
        let [next, epoch, answered, flushes, lost] = [word(), word(), word(), word(), word()];
        let mut sector = || Sector { durable: word(), issued: word(), zeroed: word() };
        let sectors = (0..SECTORS).map(|_| sector()).collect();
        Ok(State { next: next.max(1), epoch, answered, flushes, lost, sectors })
    }

    /// Writes the state to `path`.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let totals = [self.next, self.epoch, self.answered, self.flushes, self.lost];
        let sectors = self.sectors.iter().flat_map(|s| [s.durable, s.issued, s.zeroed]);
        let bytes: Vec<u8> = totals.into_iter().chain(sectors).flat_map(u64::to_le_bytes).collect();
        fs::write(path, bytes)
    }

    /// Returns the content that a sector without a request in flight must have while the server
    /// runs.
    pub(crate) fn current(&self, sector: usize) -> Found {
        let Sector { issued, zeroed, .. } = self.sectors[sector];
        if issued == zeroed { Found::Zeros } else { Found::Version(issued) }
    }

    /// Accepts the content of a sector after a crash.
    pub(crate) fn survived(&mut self, sector: usize, found: Found) -> Result<(), String> {
        let epoch = self.epoch;
        let known = &mut self.sectors[sector];
        let Sector { durable, issued, zeroed } = *known;
        let version = match found {
            Found::Zeros => zeroed,
            Found::Version(version) => version,
            Found::Wrong(claimed) => {
                return Err(format!(
                    "sector {sector} holds bytes that were never written (claims {claimed})"
                ));
            }
        };
        let allowed =
            version == durable || (version >= epoch && (durable..=issued).contains(&version));
        if !allowed {
            return Err(format!(
                "sector {sector} holds {found:?}, but {durable} was made durable \
                 ({issued} is the latest sent, {epoch} the first of this run)"
            ));
        }
        self.lost += u64::from(version < issued);
        let zeroed = if found == Found::Zeros { version } else { 0 };
        *known = Sector { durable: version, issued: version, zeroed };
        Ok(())
    }
}
