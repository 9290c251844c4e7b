//! Prints the speed of a study on this machine: `cargo run --release -p hostftl-sim --example pace
//! [WORKLOAD DRIVE WARM]`.

use std::time::Instant;

use hostftl_drives::DriveSpec;
use hostftl_layers::LayerKind;
use hostftl_sim::{
    Export, Load, MOST_SPANS, Outcome, Pace, Study, Unobserved, Warm, compare, default_memory,
};

fn main() {
    let mut args = std::env::args().skip(1);
    let workload = args.next().unwrap_or("synth:uniform:size=4k,span=1g,count=2000000".into());
    let drive = args.next().unwrap_or("hatl-2g".into());
    let warm = args.next().map(|name| name.parse().expect("new, fill, steady or self"));
    let is_synth = workload.starts_with("synth:");
    for kind in LayerKind::block_layers() {
        let study = Study {
            workloads: vec![Load::parse(&workload).expect("a workload")],
            drives: vec![DriveSpec::find(&drive).expect("a drive").into()],
            layers: vec![kind.into()],
            warm: vec![warm.unwrap_or(if is_synth { Warm::FILL } else { Warm::NEW })],
            export: Export::Most,
            cache: None,
            pace: if is_synth { Pace::Closed(16) } else { Pace::Trace },
            most_spans: MOST_SPANS,
            compact: !is_synth,
            seed: 1,
            threads: 1,
            memory: default_memory(),
        };
        let start = Instant::now();
        match compare(&study, &Unobserved).and_then(Outcome::whole) {
            Ok(rows) => {
                let took = start.elapsed().as_secs_f64();
                let (requests, steps) = (rows[0].requests as f64, rows[0].steps as f64);
                let (requests, steps) = (requests / took / 1e6, steps / took / 1e6);
                println!("{kind}: {took:.2} s, {requests:.2} M requests/s, {steps:.2} M steps/s");
                println!("{}", serde_json::to_string_pretty(&rows[0]).expect("rows are JSON"));
            }
            Err(error) => println!("{kind}: {error}"),
        }
    }
}
