//! Control socket: a request that was reported as refused is never carried out, and a slow client
//! does not delay others.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::{
    AddSpec, AdminErrorKind, AdminRequest, CreateSpec, Error, StartOptions, add, create, events,
    open, operate, operate_here, set, status,
};

use crate::common::{MIB, Place};
use crate::volume_lock::control_socket;

const SET: &str = r#"{"wish":{"set":{"key":"gc","value":"greedy"}}}"#;

/// Sends a request; returns the first line of the server and the connection.
fn request(socket: &Path, deadline_ns: u64) -> (String, BufReader<UnixStream>) {
    let stream = UnixStream::connect(socket).unwrap();
    let text = format!("{{\"deadline_ns\":{deadline_ns},\"question\":{SET}}}\n");
    (&stream).write_all(text.as_bytes()).unwrap();
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line).unwrap();
    (line, stream)
}

#[test]
fn expired_and_abandoned_requests_are_not_executed() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = control_socket(&running.status().uuid);
    let is_set = || fs::read_to_string(&path).unwrap().contains("greedy");

    let (line, gives_up) = request(&socket, u64::MAX);
    assert_eq!(line, "ready\n");
    drop(gives_up);
    let (line, mut late) = request(&socket, 0);
    assert_eq!(line, "ready\n");
    late.get_mut().write_all(b"go\n").unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("too late; nothing was changed"), "{answer}");
    assert!(answer.contains(r#"{"kind":"refused","text":"#), "{answer}");
    assert!(!is_set());

    let (_, mut waits) = request(&socket, u64::MAX);
    waits.get_mut().write_all(b"go\n").unwrap();
    answer.clear();
    waits.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Ok") && is_set(), "{answer}");
    running.stop().unwrap();
}

#[test]
fn slow_clients_do_not_block_others() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = control_socket(&running.status().uuid);
    // More clients than the server keeps; each has sent part of a message.
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let stream = UnixStream::connect(&socket).unwrap();
            // The oldest is disconnected as soon as there are too many.
            (&stream).write_all(b" ").ok();
            stream
        })
        .collect();
    assert_eq!(status(&path).unwrap().served_by, Some(std::process::id()));
    assert!(events(&path).unwrap().served);
    drop(slow);
    running.stop().unwrap();
}

#[test]
fn an_unresponsive_server_is_named_and_the_command_fails() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = control_socket(&running.status().uuid);
    // A server that is stopped: connections enter its queue and are never accepted.
    fs::remove_file(&socket).unwrap();
    let still = UnixListener::bind(&socket).unwrap();
    let request = AdminRequest::Set { key: "gc".into(), value: "greedy".into() };
    let why = operate(&path, &request).unwrap_err().to_string();
    assert!(why.contains("process ") && why.contains("does not answer"), "{why}");
    assert!(why.contains("nothing was changed"), "{why}");
    let (mut stream, mut text) = (still.accept().unwrap().0, String::new());
    stream.read_to_string(&mut text).unwrap();
    assert!(!text.contains("go\n"), "{text}");
    fs::remove_file(&socket).unwrap();
    running.stop().unwrap();
}

#[test]
fn served_and_local_commands_return_the_same_error_kinds() {
    let place = Place::new();
    let mut layer = LayerConfig::new(LayerKind::Log);
    layer.log.journal = true;
    let devices = vec![place.name("d0"), place.name("journal")];
    let size = Some(96 * MIB);
    create(&CreateSpec { devices, layer, size, ..place.spec(LayerKind::Log) }).unwrap();
    let path = place.path("v.toml");
    fs::rename(place.path("journal"), place.path("away")).unwrap();
    let spec = AddSpec {
        path: path.clone(),
        new: vec![place.name("new")],
        force: false,
        spare: false,
        rehearse: true,
    };
    let request =
        |key: &str, value: &str| AdminRequest::Set { key: key.into(), value: value.into() };
    let nobody = AdminRequest::Offline("9".into());
    // This process carries the requests out.
    let here = [
        set(&path, "superpage", "64k").unwrap_err(),
        operate_here(&path, &nobody).unwrap_err(),
        add(&spec).unwrap_err(),
    ];
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let served = [
        operate(&path, &request("superpage", "64k")).unwrap_err(),
        operate(&path, &nobody).unwrap_err(),
        add(&spec).unwrap_err(),
    ];
    running.stop().unwrap();
    let kinds = [AdminErrorKind::Usage, AdminErrorKind::Refused, AdminErrorKind::NeedsHand];
    for ((here, served), kind) in here.iter().zip(&served).zip(kinds) {
        assert_eq!((here.kind(), served.kind()), (kind, kind), "{here}; {served}");
        let named = format!("{}: ", path.display());
        assert!(served.to_string().starts_with(&named), "{served}");
    }
    assert!(served[0].to_string().contains("cannot change superpage after creation"));
    assert!(matches!(&served[1], Error::Refused { .. }), "{}", served[1]);
    assert!(served[2].to_string().contains("while the journal is missing"), "{}", served[2]);
}

#[test]
fn the_outcome_is_unknown_when_the_server_ends_after_it_took_a_request() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = control_socket(&running.status().uuid);
    fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let error = std::thread::scope(|scope| {
        let client = scope.spawn(|| operate(&path, &AdminRequest::Scrub).unwrap_err());
        let mut line = String::new();
        // The client queries the status first, to identify the volume.
        let mut status = BufReader::new(listener.accept().unwrap().0);
        status.read_line(&mut line).unwrap();
        let report = serde_json::json!({ "status": running.status(), "events": [] });
        status.get_mut().write_all(report.to_string().as_bytes()).unwrap();
        drop(status);
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        stream.read_line(&mut line).unwrap();
        stream.get_mut().write_all(b"ready\n").unwrap();
        stream.read_line(&mut line).unwrap();
        assert!(line.ends_with("go\n"), "{line}");
        drop(stream);
        client.join().unwrap()
    });
    assert_eq!(error.kind(), AdminErrorKind::Unknown, "{error}");
    fs::remove_file(&socket).unwrap();
    running.stop().unwrap();
}
