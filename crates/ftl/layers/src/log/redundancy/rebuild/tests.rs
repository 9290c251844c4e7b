//! A rebuild restores the lost chunk, whichever other chunks are lost or wrong.

use alloc::vec::Vec;

use hostftl_core::field::{power, product};

use super::*;
use crate::log::chunk_placement::set;

/// Bytes of a stripe with data chunks of two bytes: the readable ones, by place.
struct Bytes([Option<[u8; 2]>; PLACES]);

impl Bytes {
    fn new(chunks: u8, parity: u8) -> Self {
        let mut bytes = [None; PLACES];
        let mut sums = [[0; 2]; 2];
        for chunk in 0..chunks {
            let data = [chunk.wrapping_mul(37) ^ 11, chunk.wrapping_mul(91) ^ 0x5a];
            for at in 0..2 {
                sums[0][at] ^= data[at];
                sums[1][at] ^= product(data[at], power(chunk.into()));
            }
            bytes[usize::from(Chunk::Data(chunk).place())] = Some(data);
        }
        for which in 0..parity {
            bytes[usize::from(Chunk::Parity(which).place())] = Some(sums[usize::from(which)]);
        }
        // Other data follows the stripe.
        for other in &mut bytes[usize::from(FIRST_DATA + chunks)..] {
            *other = Some([0xee, 0x77]);
        }
        Bytes(bytes)
    }

    fn of(&self, chunk: Chunk) -> Option<[u8; 2]> {
        self.0[usize::from(chunk.place())]
    }

    fn without(mut self, chunks: &[Chunk]) -> Self {
        chunks.iter().for_each(|it| self.0[usize::from(it.place())] = None);
        self
    }

    fn wrong(mut self, chunk: Chunk) -> Self {
        self.0[usize::from(chunk.place())] = Some([1, 2]);
        self
    }

    /// Returns whether a rebuild of a stripe of `chunks` chunks yields `is` in any way.
    fn make(&self, begin: Option<Rebuild>, is: [u8; 2], chunks: u32) -> bool {
        let (mut at, mut sum) = (begin, [0; 2]);
        for _ in 0..10_000 {
            let Some(rebuild) = at else { return false };
            at = match rebuild.next() {
                Some(chunk) => match self.of(chunk) {
                    Some(bytes) => {
                        let (factor, old) = rebuild.factors();
                        let plain = if rebuild.is_begin() { 1 } else { factor };
                        let add = |at: usize| product(bytes[at], plain) ^ product(sum[at], old);
                        sum = [add(0), add(1)];
                        Some(rebuild.fold())
                    }
                    None => rebuild.without(chunk),
                },
                None => rebuild.again(),
            };
            let over = at.filter(|it| !it.is_begin() && it.may_be_over());
            if over.is_some_and(|it| sum == is && it.chunks() == chunks) {
                return true;
            }
        }
        panic!("it goes on for ever: {at:?}")
    }
}

fn all(chunks: u8, parity: u8) -> Vec<Chunk> {
    (0..chunks).map(Chunk::Data).chain((0..parity).map(Chunk::Parity)).collect()
}

/// Returns the chunks that `rebuild` reads to the end of its way, with the stripe lengths that it
/// tries.
fn whole(rebuild: Option<Rebuild>) -> (Vec<Chunk>, Vec<u32>) {
    let mut rebuild = rebuild.expect("there is a way");
    let (mut read, mut tried) = (Vec::new(), Vec::new());
    while let Some(chunk) = rebuild.next() {
        assert_eq!(rebuild.is_begin(), read.is_empty());
        read.push(chunk);
        rebuild = rebuild.fold();
        if rebuild.may_be_over() {
            tried.push(rebuild.chunks());
        }
    }
    (read, tried)
}

#[test]
fn a_chunk_is_the_sum_of_the_parity_and_the_other_chunks() {
    let placement = ChunkPlacement::new(set(0b1111), 1);
    let device = |chunk| placement.device(5, 2, chunk);
    let of = |chunk| Rebuild::on_device(placement, (5, 2), device(chunk), set(0));
    use Chunk::{Data, Parity};
    assert_eq!(whole(of(0)), (alloc::vec![Parity(0), Data(1), Data(2)], alloc::vec![1, 2, 3]));
    assert_eq!(whole(of(1)), (alloc::vec![Parity(0), Data(0), Data(2)], alloc::vec![2, 3]));
    assert_eq!(whole(of(2)), (alloc::vec![Parity(0), Data(0), Data(1)], alloc::vec![3]));
    assert_eq!(of(0).and_then(Rebuild::again), None, "there is one parity");
}

