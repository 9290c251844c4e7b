//! Members of a stack with parity: named in any order, missing, stale, copied, foreign.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::common::{Client, MIB, Place};
use hostftl_layers::LayerConfig;
use hostftl_volume::{
    Access, CheckOptions, Config, CreateSpec, Imported, OpenOptions, StartOptions, Verdict, check,
    check_with, create, import, open, open_with, status,
};

const FILES: [&str; 3] = ["d0", "d1", "d2"];

/// Returns the parameters of `v.toml` over three files.
fn spec(place: &Place) -> CreateSpec {
    CreateSpec {
        allocate: false,
        path: place.path("v.toml"),
        devices: FILES.map(|name| place.name(name)).into(),
        size: Some(48 * MIB),
        layer: LayerConfig::parse("log:parity=yes").unwrap(),
        label: String::new(),
        force: false,
    }
}

/// Serves the volume and durably writes `byte` to each block of a range; returns the notes.
fn write(place: &Place, byte: u8) -> Vec<String> {
    write_with(place, byte, OpenOptions::default())
}

/// Writes likewise, with consent to start without missing members.
fn write_degraded(place: &Place, byte: u8) -> Vec<String> {
    write_with(place, byte, DEGRADED)
}

fn write_with(place: &Place, byte: u8, how: OpenOptions) -> Vec<String> {
    let volume = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = volume.start(&options()).unwrap();
    let client = Client::new(port);
    for block in 0..64 {
        client.write(block * 8192, &[byte; 4096], false).unwrap();
    }
    client.flush();
    let notes = running.status().notes;
    running.stop().unwrap();
    notes
}

/// Serves the volume and expects the data of [`write`]; returns the notes.
fn expect(place: &Place, byte: u8) -> Vec<String> {
    expect_with(place, byte, OpenOptions::default())
}

/// Expects likewise, with consent to start without missing members.
fn expect_degraded(place: &Place, byte: u8) -> Vec<String> {
    expect_with(place, byte, DEGRADED)
}

fn expect_with(place: &Place, byte: u8, how: OpenOptions) -> Vec<String> {
    let volume = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = volume.start(&options()).unwrap();
    let client = Client::new(port);
    for block in 0..64 {
        assert!(client.read(block * 8192, 4096) == [byte; 4096], "block {block}");
    }
    let notes = running.status().notes;
    running.stop().unwrap();
    notes
}

const DEGRADED: OpenOptions = OpenOptions {
    access: Access::Full,
    degraded: true,
    wait: std::time::Duration::ZERO,
    command: "",
    deadlines: Vec::new(),
    report: |_| {},
};

fn options() -> StartOptions {
    StartOptions::default()
}

fn refusal(place: &Place) -> String {
    open(&place.path("v.toml")).unwrap_err().to_string()
}

#[test]
fn import_works_in_any_order_without_the_volume_file() {
    let place = Place::new();
    let created = create(&spec(&place)).unwrap();
    write(&place, 3);
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    let turned = text.replace("/d0\"", "\0").replace("/d2\"", "/d0\"").replace('\0', "/d2\"");
    assert_ne!(text, turned);
    fs::write(place.path("v.toml"), turned).unwrap();
    let notes = expect(&place, 3);
    assert!(notes.len() == 1 && notes[0].contains("listed by number"), "{notes:?}");
    assert_eq!(fs::read_to_string(place.path("v.toml")).unwrap(), text);
    fs::remove_file(place.path("v.toml")).unwrap();
    let names = ["d2", "d0", "d1"].map(|name| place.name(name));
    assert_eq!(import(&names, &place.path("v.toml")).unwrap().config, created.config);
    expect(&place, 3);
}

/// Returns the content of all devices that are present.
fn contents(place: &Place) -> Vec<Option<Vec<u8>>> {
    FILES.iter().map(|name| fs::read(place.path(name)).ok()).collect()
}

