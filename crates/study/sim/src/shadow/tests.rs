//! Tests of shadows on small drives.

use hostftl_trace::{Source, Workload};

use super::*;

/// A drive of which the volume is `percent` %.
fn drive(percent: u64) -> SliceOf {
    Box::new(move |bytes| {
        let capacity = (bytes * 100 / percent).next_multiple_of(4096);
        let name = format!("tlc:capacity={capacity}:ways=1:pages=2:write_buffer_kib=256");
        Stack::find(&name).map_err(|why| why.to_string())
    })
}

fn slice() -> SliceOf {
    drive(70)
}

fn shadow(mib: u64, layers: &[&str]) -> Shadow {
    let layers = layers.iter().map(|name| LayerSpec::parse(name).unwrap()).collect();
    let spec =
        ShadowSpec { sectors: mib * GRAIN, layers, filled: 0.7, granularity: 8, slice: slice() };
    Shadow::new(spec, Arc::new(Tap::new().0)).unwrap()
}

/// Reduces the sample to classes of `size` grains.
fn shrunk(mut shadow: Shadow, size: u64, most: u64) -> Shadow {
    shadow.size = size;
    shadow.select(most).unwrap();
    shadow
}

fn play(shadow: &mut Shadow, text: &str, seed: u64) {
    let source: Source = text.parse().unwrap();
    source.open(seed, false).unwrap().for_each(|record| shadow.observe(&record.unwrap()));
}

fn waf(report: &ShadowReport, index: usize) -> f64 {
    report.candidates[index].waf.unwrap()
}

#[test]
fn a_sample_has_the_write_amplification_of_the_volume() {
    let text = "synth:uniform:size=32k,span=700m,count=40000";
    let mut whole = shadow(1000, &["hatl-auto", "log"]);
    let mut part = shrunk(shadow(1000, &["hatl-auto", "log"]), 128, 3);
    assert_eq!((whole.rate(), whole.classes.len()), (1.0, 1));
    assert!(part.classes.len() == 3 && part.rate() < 0.45, "{}", part.rate());
    for seed in 1..6 {
        play(&mut whole, text, seed);
        play(&mut part, text, seed);
    }
    let (whole, part) = (whole.report(), part.report());
    assert_eq!((&whole.doubts, &part.doubts), (&vec![], &vec![]));
    for index in 0..3 {
        let (one, other) = (waf(&whole, index), waf(&part, index));
        assert!((other / one - 1.0).abs() < 0.05, "{one} {other}");
        assert!(part.candidates[index].error.is_some_and(|it| it < other), "{part:?}");
    }
    assert_eq!((whole.candidates[0].relative, whole.candidates[0].error), (Some(1.0), None));
    assert!((part.sampled_bytes as f64 / part.host_bytes as f64 - part.rate).abs() < 0.02);
}

#[test]
fn models_keep_the_laws_of_conservation() {
    let mut shadow = shrunk(shadow(300, &["log", "hatl-auto"]), 64, 2);
    play(&mut shadow, "synth:drawn:seed=3,span=256m,count=20000", 1);
    for class in shadow.classes {
        for model in class.models {
            model.and_then(|it| it.check().map_err(|why| why.to_string())).unwrap();
        }
    }
}

#[test]
fn too_few_writes_are_a_doubt_with_the_number_needed() {
    let mut shadow = shadow(200, &[]);
    play(&mut shadow, "synth:uniform:size=64k,span=128m,count=100", 1);
    let doubts = shadow.report().doubts;
    let few = Doubt::FewWrites { written_bytes: 100 << 16, needed_bytes: 400 << 20 };
    assert_eq!(doubts, [few]);
    assert_eq!(doubts[0].to_string(), "too few writes: 0.0 GiB since the start, 0.4 GiB needed");
    assert_eq!(shadow.report().candidates[0].waf, Some(1.0));
}

