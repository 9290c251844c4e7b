//! Cuts for tests: the process ends after a number of durable writes of superblocks and of the
//! volume file, as a kill or a power cut would end it.
//!
//! Tests can also make copies of devices wait or fail. Without the feature `cuts`, [`step`] and
//! [`pass`] do nothing.

#[cfg(feature = "cuts")]
mod switch {
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::thread;
    use std::time::Duration;

    /// Remaining steps; initially they are not counted.
    static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// Aborts the process after `steps` further steps.
    pub fn after(steps: u64) {
        LEFT.store(steps, SeqCst);
    }

    /// Counts a durable write.
    pub fn step() {
        let less = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(1));
        if LEFT.fetch_update(SeqCst, SeqCst, less) == Ok(1) {
            std::process::abort();
        }
    }

    /// Behaviour of copies to devices, by name.
    static COPIES: Mutex<BTreeMap<String, Copies>> = Mutex::new(BTreeMap::new());

    /// Behaviour of copies to a device.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Copies {
        /// They continue.
        Run,
        /// They wait.
        Wait,
        /// They end with an error of the new device.
        Fail,
    }

    /// Sets the behaviour of copies to the device with this name.
    pub fn set_copies(name: &str, behaviour: Copies) {
        copies().insert(name.into(), behaviour);
    }

    fn copies() -> MutexGuard<'static, BTreeMap<String, Copies>> {
        COPIES.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while copies to a device wait, unless the copy `is_over`.
    ///
    /// # Errors
    /// When copies to it fail.
    pub fn pass(name: &str, is_over: impl Fn() -> bool) -> io::Result<()> {
        loop {
            let behaviour = copies().get(name).copied().unwrap_or(Copies::Run);
            match behaviour {
                Copies::Wait if !is_over() => thread::sleep(Duration::from_millis(1)),
                Copies::Run | Copies::Wait => return Ok(()),
                Copies::Fail => return Err(io::ErrorKind::StorageFull.into()),
            }
        }
    }
}

#[cfg(not(feature = "cuts"))]
mod switch {
    /// Counts a durable write.
    pub const fn step() {}

    /// Waits for nothing.
    ///
    /// # Errors
    /// Never.
    pub fn pass(_name: &str, _is_over: impl Fn() -> bool) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "cuts")]
pub use switch::{Copies, after, set_copies};
pub use switch::{pass, step};
