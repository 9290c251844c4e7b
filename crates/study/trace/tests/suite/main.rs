//! All integration tests of the crate in one program, which links once and shares the cores.

mod blktrace;
mod coded;
mod events;
mod formats;
mod help;
mod kvcache;
mod like;
mod options;
mod own;
mod pipes;
mod record;
mod stats;
mod tables;
mod trace;
