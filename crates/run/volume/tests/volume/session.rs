//! Export names of a volume after its server died, and the effect of a panic in the driver.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::common::{Client, Place, layers};
use hostftl_layers::LayerKind;
use hostftl_volume::front::{Answer, Answers, Export, Job, JobOp};
use hostftl_volume::{Acks, Reach, Service, StartOptions, Status, create, open, status};

const LOCAL: Service = Service { reach: Reach::Machine, reuse_export_name: false };
const GO_ON: Service = Service { reach: Reach::Machine, reuse_export_name: true };

fn options(service: Service) -> StartOptions {
    StartOptions { service: Some(service), ..StartOptions::default() }
}

/// Serves `v.toml` once, and stops it cleanly; returns the export and the last status.
fn serve(place: &Place, service: Service) -> (Export, Status) {
    let (running, port) = open(&place.path("v.toml")).unwrap().start(&options(service)).unwrap();
    ((*port.export()).clone(), running.stop().unwrap())
}

/// Writes without a flush, and leaves the device as after a `kill -9` then.
fn die(place: &Place, options: &StartOptions) {
    let (running, port) = open(&place.path("v.toml")).unwrap().start(options).unwrap();
    Client::new(port).write(0, &[7; 4096], false).unwrap();
    fs::copy(place.path("d0"), place.path("then")).unwrap();
    running.stop().unwrap();
    fs::rename(place.path("then"), place.path("d0")).unwrap();
}

#[test]
fn an_unclean_shutdown_refuses_the_export_name_until_consent() {
    layers().for_each(|layer| {
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        if layer.takes_zones() {
            return; // Other tests copy the file of a zoned device.
        }
        let (export, last) = serve(&place, LOCAL);
        assert_eq!((export.name.as_str(), export.held), ("v", None), "{layer}");
        assert!(!last.unclean_shutdown && last.export == "v");
        die(&place, &options(LOCAL));
        let seen = status(&place.path("v.toml")).unwrap();
        assert!(seen.unclean_shutdown && seen.notes.iter().any(|note| note.contains("uncleanly")));
        let (export, last) = serve(&place, LOCAL);
        assert_eq!(export.name, "v@2", "{layer}");
        assert_eq!(export.held.unwrap().0, "v");
        assert!(last.unclean_shutdown && last.export == "v@2");
        assert!(
            last.notes.iter().any(|note| note.contains("--reuse-export-name")),
            "{:?}",
            last.notes
        );
        assert!(
            !status(&place.path("v.toml")).unwrap().unclean_shutdown,
            "it was stopped clean since"
        );
        assert_eq!(serve(&place, LOCAL).0.name, "v@2", "the name is not reused by default");
        let (export, _) = serve(&place, GO_ON);
        assert_eq!((export.name.as_str(), export.also.as_deref()), ("v", Some("v@2")));
        assert_eq!(serve(&place, LOCAL).0.name, "v", "the name stays after it was reused once");
    });
}

#[test]
fn durably_acknowledged_writes_survive_and_keep_the_name() {
    layers().filter(|layer| !layer.takes_zones()).for_each(|layer| {
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        die(&place, &StartOptions { acks: Acks::Media, ..options(LOCAL) });
        let (running, port) = open(&place.path("v.toml")).unwrap().start(&options(LOCAL)).unwrap();
        assert_eq!((port.export().name.as_str(), &port.export().held), ("v", &None), "{layer}");
        assert_eq!(Client::new(port).read(0, 4096), vec![7; 4096], "{layer}");
        assert!(running.status().notes.iter().any(|note| note.contains("no data is lost")));
        running.stop().unwrap();
    });
}

#[test]
fn a_start_without_clients_keeps_the_session_mark() {
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    die(&place, &options(LOCAL));
    let (running, _) =
        open(&place.path("v.toml")).unwrap().start(&StartOptions::default()).unwrap();
    running.stop().unwrap();
    assert_eq!(serve(&place, LOCAL).0.name, "v@2");
}

/// Panics on an answer, while its thread holds the driver.
struct Bomb;

impl Answers for Bomb {
    fn take(&self, _: Answer) {
        panic!("a panic that this test makes");
    }
}

#[test]
fn a_panic_in_the_driver_is_reported_by_any_thread() {
    for helps in [false, true] {
        let place = Place::new();
        create(&place.spec(LayerKind::Passthrough)).unwrap();
        let path: PathBuf = place.path("v.toml");
        let (running, port) = open(&path).unwrap().start(&options(LOCAL)).unwrap();
        assert!(!running.has_panicked());
        let job = Job { op: JobOp::Flush, offset: 0, bytes: 0, cookie: 1, reply: Arc::new(Bomb) };
        let over = Arc::new(AtomicBool::new(false));
        let says = over.clone();
        // A client's own thread executes the job, or the driver's thread.
        let thread = std::thread::spawn(move || {
            if helps {
                let mut submitter = port.submitter();
                submitter.push(job);
                while !says.load(SeqCst) {
                    submitter.leave();
                }
            } else {
                port.submit(job)
            }
        });
        let begun = Instant::now();
        while !running.has_panicked() {
            assert!(begun.elapsed() < Duration::from_secs(300), "the panic is not noticed");
            std::thread::sleep(Duration::from_millis(5));
        }
        over.store(true, SeqCst);
        drop(thread.join());
        // A process that continued would keep the devices; this one ends with the tests.
        std::mem::forget(running);
    }
}
