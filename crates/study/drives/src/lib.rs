//! Drive models: flash with modelled latencies, and the drive's own translation layer on top.
//!
//! A [`Drive`] is a flash drive behind a block interface. Its decisions (mapping, garbage
//! collection, write buffer) are synchronous and depend only on the order of the commands. Its
//! flash operations take virtual time, or are only counted. A [`DriveSpec`] describes the geometry
//! and the policies of a drive.

mod device;
mod drive;
mod flash;
mod model;
pub mod models;
pub mod pool;
mod registration;
mod registry;
mod spec;
mod text;
mod work;
pub mod zoned;

pub use device::{Device, DeviceSpec};
pub use drive::Drive;
pub use model::{Clock, Ended, Model, Soon};
pub use registration::{Comparable, Description, Registration, SavedModel};
pub use registry::register;
pub use spec::{DriveSpec, Energy, Link, Pooling, Shape, shared_options};
pub use text::{DriveError, Fault, Key, Text, capacity, key, optional, within};
pub use work::{DriveWork, FlashBusy, FlashWork, HandleWork, Spent};
