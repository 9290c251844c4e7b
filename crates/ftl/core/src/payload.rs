//! Payload handles: opaque, move-only references to host data that a layer routes but never reads.
//!
//! Invariants
//! - A [`Payload`] owns its buffer. A command borrows ranges of it as a [`View`] (to read) or a
//!   [`ViewMut`] (to write), which return with its `Done`.
//! - A payload with outstanding views cannot be surrendered, so a buffer is never reused during a
//!   transfer.
//! - None of the three can be copied, and dropping one panics. [`Payload::void`] and its
//!   counterparts are for a driver that has cut the power.
//!
//! Several write views of one payload may be outstanding if their ranges do not overlap; the chaos
//! driver checks this.

use crate::bomb::{Bomb, Guarded};
use crate::words::SECTOR;

/// Buffer of whole sectors that belongs to the driver and is held by a layer.
#[derive(Debug)]
pub struct Payload {
    id: u32,
    sectors: u32,
    views: u32,
    bomb: Bomb,
}

/// Range of a payload that is lent to a command for reading. Offsets and lengths are in bytes.
#[derive(Debug)]
pub struct View {
    id: u32,
    from: u32,
    len: u32,
    bomb: Bomb,
}

/// Range of a payload that is lent to a command for writing. Offsets and lengths are in bytes.
#[derive(Debug)]
pub struct ViewMut {
    id: u32,
    from: u32,
    len: u32,
    bomb: Bomb,
}

impl Payload {
    /// Creates the handle of buffer `id` with `sectors` sectors. Only drivers issue payloads.
    #[inline]
    pub fn issue(id: u32, sectors: u32) -> Self {
        assert!(sectors > 0, "a payload has at least one sector");
        Payload { id, sectors, views: 0, bomb: Bomb::new(Guarded::Payload) }
    }

    /// Returns the driver's id of the buffer.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns the length in sectors.
    #[inline]
    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Returns whether no view is outstanding.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.views == 0
    }

    /// Lends the bytes `from..from + len` to a command that reads them.
    #[inline]
    pub fn view(&mut self, from: u32, len: u32) -> View {
        self.lend(from, len);
        View { id: self.id, from, len, bomb: Bomb::new(Guarded::View) }
    }

    /// Lends the bytes `from..from + len` to a command that writes them.
    #[inline]
    pub fn view_mut(&mut self, from: u32, len: u32) -> ViewMut {
        self.lend(from, len);
        ViewMut { id: self.id, from, len, bomb: Bomb::new(Guarded::View) }
    }

    /// Lends a range like [`Payload::view`], in sectors.
    #[inline]
    pub fn view_sectors(&mut self, from: u32, sectors: u32) -> View {
        self.view(from * SECTOR as u32, sectors * SECTOR as u32)
    }

    /// Lends a range like [`Payload::view_mut`], in sectors.
    #[inline]
    pub fn view_mut_sectors(&mut self, from: u32, sectors: u32) -> ViewMut {
        self.view_mut(from * SECTOR as u32, sectors * SECTOR as u32)
    }

    #[inline]
    fn lend(&mut self, from: u32, len: u32) {
        let end = u64::from(from) + u64::from(len);
        let size = u64::from(self.sectors) * SECTOR as u64;
        assert!(len > 0 && end <= size, "a view of {from}+{len} in a payload of {size} bytes");
        self.views += 1;
    }

    /// Takes a view back.
    #[inline]
    pub fn repay(&mut self, view: View) {
        let id = view.void();
        self.settle(id);
    }

    /// Takes a write view back.
    #[inline]
    pub fn repay_mut(&mut self, view: ViewMut) {
        let id = view.void();
        self.settle(id);
    }

    #[inline]
    fn settle(&mut self, id: u32) {
        assert_eq!(id, self.id, "a view returned to a different payload");
        assert!(self.views > 0, "more views returned than were lent");
        self.views -= 1;
    }

    /// Returns the buffer to its driver, by its id.
    ///
    /// # Panics
    /// When a view is still outstanding.
    #[inline]
    pub fn surrender(self) -> u32 {
        assert_eq!(self.views, 0, "a payload was released while a command uses it");
        self.void()
    }

    /// Discards the handle even with outstanding views, after a power cut. Returns the id.
    #[inline]
    pub fn void(mut self) -> u32 {
        self.bomb.defuse();
        self.id
    }
}

macro_rules! view_methods {
    ($name:ident) => {
        impl $name {
            /// Returns the driver's id of the buffer.
            #[inline]
            pub fn id(&self) -> u32 {
                self.id
            }

            /// Returns the offset of the first byte.
            #[inline]
            pub fn from(&self) -> u32 {
                self.from
            }

            /// Returns the length in bytes.
            #[inline]
            pub fn bytes(&self) -> u32 {
                self.len
            }

            /// Returns the length in sectors; the range must be whole sectors.
            #[inline]
            pub fn sectors(&self) -> u32 {
                assert_eq!(self.len as usize % SECTOR, 0, "a view of part of a sector");
                self.len / SECTOR as u32
            }

            /// Discards the view without its payload, after a power cut. Returns the id.
            #[inline]
            pub fn void(mut self) -> u32 {
                self.bomb.defuse();
                self.id
            }
        }
    };
}
view_methods!(View);
view_methods!(ViewMut);
