//! Victim policies and write separation, shared by the layers and by the garbage collection inside
//! the drive models.
//!
//! A policy is a word on the command line, parsed once into an enum. [`Victims`] is notified of
//! every change, and then knows the next victim without a scan of pages. All ages are in host
//! writes.

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
