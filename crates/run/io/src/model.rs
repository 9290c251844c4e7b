//! Interface of a drive model that is attached to a device: it follows the writes, and answers the
//! queries that the device itself cannot answer.

use std::fmt::Debug;

use hostftl_core::{About, Command, DeviceError, MetaBuf, Verdict};

/// Model of the drive that a device represents. Sector numbers refer to the whole device.
pub trait Model: Debug + Send {
    /// Returns the indirection unit of the drive, in sectors.
    fn map_unit(&self) -> u32;

    /// Updates the model for a command that is about to start. Sector 0 of the command is sector
    /// `base` of the device.
    ///
    /// # Errors
    /// When the model cannot store its own state; the command is not executed then.
    fn follow(&mut self, command: &Command, base: u64) -> Result<(), DeviceError>;

    /// Answers a `Command::Report` for a layer with a window of `sectors` sectors from `base`.
    ///
    /// # Errors
    /// `Unsupported` when the drive does not provide such a report.
    fn report(
        &mut self,
        about: About,
        into: &mut MetaBuf,
        base: u64,
        sectors: u64,
    ) -> Result<Verdict, DeviceError>;
}

/// Passes a command to the model, if there is one, for a layer with a window (first sector,
/// sectors) of the device. Returns the result of a command that ends here, and `None` for one that
/// the device must execute.
pub(crate) fn follow(
    model: Option<&mut (dyn Model + 'static)>,
    command: &mut Command,
    (base, sectors): (u64, u64),
) -> Option<Result<Verdict, DeviceError>> {
    match (command, model) {
        (Command::Report { about, into, .. }, Some(model)) => {
            Some(model.report(*about, into, base, sectors))
        }
        (Command::Report { .. }, None) | (Command::Mark { .. }, _) => {
            Some(Err(DeviceError::Unsupported))
        }
        (command, Some(model)) => model.follow(command, base).err().map(Err),
        (_, None) => None,
    }
}
