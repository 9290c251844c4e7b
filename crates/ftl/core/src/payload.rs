//! Payload handles: opaque, move-only names of host data that a layer routes but never reads.
//!
//! Invariants
//! - A [`Payload`] owns its buffer. What a command touches is lent to it as a [`View`] (read) or a
//!   [`ViewMut`] (write) and comes back with its `Done`.
//! - A payload with views out cannot be given up, so a buffer is never reused under a transfer.
//! - None of the three can be copied, and dropping one panics; [`Payload::void`] and its kin are
//!   for a driver that has cut the power.
//!
//! Several write views of one payload may be out at once when their ranges do not overlap; the
//! chaos driver checks that they do not.

use crate::bomb::{Bomb, Guarded};
use crate::words::SECTOR;

/// A buffer of whole sectors that the driver owns and a layer holds.
#[derive(Debug)]
pub struct Payload {
    id: u32,
    sectors: u32,
    views: u32,
    bomb: Bomb,
}

/// A lent range of a payload that a command reads. Offsets and lengths are in bytes.
#[derive(Debug)]
pub struct View {
    id: u32,
    from: u32,
    len: u32,
    bomb: Bomb,
}

/// A lent range of a payload that a command writes. Offsets and lengths are in bytes.
#[derive(Debug)]
pub struct ViewMut {
    id: u32,
    from: u32,
    len: u32,
    bomb: Bomb,
}

impl Payload {
    /// Names buffer `id` of `sectors` sectors. Only drivers issue payloads.
    #[inline]
    pub fn issue(id: u32, sectors: u32) -> Self {
        assert!(sectors > 0, "a payload has at least one sector");
        Payload { id, sectors, views: 0, bomb: Bomb::new(Guarded::Payload) }
    }

    /// The driver's name for the buffer.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its length in sectors.
    #[inline]
    pub fn sectors(&self) -> u32 {
        self.sectors
    }

    /// Whether no view of it is out.
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

    /// As [`Payload::view`], in sectors.
    #[inline]
    pub fn view_sectors(&mut self, from: u32, sectors: u32) -> View {
        self.view(from * SECTOR as u32, sectors * SECTOR as u32)
    }

    /// As [`Payload::view_mut`], in sectors.
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
        assert_eq!(id, self.id, "a view came back to another payload");
        assert!(self.views > 0, "a payload got back more views than it lent");
        self.views -= 1;
    }

    /// Gives the buffer back to its driver, which gets the name.
    ///
    /// # Panics
    /// When a view is still out.
    #[inline]
    pub fn surrender(self) -> u32 {
        assert_eq!(self.views, 0, "a payload was given up while a command uses it");
        self.void()
    }

    /// Forgets the handle, whatever is out: the power is off. Returns the name.
    #[inline]
    pub fn void(mut self) -> u32 {
        self.bomb.defuse();
        self.id
    }
}

macro_rules! view_methods {
    ($name:ident) => {
        impl $name {
            /// The driver's name for the buffer.
            #[inline]
            pub fn id(&self) -> u32 {
                self.id
            }

            /// The first byte lent.
            #[inline]
            pub fn from(&self) -> u32 {
                self.from
            }

            /// The bytes lent.
            #[inline]
            pub fn bytes(&self) -> u32 {
                self.len
            }

            /// The sectors lent; the range must be whole sectors.
            #[inline]
            pub fn sectors(&self) -> u32 {
                assert_eq!(self.len as usize % SECTOR, 0, "a view of part of a sector");
                self.len / SECTOR as u32
            }

            /// Forgets the view without telling its payload: the power is off. Returns the name.
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
