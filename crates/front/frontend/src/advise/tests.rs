//! Advice on studies with failed rows.

use hostftl_core::HostError;
use hostftl_layers::LayerKind;
use hostftl_sim::{Hole, Pace, StudyError, Unobserved, Violation, Why, compare, compare_all};
use hostftl_trace::Source;

use super::*;
use crate::state;
use crate::wrong::WrongKind;

/// Returns a request that is processed quickly.
fn request(layers: Option<&[&str]>) -> Request {
    let layer = |name: &&str| LayerSpec::parse(name).expect("a layer");
    Request {
        trace: "synth:uniform:size=4k,span=16m,count=2000,iops=500".into(),
        drive: "hatl-1g:capacity=64m".into(),
        fill: fill("70%").expect("a share"),
        export: Export::Share(625),
        limits: Limits::default(),
        hot: None,
        scale_to: None,
        load: HostLoad::default(),
        layers: layers.map(|names| names.iter().map(layer).collect()),
        seeds: 2,
        seed: 1,
        quick: false,
        cache: None,
        threads: Some(1),
        memory: Some(1 << 30),
    }
}

/// Returns the hole of a failed row.
fn hole(row: &Row, seed: u64, why: StudyError) -> Hole {
    Hole {
        index: 0,
        after: 0,
        workload: row.workload.clone(),
        drive: row.drive.clone(),
        warm: state(row).to_owned(),
        layer: row.layer.clone(),
        seed,
        parameters: Vec::new(),
        command: String::new(),
        why: Why::Failed(why),
    }
}

fn violation(row: &Row) -> StudyError {
    let violation = Violation::Request { lba: 7, error: HostError::NoSpace };
    StudyError::Violation { layer: row.layer.clone(), drive: row.drive.clone(), violation }
}

/// Runs a study in which the rows selected by `fails` fail.
fn with_failures(studies: &[Study], fails: impl Fn(&Row) -> bool) -> Result<Vec<Outcome>, Wrong> {
    let mut outcomes = compare_all(studies, &Unobserved)?;
    for (outcome, study) in outcomes.iter_mut().zip(studies) {
        let failed = outcome.rows.extract_if(.., |row| fails(row)).collect::<Vec<_>>();
        let holes = failed.iter().map(|row| hole(row, study.seed, violation(row)));
        outcome.holes.extend(holes);
    }
    Ok(outcomes)
}

#[test]
fn life_depends_on_the_load_and_not_on_the_slice() {
    let years = |capacity: &str, load: &str, trace: &str| {
        let trace = trace.to_owned();
        let scale_to = Some(crate::units::parse_capacity(capacity).expect("a capacity"));
        let load = load.parse().expect("a load");
        let request = Request { trace, scale_to, load, ..request(Some(&["hard"])) };
        let answer =
            all(&request, &|| false, &mut |studies, _| Ok(compare_all(studies, &Unobserved)?));
        answer.map(|answer| {
            answer.offer("passthrough").expect("none is asked").years.expect("it wears")
        })
    };
    let (no_clock, clock) = ("synth:uniform:size=4k,span=16m,count=2000", &request(None).trace);
    let refused = years("1TB", "2x", no_clock).expect_err("it has no clock");
    assert_eq!(refused.kind, WrongKind::Usage);
    assert!(refused.text.contains("--load"), "{refused}");
    let near = |one: f64, other: f64| assert!((one / other - 1.0).abs() < 1e-6, "{one} {other}");
    let one = years("1TB", "1TB/day", no_clock).expect("it needs no clock");
    near(years("10TB", "1TB/day", no_clock).expect("an answer"), 10.0 * one);
    near(years("10TB", "1dwpd", no_clock).expect("an answer"), one);
    // 500 requests of 4 KiB per second.
    let own = years("1TB", "1x", clock).expect("an answer");
    near(years("1TB", "2x", clock).expect("an answer"), own / 2.0);
    assert!((own * 500.0 * 4096.0 * 86_400.0 / (one * 1e12) - 1.0).abs() < 1e-2, "{own} {one}");
}

