//! All integration tests of the crate in one program, which links once and shares the cores.

mod clocks;
mod models;
mod no_alloc;
mod pool;
mod pool_golden;
mod pool_hostile;
mod pool_saved;
mod raw;
mod registry;
mod rig;
mod spec;
mod timing;
mod zoned;
