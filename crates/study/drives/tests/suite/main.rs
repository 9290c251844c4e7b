//! All tests of the crate from outside, as one program: it links once, and tests share the cores.

mod clocks;
mod no_alloc;
mod pool;
mod pool_golden;
mod pool_hostile;
mod pool_saved;
mod raw;
mod rig;
mod spec;
mod timing;
mod zoned;
