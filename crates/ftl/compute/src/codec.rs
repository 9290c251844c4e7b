//! Compression and decompression with a checksum.

use hostftl_core::{ALL_ZEROS, Codec, DeviceError, Verdict};
use hostftl_format::page::crc32c;

use crate::tools::Tools;

/// Compresses `from` into `into`. A verdict of 0 bytes means that it did not fit; the checksum is
/// then that of `from`.
pub(crate) fn pack(
    codec: Codec,
    seed: u64,
    from: &[u8],
    into: &mut [u8],
    tools: &mut Tools,
) -> Verdict {
    if is_zero(from) {
        return Verdict { bytes: ALL_ZEROS, crc: 0 };
    }
    let packed = match codec {
        Codec::Lz4 | Codec::Zstd(_) if is_noise(from) => None,
        Codec::Raw => into.get_mut(..from.len()).map(|into| {
            into.copy_from_slice(from);
            from.len()
        }),
        Codec::Lz4 => tools.lz4(from, into),
        Codec::Zstd(level) => zstd_safe::compress(into, from, level.into()).ok(),
    };
    match packed {
        Some(len) => Verdict { bytes: len as u32, crc: crc32c(seed, &into[..len]) },
        None => Verdict { bytes: 0, crc: crc32c(seed, from) },
    }
}

/// Checks `from` against `crc` and decompresses it into `into`.
pub(crate) fn unpack(
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
        Codec::Zstd(_) => zstd_safe::decompress(into, from).ok(),
    };
    let bytes = expanded.ok_or(DeviceError::Media)? as u32;
    Ok(Verdict { bytes, crc: 0 })
}

/// Returns whether the number of distinct values is that of uniformly distributed bytes, which are
/// compressed or encrypted already. This takes a small fraction of the time that LZ4 needs to find
/// no redundancy. It misses repetitions within such bytes, and sometimes data of which an eighth is
/// zeros.
fn is_noise(bytes: &[u8]) -> bool {
    if bytes.len() < 1024 {
        return false;
    }
    // The step is odd, so that a table of words is not sampled in only one column.
    let step = (bytes.len() / 256) | 1;
    let mut seen = [0_u8; 256];
    bytes.iter().step_by(step).for_each(|byte| seen[usize::from(*byte)] = 1);
    let values: u32 = seen.iter().map(|seen| u32::from(*seen)).sum();
    // 241 draws from 256 values give 156 ± 5 distinct ones, and 136 ± 5 if a quarter is zeros. The
    // threshold misclassifies one in fifty of either.
    values >= 146
}

/// Returns whether all bytes are zeros.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks::<64>();
    words.iter().all(|chunk| *chunk == [0; 64]) && tail.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Miri cannot run C code, so it has no zstd.
    fn zstd(level: i8) -> Codec {
        if cfg!(miri) { Codec::Lz4 } else { Codec::Zstd(level) }
    }

    fn codecs() -> impl Strategy<Value = Codec> {
        prop_oneof![Just(Codec::Lz4), (1..6_i8).prop_map(zstd), Just(Codec::Raw)]
    }

    fn packed(codec: Codec, seed: u64, from: &[u8], into: &mut [u8]) -> Verdict {
        pack(codec, seed, from, into, &mut Tools::default())
    }

    proptest! {
        #[test]
        fn unpack_undoes_pack(
            codec in codecs(), seed: u64, tile in "[ab]{1,9}", len in 1..9000_usize,
        ) {
            let plain: Vec<u8> = tile.bytes().cycle().take(len).collect();
            let mut room = vec![0; len + 64];
            let verdict = packed(codec, seed, &plain, &mut room);
            let mut back = vec![0; len];
            let done =
                unpack(codec, seed, verdict.crc, &room[..verdict.bytes as usize], &mut back);
            prop_assert_eq!(done, Ok(Verdict { bytes: len as u32, crc: 0 }));
            prop_assert_eq!(back, plain);
        }

        #[test]
        fn a_flipped_bit_is_seen(codec in codecs(), bit in 0..8_usize, len in 1..500_usize) {
            let plain = vec![5; len];
            let mut room = vec![0; len + 64];
            let verdict = packed(codec, 1, &plain, &mut room);
            room[verdict.bytes as usize / 2] ^= 1 << bit;
            let done =
                unpack(codec, 1, verdict.crc, &room[..verdict.bytes as usize], &mut vec![0; len]);
            prop_assert_eq!(done, Err(DeviceError::Media));
        }

        /// Earlier use of the tools does not affect the result.
        #[test]
        fn reused_compressors_give_equal_output(
            codec in codecs(), first: Vec<u8>, tile in "[a-d]{1,9}", len in 1..3000_usize,
        ) {
            let plain: Vec<u8> = tile.bytes().cycle().take(len).collect();
            let mut used = Tools::default();
            pack(Codec::Lz4, 0, &first, &mut vec![0; 2 * first.len() + 64], &mut used);
            let (mut one, mut two) = (vec![0; len], vec![0; len]);
            let verdict = pack(codec, 7, &plain, &mut one, &mut used);
            prop_assert_eq!(verdict, packed(codec, 7, &plain, &mut two));
            prop_assert_eq!(one, two);
        }
    }

    #[test]
    fn incompressible_data_is_detected() {
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
    fn output_that_does_not_fit_is_reported() {
        let noise: Vec<u8> =
            (0..4096_u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for codec in [Codec::Lz4, zstd(1), Codec::Raw] {
            let digest = Verdict { bytes: 0, crc: crc32c(3, &noise) };
            assert_eq!(packed(codec, 3, &noise, &mut [0; 64]), digest);
        }
    }
}
