//! Drive models: flash that takes modelled time, and the drive's own translation over it.
//!
//! A [`Drive`] is what a layer sees through a block interface. Its decisions (map, collection,
//! write buffer) are synchronous and follow from the order of commands alone; its flash takes time,
//! or only counts. A [`DriveSpec`] says what it is made of.

mod device;
mod drive;
mod flash;
mod model;
pub mod olive;
mod plain;
pub mod pool;
mod queue;
mod registration;
mod registry;
pub mod scm;
mod spec;
mod text;
mod work;
pub mod zoned;

pub use device::{Device, DeviceSpec};
pub use drive::Drive;
pub use model::{Clock, Ended, Model, Soon};
pub use registration::{Comparable, Description, Registration, SavedModel};
pub use spec::{DriveSpec, Energy, Pooling, Shape};
pub use text::{DriveError, Key};
pub use work::{DriveWork, FlashBusy, FlashWork, Spent};
