//! An unsupported format is refused before any write.

use std::fs;
use std::path::Path;

use hostftl_core::{BLOCK, Page, SECTOR};
use hostftl_format::superblock::{Superblock, Text, places};
use hostftl_layers::LayerKind;
use hostftl_volume::{CreateSpec, check, create, import, open};

use crate::common::{MIB, Place};

/// Changes both superblocks of a file, and seals them again.
fn change(path: &Path, change: impl Fn(&mut Superblock)) {
    let mut bytes = fs::read(path).unwrap();
    for at in places((bytes.len() / SECTOR) as u64) {
        let place = at as usize * SECTOR..at as usize * SECTOR + BLOCK;
        let page = Page(bytes[place.clone()].try_into().unwrap());
        let mut superblock = Superblock::parse(&page, at).unwrap();
        change(&mut superblock);
        bytes[place].copy_from_slice(&superblock.emit(at).0);
    }
    fs::write(path, bytes).unwrap();
}

/// Checks that everything that opens a volume refuses with this text, and leaves the devices
/// unchanged.
fn all_refuse(place: &Place, names: &[&str], says: &[&str]) {
    let bytes = || names.iter().map(|name| fs::read(place.path(name)).unwrap()).collect::<Vec<_>>();
    let (before, path) = (bytes(), place.path("v.toml"));
    let devices: Vec<String> = names.iter().map(|name| place.name(name)).collect();
    let answers = [
        open(&path).unwrap_err().to_string(),
        check(&path).unwrap_err().to_string(),
        import(&devices, &place.path("again.toml")).unwrap_err().to_string(),
    ];
    for why in answers {
        assert!(says.iter().all(|part| why.contains(part)), "{why}");
    }
    assert!(bytes() == before, "nothing is written");
}

#[test]
fn another_format_of_a_layer_is_refused_and_named() {
    for kind in [LayerKind::Hard, LayerKind::Passthrough] {
        let place = Place::new();
        create(&place.spec(kind)).unwrap();
        let known = kind.format();
        change(&place.path("d0"), |one| one.layer_format = known + 1);
        let found = format!("format {} of layer {kind}", known + 1);
        let supported = format!("supports format {known}");
        all_refuse(&place, &["d0"], &[&place.name("d0"), &found, &supported]);
    }
}

#[test]
fn a_mirror_is_not_served_without_the_half_of_another_format() {
    let place = Place::new();
    let mut spec = place.spec(LayerKind::Log);
    spec.layer.log.parity = 1;
    spec.devices = vec![place.name("d0"), place.name("d1")];
    create(&CreateSpec { size: Some(32 * MIB), ..spec }).unwrap();
    change(&place.path("d1"), |one| one.layer_format = 99);
    all_refuse(&place, &["d0", "d1"], &[&place.name("d1"), "format 99 of layer log"]);
}

#[test]
fn invalid_lengths_and_labels_are_refused_everywhere() {
    let odd: [fn(&mut Superblock); 5] = [
        |one| one.device_sectors = u64::MAX - 7,
        |one| one.data_len = u64::MAX / 2,
        |one| one.exported = u64::MAX,
        |one| one.lengths = [u64::MAX; 16],
        |one| one.label = Text::new("\x1b[2J").unwrap(),
    ];
    for make in odd {
        let place = Place::new();
        create(&place.spec(LayerKind::Log)).unwrap();
        change(&place.path("d0"), make);
        all_refuse(&place, &["d0"], &[&place.name("d0"), "an invalid superblock"]);
    }
}
