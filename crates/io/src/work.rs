//! The commands that compute: pure functions over bytes.

use std::cell::RefCell;

use hostftl_core::{ALL_ZEROS, Codec, DeviceError, Few, MAX_PIECES, Part, Verdict};
use hostftl_format::page::crc32c;
use lz4_flex::block::{self, CompressTable};

use crate::stream;

/// What LZ4 needs beside its input and its output; making it anew takes as long as packing a block.
struct Lz4 {
    table: CompressTable,
    /// The compressor wants room for the worst case, whatever comes out.
    whole: Vec<u8>,
}

thread_local! {
    static LZ4: RefCell<Lz4> =
        RefCell::new(Lz4 { table: CompressTable::default(), whole: Vec::new() });
}

impl Lz4 {
    /// The length of `from` packed into `into`, if it fits.
    fn pack(&mut self, from: &[u8], into: &mut [u8]) -> Option<usize> {
        let room = block::get_maximum_output_size(from.len());
        if self.whole.len() < room {
            self.whole.resize(room, 0);
        }
        let packed = block::compress_into_with_table(from, &mut self.whole, &mut self.table);
        let packed = packed.expect("there is room for the worst case");
        let into = into.get_mut(..packed)?;
        into.copy_from_slice(&self.whole[..packed]);
        Some(packed)
    }
}

/// Compresses `from` into `into`. A verdict of 0 bytes says that it did not fit; the checksum is
/// that of `from` then.
pub fn pack(codec: Codec, seed: u64, from: &[u8], into: &mut [u8]) -> Verdict {
    if is_zero(from) {
        return Verdict { bytes: ALL_ZEROS, crc: 0 };
    }
    let packed = match codec {
        Codec::Lz4 | Codec::Zstd(_) if is_noise(from) => None,
        Codec::Raw => (from.len() <= into.len()).then(|| {
            into[..from.len()].copy_from_slice(from);
            from.len()
        }),
        Codec::Lz4 => LZ4.with_borrow_mut(|lz4| lz4.pack(from, into)),
        Codec::Zstd(level) => zstd::bulk::compress_to_buffer(from, into, level.into()).ok(),
    };
    match packed {
        Some(len) => Verdict { bytes: len as u32, crc: crc32c(seed, &into[..len]) },
        None => digest(seed, from),
    }
}

/// Whether about as many values occur as do where all are as likely: bytes that are compressed or
/// encrypted already. It takes a small part of the time that LZ4 takes to find nothing in them.
/// What repeats itself within such bytes is not found, nor always what is an eighth zeros.
fn is_noise(bytes: &[u8]) -> bool {
    if bytes.len() < 1024 {
        return false;
    }
    // An odd step, so that a table of words is not known by one column.
    let step = (bytes.len() / 256) | 1;
    let mut seen = [0_u8; 256];
    bytes.iter().step_by(step).for_each(|byte| seen[usize::from(*byte)] = 1);
    let values: u32 = seen.iter().map(|seen| u32::from(*seen)).sum();
    // Of 241 draws from 256 values 156 ± 5 are different, and with a quarter of zeros 136 ± 5: one
    // in fifty of either is taken for the other.
    values >= 146
}

/// Whether there is nothing but zeros.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<64>();
    words.iter().all(|chunk| *chunk == [0; 64]) && tail.iter().all(|byte| *byte == 0)
}

/// Checks `from` against `crc` and expands it into `into`.
pub fn unpack(
    codec: Codec,
    seed: u64,
    crc: u32,
    from: &[u8],
    into: &mut [u8],
) -> Result<Verdict, DeviceError> {
    if crc32c(seed, from) != crc {
        return Err(DeviceError::Media);
    }
    let expanded = match codec {
        Codec::Raw => (from.len() == into.len()).then(|| {
            into.copy_from_slice(from);
            from.len()
        }),
        Codec::Lz4 => lz4_flex::block::decompress_into(from, into).ok(),
        Codec::Zstd(_) => zstd::bulk::decompress_to_buffer(from, into).ok(),
    };
    let bytes = expanded.ok_or(DeviceError::Media)? as u32;
    Ok(Verdict { bytes, crc: 0 })
}

/// The CRC-32C of `from`.
pub fn digest(seed: u64, from: &[u8]) -> Verdict {
    Verdict { bytes: 0, crc: crc32c(seed, from) }
}

/// Checks and copies parts up to the first that is wrong; the verdict counts those that are right.
pub fn move_parts(parts: &[Part], from: &[u8], into: &mut [u8]) -> Verdict {
    let right = parts.iter().take_while(|part| {
        let bytes = &from[part.from as usize..][..part.len as usize];
        let right = crc32c(part.seed, bytes) == part.crc;
        if right {
            stream::copy(bytes, &mut into[part.into as usize..][..bytes.len()]);
        }
        right
    });
    Verdict { bytes: right.count() as u32, crc: 0 }
}

