//! Values that must be handed on: dropping one is a bug that shows at once.

/// What a bomb guards; one byte, because every view has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guarded {
    /// A buffer.
    Payload,
    /// A lent range of a buffer.
    View,
    /// The right to answer a request.
    Ticket,
}

/// A field that panics when its owner is dropped before [`Bomb::defuse`].
#[derive(Debug)]
pub(crate) struct Bomb {
    guarded: Guarded,
    armed: bool,
}

impl Bomb {
    /// An armed bomb.
    pub(crate) const fn new(guarded: Guarded) -> Self {
        Bomb { guarded, armed: true }
    }

    /// Lets the owner be dropped.
    #[inline]
    pub(crate) fn defuse(&mut self) {
        self.armed = false;
    }
}

impl Drop for Bomb {
    #[inline]
    fn drop(&mut self) {
        if self.armed && !unwinding() {
            panic!("a {:?} was dropped instead of being handed back", self.guarded);
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
