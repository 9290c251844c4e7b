//! What a world in virtual time needs of a device, whatever it is made of.

use std::collections::VecDeque;

use hostftl_core::{About, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};

use crate::drive::{Clock, Drive, Ended, Soon};
use crate::work::DriveWork;

/// A modelled device.
pub trait Model {
    /// What a layer is told of it.
    fn info(&self) -> DeviceInfo;
    /// Takes a command at `now`. Its result, when it is over at once; if not, `slot` names it until
    /// [`Model::advance`] ends it.
    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>>;
    /// Answers a `Command::Report`.
    ///
    /// # Errors
    /// `Unsupported` when it can't tell.
    fn report(&mut self, _about: About, _into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        Err(DeviceError::Unsupported)
    }
    /// When something happens next.
    fn next_at(&self) -> Option<Nanos>;
    /// Lets time pass until a command is over, but not beyond `limit`; gives the time of the last
    /// thing that happened. There must be such a thing.
    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos;
    /// Whether nothing is under way.
    fn idle(&self) -> bool;
    /// Changes the clock when nothing is under way.
    fn set_clock(&mut self, clock: Clock);
    /// What it did so far.
    fn work(&self) -> DriveWork;
    /// How often each of its segments was erased; of a memory, each sector written.
    fn worn(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Whether every invariant holds.
    ///
    /// # Errors
    /// The first one that does not hold.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
    /// Sectors of each program of the flash that it counts; nothing where that is no unit of it.
    fn row_sectors(&self) -> Option<u32> {
        None
    }
    /// Whether it is the layer that erases.
    fn is_raw(&self) -> bool {
        false
    }
    /// Looks at what writes of these sectors will change; it changes nothing.
    fn look_ahead(&self, _lbas: &[u64], _soon: Soon) {}
}

impl Model for Drive {
    fn info(&self) -> DeviceInfo {
        Drive::info(self)
    }

    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        Drive::submit(self, now, slot, command)
    }

    fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        Drive::report(self, about, into)
    }

    #[inline]
    fn next_at(&self) -> Option<Nanos> {
        Drive::next_at(self)
    }

    #[inline]
    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        Drive::advance(self, limit, ended)
    }

    fn idle(&self) -> bool {
        Drive::idle(self)
    }

    fn set_clock(&mut self, clock: Clock) {
        Drive::set_clock(self, clock);
    }

    fn work(&self) -> DriveWork {
        Drive::work(self)
    }

    fn worn(&self) -> Vec<u32> {
        self.erased().collect()
    }

    fn check(&self) -> Result<(), &'static str> {
        Drive::check(self)
    }

    fn row_sectors(&self) -> Option<u32> {
        Some(self.spec().shape.row_sectors)
    }

    fn is_raw(&self) -> bool {
        self.spec().zoned.is_some()
    }

    fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        Drive::look_ahead(self, lbas, soon);
    }
}
