//! Devices that are present and fail: the reported state of the volume, and refused requests.

use std::fs::OpenOptions as File;
use std::os::unix::fs::FileExt;

use crate::common::{Client, Place, content, until};
use hostftl_volume::front::Port;
use hostftl_volume::{
    AddSpec, AdminRequest, OpenOptions, ReplaceSpec, Running, StartOptions, add, open_with,
    operate, replace,
};

const BLOCKS: u64 = 1200;

/// Returns a served volume whose device 2 has lost its content without notice.
fn truncated(layer: &str) -> (Place, Running, Port) {
    let place = Place::with_volume(layer, 4, 48);
    let opened = open_with(&place.path("v.toml"), &OpenOptions::default()).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let client = Client::new(port.clone());
    (0..BLOCKS).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    until(&running, |it| may_lose(it) == 1);
    File::new().write(true).open(place.path("d2")).unwrap().set_len(0).unwrap();
    (place, running, port)
}

fn read_all(port: &Port) {
    let client = Client::new(port.clone());
    (0..BLOCKS).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
}

fn may_lose(running: &Running) -> u32 {
    running.status().space.unwrap().failures_tolerated
}

#[test]
fn a_failing_device_counts_as_missing_and_makes_the_others_required() {
    let (place, running, port) = truncated("log:parity=yes:compress=none:fault-after=0");
    read_all(&port);
    until(&running, |it| it.status().devices[2].health == "failing");
    let status = running.status();
    let space = status.space.as_ref().unwrap();
    assert_eq!((space.failures_tolerated, &space.damaged_devices[..]), (0, &[2][..]));
    assert!(status.events.contains_key("device-failing") && !status.degraded);
    assert!(status.problems.iter().any(|it| it.contains("is failing")), "{status:?}");
    let path = place.path("v.toml");
    let refused = |request| operate(&path, &request).unwrap_err().to_string();
    let damaged = format!("device 2 ({}) has damaged data, and this device", place.name("d2"));
    assert!(refused(AdminRequest::Offline("1".into())).contains(&damaged));
    assert!(refused(AdminRequest::Remove("1".into())).contains(&damaged));
    let put = |old: &str| {
        let (path, old, new) = (path.clone(), old.into(), place.name("n"));
        let spec = ReplaceSpec { path, old, new, force: false, rehearse: false };
        replace(&spec, &mut |_, _| {})
    };
    assert!(put("1").unwrap_err().to_string().contains(&damaged));
    put("2").unwrap();
    until(&running, |it| may_lose(it) == 1 && it.status().space.unwrap().degraded_bytes == 0);
    assert_eq!(running.status().devices[2].health, "online");
    operate(&path, &AdminRequest::Offline("1".into())).unwrap();
    read_all(&port);
    running.stop().unwrap();
}

#[test]
fn known_damage_persists_until_a_complete_scrub() {
    let place = Place::with_volume("log:parity=yes:compress=none:fault-after=0", 4, 48);
    let start = || {
        let opened = open_with(&place.path("v.toml"), &OpenOptions::default()).unwrap();
        opened.start(&StartOptions::default()).unwrap()
    };
    let (running, port) = start();
    let client = Client::new(port.clone());
    (0..BLOCKS).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    let device = File::new().write(true).open(place.path("d2")).unwrap();
    let (first, last) = (1 << 20, device.metadata().unwrap().len() - (1 << 20));
    (first..last).step_by(4096).for_each(|at| device.write_all_at(&[7; 4096], at).unwrap());
    read_all(&port);
    until(&running, |it| it.status().devices[2].health == "failing");
    // State that the next start after a kill would find.
    let saved = || std::fs::read_to_string(place.path("v.toml.scrub")).unwrap_or_default();
    until(&running, |_| saved().contains("\"failing\":4"));
    let kept = saved();
    running.stop().unwrap();
    // Pause the scrub of the start, so that the state before it can be checked.
    let paused = kept.replace("\"paused\":false", "\"paused\":true");
    std::fs::write(place.path("v.toml.scrub"), paused).unwrap();
    let path = place.path("v.toml");
    let (old, new) = ("1".into(), place.name("n"));
    let spec = ReplaceSpec { path: path.clone(), old, new, force: false, rehearse: true };
    let refused = replace(&spec, &mut |_, _| {}).unwrap_err();
    assert!(refused.to_string().contains("has damaged data"), "{refused}");

    let (running, port) = start();
    let is_damaged = |health| {
        let status = running.status();
        let space = status.space.as_ref().unwrap();
        assert_eq!((space.failures_tolerated, &space.damaged_devices[..]), (0, &[2][..]));
        assert_eq!(status.devices[2].health, health);
        let refused = operate(&path, &AdminRequest::Offline("1".into())).unwrap_err();
        assert!(refused.to_string().contains("has damaged data"), "{refused}");
    };
    is_damaged("failing");
    // The layer is opened again.
    let new = vec![place.name("d4")];
    let spec = AddSpec { path: path.clone(), new, force: false, spare: false, rehearse: false };
    add(&spec).unwrap();
    is_damaged("failing");
    // An operator acknowledges the failures, which repairs nothing.
    operate(&path, &AdminRequest::Clear(None)).unwrap();
    is_damaged("online");
    operate(&place.path("v.toml"), &AdminRequest::ResumeScrub).unwrap();
    until(&running, |it| may_lose(it) == 1 && it.status().devices[2].health == "online");
    assert!(running.events().total("scrub-complete") > 0, "{:?}", running.status().events);
    operate(&place.path("v.toml"), &AdminRequest::Offline("1".into())).unwrap();
    read_all(&port);
    running.stop().unwrap();
}

#[test]
fn a_device_with_too_many_errors_is_replaced_by_a_spare() {
    let (place, running, port) = truncated("log:parity=yes:compress=none:fault-after=10");
    read_all(&port);
    until(&running, |it| it.status().devices[2].health == "faulted");
    let status = running.status();
    assert!(status.degraded && status.events["device-faulted"] == 1, "{status:?}");
    // Its data is rebuilt on the other three devices.
    until(&running, |it| may_lose(it) == 1);
    operate(&place.path("v.toml"), &AdminRequest::Offline("1".into())).unwrap();
    read_all(&port);
    running.stop().unwrap();
}