#[test]
fn a_missing_device_needs_consent_once() {
    for (index, gone) in FILES.into_iter().enumerate() {
        let place = Place::new();
        create(&spec(&place)).unwrap();
        write(&place, 1);
        fs::remove_file(place.path(gone)).unwrap();
        let before = contents(&place);
        let message = refusal(&place);
        assert!(message.contains(&format!("device {index} ({}", place.name(gone))), "{message}");
        assert!(message.contains("`hostftl serve --degraded` starts without it"), "{message}");
        let message = check(&place.path("v.toml")).unwrap_err().to_string();
        assert!(message.contains("`hostftl check --degraded`"), "{message}");
        let now = status(&place.path("v.toml")).unwrap();
        assert!(now.degraded && now.devices.iter().any(|it| it.name == place.name(gone)));
        assert!(contents(&place) == before, "a refusal or a look wrote something");
        let notes = expect_degraded(&place, 1);
        assert!(notes[0].starts_with("DEGRADED: running without device"), "{notes:?}");
        assert!(notes[1].contains(&place.name(gone)), "{notes:?}");
        let notes = write(&place, 2);
        assert!(notes[0].contains(", which it lost at 20"), "{notes:?}");
        expect(&place, 2);
        let checked = check(&place.path("v.toml")).unwrap();
        assert_eq!((checked.verdict, checked.problems.len()), (Verdict::Degraded, 0));
        let members = checked.degraded;
        assert!(members[0].starts_with("DEGRADED") && members.len() == 2, "{members:?}");
    }
}

#[test]
fn an_up_to_date_member_returns_without_consent() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    let before = contents(&place);
    refusal(&place);
    check(&place.path("v.toml")).unwrap_err();
    let options = CheckOptions { degraded: true, ..CheckOptions::default() };
    assert_eq!(check_with(&place.path("v.toml"), options).unwrap().degraded.len(), 2);
    status(&place.path("v.toml")).unwrap();
    import(&[place.name("d0"), place.name("d2")], &place.path("w.toml")).unwrap();
    assert!(contents(&place) == before, "a look wrote something");
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    assert_eq!(expect(&place, 1), Vec::<String>::new());
    assert_eq!(check(&place.path("v.toml")).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_start_waits_for_a_late_member() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    let (from, to) = (place.path("away"), place.path("d1"));
    // The device appears once the start reports that it waits.
    static HEARD: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);
    let coming = std::thread::spawn(move || {
        while HEARD.lock().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        fs::rename(from, to).unwrap();
    });
    let wait = std::time::Duration::from_secs(300);
    let report = |text: &str| *HEARD.lock().unwrap() = Some(text.into());
    for degraded in [true, false] {
        let how = OpenOptions { degraded, wait, report, ..DEGRADED };
        assert_eq!(expect_with(&place, 1, how), Vec::<String>::new());
    }
    coming.join().unwrap();
    let progress = HEARD.lock().unwrap().take().unwrap();
    assert!(progress.contains("waiting up to 300 s for") && progress.contains("d1"), "{progress}");
}

#[test]
fn errors_other_than_absence_change_nothing() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    // A folder at its path, and a path through a file: neither means that the member is absent.
    fs::create_dir(place.path("d1")).unwrap();
    let before = contents(&place);
    let open = |place: &Place| open_with(&place.path("v.toml"), &DEGRADED).unwrap_err().to_string();
    let message = open(&place);
    assert!(message.contains("d1 is neither a regular file nor a block device"), "{message}");
    fs::remove_dir(place.path("d1")).unwrap();
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    fs::write(place.path("v.toml"), text.replace("/d1\"", "/away/d1\"")).unwrap();
    let message = open(&place);
    assert!(message.contains("away/d1: cannot open it: Not a directory"), "{message}");
    assert!(contents(&place) == before, "a refusal wrote something");
    fs::write(place.path("v.toml"), text).unwrap();
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    assert_eq!(expect(&place, 1), Vec::<String>::new());
}

