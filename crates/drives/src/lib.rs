//! Drive models: flash that takes modelled time, and the drive's own translation over it.
//!
//! A [`Drive`] is what a layer sees through a block interface. Its decisions (map, collection,
//! write buffer) are synchronous and follow from the order of commands alone; its flash takes time,
//! or only counts. A [`DriveSpec`] says what it is made of.

mod device;
mod drive;
mod flash;
mod memory;
mod model;
pub mod olive;
mod plain;
pub mod pool;
mod queue;
pub mod scm;
mod spec;
mod work;
pub mod zoned;

pub use device::{Device, DeviceSpec};
pub use drive::{Clock, Drive, Ended, Soon};
pub use model::Model;
pub use spec::{DriveError, DriveSpec, Energy, Key, Pooling, Shape};
pub use work::{DriveWork, FlashBusy, FlashWork, Spent};
