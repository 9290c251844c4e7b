//! Parameters of layers in studies: each changes a figure in one of its cases, and wherever one
//! changes nothing, there is a note.

use std::sync::Mutex;

use hostftl_layers::LayerKind;
use hostftl_sim::{
    ARRAY, Export, LayerSpec, Load, Outcome, Pace, Row, Stack, Study, Warm, Watch, compare,
};

/// A small study of a layer.
#[derive(Clone, Copy)]
struct Case {
    drive: &'static str,
    workload: &'static str,
    warm: &'static str,
    /// Exported share in thousandths.
    export: u32,
}

const SMALL: Case = Case {
    drive: "qlc-16k:capacity=256m:pages=8",
    workload: "synth:zipf:size=4k,span=120m,count=8000,flush=20",
    warm: "fill=60%",
    export: 620,
};
const AGED: Case = Case { warm: "steady=60%", ..SMALL };
const SPARE: Case =
    Case { export: 350, workload: "synth:hotcold:size=4k,span=80m,count=15000", ..AGED };
const COMPRESSIBLE: Case =
    Case { workload: "synth:zipf:size=4k,span=120m,count=8000,compress=3", ..AGED };
const LARGE: Case = Case { drive: "tlc:capacity=2g", warm: "new", export: 800, ..SMALL };
const LARGE_WRITES: Case =
    Case { workload: "synth:uniform:size=32k,span=120m,count=4000", ..SMALL };
const THREE: Case = Case { drive: "3*tlc:capacity=512m", warm: "new", ..SMALL };
const HINTING: Case = Case {
    drive: "qlc-64k:hint=true:capacity=256m",
    workload: "synth:uniform:size=4k,span=100m,count=8000",
    ..AGED
};
const TIERED: Case = Case { drive: "slc-1g:capacity=64m+qlc-64k:capacity=512m", ..SMALL };
const READ: Case = Case { workload: "synth:zipf:size=4k,span=200m,count=15000,read=60", ..TIERED };
const ZONED: Case = Case {
    drive: "open-channel:channels=2:ways=1:capacity=256m:pages=16",
    workload: "synth:zipf:size=4k,span=100m,count=8000,read=10",
    warm: "steady=60%",
    export: 550,
};

const WORN: Case = Case { workload: "synth:zipf:size=4k,span=100m,count=60000", ..ZONED };

/// Cases of a parameter: the layer with the other parameters that it needs, the parameter, values,
/// and studies.
type Cases = (&'static str, &'static str, &'static [&'static str], &'static [Case]);

const ALL: &[Cases] = &[
    ("hard", "superpage", &["128k", "16k"], &[SMALL]),
    ("hard", "spare", &["10", "45"], &[SMALL]),
    ("mhatl", "superpage", &["128k"], &[SMALL]),
    ("mhatl", "spare", &["10"], &[SMALL]),
    ("mhatl", "leaves", &["4000", "400000", "4000000"], &[AGED]),
    ("mhatl:leaves=4000", "gather", &["vsp"], &[AGED]),
    ("mhatl:leaves=1000000", "gather", &["vsp"], &[AGED]),
    ("shatl", "superpage", &["32k"], &[SMALL]),
    ("shatl:superpage=16k", "hidden", &["16m", "32m"], &[SMALL]),
    ("shatl:hidden=16m", "mode", &["ressd"], &[SMALL]),
    ("shatl:hidden=16m", "threshold", &["16k", "2m"], &[LARGE_WRITES]),
    ("hatl-auto", "superpage", &["32k"], &[SMALL]),
    ("hatl-auto", "budget", &["1m", "64m", "256m"], &[AGED]),
    ("scrambler", "slot", &["2k", "16k", "page"], &[HINTING]),
    ("scrambler", "util", &["0.5", "0.01"], &[HINTING]),
    ("scrambler:slot=page", "util", &["0.5"], &[HINTING]),
    ("scrambler", "sufficient", &["0.5"], &[HINTING]),
    ("scrambler", "enough", &["0.9"], &[HINTING]),
    ("scrambler", "refresh", &["0", "1"], &[HINTING]),
    ("scrambler", "spare", &["0", "20"], &[HINTING]),
    ("log", "superpage", &["16k", "128k"], &[SMALL]),
    ("log", "spare", &["1", "15", "30", "auto"], &[SMALL, LARGE]),
    ("log", "compress", &["none", "zstd-1"], &[SMALL, COMPRESSIBLE]),
    ("log", "parity", &["yes", "2"], &[THREE]),
    ("log", "gc", &["greedy", "random"], &[AGED]),
    ("log", "separation", &["none", "two", "lifetime", "rate", "phases"], &[AGED]),
    ("log:superpage=16k:spare=50", "separation", &["none", "two", "lifetime", "rate"], &[SPARE]),
    ("log", "journal", &["slc-1g:capacity=64m"], &[SMALL]),
    ("log", "map-memory", &["0", "1m", "1g"], &[SMALL]),
    ("log", "rebuild-share", &["5"], &[THREE]),
    ("log", "fault-after", &["5"], &[THREE]),
    ("log", "logical-size", &["300m"], &[SMALL]),
    ("log", "reclaim-unit", &["4k", "2m", "4m", "16m"], &[SMALL, LARGE]),
    ("tier", "page", &["4k", "64k"], &[TIERED]),
    ("tier", "policy", &["exclusive", "writes", "after-3"], &[READ]),
    ("tier", "free", &["1", "40"], &[TIERED]),
    ("tier:page=1m", "free", &["1", "3"], &[TIERED]),
    ("pblk", "superpage", &["16k", "40k", "128k"], &[ZONED]),
    ("pblk", "spare", &["0", "20", "35"], &[ZONED]),
    ("pblk", "gc", &["fifo", "cost-benefit"], &[ZONED]),
    ("pblk", "reuse", &["fifo"], &[WORN]),
    ("rrpc", "superpage", &["16k", "40k"], &[ZONED]),
    ("rrpc", "spare", &["0", "20", "35"], &[ZONED]),
    ("rrpc", "reuse", &["fifo"], &[ZONED]),
    ("raid5", "chunk", &["16k"], &[Case { drive: "4*tlc:capacity=256m", ..SMALL }]),
];

