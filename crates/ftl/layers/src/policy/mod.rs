//! Which segment is collected next, and where its live data goes: shared by the layers and by the
//! translation inside the drive models.
//!
//! A policy is a word, read once into an enum. [`Victims`] is told of every change and then knows
//! the next victim without a look at any page; all ages are in host writes.

mod dice;
mod lists;
mod own;
mod rates;
mod saved;
mod separation;
mod victims;
mod words;
mod worth;

pub use dice::Dice;
pub use lists::Lists;
pub use own::{OwnPolicy, OwnSeparation, VictimPolicy};
pub use separation::{CLASSES, HOT, Separation, Separator};
pub use victims::Victims;
pub use words::{Frontiers, GcPolicy, UnknownWord};
