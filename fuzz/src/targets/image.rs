//! Whole images with sound checksums over anything: a layer refuses them, or opens them and serves
//! errors or any bytes. It asks no device for what that has not, comes to an end, and takes no more
//! memory than for a good image.

use std::sync::OnceLock;

use anyhow::anyhow;
use hostftl_chaos::still::{Case, Image, Still};
use hostftl_core::{BLOCK, SECTOR};
use hostftl_format::page::crc32c;
use hostftl_layers::Mode;

/// Bytes of a change: which kind of page, which page, where, how, and a value.
const CHANGE: usize = 16;
/// Changes of an image at most.
const MOST: usize = 6;
/// Sectors that are read of what opens.
const READ: u64 = 512;

/// A page with a checksum of its own.
#[derive(Clone, Copy)]
struct Found {
    kind: [u8; 4],
    device: usize,
    at: usize,
}

/// A good image, and its pages by kind.
struct Base {
    case: Case,
    image: Image,
    pages: Vec<Vec<Found>>,
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| Case::all().into_iter().filter_map(base).collect())
}

fn base(case: Case) -> Option<Base> {
    let (image, _) = case.image().expect("a layer of ours");
    let mut pages: Vec<Vec<Found>> = Vec::new();
    for device in 0..image.devices() {
        for at in (0..image.bytes(device).len()).step_by(BLOCK) {
            let bytes = image.bytes(device);
            let kind: [u8; 4] = bytes[at + 4..at + 8].try_into().expect("four bytes");
            let letters = kind.iter().all(|byte| byte.is_ascii_uppercase());
            if !letters || sum(bytes, at) != word(bytes, at) {
                continue;
            }
            let found = Found { kind, device, at };
            match pages.iter_mut().find(|list| list[0].kind == kind) {
                Some(list) => list.push(found),
                None => pages.push(vec![found]),
            }
        }
    }
    (!pages.is_empty()).then_some(Base { case, image, pages })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The checksum that the page at byte `at` of a device must have: of all of it, or of a head with
/// its entries.
fn sum(bytes: &[u8], at: usize) -> u32 {
    let entries = match &bytes[at + 4..at + 8] {
        b"LROW" => Some(word(bytes, at + 48)),
        b"LJRN" => Some(word(bytes, at + 52)),
        _ => None,
    };
    let len = entries.map_or(BLOCK, |entries| 64 + 20 * (entries as usize).min(4096));
    let end = (at + len).min(bytes.len());
    crc32c((at / SECTOR) as u64, &bytes[at + 4..end])
}

/// Changes to begin with: fields of each width at the edges, of one page and of all of a kind.
pub fn changes() -> Vec<Vec<u8>> {
    let one = |kind: u8, field: u8, how: u8, value: u64| {
        let mut change = vec![kind, 0, 1, field, 0, how, 0, 0];
        change.extend_from_slice(&value.to_le_bytes());
        change
    };
    let mut all = vec![one(0, 8, 0, 0), one(1, 0, 2, 1), one(2, 4, 4, u64::MAX)];
    all.push([one(0, 12, 6, u64::MAX), one(1, 40, 2, 7)].concat());
    all.push([one(0, 9, 1, 0xffff_ffff), one(0, 5, 5, 0x8000_0000)].concat());
    all
}

/// Applies one change and seals what it changed.
fn apply(base: &Base, image: &mut Image, change: &[u8]) {
    let byte = |at: usize| usize::from(*change.get(at).unwrap_or(&0));
    let list = &base.pages[byte(0) % base.pages.len()];
    let (pick, how) = (byte(1) | byte(2) << 8, byte(5));
    // Heads and the first fields are changed more often than entries far behind.
    let field = match how & 8 {
        0 => 24 + 4 * (byte(3) % 64),
        _ => 24 + 4 * ((byte(3) | byte(4) << 8) % 1018),
    };
    let value = change.get(8..16).map_or(0, |it| u64::from_le_bytes(it.try_into().expect("eight")));
    let some = if how & 1 == 1 { &list[..] } else { &list[pick % list.len()..][..1] };
    for found in some {
        let mut page = image.bytes(found.device)[found.at..found.at + BLOCK].to_vec();
        let width = if how & 2 == 2 { 8 } else { 4 };
        let place = &mut page[field..field + width];
        let bytes = value.to_le_bytes();
        match how & 4 {
            0 => place.copy_from_slice(&bytes[..width]),
            _ => place.iter_mut().zip(bytes).for_each(|(old, bits)| *old ^= bits),
        }
        page[4..8].copy_from_slice(&found.kind);
        image.patch(found.device, found.at, &page);
        let sum = sum(image.bytes(found.device), found.at);
        image.patch(found.device, found.at, &sum.to_le_bytes());
    }
}

/// Opens an image with changes, twice if it can be stopped, reads, writes, and looks for order.
pub fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let Some((which, input)) = input.split_first() else { return Ok(()) };
    let base = &bases()[usize::from(*which) % bases().len()];
    let mut image = base.image.clone();
    input.chunks(CHANGE).take(MOST).for_each(|change| apply(base, &mut image, change));
    run(base, image).map_err(|why| anyhow!("{}: {why}", base.case.name))
}

fn run(base: &Base, mut image: Image) -> Result<(), String> {
    for _ in 0..2 {
        let mut still = Still::start(&base.case, image, Mode::Open)?;
        if still.refusal().is_some() {
            drop(still.cut());
            return Ok(());
        }
        // It may be out of order, and say so.
        let _ = still.check();
        let end = still.exported().min(READ);
        for lba in (0..end).step_by(32) {
            still.read(lba, (end - lba).min(32) as u32)?;
        }
        for step in 0..6 {
            let _ = still.write(step * 40 % (end - 32), 8, 1000 + step as u32)?;
        }
        let _ = still.trim(64, 64)?;
        let _ = still.flush()?;
        image = still.stop()?;
    }
    Ok(())
}

/// The number of good images.
pub fn count() -> usize {
    bases().len()
}

/// Each layer, with each of [`changes`].
pub fn made() -> Vec<Vec<u8>> {
    let of = |which: usize| {
        changes().into_iter().map(move |change| [vec![which as u8], change].concat())
    };
    (0..count()).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_images_open_and_have_pages_to_change() {
        for base in bases() {
            let outcome = run(base, base.image.clone());
            assert_eq!(outcome, Ok(()), "{}", base.case.name);
            assert!(base.pages.iter().all(|list| !list.is_empty()), "{}", base.case.name);
        }
        assert!(count() > 10, "{} layers have pages of their own", count());
    }
}
