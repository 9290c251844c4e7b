//! All integration tests of the crate in one program, which links once and shares the cores.

mod closed;
mod exerciser;
mod golden;
mod hard;
mod hatl;
mod hint;
mod laws;
mod liveness;
mod parameters;
mod raw;
mod stacks;
mod states;
mod study;
mod targets;
mod theory;