/// Values that equal the choice for an omitted parameter.
const AS_OMITTED: [&str; 2] = ["log:spare=auto", "log:separation=two"];

/// Parameters that have no effect in any study.
const VOLUMES_ONLY: [(&str, &str); 2] = [("log", "rebuild-share"), ("log", "fault-after")];

/// Collects the notes of a study.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Watch for Notes {
    fn progress(&self, _: usize, _: u64, _: u64) {}

    fn unused(&self, subject: &str, texts: &[String]) {
        let notes = texts.iter().map(|text| format!("{subject}: {text}"));
        self.0.lock().expect("no panic").extend(notes);
    }

    fn cancelled(&self) -> bool {
        false
    }
}

/// Runs a layer and returns its row, or the reason why there is none, with the notes.
fn run(layer: &str, case: Case) -> (Result<Row, String>, Vec<String>) {
    let study = Study {
        workloads: vec![Load::parse(case.workload).expect("a workload")],
        drives: vec![Stack::find(case.drive).unwrap_or_else(|why| panic!("{why}"))],
        layers: vec![LayerSpec::parse(layer).unwrap_or_else(|why| panic!("{why}"))],
        warm: vec![case.warm.parse::<Warm>().expect("a state")],
        export: Export::Share(case.export),
        cache: None,
        pace: Pace::Closed(16),
        most_spans: 2,
        compact: false,
        seed: 1,
        threads: 1,
        memory: 4 << 30,
    };
    let notes = Notes::default();
    let rows = compare(&study, &notes).and_then(Outcome::whole);
    let row = rows.map(|mut rows| rows.remove(0)).map_err(|why| why.to_string());
    (row, notes.0.into_inner().expect("no panic"))
}

/// Figures that a parameter may change.
fn figures(row: &Row) -> (String, u64, u64) {
    (row.digest.clone(), row.map_bytes, row.meta_bytes)
}

/// Returns the parameter with its value as the user states it.
fn stated((layer, key, _, _): Cases, value: &str) -> String {
    format!("{layer}:{key}={value}")
}

#[test]
fn every_parameter_changes_a_figure_or_has_a_note() {
    let mut wrong = Vec::new();
    let mut effective = Vec::new();
    for &cases in ALL {
        let (layer, key, values, studies) = cases;
        for &case in studies {
            let (plain, _) = run(layer, case);
            let plain = plain.unwrap_or_else(|why| panic!("{layer} on {}: {why}", case.drive));
            for value in values {
                let text = stated(cases, value);
                let (row, notes) = run(&text, case);
                let noted = notes.iter().any(|note| note.contains(&format!(": {key}=")));
                // A refusal is not silent.
                let Ok(row) = row else { continue };
                let changes = figures(&row) != figures(&plain);
                println!("{text} on {}: changes {changes}, notes {notes:?}", case.drive);
                if changes {
                    effective.push((layer.split(':').next().expect("a name"), key));
                } else if !noted && !AS_OMITTED.contains(&&text[..]) {
                    wrong.push(format!("{text} on {} has no effect and no note", case.drive));
                }
                if changes
                    && notes.iter().any(|it| it.contains(&format!("{key}={value}: no effect")))
                {
                    wrong.push(format!("{text} on {} has an effect: {notes:?}", case.drive));
                }
            }
        }
    }
    let parameters = LayerKind::ALL.iter().map(|kind| kind.registration());
    let parameters = parameters.flat_map(|it| it.parameters.iter().map(|one| (it.name, one.key)));
    for parameter in parameters.chain([(ARRAY.name, ARRAY.parameter.0)]) {
        if effective.contains(&parameter) == VOLUMES_ONLY.contains(&parameter) {
            wrong.push(format!("{parameter:?} has no case in which it changes a figure"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