#[test]
fn a_stale_device_is_excluded() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    write_degraded(&place, 2);
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    let before = fs::read(place.path("d1")).unwrap();
    let notes = expect(&place, 2);
    assert!(notes[1].contains("d1: it missed writes since 20"), "{notes:?}");
    assert!(fs::read(place.path("d1")).unwrap() == before, "it was written to");
    fs::remove_file(place.path("d2")).unwrap();
    let message = refusal(&place);
    // The two remaining ones were rebuilt to tolerate another loss, so consent would suffice.
    assert!(message.contains("d1: it missed writes since 20"), "{message}");
    assert!(message.contains("device 2 (") && message.contains("--degraded"), "{message}");
}

/// Creates a mirror over `a` and `b`, and writes `byte` to it.
fn mirror(place: &Place, byte: u8) {
    let devices = ["a", "b"].map(|name| place.name(name)).into();
    create(&CreateSpec { devices, ..spec(place) }).unwrap();
    write(place, byte);
}

#[test]
fn a_stale_half_does_not_start_alone() {
    let place = Place::new();
    mirror(&place, 1);
    fs::rename(place.path("b"), place.path("away")).unwrap();
    write_degraded(&place, 2);
    fs::rename(place.path("away"), place.path("b")).unwrap();
    fs::rename(place.path("a"), place.path("away")).unwrap();
    let message = refusal(&place);
    assert!(message.contains("device 0 (") && message.contains("newer writes than"), "{message}");
    fs::rename(place.path("away"), place.path("a")).unwrap();
    let notes = expect(&place, 2);
    assert!(notes[1].contains("b: it missed writes"), "{notes:?}");
}

#[test]
fn diverged_halves_are_refused_until_one_is_chosen() {
    let place = Place::new();
    mirror(&place, 1);
    fs::rename(place.path("b"), place.path("away")).unwrap();
    write_degraded(&place, 2);
    fs::rename(place.path("a"), place.path("kept")).unwrap();
    fs::rename(place.path("away"), place.path("b")).unwrap();
    write_degraded(&place, 3);
    fs::rename(place.path("kept"), place.path("a")).unwrap();
    let before = ["a", "b"].map(|name| fs::read(place.path(name)).unwrap());
    for how in [OpenOptions::default(), DEGRADED] {
        let message = open_with(&place.path("v.toml"), &how).unwrap_err().to_string();
        assert!(message.contains("were served separately"), "{message}");
        assert!(message.contains("hostftl import"), "{message}");
    }
    let both = ["a", "b"].map(|name| place.name(name));
    let message = import(&both, &place.path("w.toml")).unwrap_err().to_string();
    assert!(message.contains("were served separately"), "{message}");
    assert!(before == ["a", "b"].map(|name| fs::read(place.path(name)).unwrap()));
    // The chosen half is served without further questions.
    for (keep, byte) in [("a", 2), ("b", 3)] {
        fs::remove_file(place.path("v.toml")).unwrap();
        import(&[place.name(keep)], &place.path("v.toml")).unwrap();
        expect(&place, byte);
    }
}

#[test]
fn short_and_blank_devices_are_excluded() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    File::options().write(true).open(place.path("d0")).unwrap().set_len(20 * MIB).unwrap();
    let why = "d0: has 20971520 bytes, but the volume needs 50331648";
    assert!(refusal(&place).contains(why));
    let notes = expect_degraded(&place, 1);
    assert!(notes[1].contains(why), "{notes:?}");
    File::create(place.path("d0")).unwrap().set_len(48 * MIB).unwrap();
    let notes = expect(&place, 1);
    assert!(notes[1].contains("d0: has no HostFTL superblock"), "{notes:?}");
    fs::remove_file(place.path("d1")).unwrap();
    let message = refusal(&place);
    // The two remaining ones were rebuilt to tolerate another loss, so consent would suffice.
    assert!(message.contains("d0: has no HostFTL superblock"), "{message}");
    assert!(message.contains("device 1 (") && message.contains("--degraded"), "{message}");
}

