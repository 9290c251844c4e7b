//! All external tests of the crate in one program, which links once and runs tests on all cores.

mod common;
mod far;
mod hard;
mod log_durable;
mod log_fill;
mod log_full;
mod log_gc;
mod log_grow;
mod log_hang;
mod log_journal;
mod log_leave;
mod log_rates;
mod log_recovery;
mod log_rows;
mod log_scrub;
mod log_thin;
mod log_zoned;
mod memory;
mod mhatl;
mod no_alloc;
mod own_policy;
mod parameters;
mod ranges;
mod shatl;
mod tier;
mod zones;
