//! Effect of stream separation and victim policy on the write amplification of the log layer.
//!
//! `cargo run --release -p hostftl-layers --example log_waf [LAYER…]`
//!
//! A volume is filled and then overwritten eight times in blocks of 4 KiB; the second half is
//! measured. Hot blocks are spread over the whole volume, and the layer has no information about
//! them.

mod alone;
mod dice;

use alone::{Alone, theory};
use dice::Dice;
use hostftl_core::Layer;

/// Number of overwrites of the volume, of which the second half is measured.
const ROUNDS: u64 = 8;

/// The choice of the next block.
#[derive(Clone, Copy)]
enum Work {
    Uniform,
    /// The share `writes` of the writes goes to the share `blocks` of the blocks. With `moves`, the
    /// hot blocks change after this number of overwrites of the volume.
    Skewed {
        writes: f64,
        blocks: f64,
        moves: Option<u64>,
    },
    Zipf(f64),
}

fn main() {
    let layers: Vec<_> = std::env::args().skip(1).collect();
    let works = [
        ("uniform", Work::Uniform),
        ("80/20", Work::Skewed { writes: 0.8, blocks: 0.2, moves: None }),
        ("90/10", Work::Skewed { writes: 0.9, blocks: 0.1, moves: None }),
        ("90/10 moving", Work::Skewed { writes: 0.9, blocks: 0.1, moves: Some(2) }),
        ("zipf 0.99", Work::Zipf(0.99)),
    ];
    for layer in &layers {
        println!("{layer}");
        for (name, work) in works {
            let (waf, alpha) = measure(layer, work);
            let fifo = theory(alpha);
            println!("  {name:12} waf {waf:.3} at α {alpha:.3} (uniform by theory: {fifo:.3})");
        }
    }
}

/// Returns the bytes of data written for each byte of the host, and α at the end.
fn measure(layer: &str, work: Work) -> (f64, f64) {
    let mut alone = Alone::new(layer);
    let blocks = alone.blocks();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut order: Vec<u64> = (0..blocks).collect();
    for last in (1..blocks).rev() {
        order.swap(last as usize, dice.below(last + 1) as usize);
    }
    let zipf = if let Work::Zipf(exponent) = work { sums(blocks, exponent) } else { Vec::new() };
    (0..blocks).for_each(|block| alone.write(block));
    let (mut before, mut shift) = (alone.log.counters(), 0);
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            before = alone.log.counters();
        }
        if let Work::Skewed { moves: Some(moves), .. } = work
            && round % moves == 0
        {
            shift = dice.below(blocks);
        }
        for _ in 0..blocks {
            let at = draw(work, blocks, &zipf, &mut dice);
            alone.write(order[((at + shift) % blocks) as usize]);
        }
    }
    let (after, alpha) = (alone.log.counters(), alone.alpha());
    let host = (after.host_written - before.host_written) as f64;
    alone.log.check().expect("its invariants hold");
    alone.log.power_off();
    (1.0 + (after.gc_copied - before.gc_copied) as f64 / host, alpha)
}

fn draw(work: Work, count: u64, zipf: &[f64], dice: &mut Dice) -> u64 {
    match work {
        Work::Uniform => dice.below(count),
        Work::Skewed { writes, blocks, .. } => {
            let hot = (count as f64 * blocks) as u64;
            if dice.share() < writes { dice.below(hot) } else { hot + dice.below(count - hot) }
        }
        Work::Zipf(_) => {
            let sum = dice.share() * zipf[zipf.len() - 1];
            zipf.partition_point(|&until| until <= sum) as u64
        }
    }
}

/// Returns the cumulative sums of `1 / rank^exponent`.
fn sums(count: u64, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let shares = (1..=count).map(|rank| (rank as f64).powf(-exponent));
    shares
        .map(|share| {
            sum += share;
            sum
        })
        .collect()
}
