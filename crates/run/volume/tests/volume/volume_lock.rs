//! Volumes with one UUID, such as a copy and its original: only one of them is served at a time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{Client, Place};
use hostftl_layers::LayerKind;
use hostftl_volume::{Running, StartOptions, create, open, status};

fn start(path: &Path) -> Result<Running, hostftl_volume::Error> {
    open(path)?.start(&StartOptions::default()).map(|(running, _)| running)
}

/// Creates a copy of the volume `v.toml` over `d0`, like a backup that was restored beside it.
fn copy(place: &Place) -> PathBuf {
    fs::copy(place.path("d0"), place.path("copy0")).unwrap();
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    fs::write(place.path("copy.toml"), text.replace("/d0\"", "/copy0\"")).unwrap();
    place.path("copy.toml")
}

#[test]
fn a_copy_is_refused_while_the_original_is_served() {
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    let (original, copy) = (place.path("v.toml"), copy(&place));
    let first = start(&original).unwrap();
    let refused = start(&copy).unwrap_err().to_string();
    for part in ["copy.toml", "v.toml", &format!("process {}", std::process::id())] {
        assert!(refused.contains(part), "{refused}");
    }
    // The original is unaffected and reports its status.
    assert_eq!(status(&original).unwrap().served_by, Some(std::process::id()));
    first.stop().unwrap();
    start(&copy).unwrap().stop().unwrap();
}

#[test]
fn a_copied_volume_file_has_its_own_status() {
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    let (original, copy) = (place.path("v.toml"), copy(&place));
    let (running, port) = open(&original).unwrap().start(&StartOptions::default()).unwrap();
    Client::new(port).write(0, &[1; 4096], true).unwrap();
    let shown = status(&copy).unwrap();
    assert_eq!((shown.served_by, shown.traffic), (None, None));
    assert!(shown.volume.ends_with("copy.toml"));
    assert!(
        shown.notes.iter().any(|note| note.contains("v.toml with the same UUID is served")),
        "{:?}",
        shown.notes
    );
    // Another name of the same volume file is not a copy.
    std::os::unix::fs::symlink(&original, place.path("link.toml")).unwrap();
    assert_eq!(status(&place.path("link.toml")).unwrap().served_by, Some(std::process::id()));
    running.stop().unwrap();
}

#[test]
fn a_volume_stops_also_when_its_control_socket_was_removed_or_replaced() {
    for replaced in [false, true] {
        let place = Place::new();
        create(&place.spec(LayerKind::Passthrough)).unwrap();
        let running = start(&place.path("v.toml")).unwrap();
        let socket = control_socket(&running.status().uuid);
        fs::remove_file(&socket).unwrap();
        let another = replaced.then(|| std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let begun = Instant::now();
        running.stop().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(300), "{:?}", begun.elapsed());
        assert_eq!(socket.exists(), replaced, "only one's own socket is removed");
        if another.is_some() {
            fs::remove_file(&socket).unwrap();
        }
    }
}

/// Returns the socket of a volume in one of the possible directories.
pub(crate) fn control_socket(uuid: &str) -> PathBuf {
    let name = format!("{}.sock", uuid.replace('-', ""));
    let mut folders: Vec<PathBuf> = vec!["/run".into()];
    folders.extend(fs::read_dir("/run/user").into_iter().flatten().flatten().map(|it| it.path()));
    folders.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    let named = folders.iter().map(|folder| folder.join("hostftl"));
    let shared = fs::read_dir("/tmp").into_iter().flatten().flatten().map(|it| it.path());
    let mut all = named.chain(shared).map(|folder| folder.join(&name));
    all.find(|socket| socket.exists()).expect("a served volume has a control socket")
}
