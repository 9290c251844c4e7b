//! The interface between a device model and a driver in virtual time.

use std::collections::VecDeque;

use hostftl_core::{About, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};

use crate::work::{DriveWork, HandleWork, Spent};

/// Timing mode of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Commands complete when they are submitted, and only counters advance.
    Counts,
    /// Commands take virtual time.
    Timed,
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Slot with which the command was submitted.
    pub slot: u32,
    /// Result of the command.
    pub result: Result<(), DeviceError>,
    /// Latency by stage.
    pub spent: Spent,
}

/// Distance in time of the writes that a prefetch prepares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// The writes come after those that were prefetched as [`Soon::Next`].
    Later,
    /// The writes come next. They were prefetched as [`Soon::Later`] before.
    Next,
}

/// A modelled device.
pub trait Model {
    /// Returns the device's interface as a layer sees it.
    fn info(&self) -> DeviceInfo;
    /// Submits a command at time `now`. Returns its result if it completes at once. Otherwise
    /// `slot` identifies the command until [`Model::advance`] completes it.
    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>>;
    /// Executes a `Command::Report`.
    ///
    /// # Errors
    /// `Unsupported` when the device cannot give that report.
    fn report(&mut self, _about: About, _into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        Err(DeviceError::Unsupported)
    }
    /// Returns the time of the next event.
    fn next_at(&self) -> Option<Nanos>;
    /// Advances the time until a command completes, but not beyond `limit`. Returns the time of the
    /// last event. An event must be pending.
    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos;
    /// Returns whether no command is in flight.
    fn idle(&self) -> bool;
    /// Sets the clock. No command may be in flight.
    fn set_clock(&mut self, clock: Clock);
    /// Returns the work done so far.
    fn work(&self) -> DriveWork;
    /// Returns the work for each placement id; empty for a device with only one.
    fn handles(&self) -> Vec<HandleWork> {
        Vec::new()
    }
    /// Returns the number of erases of each segment; for a memory, the writes of each sector.
    fn worn(&self) -> Vec<u32> {
        Vec::new()
    }
    /// Checks every invariant.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
    /// Returns the sectors of each counted flash program, or `None` for devices without such a
    /// unit.
    fn row_sectors(&self) -> Option<u32> {
        None
    }
    /// Returns whether the layer erases the flash.
    fn is_raw(&self) -> bool {
        false
    }
    /// Prefetches the tables that writes of these sectors will change. It has no effect on the
    /// state.
    fn look_ahead(&self, _lbas: &[u64], _soon: Soon) {}
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn info(&self) -> DeviceInfo {
        (**self).info()
    }

    #[inline]
    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        (**self).submit(now, slot, command)
    }

    fn report(&mut self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        (**self).report(about, into)
    }

    #[inline]
    fn next_at(&self) -> Option<Nanos> {
        (**self).next_at()
    }

    #[inline]
    fn advance(&mut self, limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        (**self).advance(limit, ended)
    }

    fn idle(&self) -> bool {
        (**self).idle()
    }

    fn set_clock(&mut self, clock: Clock) {
        (**self).set_clock(clock);
    }

    fn work(&self) -> DriveWork {
        (**self).work()
    }

    fn handles(&self) -> Vec<HandleWork> {
        (**self).handles()
    }

    fn worn(&self) -> Vec<u32> {
        (**self).worn()
    }

    fn check(&self) -> Result<(), &'static str> {
        (**self).check()
    }

    fn row_sectors(&self) -> Option<u32> {
        (**self).row_sectors()
    }

    fn is_raw(&self) -> bool {
        (**self).is_raw()
    }

    fn look_ahead(&self, lbas: &[u64], soon: Soon) {
        (**self).look_ahead(lbas, soon);
    }
}
