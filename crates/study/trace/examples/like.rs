//! Lists the figures of `synth:like:VOLUME` that differ by more than 10 %, for whole weeks: `cargo
//! run --release -p hostftl-trace --example like [VOLUMES]`, all 106 by default.

use hostftl_trace::{Source, Stats, Volume};

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        names = Volume::all().iter().map(|volume| volume.name.to_owned()).collect();
    }
    for name in names {
        let source: Source = format!("synth:like:{name}").parse().expect("the volume is known");
        let Source::Like(like) = &source else { unreachable!("the text says what it is") };
        let mut stats = Stats::default();
        for record in source.open(1, false).expect("nothing is opened") {
            stats.count(&record.expect("nothing is read"));
        }
        let figures = like.figures(&stats.info());
        let off = figures.iter().filter(|figure| figure.error() > 0.1);
        let texts: Vec<String> =
            off.map(|it| format!("{} {:.4} for {:.4}", it.name, it.made, it.published)).collect();
        println!("{name}: {}", if texts.is_empty() { "ok".to_owned() } else { texts.join(", ") });
    }
}
