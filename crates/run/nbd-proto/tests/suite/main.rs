//! All integration tests of the crate as one program: it links once, and tests share the cores.

mod roundtrip;
mod structured;
mod vectors;
