//! The log layer alone: every command is over at once, on one core. How many 4 KiB random writes a
//! second of processor time it takes, and whether its write amplification is what theory says: with
//! so much spare that there is next to nothing to collect, and in a steady state with little spare,
//! where two blocks are copied for each that is written.
//! `cargo run --release -p hostftl-layers --example log_core [RUNS]`
//!
//! Nothing is modelled but the metadata, which the layer reads back; all else is forgotten. The
//! processor time is that of the layer and of this driver.

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

/// The processor time of this thread so far, in ns.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("it begins with a number")
}
