//! Values that must be handed on: dropping one is a bug that shows at once.

/// A field that panics when its owner is dropped before [`Bomb::defuse`].
#[derive(Debug)]
pub struct Bomb {
    name: &'static str,
    armed: bool,
}

impl Bomb {
    /// An armed bomb; `name` is what the panic says was lost.
    pub const fn new(name: &'static str) -> Self {
        Bomb { name, armed: true }
    }

    /// Lets the owner be dropped.
    pub fn defuse(&mut self) {
        self.armed = false;
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.armed && !unwinding() {
            panic!("a {} was dropped instead of being handed back", self.name);
        }
    }
}

#[cfg(feature = "std")]
fn unwinding() -> bool {
    std::thread::panicking()
}

#[cfg(not(feature = "std"))]
fn unwinding() -> bool {
    false
}
