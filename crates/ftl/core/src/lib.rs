//! Commands, units and the step contract shared by all parts of HostFTL.
//!
//! A layer is a pure state machine without clock, threads or files. Everything that takes time or
//! touches payload leaves it as a [`Command`] and returns as a [`Done`]. A driver executes the
//! command: with modelled time, io_uring, or fault injection.
//!
//! Nothing here allocates per request or depends on another crate of the workspace.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod admin;
mod bomb;
mod cause;
mod command;
mod counters;
mod device;
mod device_set;
mod digest;
pub mod field;
#[cfg(feature = "std")]
pub mod files;
mod gauges;
mod layer;
mod members;
mod meta;
mod payload;
mod request;
mod size;
mod words;

pub use admin::{AdminCommand, AdminOutcome, Refusal, Scrub, Setting, Task, TaskEnd, TaskKind};
pub use arrayvec::ArrayVec;
pub use cause::{CAUSES, Cause, Tally};
pub use command::{
    ALL_ZEROS, About, Codec, Command, DeviceError, Done, Gather, MAX_PIECES, Part, Piece, Target,
    Token, Verdict,
};
pub use counters::Counters;
pub use device::{DeviceInfo, DeviceKind, Segments};
pub use device_set::{DeviceSet, DeviceSetIter};
pub use digest::StreamDigest;
pub use field::Factors;
pub use gauges::Gauges;
pub use layer::{
    Ack, Credits, Event, Input, Layer, Limits, MAX_OUTPUTS, MAX_TOUCH, Out, Output, next_cut,
};
pub use members::{MAX_MEMBERS, Member, MemberRole, MemberState, Members};
pub use meta::{MetaBuf, Page};
pub use payload::{Payload, View, ViewMut};
pub use request::{HostError, HostOp, Reply, Request, Ticket};
pub use size::Size;
pub use words::{BLOCK, Nanos, SECTOR, SECTORS_PER_BLOCK};
