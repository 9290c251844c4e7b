//! Detection of content on a device that `create` would destroy.

use std::ops::Range;

use hostftl_core::{BLOCK, Page, SECTOR};
use hostftl_format::superblock::{is_ours, places};
use hostftl_io::{Device, IoError, cancel};

/// Bytes read at each end to detect known formats.
const SAMPLE: u64 = 1 << 20;
/// Maximum amount of data that is read completely, in bytes. Of a longer device this amount is read
/// from the head, and samples of the rest.
const WHOLE: u64 = 256 << 20;
/// Number of samples, at equal distances.
const SAMPLES: u64 = 2048;
/// Length of a sample in bytes.
const SAMPLE_BYTES: u64 = 64 << 10;
/// Bytes per read.
const PART: u64 = 1 << 20;

/// Signatures of known formats: name, offset in bytes, magic bytes.
const SIGNATURES: &[(&str, usize, &[u8])] = &[
    ("a LUKS container", 0, b"LUKS\xba\xbe"),
    ("an XFS file system", 0, b"XFSB"),
    ("an ext2, ext3 or ext4 file system", 0x438, &[0x53, 0xef]),
    ("a btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    ("an LVM physical volume", 0x218, b"LVM2 001"),
    ("an LVM physical volume", 0x18, b"LVM2 001"),
    ("swap space", 0xff6, b"SWAPSPACE2"),
    ("a member of an md array", 0x1000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a member of an md array", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a ZFS pool", 0x2_0000, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    ("a ZFS pool", 0x2_1000, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    ("a bcache device", 0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 0x52, b"FAT32   "),
    ("a FAT file system", 0x36, b"FAT16   "),
    ("a GPT partition table", 0x200, b"EFI PART"),
    ("a GPT partition table", 0x1000, b"EFI PART"),
    ("an MBR partition table or boot sector", 0x1fe, &[0x55, 0xaa]),
];

/// Formats with a signature near the end: name, distance from the end in bytes, magic bytes.
const TAIL_SIGNATURES: &[(&str, u64, &[u8])] = &[
    ("a GPT partition table", 0x200, b"EFI PART"),
    ("a member of an md array", 0x1_0000, &[0xfc, 0x4e, 0x2b, 0xa9]),
];

/// Describes the content of the device; `None` when it seems blank.
pub(crate) fn find_content(device: &Device) -> Result<Option<String>, IoError> {
    let sectors = device.bytes() / SECTOR as u64;
    for at in places(sectors) {
        if is_ours(&device.read_page(at)?) {
            return Ok(Some("a member of a HostFTL volume".into()));
        }
    }
    let [head, tail] = ends(device)?;
    if let Some(name) = known(&head, &tail) {
        return Ok(Some(name));
    }
    let is_used = head.iter().chain(&tail).any(|byte| *byte != 0) || holds_data(device)?;
    Ok(is_used.then(|| "non-zero data".into()))
}

/// Returns whether the device holds data other than zeros, as far as samples show it. On a zoned
/// device the write pointers suffice.
fn holds_data(device: &Device) -> Result<bool, IoError> {
    if device.is_zoned() {
        return Ok(device.has_written_segments());
    }
    let whole = |at: u64| at / SECTOR as u64 * SECTOR as u64;
    let ranges = device.data_ranges(0..whole(device.bytes()))?;
    let mut pages = vec![Page::default(); (PART / BLOCK as u64) as usize];
    for range in samples(&ranges) {
        for at in (whole(range.start)..range.end).step_by(PART as usize) {
            // Reading a long device takes time, so a signal must end it.
            cancel::check(device.name())?;
            let bytes = whole(PART.min(range.end - at));
            device.read_bytes(at, bytes, &mut pages)?;
            let (full, rest) = (bytes as usize / BLOCK, bytes as usize % BLOCK);
            let is_zero = pages[..full].iter().all(|page| page.0 == [0; BLOCK]);
            if !is_zero || rest > 0 && pages[full].0[..rest].iter().any(|byte| *byte != 0) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the byte ranges of the data in `ranges` to read: the first [`WHOLE`] bytes and samples
/// of the rest.
fn samples(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let step = (all.saturating_sub(WHOLE) / SAMPLES).max(SAMPLE_BYTES);
    // Both are offsets into the concatenation of the ranges.
    let (mut before, mut next) = (0, WHOLE);
    let mut wanted = Vec::new();
    for range in ranges {
        let len = range.end - range.start;
        if before < WHOLE {
            wanted.push(range.start..range.start + len.min(WHOLE - before));
        }
        while next < before + len {
            let at = range.start + next - before;
            wanted.push(at..range.end.min(at + SAMPLE_BYTES));
            next += step;
        }
        before += len;
    }
    wanted
}

/// Returns the name of a known format on the device, regardless of other content.
pub(crate) fn find_format(device: &Device) -> Result<Option<String>, IoError> {
    let [head, tail] = ends(device)?;
    Ok(known(&head, &tail))
}

/// Reads both ends of a device.
fn ends(device: &Device) -> Result<[Vec<u8>; 2], IoError> {
    let head = read(device, 0, SAMPLE.min(device.bytes()))?;
    let tail_from = device.bytes().saturating_sub(SAMPLE).next_multiple_of(SECTOR as u64);
    Ok([head, read(device, tail_from, device.bytes() - tail_from)?])
}

fn known(head: &[u8], tail: &[u8]) -> Option<String> {
    for (name, at, mark) in SIGNATURES {
        if head.get(*at..at + mark.len()) == Some(mark) {
            return Some((*name).into());
        }
    }
    for (name, from_end, mark) in TAIL_SIGNATURES {
        let at = (tail.len() as u64).checked_sub(*from_end).map(|at| at as usize);
        if at.and_then(|at| tail.get(at..at + mark.len())) == Some(mark) {
            return Some((*name).into());
        }
    }
    None
}

/// Reads whole sectors of the device, page by page.
fn read(device: &Device, from: u64, len: u64) -> Result<Vec<u8>, IoError> {
    let page = size_of::<Page>() as u64;
    let mut bytes = Vec::with_capacity(len as usize);
    for at in (from..from + len).step_by(page as usize) {
        // The last page may extend beyond the end: shift the read so that it ends there.
        let start = at.min((device.bytes() - page) / SECTOR as u64 * SECTOR as u64);
        let read = device.read_page(start / SECTOR as u64)?;
        bytes.extend_from_slice(&read.0[(at - start) as usize..]);
    }
    bytes.truncate(len as usize);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::slice;

    fn found(at: u64, mark: &[u8], bytes: u64) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        file.as_file().write_all_at(mark, at).unwrap();
        find_content(&Device::open(file.path().to_str().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn known_formats_are_recognised() {
        let bytes = 8 << 20;
        for (name, at, mark) in SIGNATURES {
            assert_eq!(found(*at as u64, mark, bytes).as_deref(), Some(*name));
        }
        for (name, from_end, mark) in TAIL_SIGNATURES {
            assert_eq!(found(bytes - from_end, mark, bytes).as_deref(), Some(*name));
        }
    }

    #[test]
    fn other_data_is_seen_anywhere() {
        for bytes in [4 << 20, (4 << 20) + 512] {
            assert_eq!(found(0, &[], bytes), None);
            for at in [0, 700_000, bytes - 512, bytes - 1, bytes - 1_000_000] {
                assert_eq!(found(at, b"x", bytes).as_deref(), Some("non-zero data"));
            }
            let middle = found(2_000_000, b"x", bytes);
            assert_eq!(middle.as_deref(), Some("non-zero data"));
        }
    }

    #[test]
    fn a_little_data_in_a_long_sparse_file_is_seen() {
        for at in [1 << 30, 77_777_777_777, (1 << 40) - 5_000_000] {
            assert_eq!(found(at, b"x", 1 << 40).as_deref(), Some("non-zero data"));
        }
        assert_eq!(found(0, &[], 1 << 40), None);
    }

    #[test]
    fn samples_cover_the_head_and_reach_the_end() {
        let (gib, all) = (1 << 30, 1 << 40);
        let found = samples(slice::from_ref(&(0..all)));
        assert_eq!(found[0], 0..WHOLE);
        assert_eq!(found.len() as u64, 1 + SAMPLES);
        let longest = found.windows(2).map(|pair| pair[1].start - pair[0].end).max();
        assert!(longest.unwrap() < gib && all - found.last().unwrap().end < gib);
        // Slightly more than the whole, and separate ranges.
        let longer = samples(slice::from_ref(&(0..WHOLE + 512)));
        assert_eq!(longer, [0..WHOLE, WHOLE..WHOLE + 512]);
        let apart = samples(&[gib..gib + WHOLE, 5 * gib..5 * gib + 4096]);
        assert_eq!(apart, [gib..gib + WHOLE, 5 * gib..5 * gib + 4096]);
    }
}
