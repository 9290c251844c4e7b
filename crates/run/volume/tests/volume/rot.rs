//! Bit rot on a device, and its reports.

use std::os::unix::fs::FileExt;
use std::path::Path;

use hostftl_core::HostError;
use hostftl_layers::LayerKind;
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    CheckOptions, Checked, CreateSpec, Level, StartOptions, Verdict, check, check_with, create,
    open,
};

use crate::common::{Client, Place, noise, start};

/// Offset of the damaged block in the volume.
const AT: u64 = 40 * 4096;

/// Writes 100 blocks and stops cleanly.
fn fill(spec: &CreateSpec) {
    create(spec).unwrap();
    let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    for number in 0..100 {
        client.write(number * 4096, &noise(number, 4096), false).unwrap();
    }
    client.flush();
    running.stop().unwrap();
}

/// Changes a byte of the block at [`AT`] in each of its copies; returns their number.
fn rot(devices: &[std::path::PathBuf]) -> usize {
    let wanted = noise(AT / 4096, 4096);
    let mut found = 0;
    for device in devices {
        let bytes = std::fs::read(device).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(device).unwrap();
        let places = bytes.windows(16).enumerate().filter(|(_, it)| *it == &wanted[..16]);
        for (place, _) in places {
            file.write_all_at(&[!wanted[100]], place as u64 + 100).unwrap();
            found += 1;
        }
        file.sync_all().unwrap();
    }
    found
}

/// Checks the volume and reads everything.
fn read_all(path: &Path) -> Checked {
    let mut far = (0, 0);
    let mut progress = |at, of| far = (at, of);
    let options = CheckOptions { data: Some(&mut progress), ..CheckOptions::default() };
    let checked = check_with(path, options).unwrap();
    assert_eq!(far, (checked.exported_bytes, checked.exported_bytes), "it is gone through");
    checked
}

#[test]
fn a_full_check_names_damaged_data() {
    let place = Place::new();
    let spec = place.spec(LayerKind::Log);
    fill(&spec);
    let data = read_all(&spec.path).data.unwrap();
    assert_eq!((data.read_bytes, data.bad_count, data.mended), (100 * 4096, 0, 0));
    assert_eq!(rot(&[place.path("d0")]), 1);
    assert_eq!(check(&spec.path).unwrap().verdict, Verdict::Sound, "it reads no data");
    let checked = read_all(&spec.path);
    assert_eq!((checked.verdict, checked.problems.len()), (Verdict::Damaged, 1), "{checked:?}");
    let range = format!("4096 bytes at byte {AT}");
    assert!(checked.problems[0].starts_with(&range), "{:?}", checked.problems);
    assert_eq!(checked.data.unwrap().bad_ranges, [(AT, 4096)]);
}

#[test]
fn unrepairable_corruption_is_reported_before_the_error() {
    let place = Place::new();
    let spec = place.spec(LayerKind::Log);
    fill(&spec);
    assert_eq!(rot(&[place.path("d0")]), 1);
    let (running, client) = start(&spec.path, false);
    let read = || client.ask(JobOp::Read(client.port.buffer(4096)), AT, 4096);
    assert_eq!(read().unwrap_err(), HostError::Io);
    let events = running.events().since(0);
    let corrupt = events.iter().position(|it| it.kind == "corrupt").expect("the event is recorded");
    let answered = events.iter().position(|it| it.kind == "request-failed").expect("so was that");
    assert!(corrupt < answered, "{events:?}");
    assert_eq!(events[corrupt].level, Level::Error);
    assert!(events[corrupt].text.contains(&format!("4096 bytes at byte {AT}")), "{events:?}");
    assert!(running.status().problems.iter().any(|need| need.starts_with("corrupt, 1 time:")));
    assert_eq!(client.read(0, 4096), noise(0, 4096), "all else is there");
    client.write(AT, &noise(7, 4096), false).unwrap();
    assert_eq!(read().unwrap(), noise(7, 4096), "writing it ends the error");
    running.stop().unwrap();
}

#[test]
fn parity_repairs_are_reported_with_the_device() {
    let place = Place::new();
    let mut spec = place.spec(LayerKind::Log);
    spec.devices = (0..3).map(|device| place.name(&format!("d{device}"))).collect();
    spec.layer.log.parity = 1;
    fill(&spec);
    let devices: Vec<_> = (0..3).map(|device| place.path(&format!("d{device}"))).collect();
    assert_eq!(rot(&devices), 1);
    let checked = read_all(&spec.path);
    let data = checked.data.unwrap();
    assert_eq!((checked.verdict, data.mended, data.bad_count), (Verdict::Sound, 1, 0));
    let (running, client) = start(&spec.path, false);
    assert_eq!(client.read(AT, 4096), noise(AT / 4096, 4096));
    let events = running.events().since(0);
    let mended = events.iter().find(|it| it.kind == "repaired").expect("the event is recorded");
    assert_eq!(mended.level, Level::Warning);
    assert!(mended.text.contains("bytes at byte"), "{mended:?}");
    let named = devices.iter().filter(|it| mended.text.contains(it.to_str().unwrap())).count();
    assert_eq!(named, 1, "{mended:?}");
    let status = running.status();
    assert_eq!(status.events.get("corrupt"), None);
    assert!(status.problems.is_empty(), "{:?}", status.problems);
    running.stop().unwrap();
}
