//! Allocation of the files of `create`, which are sparse only on request.

use std::os::unix::fs::MetadataExt;

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_test_skip::skipped;
use hostftl_volume::{CreateSpec, create};

use crate::common::{MIB, Place};
use crate::trouble::Small;

/// Returns the allocated bytes of a file.
fn taken(spec: &CreateSpec) -> u64 {
    std::fs::metadata(&spec.devices[0]).unwrap().blocks() * 512
}

#[test]
fn files_are_allocated_unless_they_are_to_be_sparse() {
    for (allocate, kind) in [(true, LayerKind::Hard), (false, LayerKind::Hard)] {
        let place = Place::new();
        let spec = CreateSpec { allocate, ..place.spec(kind) };
        let created = create(&spec).unwrap();
        if allocate && !created.notes.is_empty() {
            return skipped(created.notes.join("; "));
        }
        assert_eq!(taken(&spec) >= spec.size.unwrap(), allocate, "{} of {spec:?}", taken(&spec));
    }
}

#[test]
fn a_zoned_file_is_allocated_too() {
    let place = Place::new();
    let zoned = format!("zoned:{}?zone=1M", place.name("z"));
    let (layer, devices) = (LayerConfig::parse("pblk").unwrap(), vec![zoned]);
    let spec = place.spec(LayerKind::Hard);
    let spec = CreateSpec { allocate: true, layer, devices, size: Some(64 * MIB), ..spec };
    let created = create(&spec).unwrap();
    let taken = std::fs::metadata(place.path("z")).unwrap().blocks() * 512;
    if created.notes.is_empty() {
        assert!(taken >= 64 * MIB, "{taken}")
    } else {
        skipped(created.notes.join("; "))
    }
}

#[test]
fn a_create_without_disk_space_leaves_no_files() {
    let place = Place::new();
    let Some(small) = Small::mount(place.path("small"), "24M") else {
        return skipped("a small file system needs root to mount it");
    };
    let device = small.path().join("d0").to_str().unwrap().to_string();
    let (devices, size) = (vec![device.clone()], Some(64 * MIB));
    let spec = CreateSpec { allocate: true, devices, size, ..place.spec(LayerKind::Hard) };
    let message = create(&spec).unwrap_err().to_string();
    let begins = format!("{device}: needs 67108864 bytes, but its file system has 2516");
    assert!(message.starts_with(&begins) && message.contains("--sparse"), "{message}");
    assert!(!small.path().join("d0").exists() && !spec.path.exists());
    create(&CreateSpec { allocate: false, ..spec }).unwrap();
}
