//! How fast traces are read: `cargo run --release -p hostftl-trace --example scan FILES`.
//!
//! Prints for each file its requests, and millions of them for each second of processor time, of
//! all threads together: how busy the machine is with other things matters little then.

use std::fs;

use hostftl_trace::Source;

/// The length of a tick in which Linux counts processor time, in seconds.
const TICK: f64 = 0.01;

fn main() {
    for name in std::env::args().skip(1) {
        let before = ticks();
        let sum = name.parse::<Source>().and_then(|source| source.scan(1, false));
        let took = (ticks() - before).max(1) as f64 * TICK;
        match sum {
            Ok(sum) => println!("{} {:.1}", sum.records, sum.records as f64 / took / 1e6),
            Err(error) => println!("{error}"),
        }
    }
}

/// Processor time of this process so far.
fn ticks() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").expect("the system is Linux");
    let fields: Vec<&str> = text[text.rfind(')').unwrap_or(0)..].split(' ').collect();
    let field = |at: usize| fields[at].parse::<u64>().expect("proc(5) has a number here");
    field(12) + field(13)
}
