//! Tests with handmade pages.

use std::collections::BTreeMap;

use super::*;

/// Drive with handmade pages, by opcode and the lower byte of word 10.
#[derive(Default)]
struct FakeDrive {
    pages: BTreeMap<(u8, u32), Vec<u8>>,
    words: BTreeMap<(u8, u32), u32>,
}

impl Carrier for FakeDrive {
    fn carry(&mut self, command: &Command, page: &mut [u8]) -> Result<u32, String> {
        let key = (command.opcode, command.words[0] & 0xff);
        assert_eq!(page.len(), command.bytes.max(page.len()), "room for the page");
        if let Some(known) = self.pages.get(&key) {
            if command.opcode == HANDLES && page.len() > known.len() {
                return Err(refusal(0x400f));
            }
            let bytes = known.len().min(page.len());
            page[..bytes].copy_from_slice(&known[..bytes]);
            return Ok(0);
        }
        self.words.get(&key).copied().ok_or_else(|| refusal(0x4109))
    }
}

const IDENTIFY: u8 = 0x06;
const LOG: u8 = 0x02;
const HANDLES: u8 = 0x12;

fn page(bytes: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut page = vec![0; bytes];
    fields.iter().for_each(|(at, field)| page[*at..at + field.len()].copy_from_slice(field));
    page
}

/// Returns a drive with all pages.
fn full() -> FakeDrive {
    let mut drive = FakeDrive::default();
    let mut put = |key, bytes, fields: &[(usize, &[u8])]| {
        drive.pages.insert(key, page(bytes, fields));
    };
    let ctratt = (1_u32 << 19).to_le_bytes();
    let names: [(usize, &[u8]); 3] =
        [(4, b"S123                "), (24, b"Modell 9\x01"), (64, b"1.0 ")];
    put((IDENTIFY, 1), 4096, &[names[0], names[1], names[2], (96, &ctratt), (266, &[0x57, 1])]);
    let blocks = 1_000_000_u64.to_le_bytes();
    // Format 1 has blocks of 4096 bytes.
    let namespace: [(usize, &[u8]); 9] = [
        (0, &blocks),
        (24, &[0x10]),
        (26, &[1]),
        (33, &[9]),
        (64, &[15, 0]),
        (66, &[0, 0]),
        (68, &[255, 0]),
        (72, &[31, 0]),
        (102, &[1, 0]),
    ];
    let mut with_format = namespace.to_vec();
    with_format.push((132, &[0, 0, 12, 0]));
    put((IDENTIFY, 0), 4096, &with_format);
    let units = 2_000_u64.to_le_bytes();
    let hours = 8766_u64.to_le_bytes();
    put((LOG, 2), 512, &[(1, &[0x2c, 1]), (3, &[100, 10, 20]), (48, &units), (128, &hours)]);
    put((LOG, 9), 512, &[(5, &[20]), (64, &[1]), (80, &[3])]);
    let guid = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5_u128.to_le_bytes();
    let media = 1_536_000_000_u64.to_le_bytes();
    put((LOG, 0xc0), 512, &[(0, &media), (88, &[9, 0, 0, 0, 4]), (494, &[3]), (496, &guid)]);
    let unit = (16_u64 << 20).to_le_bytes();
    // Two configurations; the second one, with the larger unit, is active.
    let configurations: [(usize, &[u8]); 7] = [
        (0, &[1, 0]),
        (16, &[72, 0]),
        (88, &[96, 0]),
        (92, &[1]),
        (96, &[8, 0]),
        (98, &[127, 0]),
        (104, &unit),
    ];
    put((LOG, 0x20), 512, &configurations);
    put((LOG, 0x22), 64, &[(0, &[10]), (16, &[12]), (32, &[2])]);
    put((HANDLES, 1), 80, &[(14, &[2]), (16, &[0, 0, 3]), (48, &[1, 0, 4, 0, 0, 0, 0, 0, 7])]);
    drive.words.insert((0x0a, 0x1d), 0x101);
    drive
}

#[test]
fn write_zeroes_without_deallocation_is_distinguished() {
    // Deallocated blocks read as zeros in both; only the second has the bit for deallocation by
    // zeroing.
    for (word, expected) in [(1, false), (9, true)] {
        let mut drive = FakeDrive::default();
        let page = page(4096, &[(33, &[word]), (130, &[12])]);
        drive.pages.insert((IDENTIFY, 0), page);
        let namespace = Namespace::ask(&mut drive, 1).unwrap();
        assert_eq!(namespace.zeroing_frees, expected, "{word}");
    }
    assert_eq!(Namespace::ask(&mut FakeDrive::default(), 1), None, "it does not report this");
}