#[test]
fn a_working_set_that_the_sample_does_not_show_is_a_doubt() {
    let mut even = shrunk(shadow(2000, &[]), 256, 1);
    (1..4).for_each(|seed| play(&mut even, "synth:uniform:size=64k,span=2000m,count=64000", seed));
    assert_eq!(even.report().doubts, []);
    // The hot data moves to a single grain.
    for _ in 0..16_000 {
        even.observe(&Record::new(0, Op::Write, 0, 5 * GRAIN, 128));
    }
    let doubts = even.report().doubts;
    assert!(matches!(doubts[..], [Doubt::Lopsided { share, expected }] if share < expected));
    assert!(doubts[0].to_string().contains("working set moved"), "{}", doubts[0]);
}

#[test]
fn dropped_requests_are_a_doubt() {
    let (tap, records) = Tap::new();
    let spec = ShadowSpec {
        sectors: 200 * GRAIN,
        layers: Vec::new(),
        filled: 0.7,
        granularity: 8,
        slice: slice(),
    };
    let mut shadow = Shadow::new(spec, Arc::new(tap)).unwrap();
    let tap = shadow.tap.clone();
    let work: Workload = "uniform:size=64k,span=128m,count=20000".parse().unwrap();
    let all: Vec<Record> = hostftl_trace::Synth::new(work, 1).collect();
    for burst in all.chunks(10_000) {
        burst.iter().for_each(|record| tap.observe(record));
        records.try_iter().for_each(|record| shadow.apply(&record));
    }
    // The period starts after the first burst.
    let dropped = Doubt::Dropped { requests: 10_000 - 8192 };
    assert!(shadow.report().doubts.contains(&dropped), "{:?}", shadow.report());
}

#[test]
fn a_shadow_that_is_too_slow_takes_a_smaller_sample_and_ends_at_last() {
    let mut shadow = shrunk(shadow(2000, &[]), 128, 8);
    let text = "synth:uniform:size=64k,span=1400m,count=32000";
    (1..6).for_each(|seed| play(&mut shadow, text, seed));
    let before = shadow.report();
    assert_eq!((shadow.classes.len(), &before.doubts), (8, &vec![]));
    shadow.shrink();
    let half = shadow.report();
    assert!((half.rate / before.rate - 0.5).abs() < 0.1, "{half:?}");
    assert_eq!((&half.doubts, half.since_ns), (&vec![], before.since_ns), "its figures stay");
    assert!((waf(&half, 0) / waf(&before, 0) - 1.0).abs() < 0.05, "{half:?}");
    let taken =
        (0..2000).filter(|at| shadow.tap.takes(&Record::new(0, Op::Discard, 0, at * GRAIN, 8)));
    assert_eq!(taken.count() as f64, half.rate * 2000.0, "the tap selects the same grains");
    shadow.shrink();
    let restarted = shadow.report();
    assert!(matches!(restarted.doubts[..], [Doubt::FewWrites { .. }]), "{restarted:?}");
    (0..8).for_each(|_| shadow.shrink());
    assert_eq!(shadow.report().doubts, [Doubt::Overloaded]);
}

#[test]
fn the_memory_is_bounded_for_any_volume() {
    for mib in [100, 10_000, 1_000_000, 16_000_000] {
        let shadow = shadow(mib, &["hatl-auto", "log"]);
        let spec = &shadow.spec;
        let memory: u64 = shadow
            .classes
            .iter()
            .flat_map(|class| {
                let stack = (spec.slice)(bytes(class.len() as u64 * GRAIN)).unwrap();
                spec.layers.iter().map(move |layer| Model::memory(layer, &stack))
            })
            .sum();
        assert!(memory <= MEMORY + (MEMORY >> 4), "{mib}: {memory}");
    }
}

#[test]
fn a_layer_that_can_not_run_has_its_reason() {
    let layers = vec![LayerSpec::parse("log").unwrap()];
    let spec =
        ShadowSpec { sectors: 256 * GRAIN, layers, filled: 0.7, granularity: 8, slice: drive(100) };
    let mut shadow = Shadow::new(spec, Arc::new(Tap::new().0)).unwrap();
    play(&mut shadow, "synth:uniform:size=64k,span=128m,count=1000", 1);
    let report = shadow.report();
    let failed = report.candidates[1].failed.as_deref().unwrap();
    assert!(failed.contains("can export at most"), "{failed}");
    assert!(report.candidates[0].waf.is_some() && report.candidates[1].waf.is_none());
}