#[test]
fn parity_is_computed_from_data() {
    for which in 0..2 {
        let placement = ChunkPlacement::new(set(0b1111), 2);
        let rebuild = Rebuild::new(placement, (0, 0), Chunk::Parity(which), 2, set(0));
        let read = alloc::vec![Chunk::Data(0), Chunk::Data(1)];
        assert_eq!(whole(rebuild), (read, alloc::vec![2]));
        let bytes = Bytes::new(2, 2);
        let is = bytes.of(Chunk::Parity(which)).unwrap();
        assert!(bytes.make(rebuild, is, 2), "parity {which}");
    }
}

#[test]
fn the_second_parity_is_independent_of_batching() {
    for (chunks, at_once) in (1..=14_usize).flat_map(|it| (1..=4).map(move |some| (it, some))) {
        let bytes = Bytes::new(chunks as u8, 2);
        for which in 0..2 {
            let (mut sum, mut done) = ([0; 2], 0);
            while done < chunks {
                let end = chunks.min(done + at_once);
                let factors = parity_factors(which, end - done, done > 0);
                let some = (chunks - end..chunks - done).rev();
                sum = some.zip(factors.new).fold(
                    sum.map(|byte| product(byte, factors.old)),
                    |sum, (chunk, factor)| {
                        let data = bytes.of(Chunk::Data(chunk as u8)).unwrap();
                        [0, 1].map(|at| sum[at] ^ product(data[at], factor))
                    },
                );
                done = end;
            }
            assert_eq!(Some(sum), bytes.of(Chunk::Parity(which)), "{chunks} by {at_once}");
        }
    }
}

#[test]
fn any_two_chunks_are_rebuilt_at_any_width() {
    let placement = ChunkPlacement::new(set(0b111_0111), 2);
    for chunks in 1..=placement.width() as u8 {
        let all = all(chunks, 2);
        let pairs = all.iter().flat_map(|one| all.iter().map(move |other| (*one, *other)));
        for (wanted, other) in pairs.filter(|it| matches!(it.0, Chunk::Data(_))) {
            let (slot, whole) = ((3, 9), Bytes::new(chunks, 2));
            let is = whole.of(wanted).unwrap();
            let bytes = whole.without(&[wanted, other]);
            let known = DeviceSet::single(other.device(placement, slot));
            for missing in [set(0), known] {
                let of = Rebuild::new(placement, slot, wanted, chunks.into(), missing);
                assert!(bytes.make(of, is, chunks.into()), "{wanted:?} {other:?} of {chunks}");
                let device = wanted.device(placement, slot);
                let of = Rebuild::on_device(placement, slot, device, missing);
                assert!(bytes.make(of, is, chunks.into()), "{wanted:?} {other:?} of any");
            }
            let bytes = Bytes::new(chunks, 2).without(&[wanted]);
            let bytes = if wanted == other { bytes } else { bytes.wrong(other) };
            let of = Rebuild::new(placement, slot, wanted, chunks.into(), set(0));
            assert!(bytes.make(of, is, chunks.into()), "{wanted:?} while {other:?} is wrong");
        }
    }
}

#[test]
fn losses_beyond_parity_rebuild_no_chunk() {
    let (placement, slot) = (ChunkPlacement::new(set(0b1_1111), 2), (1, 1));
    let lost = [Chunk::Data(0), Chunk::Data(2), Chunk::Parity(1)];
    let whole = Bytes::new(3, 2);
    let is = whole.of(lost[0]).unwrap();
    let bytes = whole.without(&lost);
    assert!(!bytes.make(Rebuild::new(placement, slot, lost[0], 3, set(0)), is, 3));
    let missing = lost.iter().map(|it| it.device(placement, slot)).collect();
    assert_eq!(Rebuild::new(placement, slot, lost[0], 3, missing), None);
    let one = ChunkPlacement::new(set(0b1111), 1);
    assert!(!bytes.make(Rebuild::new(one, slot, lost[0], 3, set(0)), is, 3));
}

#[test]
fn the_rebuilt_device_is_not_read() {
    for (parity, device) in (1..=2).flat_map(|parity| (0..8).map(move |it| (parity, it))) {
        let placement = ChunkPlacement::new(set(0b1101_0110), parity);
        for slot in 0..20 {
            let Some(rebuild) = Rebuild::on_device(placement, (7, slot), device, set(0)) else {
                let is_parity = |which| placement.parity_device(7, slot, which) == device;
                let member = placement.members().contains(device);
                assert!(!member || (0..parity).any(is_parity));
                continue;
            };
            let mut seen = DeviceSet::single(device);
            for (_, from) in rebuild.sources() {
                assert!(!seen.contains(from), "a device has one chunk of a stripe");
                seen.insert(from);
            }
            assert_eq!(seen, placement.members());
        }
    }
}

#[test]
#[should_panic(expected = "a folded chunk was expected")]
fn chunks_beyond_the_end_are_not_folded() {
    let placement = ChunkPlacement::new(set(0b11), 1);
    let rebuild =
        Rebuild::new(placement, (0, 0), Chunk::Data(0), 1, set(0)).expect("there is parity");
    rebuild.fold().fold();
}