#[test]
fn a_complete_identify_page_is_parsed() {
    let facts = Facts::gather(&mut full(), 1).unwrap();
    assert!(facts.refused.is_empty(), "{:?}", facts.refused);
    let Controller { model, serial, firmware, knows_fdp, warm_kelvin } = &facts.controller;
    assert_eq!((model.as_str(), serial.as_str(), firmware.as_str()), ("Modell 9?", "S123", "1.0"));
    assert!(*knows_fdp && *warm_kelvin == Some(343));
    let namespace = facts.namespace.as_ref().unwrap();
    assert_eq!((namespace.bytes, namespace.block_bytes), (4_096_000_000, 4096));
    assert_eq!((namespace.write_grain, namespace.write_align), (Some(65536), Some(4096)));
    assert_eq!((namespace.discard_grain, namespace.best_write), (Some(1 << 20), Some(1 << 17)));
    assert!(namespace.zeroing_frees);
    let smart = facts.smart.as_ref().unwrap();
    assert_eq!((smart.celsius, smart.used_percent, smart.hours), (Some(27), 20, 8766));
    assert_eq!(smart.years_left(), Some(4.0), "a fifth of its life in a year");
    assert_eq!(facts.media_written(), Some(Media { bytes: 1_536_000_000, source: Source::Ocp }));
    assert_eq!(facts.amplification(), Some(1.5));
    assert_eq!(facts.ocp.as_ref().unwrap().erases, (4, 9));
    let fdp = facts.fdp.as_ref().unwrap();
    let Configuration { index, groups, handles, most_placements, unit_bytes } = fdp.configuration;
    assert!(fdp.on && index == 1 && unit_bytes == 16 << 20);
    assert_eq!((groups, handles, most_placements), (1, 8, 128));
    assert_eq!(fdp.placements.len(), 2);
    assert_eq!(fdp.placements[1], Placement { identifier: 1, handle: 4, room_blocks: 7 });
}

#[test]
fn media_writes_come_from_the_best_available_page() {
    let mut drive = full();
    drive.pages.remove(&(LOG, 0xc0));
    let facts = Facts::gather(&mut drive, 1).unwrap();
    assert_eq!(facts.media_written(), Some(Media { bytes: 12, source: Source::Fdp }));
    assert_eq!(facts.amplification(), Some(1.2));
    assert_eq!(facts.refused.len(), 1);
    assert!(facts.refused[0].contains("status 109h: no such log page"), "{facts:?}");
    drive.words.insert((0x0a, 0x1d), 0);
    let facts = Facts::gather(&mut drive, 1).unwrap();
    assert!(!facts.fdp.as_ref().unwrap().on);
    let media = Media { bytes: 3_000_000_000, source: Source::Endurance };
    assert_eq!(facts.media_written(), Some(media));
    drive.pages.remove(&(LOG, 9));
    assert_eq!(Facts::gather(&mut drive, 1).unwrap().media_written(), None);
}

#[test]
fn vendor_pages_are_not_mistaken_for_ocp_pages() {
    let mut drive = full();
    drive.pages.get_mut(&(LOG, 0xc0)).unwrap()[500] ^= 1;
    let facts = Facts::gather(&mut drive, 1).unwrap();
    assert_eq!(facts.ocp, None);
    assert_eq!(facts.refused, ["media units (OCP C0h): the drive returned a different page"]);
}

#[test]
fn a_drive_without_identity_is_an_error() {
    let error = Facts::gather(&mut FakeDrive::default(), 1).unwrap_err();
    assert!(error.starts_with("the drive returned status 109h"), "{error}");
    let controller = Facts::gather(&mut full(), 0).unwrap();
    assert_eq!((controller.namespace, controller.fdp), (None, None));
}

#[test]
fn the_life_of_a_new_drive_is_not_estimated() {
    let smart = Smart { used_percent: 0, hours: 100, ..Smart::default() };
    assert_eq!(smart.years_left(), None);
    let worn = Smart { used_percent: 130, hours: 100, warning: 0b101, ..Smart::default() };
    assert_eq!(worn.years_left(), Some(0.0));
    assert_eq!(worn.warnings().len(), 2);
}
