//! A change of the data on devices. Its 16 bytes select the page, the position, the operation and
//! the value.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::pages::{Found, Media, Pages};

/// Bytes of a change: kind of page, page, field, flags, operation, and value.
pub(crate) const CHANGE: usize = 16;

/// Flags of a change. Without any, it changes a field of four bytes in one page. The flags select
/// all pages of the kind (1), 8 bytes (2), XOR (4), and a field anywhere in the page (8).
const ALL: usize = 1;
const WIDE: usize = 2;
const XOR: usize = 4;
const ANYWHERE: usize = 8;

/// A parsed change.
struct Change {
    kind: usize,
    pick: usize,
    field: usize,
    how: usize,
    what: usize,
    value: u64,
}

impl Change {
    fn read(bytes: &[u8]) -> Self {
        let byte = |at: usize| usize::from(*bytes.get(at).unwrap_or(&0));
        let value = bytes.get(8..16).map_or([0; 8], |it| it.try_into().expect("eight bytes"));
        Change {
            kind: byte(0),
            pick: byte(1) | byte(2) << 8,
            field: byte(3) | byte(4) << 8,
            how: byte(5),
            what: byte(6) % 8,
            value: u64::from_le_bytes(value),
        }
    }
}

/// Applies the change in `bytes`, and seals the changed pages.
pub(crate) fn apply(pages: &Pages, media: &mut impl Media, bytes: &[u8]) {
    let change = Change::read(bytes);
    let list = pages.of_kind(change.kind);
    let some = match change.how & ALL {
        0 => &list[change.pick % list.len()..][..1],
        _ => list,
    };
    for found in some {
        match change.what {
            0..4 => set(pages, media, found, &change),
            4 => add(pages, media, found, &change),
            5 => take(pages, media, found, &change),
            6 => replace(pages, media, found, &change),
            _ => media.patch(found.device, found.at, &vec![0; found.len]),
        }
    }
}

/// Returns the first byte of the changed field, which has `width` bytes.
fn place(found: &Found, change: &Change, width: usize) -> usize {
    // Heads and first fields are changed more often than entries near the end.
    let field = if change.how & ANYWHERE == 0 { change.field & 0xff } else { change.field };
    let most = if change.how & ANYWHERE == 0 { 64 } else { 1018 };
    let at = found.first() + 4 * (field % most);
    at.min(found.len.saturating_sub(width))
}

fn set(pages: &Pages, media: &mut impl Media, found: &Found, change: &Change) {
    let width = (if change.how & WIDE == WIDE { 8 } else { 4 }).min(found.len);
    let mut bytes = found.of(media).to_vec();
    let place = &mut bytes[place(found, change, width)..][..width];
    let value = change.value.to_le_bytes();
    match change.how & XOR {
        0 => place.copy_from_slice(&value[..width]),
        _ => place.iter_mut().zip(value).for_each(|(old, bits)| *old ^= bits),
    }
    pages.write(media, found, &bytes);
}

/// Increases or decreases a field slightly.
fn add(pages: &Pages, media: &mut impl Media, found: &Found, change: &Change) {
    let mut bytes = found.of(media).to_vec();
    let at = place(found, change, 4);
    if let Some(field) = bytes[at..].first_chunk_mut::<4>() {
        let more = u32::from(change.value as u8).wrapping_sub(128);
        *field = u32::from_le_bytes(*field).wrapping_add(more).to_le_bytes();
        pages.write(media, found, &bytes);
    }
}

/// Sets a field to the value of another field in pages of the same kind.
fn take(pages: &Pages, media: &mut impl Media, found: &Found, change: &Change) {
    let list = pages.of_kind(change.kind);
    let other = &list[change.value as usize % list.len()];
    let from = other.of(media).as_chunks::<4>().0;
    let from = from.get((change.value >> 32) as usize % from.len().max(1)).copied();
    let mut bytes = found.of(media).to_vec();
    let at = place(found, change, 4);
    if let (Some(field), Some(from)) = (bytes[at..].first_chunk_mut::<4>(), from) {
        *field = from;
        pages.write(media, found, &bytes);
    }
}

/// Replaces a page by another page of the same kind, so that its content is plausible.
fn replace(pages: &Pages, media: &mut impl Media, found: &Found, change: &Change) {
    let list = pages.of_kind(change.kind);
    let other = &list[change.value as usize % list.len()];
    if other.len == found.len {
        let bytes = other.of(media).to_vec();
        pages.write(media, found, &bytes);
    }
}

/// Returns initial changes: boundary values of each width, in one page and in all pages of a kind.
pub(crate) fn to_begin_with() -> Vec<Vec<u8>> {
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

/// Draws a change of existing pages. `ends` are numbers near which behaviour changes.
pub(crate) fn draw(pages: &Pages, ends: &[u64], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let ways = [0, 0, ALL, ALL | WIDE, XOR, ALL | XOR, WIDE, ANYWHERE, ANYWHERE | WIDE];
    let how = ways[rng.random_range(0..ways.len())];
    let what = [0, 0, 0, 0, 4, 4, 5, 6, 7][rng.random_range(0..9)];
    let most = if rng.random_bool(0.5) { 26 } else { 1018 };
    let field: u16 = rng.random_range(0..most);
    let value = match what {
        0 if how & XOR == XOR => 1 << rng.random_range(0..64),
        0 => value(ends, rng),
        _ => rng.random(),
    };
    let mut change = vec![rng.random_range(0..pages.kinds()) as u8];
    change.extend_from_slice(&rng.random::<u16>().to_le_bytes());
    change.extend_from_slice(&field.to_le_bytes());
    change.extend_from_slice(&[how as u8, what, 0]);
    change.extend_from_slice(&value.to_le_bytes());
    change
}

/// Draws a critical number: limits of types, ends of devices, small numbers, single bits.
fn value(ends: &[u64], rng: &mut Xoshiro256PlusPlus) -> u64 {
    match rng.random_range(0..7) {
        0 => rng.random_range(0..32),
        1 => (1_u64 << rng.random_range(0..64)).wrapping_sub(rng.random_range(0..2)),
        2 => u64::from(u32::MAX) - rng.random_range(0..3),
        3 => u64::MAX - rng.random_range(0..3),
        4 => (ends[rng.random_range(0..ends.len())] + rng.random_range(0..3)).wrapping_sub(1),
        5 => u64::from(rng.random::<u32>() >> rng.random_range(0..32)),
        _ => rng.random::<u64>() >> rng.random_range(0..64),
    }
}
