//! The promise of `hatl-auto` on random workloads.

use hostftl_drives::DriveSpec;
use hostftl_papers::hatl::{LAYERS, drawn};
use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Study, Unobserved, Warm, compare,
};

/// Returns the busy time of each layer of the paper, relative to that of the drive without a layer.
fn ratios(workload: &str, seed: u64) -> [f64; 6] {
    let study = Study {
        workloads: vec![Load::parse(workload).expect("a workload")],
        drives: vec![DriveSpec::find("hatl-2g").expect("a drive").into()],
        layers: LAYERS.iter().map(|(_, it)| LayerSpec::parse(it).expect("a layer")).collect(),
        warm: vec![Warm::NEW],
        export: Export::Most,
        cache: None,
        pace: Pace::Closed(16),
        most_spans: MOST_SPANS,
        compact: false,
        seed,
        threads: 2,
        memory: 4 << 30,
    };
    let rows: Vec<Row> =
        compare(&study, &Unobserved).and_then(Outcome::whole).expect("the study runs");
    let ratios = rows.iter().map(|row| row.busy_ratio.expect("passthrough is there"));
    ratios.collect::<Vec<_>>().try_into().expect("a row for each layer")
}

/// `HATL_SEED` and `HATL_COUNT` select other workloads and a larger number. Some seeds exceed the
/// bound; docs/STUDIES.md lists these workloads with the reasons. This test protects the current
/// result.
#[test]
fn hatl_auto_is_at_most_a_twentieth_worse_than_the_better_of_mhatl_and_shatl() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("HATL_SEED").unwrap_or(6);
    let count = number("HATL_COUNT").unwrap_or(3);
    let mut missed = Vec::new();
    for workload in drawn(seed, count as usize, 100_000) {
        let [_, hard, mhatl, shatl, _, auto] = ratios(&workload, seed);
        let best = shatl.min(mhatl);
        println!(
            "{:5.3} {workload}: hard {hard:.4} mhatl {mhatl:.4} shatl {shatl:.4} auto {auto:.4}",
            auto / best
        );
        if auto > 1.05 * best {
            missed.push((workload, auto / best));
        }
        assert!(auto >= 0.98 * hard.min(1.0), "{auto} beats hard's {hard}: is all counted?");
    }
    assert!(missed.is_empty(), "seed {seed}: {missed:?}");
}
