//! Operator commands to a volume, served and not served.

use std::time::{Duration, Instant};

use hostftl_core::HostError;
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    AdminRequest, CreateSpec, Error, RecordOptions, Running, StartOptions, create, open, operate,
    operate_here, replay, set,
};

use crate::common::{Client, MIB, Place, noise};

#[test]
fn a_refusal_by_the_layer_of_a_served_volume_is_returned() {
    let place = Place::new();
    create(&place.spec(LayerKind::Passthrough)).unwrap();
    let path = place.path("v.toml");
    assert!(matches!(operate(&path, &AdminRequest::Scrub), Ok(None)), "the volume is not served");
    let recording = place.path("recording");
    let record = Some(RecordOptions::unlimited(&recording));
    let options = StartOptions { record, ..StartOptions::default() };
    let (running, port) = open(&path).unwrap().start(&options).unwrap();
    let client = Client::new(port);
    client.write(0, &[7; 4096], false).unwrap();
    let why = |request: &AdminRequest| match operate(&path, request) {
        Err(Error::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&AdminRequest::Scrub), "layer passthrough does not support this");
    assert_eq!(why(&AdminRequest::Offline("0".into())), "layer passthrough does not support this");
    let text = why(&AdminRequest::Remove("nobody".into()));
    assert!(
        text.contains("nobody is not a device of the volume; its devices are device 0 ("),
        "{text}"
    );
    assert_eq!(client.read(0, 4096), [7; 4096]);
    running.stop().unwrap();
    let replayed = replay(&recording).unwrap();
    assert!(replayed.is_same(), "a recording has what was wanted: {replayed:?}");
}

#[test]
fn a_command_opens_and_closes_an_unserved_volume() {
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    let path = place.path("v.toml");
    for _ in 0..2 {
        let refused =
            operate_here(&path, &AdminRequest::Scrub).err().map(|error| error.to_string());
        let expected = format!("{}: layer hard does not support this", path.display());
        assert_eq!(refused, Some(expected));
    }
}

/// Creates a volume over three files with parity, and the parameters `more`.
fn array(place: &Place, more: &str) {
    let layer = LayerConfig::parse(&format!("log:parity=yes{more}")).unwrap();
    let devices = (0..3).map(|index| place.name(&format!("d{index}"))).collect();
    let spec = CreateSpec { layer, devices, ..place.spec(LayerKind::Log) };
    create(&spec).unwrap();
}

/// Waits until no background work remains.
fn wait(running: &Running) {
    let begun = Instant::now();
    while !running.status().tasks.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", running.status().tasks);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_scrub_finds_corruption_and_resumes_after_a_restart() {
    let place = Place::new();
    array(&place, "");
    let path = place.path("v.toml");
    let start = || open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let (running, port) = start();
    let client = Client::new(port);
    (0..300).for_each(|at| client.write(at * 65536, &noise(at, 1 << 16), false).unwrap());
    running.stop().unwrap();
    let mut bytes = std::fs::read(place.path("d1")).unwrap();
    (8 << 20..12 << 20).step_by(300_000).for_each(|at: usize| bytes[at] ^= 1);
    std::fs::write(place.path("d1"), &bytes).unwrap();
    let (running, port) = start();
    let client = Client::new(port);
    assert!(operate(&path, &AdminRequest::Scrub).unwrap().unwrap().is_new);
    assert!(operate(&path, &AdminRequest::PauseScrub).unwrap().unwrap().is_new);
    let task = running.status().tasks.pop().expect("it rests");
    assert!(task.paused && task.task == "scrub" && task.remaining_bytes > 0, "{task:?}");
    running.stop().unwrap();
    drop(client);
    let (running, _port) = start();
    let task = running.status().tasks.pop().expect("it rests still");
    assert!(task.paused, "{task:?}");
    assert!(operate(&path, &AdminRequest::ResumeScrub).unwrap().unwrap().is_new);
    wait(&running);
    assert_eq!(running.events().total("scrub-complete"), 1);
    assert!(running.events().total("repaired") > 3, "{:?}", running.status().events);
    running.stop().unwrap();
    // Everything is repaired, so the next scrub finds nothing. It may have started by itself,
    // because device 1 failed repeatedly and the resumed scrub did not verify all data.
    let (running, _) = operate_here(&path, &AdminRequest::Scrub).unwrap();
    wait(&running);
    assert!(running.status().space.unwrap().damaged_devices.is_empty());
    assert_eq!(running.events().total("repaired"), 0);
    running.stop().unwrap();
}

