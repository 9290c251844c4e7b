//! All tests of the crate from outside, as one program: it links once, and tests share the cores.

mod roundtrip;
mod structured;
mod vectors;
