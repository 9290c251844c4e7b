//! Devices that came, in the place of lost ones or as more, until a durable root says what they
//! lack.
//!
//! Invariants
//! - A device that gets roots is fresh no more.
//! - Only one that is fresh can have been there before.
//! - A root lets those join of which its images tell what they lack: not one that came since these
//!   images were begun, in whatever place.

use crate::planted::{Bug, planted};

/// See the module text. Sets of devices are sets of bits.
#[derive(Debug)]
pub struct Newcomers {
    /// Those that hold nothing, and those that get roots already.
    fresh: u16,
    joining: u16,
    /// Those that get roots and that the images tell of which are taken now, or were last.
    listed: u16,
    /// Those of which the root did not know: they did not come in the place of others.
    entering: u16,
    /// Those that were there before, and the number of the last row that each has for sure.
    returning: u16,
    has: [u64; 16],
}

impl Newcomers {
    /// All of them are fresh.
    pub fn new(fresh: u16) -> Self {
        Newcomers { fresh, joining: 0, listed: 0, entering: 0, returning: 0, has: [0; 16] }
    }

    /// Those of `returning` were there before.
    pub fn with_old(mut self, returning: u16) -> Self {
        self.returning = returning & self.fresh;
        self
    }

    /// Whether a device is fresh that was there before.
    pub fn is_returning(&self, device: u8) -> bool {
        (self.fresh & self.returning) >> device & 1 == 1
    }

    /// One that is back has all rows up to this one.
    pub fn has(&mut self, device: u8, seq: u64) {
        self.has[usize::from(device)] = seq;
    }

    /// The last row that one has for sure; none when that is nothing.
    pub fn last_row(&self, device: usize) -> Option<u64> {
        let has = self.has[device];
        (self.returning >> device & 1 == 1 && has > 0).then_some(has)
    }

    /// Another device, which holds nothing, comes in the place of this one.
    ///
    /// # Panics
    /// When one has come already of which no root says what it lacks.
    pub fn come(&mut self, device: u8) {
        let bit = 1 << device;
        assert_eq!(self.untrusted() & bit, 0, "one comes at a time");
        (self.fresh, self.returning) = (self.fresh | bit, self.returning & !bit);
        self.has[usize::from(device)] = 0;
    }

    /// The device that was there before comes back; it has all rows up to this one.
    ///
    /// # Panics
    /// As [`Newcomers::come`].
    pub fn come_back(&mut self, device: u8, has: u64) {
        self.come(device);
        self.returning |= 1 << device;
        self.has(device, has);
    }

    /// Those that get roots.
    pub fn joining(&self) -> u16 {
        self.joining
    }

    /// Those of which no root says what they lack.
    pub fn untrusted(&self) -> u16 {
        self.fresh | self.joining
    }

    /// Those of which no root knows.
    pub fn entering(&self) -> u16 {
        self.entering
    }

    /// The root that recovery found knows these devices; those of which it does not know.
    pub fn found(&mut self, known: u16) -> u16 {
        self.entering = self.fresh & !known;
        self.entering
    }

    /// The fresh ones get roots from now on.
    pub fn join(&mut self) -> u16 {
        let fresh = core::mem::take(&mut self.fresh);
        assert_eq!(self.joining & fresh, 0, "one that gets roots is fresh no more");
        self.joining |= fresh;
        fresh
    }

    /// The next root tells of all that get roots now, or of none.
    pub fn list(&mut self, tells: bool) {
        self.listed = if tells { self.joining } else { 0 };
    }

    /// Those that the next root lets join.
    pub fn listed(&self) -> u16 {
        self.listed
    }

    /// Whether one gets roots of which neither the root in progress nor the last one lists the
    /// missing chunks: it came after their images were begun.
    pub fn is_unlisted(&self) -> bool {
        self.joining & !self.listed != 0
    }

    /// Of these that are lost none gets roots any more.
    pub fn lose(&mut self, set: u16) {
        self.joining &= !set;
        self.listed &= !set;
    }

    /// One failed again. It, if it was one of them.
    pub fn stop(&mut self, device: u8) -> u16 {
        let came = self.untrusted() & 1 << device;
        self.fresh &= !came;
        self.lose(came);
        came
    }

    /// A durable root says which are still lost; those that have joined.
    pub fn joined(&mut self, lost: u16) -> u16 {
        let joined = match planted(Bug::JoinedEarly) {
            true => self.joining,
            false => self.listed & !lost,
        };
        self.lose(joined);
        joined
    }

    /// These are known from now on; those that were not.
    pub fn enter(&mut self, devices: u16) -> u16 {
        let new = self.entering & devices;
        self.entering &= !new;
        new
    }
}
