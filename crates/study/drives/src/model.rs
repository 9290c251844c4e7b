//! What a world in virtual time needs of a device, whatever it is made of.

use std::collections::VecDeque;

use hostftl_core::{About, Command, DeviceError, DeviceInfo, MetaBuf, Nanos, Verdict};

use crate::work::{DriveWork, Spent};

/// Whether a device takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Everything is over when it is submitted; all counters are right.
    Counts,
    /// Commands take time.
    Timed,
}

/// A command that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The slot that it was submitted with.
    pub slot: u32,
    /// Its result.
    pub result: Result<(), DeviceError>,
    /// Where its time went.
    pub spent: Spent,
}

/// When sectors will be written that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soon {
    /// After those that are looked at as [`Soon::Next`].
    Later,
    /// Next; they were looked at as [`Soon::Later`] before.
    Next,
}

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
