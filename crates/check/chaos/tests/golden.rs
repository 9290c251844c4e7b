//! Bytes that each layer writes: a change without a new format version fails, and images of every
//! known version still open and read correctly.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hostftl_chaos::fault_free::{Case, FaultFreeRun, Image, content};
use hostftl_core::{BLOCK, SECTOR};
use hostftl_format::page::crc32c;
use hostftl_layers::Mode;

const AGAIN: &str = "HOSTFTL_GOLDEN=write cargo test --release -p hostftl-chaos --test golden";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn writes() -> bool {
    std::env::var("HOSTFTL_GOLDEN").is_ok_and(|it| it == "write")
}

/// Returns the kind of a page: the four letters in its header, or its content.
fn kind(page: &[u8]) -> String {
    let letters = &page[4..8];
    if letters.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()) {
        letters.escape_ascii().to_string()
    } else {
        "data".into()
    }
}

/// Returns a line for the layer's format, and one for each kind of page on each device with their
/// number and a checksum of their positions and contents.
fn digest(case: &Case, image: &Image) -> String {
    let mut text = format!("{} format {}\n", case.name, case.format());
    for device in 0..image.devices() {
        let mut kinds: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (at, page) in image.bytes(device).chunks_exact(BLOCK).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                let (count, crc) = kinds.entry(kind(page)).or_default();
                *count += 1;
                *crc = crc32c(u64::from(*crc) << 32 | at as u64, page);
            }
        }
        for (kind, (count, crc)) in kinds {
            writeln!(text, "{} device {device} {kind} {count} {crc:08x}", case.name).unwrap();
        }
    }
    text
}

/// Returns the lines of a case in the golden file.
fn of_case(golden: &str, case: &Case) -> String {
    let begin = format!("{} ", case.name);
    golden.lines().filter(|line| line.starts_with(&begin)).fold(String::new(), |mut all, line| {
        all += line;
        all + "\n"
    })
}

#[test]
fn media_images_change_only_with_the_format_version() {
    let path = folder().join("formats.txt");
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let mut now = String::new();
    for case in Case::all() {
        let (image, versions) = case.image().unwrap_or_else(|why| panic!("{}: {why}", case.name));
        let (found, known) = (digest(&case, &image), of_case(&golden, &case));
        now += &found;
        if found == known {
            continue;
        }
        let same_version = found.lines().next() == known.lines().next();
        let kind = case.config.kind;
        assert!(
            !same_version,
            "{}: the bytes on media have changed, and format {} of layer {kind} has not: add one \
             to LayerKind::format() in crates/ftl/layers/src/config.rs and to the table in \
             docs/FORMAT.md, then run {AGAIN}\nbefore:\n{known}now:\n{found}",
            case.name,
            case.format(),
        );
        assert!(writes(), "{}: a new format: {AGAIN}\nbefore:\n{known}now:\n{found}", case.name);
        let packed = zstd::bulk::compress(&pack(&image, &versions), 19).unwrap();
        fs::write(folder().join(format!("{}.zst", case.name)), packed).unwrap();
    }
    if writes() {
        fs::write(&path, now).unwrap();
    }
}

#[test]
fn golden_images_open_and_read_back() {
    for case in Case::all() {
        let path = folder().join(format!("{}.zst", case.name));
        let Ok(packed) = fs::read(&path) else {
            assert!(writes(), "{}: is not there: {AGAIN}", path.display());
            continue;
        };
        assert!(packed.len() < 16 << 10, "{}: {} bytes", path.display(), packed.len());
        let mut image = case.blank();
        let versions = unpack(&zstd::bulk::decompress(&packed, 256 << 20).unwrap(), &mut image);
        // Once after the cut, and once after the following stop.
        for _ in 0..2 {
            let mut still = FaultFreeRun::start(&case, image, Mode::Open).unwrap();
            assert_eq!(still.refusal(), None, "{}", case.name);
            assert_eq!(still.check(), Ok(()), "{}", case.name);
            assert_eq!(still.exported(), versions.len() as u64, "{}", case.name);
            for lba in (0..versions.len().min(1024)).step_by(32) {
                let sectors = (versions.len() - lba).min(32);
                let read = still.read(lba as u64, sectors as u32).unwrap().expect("no error");
                for (at, sector) in (lba..).zip(read.chunks_exact(SECTOR)) {
                    let expected = content(at as u64, versions[at]);
                    assert!(sector == expected, "{}: sector {at}", case.name);
                }
            }
            image = still.stop().unwrap();
        }
    }
}

/// Encodes an image: the version of each sector, then the write pointers and the content of each
/// device.
fn pack(image: &Image, versions: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, versions);
    for device in 0..image.devices() {
        put(&mut bytes, &image.pointers(device));
        bytes.extend_from_slice(image.bytes(device));
    }
    bytes
}

fn unpack(mut bytes: &[u8], image: &mut Image) -> Vec<u32> {
    let versions = take(&mut bytes);
    for device in 0..image.devices() {
        let pointers = take(&mut bytes);
        image.set_pointers(device, &pointers);
        let (content, rest) = bytes.split_at(image.bytes(device).len());
        image.patch(device, 0, content);
        bytes = rest;
    }
    assert!(bytes.is_empty());
    versions
}

fn put(bytes: &mut Vec<u8>, numbers: &[u32]) {
    bytes.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

fn take(bytes: &mut &[u8]) -> Vec<u32> {
    let mut next = || {
        let (word, rest) = bytes.split_first_chunk().expect("a number");
        *bytes = rest;
        u32::from_le_bytes(*word)
    };
    (0..next()).map(|_| next()).collect()
}
