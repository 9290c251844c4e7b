//! Block traces: reading them, making synthetic ones, and packing their addresses densely.
//!
//! Everything streams with constant memory; [`Compact`] alone keeps a table, whose size it states.

mod compact;
mod csv;
mod error;
mod input;
mod record;
mod source;
mod synth;
mod workload;

pub use compact::{Compact, GRANULE};
pub use csv::CsvReader;
pub use error::TraceError;
pub use record::{Op, Record};
pub use source::{Raw, Source, Stream, Summary};
pub use synth::Synth;
pub use workload::{Pattern, Workload};
