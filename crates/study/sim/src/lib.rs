//! Studies of layers on modelled drives under a virtual clock.
//!
//! [`compare`] runs workloads through several layers and returns a [`Row`] for each combination.
//! Below it, a [`World`] runs one layer over drives in virtual time, and a front end submits
//! requests to it.

mod advice;
mod coarse;
mod compare;
mod conserve;
mod costs;
mod devices;
mod error;
mod events;
mod export;
mod front;
mod host_load;
mod latency;
mod layer_spec;
mod little;
mod load;
mod media;
mod memory;
mod outcome;
mod planned_run;
mod player;
pub mod probe;
mod ratio;
mod row;
mod run;
mod run_spec;
mod scale;
mod schedule;
mod self_aging;
mod series;
mod snapshot;
mod stack;
mod state;
mod study;
mod sweep;
mod targets;
pub mod theory;
mod unused;
mod warm;
mod wear;
mod work;
mod world;

pub use advice::{Advice, Limit, Limits, Offer, Relative, advise};
pub use compare::{compare, compare_all};
pub use conserve::check as check_laws;
pub use costs::HostCosts;
pub use devices::DeviceRow;
pub use error::{StudyError, Violation};
pub use export::Export;
pub use front::{Front, Totals};
pub use host_load::HostLoad;
pub use latency::{Latencies, Latency, LatencyNs, Legs, Times};
pub use layer_spec::{ARRAY, Array, LayerSpec};
pub use little::Little;
pub use load::{Extent, Load};
pub use memory::default_memory;
pub use outcome::{Hole, Outcome, Why};
pub use player::{End, Pace, PlayError, Player};
pub use row::Row;
pub use run_spec::quoted;
pub use scale::{Scaled, is_same, runs_on};
pub use schedule::{Job, run as run_jobs};
pub use self_aging::{MOST_SPANS, SETTLED};
pub use series::Interval;
pub use stack::{Stack, StackError};
pub use state::Warm;
pub use study::{Silent, Study, Watch};
pub use sweep::{CellAbout, Sweep, Variants};
pub use targets::{TargetRow, TargetSpec, TargetsFile, run_targets};
pub use warm::{Ageing, Glance, Records, Warmed, warm};
pub use wear::{Bar, ByCause, Energy, Erases, Life};
pub use work::{Busy, Work};
pub use world::{Answer, World};