/// Bytes that are folded at once: few, so that all that is read comes at about the same time.
const STRIP: usize = 1024;

/// `into` becomes the XOR of all of `from`, and of what it held if that is kept.
pub fn fold<'a>(from: impl Iterator<Item = &'a [u8]>, into: &mut [u8], keep: bool) {
    let from: Few<&[u8], MAX_PIECES> = from.collect();
    let same = from.iter().all(|other| other.len() == into.len());
    assert!(same, "only ranges of one length can be folded");
    let mut sum = [0; STRIP];
    for (index, into) in into.chunks_mut(STRIP).enumerate() {
        let (at, len) = (index * STRIP, into.len());
        let sum = &mut sum[..len];
        let mut strips = from.iter().map(|other| &other[at..at + len]);
        match if keep { Some(&*into) } else { strips.next() } {
            Some(first) => sum.copy_from_slice(first),
            None => sum.fill(0),
        }
        strips.for_each(|other| xor(other, sum));
        stream::copy(sum, into);
    }
}

/// XORs `from` into `into`, which is as long.
fn xor(from: &[u8], into: &mut [u8]) {
    for (byte, other) in into.iter_mut().zip(from) {
        *byte ^= other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn codecs() -> impl Strategy<Value = Codec> {
        prop_oneof![Just(Codec::Lz4), (1..6_i8).prop_map(Codec::Zstd), Just(Codec::Raw)]
    }

    proptest! {
        #[test]
        fn unpack_undoes_pack(
            codec in codecs(), seed: u64, tile in "[ab]{1,9}", len in 1..9000_usize,
        ) {
            let plain: Vec<u8> = tile.bytes().cycle().take(len).collect();
            let mut packed = vec![0; len + 64];
            let verdict = pack(codec, seed, &plain, &mut packed);
            let packed = &packed[..verdict.bytes as usize];
            let mut back = vec![0; len];
            let done = unpack(codec, seed, verdict.crc, packed, &mut back);
            prop_assert_eq!(done, Ok(Verdict { bytes: len as u32, crc: 0 }));
            prop_assert_eq!(back, plain);
        }

        #[test]
        fn a_flipped_bit_is_seen(codec in codecs(), bit in 0..8_usize, len in 1..500_usize) {
            let plain = vec![5; len];
            let mut packed = vec![0; len + 64];
            let verdict = pack(codec, 1, &plain, &mut packed);
            packed[verdict.bytes as usize / 2] ^= 1 << bit;
            let packed = &packed[..verdict.bytes as usize];
            let done = unpack(codec, 1, verdict.crc, packed, &mut vec![0; len]);
            prop_assert_eq!(done, Err(DeviceError::Media));
        }

        #[test]
        fn folding_twice_changes_nothing(bytes: Vec<u8>, more: u8) {
            let before: Vec<u8> = bytes.iter().map(|byte| byte.rotate_left(more.into())).collect();
            let mut after = before.clone();
            fold([&bytes[..], &bytes].into_iter(), &mut after, true);
            prop_assert_eq!(&after, &before);
            fold([&bytes[..], &before, &bytes].into_iter(), &mut after, false);
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn noise_is_told_from_what_packs() {
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        let mut block: Vec<u8> = (0..4096).map(|_| noise()).collect();
        assert!(is_noise(&block));
        block[..1024].fill(0);
        assert!(!is_noise(&block), "a quarter is zeros");
        let words: Vec<u8> = (0..512).flat_map(|_| u64::from(noise()).to_le_bytes()).collect();
        assert!(!is_noise(&words), "words of 8 bytes with one that is noise");
        let hex: Vec<u8> =
            (0..4096).map(|_| b"0123456789abcdef"[usize::from(noise() & 15)]).collect();
        assert!(!is_noise(&hex));
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let noise: Vec<u8> =
            (0..4096_u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for codec in [Codec::Lz4, Codec::Zstd(1)] {
            assert_eq!(pack(codec, 3, &noise, &mut [0; 64]), digest(3, &noise));
        }
    }

    #[test]
    fn a_move_ends_at_the_first_part_that_is_wrong() {
        let from = *b"one two three";
        let part = |from: u32, into: u32, bytes: &[u8]| {
            let (seed, len) = (from.into(), bytes.len() as u32);
            Part { from, into, len, crc: digest(seed, bytes).crc, seed }
        };
        let parts = [part(0, 4, b"one"), part(4, 0, b"TWO"), part(8, 8, b"three")];
        let mut into = [b'.'; 13];
        assert_eq!(move_parts(&parts, &from, &mut into).bytes, 1);
        assert_eq!(&into, b"....one......");
    }

    #[test]
    fn a_digest_depends_on_its_seed() {
        assert_ne!(digest(1, b"bytes").crc, digest(2, b"bytes").crc);
    }
}
