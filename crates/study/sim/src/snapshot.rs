//! Preconditioned stacks as files, which avoid ageing the same stack again.
//!
//! A stack is stopped before it is saved, so that a layer opens it as after a clean stop. A file
//! contains `HFTLWARM`, a version, the description of the stack (text with its length), the record
//! of its ageing, the state of the drives, their metadata, and the XXH3 of all of this. Numbers are
//! little-endian.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_core::Layer;
use hostftl_drives::{Device, DeviceSpec};

use crate::error::StudyError;
use crate::front::Totals;
use crate::media::Media;
use crate::state::Warm;
use crate::warm::Warmed;
use crate::world::World;

const MAGIC: &[u8; 8] = b"HFTLWARM";
const VERSION: u32 = 2;
/// Bytes of the checksum at the end.
const SUM: usize = 8;

/// Returns the file name for a drive and a layer with the description `about`.
pub(crate) fn name(drive: &str, layer: &str, about: &str) -> String {
    let sum = twox_hash::XxHash3_64::oneshot(about.as_bytes());
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._=+".contains(c) { c } else { '_' };
    format!("{drive}+{layer}+{sum:016x}.warm").chars().map(plain).collect()
}

fn wrong(path: &Path, why: impl ToString) -> StudyError {
    StudyError::Snapshot { path: path.to_owned(), why: why.to_string() }
}

/// Writes `world`, which is stopped and has the description `about`, to `path`.
pub(crate) fn save<L: Layer>(
    world: &World<L, Device>,
    warmed: &Warmed,
    about: &str,
    path: &Path,
) -> Result<(), StudyError> {
    let bytes = encoded(world, warmed, about).map_err(|error| wrong(path, error))?;
    // Rows in progress may save the same stack, so each writes to a temporary file of its own.
    static PARTS: AtomicU64 = AtomicU64::new(0);
    let number = PARTS.fetch_add(1, Ordering::Relaxed);
    let part = path.with_extension(format!("{}-{number}.part", std::process::id()));
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&part, &bytes))
        .and_then(|()| fs::rename(&part, path))
        .map_err(|error| wrong(path, format!("cannot write the snapshot: {error}")))
}

fn encoded<L: Layer>(
    world: &World<L, Device>,
    warmed: &Warmed,
    about: &str,
) -> io::Result<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((about.len() as u32).to_le_bytes());
    bytes.extend(about.as_bytes());
    bytes.push(warmed.reached.into());
    bytes.extend(warmed.overwrites.unwrap_or(f64::NAN).to_le_bytes());
    bytes.extend(warmed.rounds.unwrap_or(u64::MAX).to_le_bytes());
    world.drives.iter().try_for_each(|drive| drive.save(&mut bytes))?;
    world.media().expect("a saved simulation keeps metadata").save(&mut bytes)?;
    let sum = twox_hash::XxHash3_64::oneshot(&bytes);
    bytes.extend(sum.to_le_bytes());
    Ok(bytes)
}

/// Reads a file that [`save`] wrote: the drives of `specs`, their metadata, and the record of
/// ageing in state `warm`.
pub(crate) fn load(
    specs: &[DeviceSpec],
    about: &str,
    warm: Warm,
    path: &Path,
) -> Result<(Vec<Device>, Media, Warmed), StudyError> {
    let bytes = fs::read(path)
        .map_err(|error| wrong(path, format!("cannot read the snapshot: {error}")))?;
    let fault = |why: &str| {
        wrong(path, format!("{why}; remove the file, and the next run creates it again"))
    };
    if !bytes.starts_with(MAGIC) {
        return Err(wrong(path, "not a snapshot of an aged stack"));
    }
    let whole = bytes.len().saturating_sub(SUM);
    let sum = twox_hash::XxHash3_64::oneshot(&bytes[..whole]);
    if bytes[whole..] != sum.to_le_bytes() {
        return Err(fault("the snapshot is damaged"));
    }
    let mut from = &bytes[MAGIC.len()..whole];
    let head = head(&mut from, warm).map_err(|_| fault("the snapshot is truncated"))?;
    let Some((found, warmed)) = head else {
        return Err(fault("the snapshot has a different version"));
    };
    if found != about {
        let differs = found.lines().zip(about.lines()).find(|(found, about)| found != about);
        let (found, about) = differs.unwrap_or((&found, about));
        let why = format!("the snapshot belongs to another stack ({found}, not {about})");
        return Err(fault(&why));
    }
    let drives = specs.iter().map(|spec| spec.load(&mut from));
    let drives = drives.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(path, error))?;
    let media = Media::load(&mut from).map_err(|_| fault("the snapshot is truncated"))?;
    Ok((drives, media, warmed))
}

/// Returns the description of the stack and the record of its ageing, or `None` for another
/// version.
fn head(from: &mut &[u8], warm: Warm) -> io::Result<Option<(String, Warmed)>> {
    let mut word = [0; 4];
    from.read_exact(&mut word)?;
    if u32::from_le_bytes(word) != VERSION {
        return Ok(None);
    }
    from.read_exact(&mut word)?;
    let mut text = vec![0; (u32::from_le_bytes(word) as usize).min(from.len())];
    from.read_exact(&mut text)?;
    let (mut reached, mut overwrites, mut rounds) = ([0; 1], [0; 8], [0; 8]);
    from.read_exact(&mut reached)?;
    from.read_exact(&mut overwrites)?;
    from.read_exact(&mut rounds)?;
    let warmed = Warmed {
        warm,
        reached: reached == [1],
        overwrites: Some(f64::from_le_bytes(overwrites)).filter(|it| !it.is_nan()),
        rounds: Some(u64::from_le_bytes(rounds)).filter(|it| *it != u64::MAX),
        asked: Totals::default(),
        cancelled: false,
    };
    Ok(Some((String::from_utf8_lossy(&text).into_owned(), warmed)))
}
