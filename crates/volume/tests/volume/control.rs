//! The control socket: a request that was reported as not done is never done, and a slow client
//! holds up no other.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use hostftl_volume::{StartOptions, Wish, events, open, operate, status};

use crate::common::Place;
use crate::sole::socket_of;

const SET: &str = r#"{"wish":{"set":{"key":"gc","value":"greedy"}}}"#;

/// Sends a request; what the server said of it first, and the connection.
fn request(socket: &Path, deadline_ns: u64) -> (String, BufReader<UnixStream>) {
    let stream = UnixStream::connect(socket).unwrap();
    let text = format!("{{\"deadline_ns\":{deadline_ns},\"question\":{SET}}}\n");
    (&stream).write_all(text.as_bytes()).unwrap();
    let (mut stream, mut said) = (BufReader::new(stream), String::new());
    stream.read_line(&mut said).unwrap();
    (said, stream)
}

#[test]
fn a_request_is_carried_out_only_before_its_deadline_and_for_a_client_that_waits() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = socket_of(&running.status().uuid);
    let is_set = || fs::read_to_string(&path).unwrap().contains("greedy");

    let (said, gives_up) = request(&socket, u64::MAX);
    assert_eq!(said, "ready\n");
    drop(gives_up);
    let (said, mut late) = request(&socket, 0);
    assert_eq!(said, "ready\n");
    late.get_mut().write_all(b"go\n").unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("too late, and nothing was changed"), "{answer}");
    assert!(!is_set());

    let (_, mut waits) = request(&socket, u64::MAX);
    waits.get_mut().write_all(b"go\n").unwrap();
    answer.clear();
    waits.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Ok") && is_set(), "{answer}");
    running.stop().unwrap();
}

#[test]
fn clients_that_are_slow_hold_up_no_other() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = socket_of(&running.status().uuid);
    // More than the server keeps; each has said a part of something.
    let slow: Vec<_> = (0..100)
        .map(|_| {
            let stream = UnixStream::connect(&socket).unwrap();
            // The oldest is turned out as soon as there are too many.
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
fn a_server_that_does_not_answer_is_named_and_gets_no_go() {
    let place = Place::with_volume("log", 1, 64);
    let path = place.path("v.toml");
    let (running, _) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let socket = socket_of(&running.status().uuid);
    // A server that stands still: connections come into its queue, and nothing else happens.
    fs::remove_file(&socket).unwrap();
    let still = UnixListener::bind(&socket).unwrap();
    let wish = Wish::Set { key: "gc".into(), value: "greedy".into() };
    let why = operate(&path, &wish).unwrap_err().to_string();
    assert!(why.contains("process ") && why.contains("does not answer"), "{why}");
    assert!(why.contains("nothing was changed"), "{why}");
    let (mut stream, mut text) = (still.accept().unwrap().0, String::new());
    stream.read_to_string(&mut text).unwrap();
    assert!(!text.contains("go\n"), "{text}");
    fs::remove_file(&socket).unwrap();
    running.stop().unwrap();
}
