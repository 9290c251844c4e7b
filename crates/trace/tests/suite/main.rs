//! All tests of the crate from outside, as one program: it links once, and tests share the cores.

mod formats;
mod like;
mod own;
mod record;
mod stats;
mod trace;