/// Life is cycles × physical capacity / (write amplification × load). Sequential writes of whole
/// map units have a write amplification of 1, so each case can be computed by hand: a `qlc-64k` has
/// 1000 cycles and 7 % over-provisioning, a `tlc` 3000 and 7 %.
#[test]
fn life_is_the_closed_form() {
    let cases = [
        ("qlc-64k", "30.72TB", "1dwpd", 2.944),
        ("qlc-64k", "30.72TB", "0.3dwpd", 9.813),
        ("qlc-64k", "61.44TB", "0.3dwpd", 9.813),
        ("qlc-64k", "30.72TB", "12TB/day", 7.536),
        ("qlc-64k", "61.44TB", "12TB/day", 15.073),
        ("qlc-64k", "61.44TB", "200MB/s", 10.467),
        ("tlc", "7.68TB", "1dwpd", 8.832),
        ("tlc", "7.68TB", "5TB/day", 13.566),
        ("tlc", "3.84TB", "5TB/day", 6.783),
        ("tlc", "7.68TB", "100MB/s", 7.851),
    ];
    for (drive, capacity, load, expected) in cases {
        let request = Request {
            trace: "synth:sequential:size=64k,span=48m,count=4000".into(),
            drive: drive.to_owned(),
            fill: fill("99%").expect("a share"),
            scale_to: Some(crate::units::parse_capacity(capacity).expect("a capacity")),
            load: load.parse().expect("a load"),
            seeds: 1,
            ..request(Some(&[]))
        };
        let answer =
            all(&request, &|| false, &mut |studies, _| Ok(compare_all(studies, &Unobserved)?));
        let answer = answer.expect("an answer");
        let years = answer.offer("passthrough").expect("none is asked").years.expect("it wears");
        assert!((years / expected - 1.0).abs() < 0.02, "{drive} {capacity} {load}: {years}");
    }
}

#[test]
fn a_failed_layer_is_reported_and_the_others_compared() {
    let request = request(Some(&["hard", "hatl-auto"]));
    let answer = all(&request, &|| false, &mut |studies, _| {
        with_failures(studies, |row| row.layer == "hard")
    });
    let answer = answer.expect("there is an answer");
    assert!(answer.verdict.is_some() && answer.offer("hatl-auto").is_some());
    let told = answer.offers.iter().find(|told| told.name == "hard").expect("it is reported");
    assert!(told.offer.is_none() && told.failed.as_ref().is_some_and(|it| it.contains("NoSpace")));
    assert!(answer.failures.iter().any(|it| it.layer == "hard" && it.seed == 1));
    assert_eq!(answer.wrong.map(|it| it.kind), Some(WrongKind::Violation));
}

#[test]
fn a_failed_check_keeps_the_verdict() {
    let request = request(Some(&["hard"]));
    let is_new = |row: &Row| row.layer == "hard" && row.warm == "new";
    let answer = all(&request, &|| false, &mut |studies, _| with_failures(studies, is_new));
    let answer = answer.expect("there is an answer");
    assert!(answer.verdict.is_some() && answer.offer("hard").is_some());
    let failed = answer.failures.iter().map(|it| (it.layer.as_str(), it.state.as_str()));
    assert_eq!(failed.collect::<Vec<_>>(), [("hard", "new")]);
}

#[test]
fn variants_are_tried_if_the_default_does_not_fit() {
    let study = plan::study(&request(Some(&["log"])), Path::new(""), &|| false);
    let (study, ..) = study.expect("a study");
    let mut outcome = compare(&study, &Unobserved).expect("rows or holes");
    let log = |outcome: &Outcome| {
        let variants = variants::after(outcome, 1 << 40);
        variants.iter().any(|it| it.kind() == Some(LayerKind::Log))
    };
    let row = outcome.rows[0].clone();
    outcome.rows.truncate(1);
    let row = Row { layer: "log".into(), ..row };
    let why = StudyError::Plan { layer: "log".into(), drive: "d".into(), why: "no room".into() };
    outcome.holes = vec![hole(&row, 1, why)];
    assert!(log(&outcome), "another superpage or spare may fit");
    outcome.holes = vec![hole(&row, 1, violation(&row))];
    assert!(!log(&outcome));
}

