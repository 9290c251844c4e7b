//! The commands that compute: pure functions over bytes.

use hostftl_core::{ALL_ZEROS, Codec, DeviceError, Verdict};
use hostftl_format::page::crc32c;

/// Compresses `from` into `into`. A verdict of 0 bytes says that it did not fit.
pub fn pack(codec: Codec, seed: u64, from: &[u8], into: &mut [u8]) -> Verdict {
    if is_zero(from) {
        return Verdict { bytes: ALL_ZEROS, crc: 0 };
    }
    let packed = match codec {
        Codec::Raw => (from.len() <= into.len()).then(|| {
            into[..from.len()].copy_from_slice(from);
            from.len()
        }),
        Codec::Lz4 => {
            // The compressor wants room for the worst case, whatever comes out.
            let whole = lz4_flex::block::compress(from);
            let fits = whole.len() <= into.len();
            fits.then(|| into[..whole.len()].copy_from_slice(&whole)).map(|()| whole.len())
        }
        Codec::Zstd(level) => zstd::bulk::compress_to_buffer(from, into, level.into()).ok(),
    };
    match packed {
        Some(len) => Verdict { bytes: len as u32, crc: crc32c(seed, &into[..len]) },
        None => Verdict::default(),
    }
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

/// XORs `from` into `into`.
pub fn fold(from: &[u8], into: &mut [u8]) {
    assert_eq!(from.len(), into.len(), "only ranges of one length can be folded");
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
            fold(&bytes, &mut after);
            fold(&bytes, &mut after);
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let noise: Vec<u8> =
            (0..4096_u32).map(|i| (i.wrapping_mul(2654435761) >> 13) as u8).collect();
        for codec in [Codec::Lz4, Codec::Zstd(1)] {
            assert_eq!(pack(codec, 0, &noise, &mut [0; 64]), Verdict::default());
        }
    }

    #[test]
    fn a_digest_depends_on_its_seed() {
        assert_ne!(digest(1, b"bytes").crc, digest(2, b"bytes").crc);
    }
}
