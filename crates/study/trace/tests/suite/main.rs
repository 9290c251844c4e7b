//! All tests of the crate from outside, as one program: it links once, and tests share the cores.

mod blktrace;
mod coded;
mod events;
mod formats;
mod help;
mod like;
mod options;
mod own;
mod pipes;
mod record;
mod stats;
mod tables;
mod trace;
