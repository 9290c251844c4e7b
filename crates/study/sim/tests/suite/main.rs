//! All tests of the crate from outside, as one program: it links once, and tests share the cores.

mod closed;
mod exerciser;
mod golden;
mod hard;
mod hatl;
mod hint;
mod laws;
mod liveness;
mod raw;
mod stacks;
mod states;
mod study;
mod targets;
mod theory;
