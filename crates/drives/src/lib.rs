//! Drive models: flash that takes modelled time, and the drive's own translation over it.
//!
//! A drive is a [`Flash`], which says when each command is over, under a [`SuperpageFtl`], which is
//! a layer like any other. Who drives them keeps the clock.

mod flash;
mod ftl;
pub mod pool;
mod spec;

pub use flash::{Flash, FlashWork};
pub use ftl::SuperpageFtl;
pub use spec::{DriveError, DriveSpec};
