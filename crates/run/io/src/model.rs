//! A model beside a device: it follows what is written, and tells what the device itself can't.

use std::fmt::Debug;

use hostftl_core::{About, Command, DeviceError, MetaBuf, Verdict};

/// A model of the drive that a device stands for. Sectors are those of the whole device.
pub trait Model: Debug + Send {
    /// The grain in which the drive maps, in sectors.
    fn map_unit(&self) -> u32;

    /// A command is about to be done, whose sector 0 is sector `base` of the device.
    ///
    /// # Errors
    /// When the model can't keep its own state; the command is then not done.
    fn follow(&mut self, command: &Command, base: u64) -> Result<(), DeviceError>;

    /// Answers a `Command::Report` for a layer that sees `sectors` sectors from `base` on.
    ///
    /// # Errors
    /// `Unsupported` when the drive tells nothing of that kind.
    fn report(
        &mut self,
        about: About,
        into: &mut MetaBuf,
        base: u64,
        sectors: u64,
    ) -> Result<Verdict, DeviceError>;
}

/// Tells a model of a command, or lets it answer one, for a layer that sees a window (first sector,
/// sectors) of the device; `None` when the device does it itself.
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
