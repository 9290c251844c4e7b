//! Whole images with valid checksums over arbitrary content. A layer refuses them, or opens them
//! and returns errors or any data. It accesses no device beyond its end, terminates, and takes no
//! more memory than for a valid image.

pub(super) mod change;
pub(super) mod pages;

use std::sync::OnceLock;

use anyhow::anyhow;
use hostftl_chaos::fault_free::{Case, FaultFreeRun, Image};
use hostftl_core::{BLOCK, DeviceKind, SECTOR};
use hostftl_layers::Mode;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use change::{CHANGE, apply, to_begin_with};
use pages::{Pages, Volume};

/// Maximum number of changes to an image.
const MOST: usize = 6;
/// Sectors that are read from an opened image.
const READ: u64 = 512;
/// Requests before the image of a volume with garbage collection.
const CHURN: u32 = 1500;

/// A valid image and its pages by kind.
pub(super) struct Base {
    case: Case,
    image: Image,
    exported: u64,
    pages: Pages,
}

/// Returns new volumes of each layer as in the golden images, the same volumes after long use, and
/// layers with other parameters.
fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let young = Case::all().into_iter().map(|case| base(case, 0));
        let old = Case::all().into_iter().chain(Case::more()).map(|case| base(case, CHURN));
        young.chain(old).filter(|base| !base.pages.is_empty()).collect()
    })
}

fn base(case: Case, churn: u32) -> Base {
    let (mut image, versions) = case.image().expect("a layer of ours");
    let exported = versions.len() as u64;
    if churn > 0 {
        let mut still = FaultFreeRun::start(&case, image, Mode::Open).expect("a layer of ours");
        requests(&mut still, churn, &mut Xoshiro256PlusPlus::seed_from_u64(1)).expect("no fault");
        image = still.cut();
    }
    let volume = Volume {
        uuid: case.config.uuid,
        strip: case.config.superpage as usize * SECTOR,
        starts: vec![0; image.devices()],
        shown: 0,
    };
    let pages = Pages::find(&image, &volume);
    Base { case, image, exported, pages }
}

/// Overwrites most of the volume repeatedly, with trims and flushes. Errors of requests are
/// allowed.
fn requests(
    still: &mut FaultFreeRun,
    count: u32,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<(), String> {
    let room = still.exported() - 32;
    for request in 0..count {
        let lba = rng.random_range(0..room) & !7;
        let _ = match rng.random_range(0..24) {
            0 => still.trim(lba, 32)?,
            1 => still.flush()?,
            2 => still.write(lba + 3, 2, 2000 + request)?,
            _ => still.write(lba, 8 * rng.random_range(1..=4), 2000 + request)?,
        };
    }
    let _ = still.flush()?;
    Ok(())
}

/// Opens an image with the changes of the input, a second time if it can be stopped, and reads,
/// writes and checks it.
pub(super) fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let Some((which, input)) = input.split_first() else { return Ok(()) };
    let base = &bases()[usize::from(*which) % bases().len()];
    let mut image = base.image.clone();
    let changes = input.chunks(CHANGE).take(MOST);
    changes.for_each(|change| apply(&base.pages, &mut image, change));
    run(base, image, 0, 0).map_err(|why| anyhow!("{}: {why}", base.case.name))
}

/// Checks an image with changes drawn from the seed. The input selects the image.
pub(super) fn check_drawn(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let Some(which) = input.first() else { return Ok(()) };
    let base = &bases()[usize::from(*which) % bases().len()];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut image = base.image.clone();
    let sectors = base.case.infos[0].sectors;
    let ends = [sectors, sectors / 8, base.exported, base.exported / 8, BLOCK as u64];
    for _ in 0..rng.random_range(1..=MOST) {
        let change = change::draw(&base.pages, &ends, &mut rng);
        apply(&base.pages, &mut image, &change);
    }
    if rng.random_bool(0.1) {
        point(base, &mut image, &mut rng);
    }
    let more = if rng.random_bool(0.1) { 300 } else { 0 };
    let outcome = run(base, image, more, seed);
    outcome.map_err(|why| anyhow!("{}, {:?}: {why}", base.case.name, base.case.config))
}

/// Moves a write pointer of a zoned device.
fn point(base: &Base, image: &mut Image, rng: &mut Xoshiro256PlusPlus) {
    let DeviceKind::Zoned(shape) = base.case.infos[0].kind else { return };
    let mut pointers = image.pointers(0);
    let pick = rng.random_range(0..pointers.len());
    pointers[pick] = rng.random_range(0..=shape.size / shape.write_unit) * shape.write_unit;
    image.set_pointers(0, &pointers);
}

fn run(base: &Base, mut image: Image, more: u32, seed: u64) -> Result<(), String> {
    for _ in 0..2 {
        let mut still = FaultFreeRun::start(&base.case, image, Mode::Open)?;
        if still.refusal().is_some() {
            drop(still.cut());
            return Ok(());
        }
        // The check may report violations.
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
        requests(&mut still, more, &mut Xoshiro256PlusPlus::seed_from_u64(seed))?;
        image = still.stop()?;
    }
    Ok(())
}

/// Returns the number of valid images.
pub(super) fn count() -> usize {
    bases().len()
}

/// Returns the new image of each layer with each of the initial changes.
pub(super) fn made() -> Vec<Vec<u8>> {
    let of = |which: usize| {
        to_begin_with().into_iter().map(move |change| [vec![which as u8], change].concat())
    };
    (0..count() / 2).flat_map(of).collect()
}

/// Returns the index of each image.
pub(super) fn drawn() -> Vec<Vec<u8>> {
    (0..count()).map(|which| vec![which as u8]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_images_open_and_have_pages_to_change() {
        for base in bases() {
            let outcome = run(base, base.image.clone(), 300, 1);
            assert_eq!(outcome, Ok(()), "{}", base.case.name);
        }
        assert!(count() > 25, "{} layers have pages of their own", count());
    }
}
