//! The driver that runs a layer on real devices: memory, files, block devices, io_uring.

mod arena;
mod region;
mod waker;

pub use arena::{Arena, Class, HOST_CLASSES, Lease};
pub use waker::Waker;
