//! What users ask, for every front end alike: the texts of a command line or of Python become a
//! study, what is wrong with them is said in the same words, and rows become the same columns.

pub mod columns;
pub mod nearest;
mod question;
pub mod sheet;
pub mod units;
mod wrong;

pub use question::{Question, STATES, export, layer, layer_kind, source, stack};
pub use wrong::{Wrong, WrongKind};