#[test]
fn a_quick_answer_counts_and_states_its_range() {
    let request = Request { quick: true, ..request(Some(&["hard", "hatl-auto"])) };
    let rounds: Vec<Round> = request.rounds().into_iter().map(|(round, _)| round).collect();
    assert_eq!(rounds, [Round::Layers, Round::Finalists]);
    let mut asked = Vec::new();
    let answer = all(&request, &|| false, &mut |studies, round| {
        asked.push(round);
        assert!(studies.iter().all(|study| study.pace == Pace::Counted));
        Ok(compare_all(studies, &Unobserved)?)
    });
    let answer = answer.expect("an answer");
    assert_eq!(asked, rounds);
    assert!(answer.verdict.is_some() && answer.ahead().is_some());
    assert!(answer.offers.iter().all(|told| told.offer.as_ref().is_some_and(|offer| {
        offer.is_screened && offer.requests_per_s.is_none() && offer.p99_ns.is_none()
    })));
    assert!(answer.cautions.iter().any(|text| text.starts_with("--quick")));
}

#[test]
fn the_head_of_a_trace_has_its_first_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("all.csv");
    let lines: String = (0..9).map(|at| format!("{at},W,{},4096\n", at * 4096)).collect();
    std::fs::write(&path, format!("t_us,op,byte_off,byte_len\n{lines}")).expect("a trace");
    let whole: Source = format!("{}:compress=2", path.display()).parse().expect("a source");
    let head = quick::head(whole.clone(), 1, folder.path()).expect("a head");
    let records = |source: &Source| {
        let stream = source.open(1, false).expect("it opens");
        stream.collect::<Result<Vec<_>, _>>().expect("records")
    };
    assert_eq!(records(&head), records(&whole));
    // Ageing writes data of this compressibility.
    assert_eq!(head.compressibility(), whole.compressibility());
    let synth: Source = "synth:uniform:size=4k,span=1m,count=400000".parse().expect("a source");
    let head = quick::head(synth, 1, folder.path()).expect("a head");
    assert_eq!(records(&head).len() as u64, quick::HEAD);
}

#[test]
fn conditions_have_the_wear_of_each_layer() {
    let request = request(Some(&["hard"]));
    let answer = all(&request, &|| false, &mut |studies, _| Ok(compare_all(studies, &Unobserved)?));
    let answer = answer.expect("an answer");
    let all = answer.conditions();
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["self=70%", "new", "3/4 of the export"]);
    let waf = answer.offer("hard").expect("it was examined").waf;
    assert_eq!(all[0].waf("hard"), Some(waf));
    assert!(all.iter().all(|it| it.waf("passthrough").is_some() && it.waf("log").is_none()));
    assert!(!answer.rows.is_empty());
}

/// The answer has the wear with and without placement ids if both sides have them.
#[test]
fn placement_ids_are_compared_with_a_drive_that_ignores_them() {
    let trace = "synth:sequential:size=64k,span=24m,count=3000,iops=100,placement=1\
                 +uniform:size=4k,span=24m,count=30k,iops=1000,placement=2";
    let ask = |drive: &str, trace: &str, quick: bool| {
        let (drive, trace) = (drive.to_owned(), trace.to_owned());
        let request = Request { drive, trace, quick, ..request(Some(&["hard", "log"])) };
        let answer =
            all(&request, &|| false, &mut |studies, _| Ok(compare_all(studies, &Unobserved)?));
        answer.expect("an answer")
    };
    let fdp = "tlc:capacity=1g:over_provisioning_percent=20:placements=3:frontiers=isolated";
    for quick in [true, false] {
        let answer = ask(fdp, trace, quick);
        let placement = answer.placement.as_ref().expect("both have ids");
        let copies = [placement.placement, placement.neither].map(|waf| waf - 1.0);
        assert!(copies[1] > 0.02 && copies[0] < 0.2 * copies[1], "{quick}: {placement:?}");
        let none = answer.offer("passthrough").map(|it| it.waf);
        assert_eq!(none, Some(placement.placement));
        assert!(placement.layer.is_some() && placement.both.is_some(), "{placement:?}");
        let column = answer.conditions().into_iter().find(|it| it.name == "no placement ids");
        let column = column.expect("the page has it");
        assert_eq!(column.waf("passthrough"), Some(placement.neither));
        assert!(answer.placement_text().is_some_and(|text| text.contains("placement alone")));
    }
    let plain = ask("tlc:capacity=1g", trace, true);
    assert!(plain.placement.is_none() && plain.cautions.contains(&IGNORED_IDS.to_owned()));
    let without = ask(fdp, "synth:uniform:size=4k,span=24m,count=2000,iops=500", true);
    assert!(without.placement.is_none() && !without.cautions.contains(&IGNORED_IDS.to_owned()));
}
