//! Throughput of the log layer alone, on one core, with a driver that completes every command at
//! once.
//!
//! The example measures random writes of 4 KiB per second of processor time, and compares write
//! amplification with theory: with enough over-provisioning that GC has almost nothing to do, and
//! in a steady state with little over-provisioning, in which two blocks are copied for each block
//! written.
//!
//! `cargo run --release -p hostftl-layers --example log_core [RUNS]`
//!
//! Only the metadata that the layer reads back is stored; all other data is discarded. The
//! processor time includes that of this driver.

mod alone;

use alone::{Alone, theory};
use hostftl_core::Layer;

const WRITES: u64 = 1_000_000;

fn main() {
    let runs = std::env::args().nth(1).map_or(1, |runs| runs.parse().expect("a number of runs"));
    for layer in ["log:spare=75", "log:spare=25", "log:compress=none:spare=25"] {
        for run in 0..runs {
            once(layer, run);
        }
    }
}

fn once(layer: &str, seed: u64) {
    let mut alone = Alone::new(layer);
    let blocks = alone.blocks();
    let mut state = 0x9e37_79b9_7f4a_7c15 + seed;
    let mut any = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % blocks
    };
    (0..blocks).for_each(|block| alone.write(block));
    (0..3 * blocks).for_each(|_| alone.write(any()));
    let (before, steps) = (alone.log.counters(), alone.steps);
    let from = processor_ns();
    (0..WRITES).for_each(|_| alone.write(any()));
    let took = processor_ns() - from;
    let (after, alpha) = (alone.log.counters(), alone.alpha());
    let host = after.host_written - before.host_written;
    let waf = 1.0 + (after.gc_copied - before.gc_copied) as f64 / host as f64;
    println!(
        "{layer}: {:.2} M writes/s, {:.1} steps each; waf {waf:.3} of data, theory {:.3} at α \
         {alpha:.3}",
        WRITES as f64 / took as f64 * 1e3,
        (alone.steps - steps) as f64 / WRITES as f64,
        theory(alpha),
    );
    alone.log.check().expect("its invariants hold");
    alone.log.power_off();
}

/// Returns the processor time of this thread in ns.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs is mounted");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("the first field is a number")
}
