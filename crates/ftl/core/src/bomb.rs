//! Guard for values that must be passed on: dropping one is a bug and panics immediately.

/// Kind of value that a bomb guards; one byte, because every view contains one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// Buffer.
    Payload,
    /// Lent range of a buffer.
    View,
    /// Right to answer a request.
    Ticket,
}

/// Field that panics when its owner is dropped before [`Bomb::defuse`].
#[derive(Debug)]
pub(crate) struct Bomb {
    guarded: Guarded,
    armed: bool,
}

impl Bomb {
    /// Creates an armed bomb.
    pub(crate) const fn new(guarded: Guarded) -> Self {
        Bomb { guarded, armed: true }
    }

    /// Permits the owner to be dropped.
    #[inline]
    pub(crate) fn defuse(&mut self) {
        self.armed = false;
    }
}

impl Drop for Bomb {
    #[inline]
    fn drop(&mut self) {
        if self.armed && !unwinding() {
            panic!("a {:?} was dropped instead of being returned", self.guarded);
        }
    }
}

#[cfg(feature = "std")]
#[inline]
fn unwinding() -> bool {
    std::thread::panicking()
}

#[cfg(not(feature = "std"))]
#[inline]
fn unwinding() -> bool {
    false
}
