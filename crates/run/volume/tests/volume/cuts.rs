//! Changes of the devices that are interrupted after each of their durable writes, or refused
//! because the volume file can't be written.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, exit};

use crate::common::{Client, Place, content, start, until};
use hostftl_volume::{
    AddSpec, AdminRequest, Config, ReplaceSpec, Verdict, add, check, online, operate, operate_here,
    replace,
};

/// Variable with the volume file, the command, whether the volume is served, and the steps before
/// the cut.
const CHILD: &str = "HOSTFTL_TEST_CUT";
const BLOCKS: u64 = 200;

const VERBS: [&str; 7] = ["add", "spare", "replace", "copy", "online", "offline", "remove"];

fn verify(client: &Client, command: &str) {
    for at in 0..BLOCKS {
        assert_eq!(client.read(at * 4096, 4096), content(at), "{command}: block {at}");
    }
}

fn made(command: &str) -> Place {
    let layer = if command == "copy" { "log" } else { "log:parity=yes" };
    let place = Place::with_volume(layer, 4, 24);
    let (running, client) = start(&place.path("v.toml"), false);
    let write = |range: std::ops::Range<u64>| {
        range.for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
        client.flush();
    };
    // In halves, so that a returning device has some of the data and misses the rest.
    write(0..BLOCKS / 2);
    if command == "online" {
        operate(&place.path("v.toml"), &AdminRequest::Offline("1".into())).unwrap().unwrap();
    }
    write(BLOCKS / 2..BLOCKS);
    running.stop().unwrap();
    place
}

fn act(path: &Path, command: &str, is_served: bool) -> Result<(), String> {
    let words = |error: hostftl_volume::Error| error.to_string();
    let new = path.with_file_name("n").to_str().unwrap().to_owned();
    let request = |request: AdminRequest| {
        if is_served {
            operate(path, &request).map(|_| None).map_err(words)
        } else {
            operate_here(path, &request).map(|(running, _)| Some(running)).map_err(words)
        }
    };
    let (path, force, rehearse) = (path.to_owned(), false, false);
    let left = match command {
        "add" | "spare" => {
            let spec = AddSpec { path, new: vec![new], force, spare: command == "spare", rehearse };
            return add(&spec).map(drop).map_err(words);
        }
        "replace" | "copy" => {
            let spec = ReplaceSpec { path, old: "1".into(), new, force, rehearse };
            return replace(&spec, &mut |_, _| {}).map(drop).map_err(words);
        }
        "online" => return online(&path, "1").map(drop).map_err(words),
        "offline" => request(AdminRequest::Offline("1".into()))?,
        "remove" => request(AdminRequest::Remove("1".into()))?,
        other => panic!("no verb {other}"),
    };
    if let Some(running) = left {
        running.stop().map_err(words)?;
    }
    Ok(())
}

#[test]
#[ignore = "the other tests run it, in a process of its own"]
fn child_process_that_is_cut_off() {
    let Ok(text) = env::var(CHILD) else { return };
    let text: Vec<&str> = text.split('|').collect();
    let [path, command, is_served, steps] = text[..] else { panic!("{text:?}") };
    let (path, is_served) = (Path::new(path), is_served == "true");
    let running = is_served.then(|| start(path, false));
    hostftl_io::cuts::after(steps.parse().unwrap());
    act(path, command, is_served).unwrap();
    // A served copy continues in the background; its steps must be cut as well.
    if let (Some((running, _)), "replace") = (&running, command) {
        until(running, |it| it.status().events.contains_key("device-replaced"));
    }
    if let (Some((running, _)), "remove") = (&running, command) {
        until(running, |it| it.status().devices[1].health == "removed");
    }
    // Without a stop, so that the next start has to recover.
    exit(0);
}

