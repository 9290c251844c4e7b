//! The driver that runs a layer on real devices: memory, files, block devices, NBD exports.

mod arena;
mod compute;
mod device;
mod direct;
mod driver;
mod engine;
mod error;
mod holder;
mod host;
mod model;
mod nbd;
mod pool;
mod queue;
mod region;
mod ring;
mod size;
mod stats;
mod stream;
mod transfer;
mod waker;
mod world;
mod zoned;

pub use arena::{Arena, Class, HOST_CLASSES, Lease};
pub use device::{Backing, Device};
pub use direct::Direct;
pub use driver::{Driver, Pace, Parts};
pub use engine::EngineKind;
pub use error::IoError;
pub use holder::{Holder, holder_of};
pub use host::{Host, Pull, Tap};
pub use model::Model;
pub use nbd::{Link, LinkWatch};
pub use size::parse_bytes;
pub use stats::{DeviceStats, Snapshot, Stats};
pub use waker::{Waker, set_send_room, wait_readable, wait_writable};
pub use zoned::{make_file as make_zoned_file, path_of as zoned_path};
