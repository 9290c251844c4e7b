//! Shared parts of models without translation: the check of a command's range, and counters.

use hostftl_core::{CAUSES, Cause, Command, DeviceError};

use hostftl_drives::{DriveWork, FlashBusy, FlashWork};

/// Returns the first sector and the length of a read or program. The error is the immediate result
/// of any other command, or of a range beyond a device of `sectors` sectors. A flush and a reset
/// succeed at once: these devices have no volatile cache and no garbage collection.
pub(crate) fn range(
    command: &Command,
    sectors: u64,
) -> Result<(u64, u32), Result<(), DeviceError>> {
    let (lba, length) = match command {
        Command::Read { lba, into, .. } => (*lba, into.sectors()),
        Command::Program { lba, tally, .. } => (*lba, tally.total()),
        Command::Flush { .. } | Command::Reset { .. } => return Err(Ok(())),
        other => unreachable!("{other:?} is not a device command"),
    };
    if lba.checked_add(length.into()).is_some_and(|end| end <= sectors) {
        Ok((lba, length))
    } else {
        Err(Err(DeviceError::Media))
    }
}

/// Sectors read and written by cause, and the busy times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub reads: [u64; CAUSES],
    pub sectors: [u64; CAUSES],
    pub busy: FlashBusy,
}

impl Counts {
    /// Counts a read or a program.
    pub(crate) fn note(&mut self, command: &Command) {
        match command {
            Command::Read { cause, into, .. } => {
                self.reads[*cause as usize] += u64::from(into.sectors());
            }
            Command::Program { tally, .. } => {
                for cause in Cause::ALL {
                    self.sectors[cause as usize] += u64::from(tally.get(cause));
                }
            }
            _ => {}
        }
    }

    /// Returns the sectors written.
    pub(crate) fn written(&self) -> u64 {
        self.sectors.iter().sum()
    }

    /// Returns the counters as a [`DriveWork`].
    pub(crate) fn work(&self) -> DriveWork {
        let Counts { reads, sectors, busy } = *self;
        let flash = FlashWork { reads, programs: self.written(), erases: 0, busy };
        DriveWork { flash, sectors, ..DriveWork::default() }
    }
}
