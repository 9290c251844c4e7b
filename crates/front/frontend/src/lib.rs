//! What users ask, for every front end alike: the texts of a command line or of Python become a
//! study, what is wrong with them is said in the same words, and rows become the same columns.

pub mod advise;
pub mod catalogue;
pub mod columns;
pub mod nearest;
pub mod program;
mod question;
pub mod seeds;
pub mod sheet;
pub mod spread;
pub mod sweep;
pub mod traces;
pub mod units;
mod usual;
mod wrong;

use hostftl_sim::Row;
pub use question::{Question, STATES, export, layer, layer_kind, source, stack};
pub use usual::{memory_of_a_terabyte, usual_devices};
pub use wrong::{Wrong, WrongKind};

/// The state that a row's drive should have had before: without whether that was reached.
pub fn state(row: &Row) -> &str {
    row.warm.strip_suffix(" (not reached)").unwrap_or(&row.warm)
}