/// Interrupts a command after `steps` steps. Returns whether it ended before.
pub(crate) fn cut_off(place: &Place, command: &str, is_served: bool, steps: u64) -> bool {
    let path = place.path("v.toml");
    let text = format!("{}|{command}|{is_served}|{steps}", path.display());
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "cuts::child_process_that_is_cut_off", "--ignored", "--nocapture"]);
    let ended = child.env(CHILD, text).output().unwrap();
    // A cut has no exit code; a panic has one.
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(matches!(ended.status.code(), None | Some(0)), "{command} {steps}: {text}");
    ended.status.code().is_some()
}

fn survives(command: &str, is_served: bool, steps: u64) -> bool {
    let (place, text) = (made(command), format!("{command}, served {is_served}, {steps} steps"));
    let path = place.path("v.toml");
    let is_over = cut_off(&place, command, is_served, steps);
    // Without redundancy no device can be removed afterwards.
    if command == "copy" {
        let (running, client) = start(&path, false);
        verify(&client, &text);
        running.stop().unwrap();
        return is_over;
    }
    let (running, client) = start(&path, false);
    assert_eq!(Config::load(&path).unwrap().pending, [""; 0], "{text}");
    until(&running, |it| {
        it.status()
            .space
            .is_some_and(|space| space.degraded_bytes == 0 && space.failures_tolerated == 1)
    });
    verify(&client, &text);
    running.stop().unwrap();
    // Redundancy is reported as restored; the loss of another device proves it.
    fs::remove_file(place.path("d0")).unwrap();
    let (running, client) = start(&path, true);
    verify(&client, &text);
    running.stop().unwrap();
    is_over
}

/// Interrupts each command after each step, or after every `stride`-th step.
fn all_survive(is_served: bool, stride: u64) {
    for (at, command) in VERBS.into_iter().enumerate() {
        if command == "copy" && is_served {
            continue;
        }
        // Commands start at different steps, so that together they are cut at more kinds of steps.
        let mut steps = 1 + at as u64 % stride;
        while !survives(command, is_served, steps) {
            steps += stride;
        }
        assert!(steps > stride, "{command} has no step");
    }
}

#[test]
fn an_interrupted_command_is_finished_or_undone_by_the_next_start() {
    all_survive(false, 4);
}

#[test]
fn an_interrupted_online_command_is_finished_or_undone_by_the_next_start() {
    all_survive(true, 4);
}

#[test]
#[ignore = "takes minutes: `make live`"]
fn commands_interrupted_after_any_step_are_finished_or_undone() {
    all_survive(false, 1);
    all_survive(true, 1);
}

#[test]
fn an_unwritable_volume_file_prevents_any_change() {
    let cases = VERBS[..5].iter().flat_map(|command| [(*command, false), (*command, true)]);
    let cases = cases.filter(|it| *it != ("copy", true));
    for (command, is_served) in cases {
        let place = made(command);
        let path = place.path("v.toml");
        let before = fs::read(&path).unwrap();
        let running = is_served.then(|| start(&path, false));
        // The draft of the volume file has this name.
        let draft = place.path(&format!("v.toml.{}.new", std::process::id()));
        fs::create_dir(&draft).unwrap();
        let text = act(&path, command, is_served).unwrap_err();
        assert!(text.contains("v.toml: can") && text.contains("write the volume file"), "{text}");
        assert!(!place.path("n").exists(), "{command}: the new file is removed");
        fs::remove_dir(&draft).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before, "{command}");
        if let Some((running, client)) = running {
            let now = running.status();
            let good = now.devices.iter().filter(|it| it.health == "online").count();
            assert_eq!(good, if command == "online" { 3 } else { 4 }, "{command}: {now:?}");
            verify(&client, command);
            running.stop().unwrap();
        }
        let expected = if command == "online" { Verdict::Degraded } else { Verdict::Sound };
        assert_eq!(check(&path).unwrap().verdict, expected, "{command}");
        // The refusal left nothing behind that prevents the command now.
        act(&path, command, false).unwrap();
        let (running, client) = start(&path, false);
        verify(&client, command);
        running.stop().unwrap();
    }
}
