//! Benchmark of trace readers: `cargo run --release -p hostftl-trace --example scan FILES`.
//!
//! For each file it prints the requests, and millions of requests per second of CPU time. CPU time
//! of all threads is counted, so other load on the machine matters little.

use std::fs;

use hostftl_trace::Source;

/// Linux's unit of CPU time, in seconds.
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

/// Returns the CPU time of this process in ticks.
fn ticks() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").expect("the system is Linux");
    let fields: Vec<&str> = text[text.rfind(')').unwrap_or(0)..].split(' ').collect();
    let field = |at: usize| fields[at].parse::<u64>().expect("proc(5) has a number here");
    field(12) + field(13)
}
