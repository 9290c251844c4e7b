//! Mutations, determined by a seed.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Boundary values of fields.
const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0xffff_ffff_ffff_ffff];

/// Returns a corpus entry with up to eight changes. Sometimes it is unchanged, so that valid input
/// is tested too.
pub(crate) fn mutate(corpus: &[Vec<u8>], rng: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut input = corpus[rng.random_range(0..corpus.len())].clone();
    for _ in 0..rng.random_range(0..=8) {
        change(&mut input, corpus, rng);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Xoshiro256PlusPlus) {
    if input.is_empty() {
        return input.push(rng.random());
    }
    let at = rng.random_range(0..input.len());
    let end = rng.random_range(at..=input.len().min(at + 64));
    match rng.random_range(0..7) {
        0 => input[at] ^= 1 << rng.random_range(0..8),
        1 => input[at] = rng.random(),
        2 => edge(&mut input[at..], rng),
        3 => input.truncate(at),
        4 => drop(input.drain(at..end)),
        5 => {
            let copy = input[at..end].to_vec();
            input.splice(at..at, copy);
        }
        _ => {
            let other = &corpus[rng.random_range(0..corpus.len())];
            let from = rng.random_range(0..=other.len());
            let to = rng.random_range(from..=other.len().min(from + 64));
            input.splice(at..at, other[from..to].iter().copied());
        }
    }
}

/// Overwrites the start of `place` with a boundary value in a common width and byte order.
fn edge(place: &mut [u8], rng: &mut Xoshiro256PlusPlus) {
    let value = EDGES[rng.random_range(0..EDGES.len())];
    let width = [1, 2, 4, 8][rng.random_range(0..4)].min(place.len());
    let bytes = if rng.random_bool(0.5) {
        value.to_le_bytes()[..width].to_vec()
    } else {
        value.to_be_bytes()[8 - width..].to_vec()
    };
    place[..width].copy_from_slice(&bytes);
}
