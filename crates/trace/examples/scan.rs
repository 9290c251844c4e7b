//! Counts what a workload holds, and how fast: `cargo run --release -p hostftl-trace --example scan
//! FILE`.

use std::time::Instant;

use hostftl_trace::Source;

fn main() {
    for name in std::env::args().skip(1) {
        for compact in [false, true] {
            let start = Instant::now();
            let sum = name.parse::<Source>().and_then(|source| source.scan(1, compact));
            let took = start.elapsed().as_secs_f64();
            match sum {
                Ok(sum) => {
                    let pace = sum.records as f64 / took / 1e6;
                    println!("compact {compact}: {pace:.1} M records/s; {sum:?}");
                }
                Err(error) => println!("{error}"),
            }
        }
    }
}
