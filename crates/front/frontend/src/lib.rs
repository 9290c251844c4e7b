//! Requests of users, shared by all front ends. Texts of a command line or of Python are parsed
//! into studies, errors have the same messages, and rows have the same columns.

pub mod advise;
pub mod catalogue;
pub mod columns;
pub mod judgement;
pub mod nearest;
pub mod program;
mod question;
pub mod seeds;
pub mod shadow;
pub mod sheet;
mod slice;
pub mod spread;
pub mod sweep;
pub mod traces;
pub mod units;
mod usual;
mod wrong;

use hostftl_sim::Row;
pub use question::{Question, STATES, export, layer, layer_kind, source, stack};
pub use slice::{Slice, hot};
pub use usual::{memory_of_a_terabyte, usual_devices};
pub use wrong::{Wrong, WrongKind};

/// Returns the requested state of a row's drive, without the note that it was not reached.
pub fn state(row: &Row) -> &str {
    row.warm.strip_suffix(" (not reached)").unwrap_or(&row.warm)
}
