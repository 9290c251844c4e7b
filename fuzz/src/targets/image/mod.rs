//! Whole images with sound checksums over anything: a layer refuses them, or opens them and serves
//! errors or any bytes. It asks no device for what that has not, comes to an end, and takes no more
//! memory than for a good image.

pub(super) mod change;
pub(super) mod pages;

use std::sync::OnceLock;

use anyhow::anyhow;
use hostftl_chaos::still::{Case, Image, Still};
use hostftl_core::{BLOCK, DeviceKind, SECTOR};
use hostftl_layers::Mode;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use change::{CHANGE, apply, to_begin_with};
use pages::{Pages, Volume};

/// Changes of an image at most.
const MOST: usize = 6;
/// Sectors that are read of what opens.
const READ: u64 = 512;
/// Requests that make the image of a volume that has collected garbage.
const CHURN: u32 = 1500;

/// A good image, and its pages by kind.
pub(super) struct Base {
    case: Case,
    image: Image,
    exported: u64,
    pages: Pages,
}

/// Young volumes of each layer as the golden images have them, then the same after long use, and
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
        let mut still = Still::start(&case, image, Mode::Open).expect("a layer of ours");
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

/// Writes most of the volume over and over, trims and flushes; errors are as good as success.
fn requests(still: &mut Still, count: u32, rng: &mut Xoshiro256PlusPlus) -> Result<(), String> {
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

/// Opens an image with the changes of the input, twice if it can be stopped, reads, writes, and
/// looks for order.
pub(super) fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let Some((which, input)) = input.split_first() else { return Ok(()) };
    let base = &bases()[usize::from(*which) % bases().len()];
    let mut image = base.image.clone();
    let changes = input.chunks(CHANGE).take(MOST);
    changes.for_each(|change| apply(&base.pages, &mut image, change));
    run(base, image, 0, 0).map_err(|why| anyhow!("{}: {why}", base.case.name))
}

/// The same with changes that the seed draws; the input says of which image.
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

/// A write pointer of a zoned device stands elsewhere.
fn point(base: &Base, image: &mut Image, rng: &mut Xoshiro256PlusPlus) {
    let DeviceKind::Zoned(shape) = base.case.infos[0].kind else { return };
    let mut pointers = image.pointers(0);
    let pick = rng.random_range(0..pointers.len());
    pointers[pick] = rng.random_range(0..=shape.size / shape.write_unit) * shape.write_unit;
    image.set_pointers(0, &pointers);
}

fn run(base: &Base, mut image: Image, more: u32, seed: u64) -> Result<(), String> {
    for _ in 0..2 {
        let mut still = Still::start(&base.case, image, Mode::Open)?;
        if still.refusal().is_some() {
            drop(still.cut());
            return Ok(());
        }
        // It may be out of order, and say so.
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

/// The number of good images.
pub(super) fn count() -> usize {
    bases().len()
}

/// The young image of each layer, with each of the changes to begin with.
pub(super) fn made() -> Vec<Vec<u8>> {
    let of = |which: usize| {
        to_begin_with().into_iter().map(move |change| [vec![which as u8], change].concat())
    };
    (0..count() / 2).flat_map(of).collect()
}

/// Each image.
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