#[test]
fn a_scrub_is_begun_when_it_is_due() {
    let place = Place::new();
    array(&place, "");
    let every = |seconds| StartOptions {
        scrub_every: Some(Duration::from_secs(seconds)),
        ..StartOptions::default()
    };
    for (seconds, scrubs) in [(3600, 1), (3600, 0), (0, 1)] {
        let (running, _port) = open(&place.path("v.toml")).unwrap().start(&every(seconds)).unwrap();
        let begun = Instant::now();
        let is_complete = || running.events().total("scrub-complete") > 0;
        while !is_complete()
            && begun.elapsed() < Duration::from_secs(if scrubs == 1 { 300 } else { 1 })
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(is_complete(), scrubs == 1, "every {seconds} s");
        std::thread::sleep(Duration::from_millis(600));
        running.stop().unwrap();
    }
}

#[test]
fn a_parameter_is_changed_served_or_not_and_kept() {
    let place = Place::new();
    array(&place, "");
    let path = place.path("v.toml");
    assert!(set(&path, "gc", "greedy").unwrap().is_new);
    assert!(!set(&path, "gc", "greedy").unwrap().is_new);
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert!(running.status().parameters.contains("gc=greedy"), "{:?}", running.status());
    assert!(set(&path, "rebuild-share", "55").unwrap().is_new);
    let why = |key: &str, value: &str| set(&path, key, value).unwrap_err().to_string();
    assert!(why("spare", "9").contains("gc, rebuild-share, fault-after can change"));
    assert!(why("gc", "best").contains("use greedy"));
    assert!(why("sapre", "9").contains("no parameter sapre"));
    let client = Client::new(port);
    client.write(0, &noise(1, 1 << 16), true).unwrap();
    running.stop().unwrap();
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert!(running.status().parameters.contains("rebuild-share=55"), "{:?}", running.status());
    assert_eq!(Client::new(port).read(0, 65536), noise(1, 1 << 16));
    running.stop().unwrap();
}

#[test]
fn a_thin_volume_reports_its_fill_level() {
    let place = Place::new();
    array(&place, ":logical-size=512m");
    let path = place.path("v.toml");
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(running.status().exported_bytes, 512 * MIB);
    let client = Client::new(port);
    // Compressible data needs less space than the volume has.
    for at in 0..256 * 16 {
        client.write(at * 65536, &[at as u8 | 1; 65536], false).unwrap();
    }
    let refused = (0..256 * 16).find_map(|at| {
        let error = client.write(256 * MIB + at * 65536, &noise(at, 1 << 16), false).err()?;
        Some((at, error))
    });
    let Some((_, HostError::NoSpace)) = refused else { panic!("{refused:?}") };
    client.flush();
    std::thread::sleep(Duration::from_millis(600));
    let status = running.status();
    let space = status.space.as_ref().unwrap();
    assert!(space.used_percent() >= Some(98), "{space:?}");
    assert!(status.problems.iter().any(|need| need.contains("of the capacity is used")));
    let events = running.events();
    assert!(events.total("space-low") > 0 && events.total("no-space") > 0);
    client.ask(JobOp::Trim { fua: true }, 256 * MIB, 256 * MIB).unwrap();
    client.write(0, &noise(7, 1 << 16), true).unwrap();
    running.stop().unwrap();
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    assert_eq!(
        (client.read(0, 65536), client.read(65536, 4096)),
        (noise(7, 1 << 16), vec![1; 4096])
    );
    running.stop().unwrap();
}

#[test]
fn an_unsaved_scrub_position_is_reported_once() {
    let place = Place::new();
    array(&place, "");
    let path = place.path("v.toml");
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    (0..300).for_each(|at| client.write(at * 65536, &noise(at, 1 << 16), false).unwrap());
    std::fs::create_dir(place.path("v.toml.scrub.new")).unwrap();
    operate(&path, &AdminRequest::Scrub).unwrap();
    operate(&path, &AdminRequest::PauseScrub).unwrap();
    assert_eq!(running.events().total("scrub-not-saved"), 1);
    let needs = running.status().problems;
    assert!(needs.len() == 1 && needs[0].contains("v.toml.scrub: "), "{needs:?}");
    std::fs::remove_dir(place.path("v.toml.scrub.new")).unwrap();
    let begun = Instant::now();
    while !running.status().problems.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it is tried again");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(place.path("v.toml.scrub").exists() && running.events().total("scrub-not-saved") == 1);
    running.stop().unwrap();
}
