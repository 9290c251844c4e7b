//! Recordings for `replay`: whole files with corrected checksums, and their parts individually.
//!
//! The stored inputs come from `serve --record`, because the emitter needs a volume.

use std::fs;

use anyhow::ensure;
use hostftl_format::page::crc32c;
use hostftl_volume::replay;

use super::fast_folder;

const MAGIC: &[u8; 8] = b"HFTLREC1";
/// Maximum size of a replayed volume's device in sectors, because the volume's map is allocated.
const MOST_SECTORS: u64 = 1 << 17;
const HEAD: &[u8] = br#"{"layer":"hard:superpage=8k:spare=7","deadline":120000000000,
"uuid":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"format":true,"devices":
[{"sectors":28672,"map_unit":1,"volatile_cache":true,"discard":false}]}"#;

/// Returns an empty recording.
pub(super) fn whole() -> Vec<Vec<u8>> {
    vec![file(HEAD, &[])]
}

/// Returns the head that all steps are replayed with, and another one.
pub(super) fn heads() -> Vec<Vec<u8>> {
    let other = String::from_utf8_lossy(HEAD).replace("hard:superpage=8k:spare=7", "passthrough");
    vec![HEAD.to_vec(), other.into_bytes()]
}

/// Returns steps of a driver that uses only timers and the end.
pub(super) fn steps() -> Vec<Vec<u8>> {
    vec![vec![0, 0, 1, 0, 200, 1, 0], vec![0, 1]]
}

/// Makes a recording with `head` and one batch, whose stated number of records is too high.
fn file(head: &[u8], records: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((head.len() as u32).to_le_bytes());
    bytes.extend(crc32c(0, head).to_le_bytes());
    bytes.extend(head);
    if !records.is_empty() {
        let words = [records.len() as u32, u32::MAX, crc32c(0, records)];
        bytes.extend(words.map(u32::to_le_bytes).as_flattened());
        bytes.extend(records);
    }
    let last = [0; 16];
    let words = [u32::MAX, 0, crc32c(u64::from(!records.is_empty()), &last)];
    bytes.extend(words.map(u32::to_le_bytes).as_flattened());
    bytes.extend(last);
    bytes
}

/// Corrects the checksums of a recording as far as its lengths are valid. Returns its head.
fn mend(bytes: &mut [u8]) -> Option<Vec<u8>> {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().expect("four bytes");
        Some(u32::from_le_bytes(word) as usize)
    };
    let sum = |bytes: &mut [u8], begin: u64, from: usize, length: usize, at: usize| {
        let crc = crc32c(begin, bytes.get(from..from.checked_add(length)?)?);
        bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        Some(from + length)
    };
    let length = word(bytes, 8)?;
    let mut at = sum(bytes, 0, 16, length, 12)?;
    let head = bytes[16..at].to_vec();
    for number in 0.. {
        let Some(length) = word(bytes, at) else { break };
        let length = if length == u32::MAX as usize { 16 } else { length };
        let Some(next) = sum(bytes, number, at + 12, length, at + 8) else { break };
        at = next;
    }
    Some(head)
}

/// Returns whether the head describes a volume that is small enough to be created for each input.
fn is_small(head: &[u8]) -> bool {
    let Ok(head) = serde_json::from_slice::<serde_json::Value>(head) else { return true };
    let devices = head["devices"].as_array().into_iter().flatten();
    devices.filter_map(|device| device["sectors"].as_u64()).all(|length| length <= MOST_SECTORS)
}

/// Replays a file. An error must be a single line with the file's name.
fn play(bytes: &[u8]) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let path = folder.path().join("recording");
    fs::write(&path, bytes)?;
    if let Err(error) = replay(&path) {
        let why = error.to_string();
        ensure!(!why.contains('\n'), "more than one line: {why:?}");
        ensure!(why.contains("recording"), "it does not name the file: {why}");
    }
    Ok(())
}

/// Checks the input unchanged, or with corrected checksums.
pub(super) fn check(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let mut bytes = input.to_vec();
    let head = if seed.is_multiple_of(4) { None } else { mend(&mut bytes) };
    if head.is_some_and(|head| !is_small(&head)) { Ok(()) } else { play(&bytes) }
}

/// Checks the input as the head of a recording.
pub(super) fn check_head(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    if is_small(input) { play(&file(input, &steps()[0])) } else { Ok(()) }
}

/// Checks the input as the records of a recording.
pub(super) fn check_steps(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    play(&file(HEAD, input))
}
