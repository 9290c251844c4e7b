//! A log volume whose flushes go to a journal of its own.

use std::process::Command;

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::{CreateSpec, StartOptions, Status, check, create, import, open};

use crate::common::{Client, MIB, Place};

fn spec(place: &Place) -> CreateSpec {
    let mut layer = LayerConfig::new(LayerKind::Log);
    layer.log.journal = true;
    let devices = vec![place.name("d0"), place.name("journal")];
    // Longer than the file that is made for the journal.
    CreateSpec { devices, layer, size: Some(96 * MIB), ..place.spec(LayerKind::Log) }
}

fn step(status: &Status, name: &str) -> u64 {
    let steps = &status.traffic.as_ref().expect("it is served").waf_stack;
    steps.iter().find(|step| step.step == name).and_then(|step| step.bytes).expect("a step")
}

/// What a process that is killed leaves behind: copies of the devices while the volume is served.
fn killed(place: &Place, names: &[&str]) {
    for name in names {
        let to = place.path(&format!("{name}.killed"));
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(place.path(name)).arg(to);
        assert!(copy.status().unwrap().success());
    }
}

fn bring(place: &Place, names: &[&str]) {
    for name in names {
        let from = place.path(&format!("{name}.killed"));
        std::fs::rename(from, place.path(name)).unwrap();
    }
}

#[test]
fn what_was_flushed_is_there_after_a_kill() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    let path = place.path("v.toml");
    assert_eq!(std::fs::metadata(place.path("journal")).unwrap().len(), 64 * MIB);
    let content = |round: u64, at: u64| vec![(round * 31 + at) as u8 | 1; 8192];
    for round in 0..3 {
        let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
        let client = Client::new(port);
        for at in 0..40 {
            if round > 0 {
                assert_eq!(client.read(at * 65_536, 8192), content(round - 1, at));
            }
            client.write(at * 65_536, &content(round, at), at % 2 == 0).unwrap();
            client.flush();
        }
        killed(&place, &["d0", "journal"]);
        let status = running.stop().unwrap();
        assert_eq!(
            step(&status, "journal"),
            4096 + 40 * 8192,
            "the first record, and one for each write; both blocks are packed"
        );
        assert_eq!(status.devices[1].role, "journal");
        bring(&place, &["d0", "journal"]);
    }
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    (0..40).for_each(|at| assert_eq!(client.read(at * 65_536, 8192), content(2, at)));
    running.stop().unwrap();
    assert_eq!(check(&path).unwrap().problems, Vec::<String>::new());
}

#[test]
fn without_its_journal_it_opens_after_a_clean_stop_only() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    let path = place.path("v.toml");
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    client.write(0, &[7; 4096], true).unwrap();
    killed(&place, &["d0", "journal"]);
    running.stop().unwrap();
    std::fs::rename(place.path("journal"), place.path("away")).unwrap();
    let volume = open(&path).unwrap();
    let (running, port) = volume.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    assert_eq!(client.read(0, 4096), [7; 4096]);
    client.write(4096, &[8; 4096], true).unwrap();
    let status = running.stop().unwrap();
    let said = status.notes.iter().any(|note| note.contains("without its journal"));
    assert!(status.degraded && said);
    std::fs::rename(place.path("away"), place.path("journal")).unwrap();
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(Client::new(port).read(0, 8192), [[7; 4096], [8; 4096]].concat(), "it is welcome");
    assert!(!running.stop().unwrap().degraded);
    // As it was when it was killed.
    bring(&place, &["d0"]);
    std::fs::remove_file(place.path("journal")).unwrap();
    let why = open(&path).unwrap().start(&StartOptions::default()).unwrap_err().to_string();
    assert!(why.contains("the journal's device is not here"), "{why}");
    // A copy of what is not there can't be made, so no command is named.
    let hand = hostftl_volume::status(&path).unwrap().needs_hand.swap_remove(0);
    assert!(hand.contains(&place.name("journal")) && hand.contains("bring it back"), "{hand}");
    assert!(!hand.contains("replace"), "{hand}");
    bring(&place, &["journal"]);
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(Client::new(port).read(0, 4096), [7; 4096]);
    running.stop().unwrap();
}

#[test]
fn the_journal_is_recognised_in_any_order() {
    let place = Place::new();
    let made = create(&spec(&place)).unwrap();
    assert!(made.config.layer.contains(":journal=yes"));
    let path = place.path("v.toml");
    std::fs::remove_file(&path).unwrap();
    let found = import(&[place.name("journal"), place.name("d0")], &path).unwrap().config;
    assert_eq!(found, made.config);
    drop(open(&path).unwrap());
    let rows = std::slice::from_ref(&made.config.devices[0]);
    let other = place.path("w.toml");
    assert_eq!(import(rows, &other).unwrap().config.devices[1], "missing");
    let journal = &made.config.devices[1..];
    assert!(import(journal, &place.path("x.toml")).is_err(), "nothing is without its rows");
}
