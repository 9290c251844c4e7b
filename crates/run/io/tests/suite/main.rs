//! All integration tests of the crate as one program: it links once, and tests share the cores.

mod common;
mod engines;
mod exerciser;
mod hung;
mod late_write;
mod raid5;
mod refused;
mod trickle;
