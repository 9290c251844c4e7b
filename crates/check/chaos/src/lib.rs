//! Chaos driver: layers run over seeded memory devices that lose power, tear writes, time out and
//! die, under a checker that knows the possible contents of every sector.
//!
//! One seed determines a whole run. The injected faults and the required guarantees are read from
//! the matrix in `docs/SEMANTICS.md`.
#![forbid(unsafe_code)]

mod arena;
mod campaign;
mod changes;
mod content;
mod copies;
mod damage;
mod dice;
mod disk;
mod draw;
mod errors;
mod events;
mod exec;
mod extent;
pub mod fault_free;
mod flights;
mod host;
mod journal;
mod life;
mod losses;
mod matrix;
pub mod membership;
mod model;
mod pairs;
mod places;
mod power;
mod reported_damage;
mod run;
mod second_victim;
mod seed_list;
mod trace;
mod transient_faults;
mod workload;
mod world;
mod zoned;

pub use campaign::{Campaign, Goal, Summary, replay_command, run_seeds};
pub use events::Tallies;
pub use matrix::{Claim, Claims, Row};
pub use pairs::Pairs;
pub use run::{Report, Violation, catch_panics, digest_seed, run_seed};
pub use seed_list::{LEAST, NEW, SeedList, Seeds};
pub use world::World;