#[test]
fn copies_and_devices_of_other_volumes_are_refused() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    fs::copy(place.path("d0"), place.path("copy")).unwrap();
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    fs::write(place.path("v.toml"), text.replace("/d1\"", "/copy\"")).unwrap();
    let message = refusal(&place);
    assert!(message.contains("are copies of one device; disconnect one"), "{message}");
    let other = CreateSpec {
        path: place.path("w.toml"),
        devices: ["e0", "e1", "e2"].map(|name| place.name(name)).into(),
        label: "another".into(),
        ..spec(&place)
    };
    create(&other).unwrap();
    fs::write(place.path("v.toml"), text.replace("/d1\"", "/e1\"")).unwrap();
    let message = refusal(&place);
    assert!(message.contains("e1 belongs to another volume (another)"), "{message}");
}

#[test]
fn import_works_without_a_redundant_device() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::remove_file(place.path("v.toml")).unwrap();
    let two = [place.name("d2"), place.name("d0")];
    let Imported { config, needs_consent } = import(&two, &place.path("v.toml")).unwrap();
    assert!(needs_consent);
    assert_eq!(config.devices, [place.name("d0"), "missing".into(), place.name("d2")]);
    assert_eq!(Config::load(&place.path("v.toml")).unwrap(), config);
    // Before the volume was served without one: afterwards, two devices may have been rebuilt to
    // tolerate another loss.
    let one = import(&two[..1], &place.path("w.toml")).unwrap_err().to_string();
    assert!(one.contains("the volume has 3 devices; number 0, 1 is missing"), "{one}");
    assert!(refusal(&place).contains("hostftl serve --degraded"));
    let notes = expect_degraded(&place, 1);
    assert!(notes[1].contains("missing: the volume file has no device for this number"));
    // The same message for both positions without a device appears once.
    fs::remove_file(place.path("d2")).unwrap();
    fs::write(
        place.path("v.toml"),
        fs::read_to_string(place.path("v.toml")).unwrap().replace(&place.name("d2"), "missing"),
    )
    .unwrap();
    let refused = refusal(&place);
    assert_eq!(refused.matches("has no device for this number").count(), 1, "{refused}");
}

#[test]
fn losing_the_smallest_device_keeps_the_layout() {
    let place = Place::new();
    File::create(place.path("d1")).unwrap().set_len(40 * MIB).unwrap();
    for name in ["d0", "d2"] {
        File::create(place.path(name)).unwrap().set_len(48 * MIB).unwrap();
    }
    create(&CreateSpec { size: None, ..spec(&place) }).unwrap();
    write(&place, 5);
    fs::remove_file(place.path("d1")).unwrap();
    expect_degraded(&place, 5);
}

#[test]
fn an_interrupted_membership_change_is_finished() {
    let says = |place: &Place, name: &str| {
        let mut page = [0; 4096];
        File::open(place.path(name)).unwrap().read_exact_at(&mut page, 0).unwrap();
        (page[24], page[46])
    };
    // If the rebuild without d1 completes before the stop, that is a second change.
    let one_change = || {
        let place = Place::new();
        create(&spec(&place)).unwrap();
        write(&place, 1);
        fs::copy(place.path("d2"), place.path("before")).unwrap();
        fs::remove_file(place.path("d1")).unwrap();
        write_degraded(&place, 2);
        (says(&place, "d2").0 == says(&place, "before").0 + 1).then_some(place)
    };
    let place = (0..50).find_map(|_| one_change()).expect("the end came before that once");
    // The superblocks of d2 are from before the loss of d1; the rest of it is newer.
    let (old, new) = (File::open(place.path("before")).unwrap(), place.path("d2"));
    let new = File::options().write(true).open(new).unwrap();
    for at in [0, 48 * MIB - 4096] {
        let mut page = [0; 4096];
        old.read_exact_at(&mut page, at).unwrap();
        new.write_all_at(&page, at).unwrap();
    }
    expect(&place, 2);
    assert_eq!(says(&place, "d2"), says(&place, "d0"), "its superblock is up to date again");
    assert_eq!(says(&place, "d2").1, 0b10, "d1 is missing");
}
