//! Whole volumes in files with changed and resealed superblocks, zone tables and pages. A `check`
//! of all data, `import` and a start must terminate and report an error in one line.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, ensure};
use hostftl_chaos::fault_free::{Case, Image};
use hostftl_core::{BLOCK, DeviceInfo, DeviceKind, Page, SECTOR};
use hostftl_format::superblock::{LAYER_BYTES, RESERVE, Superblock, Text, data_window, places};
use hostftl_format::zonefile;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind};
use hostftl_volume::{CheckOptions, StartOptions, check_with, import, open};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::fast_folder;
use super::image::change;
use super::image::pages::{Media, Pages, Volume};

/// Maximum number of changes to a volume.
const MOST: usize = 4;
/// Values of parameters that can be too high, too low or invalid.
const WORDS: [&str; 16] = [
    "0",
    "1",
    "7",
    "64",
    "90",
    "4095",
    "65535",
    "4294967295",
    "18446744073709551615",
    "4k",
    "16k",
    "1m",
    "64m",
    "1g",
    "1023t",
    "yes",
];

/// The bytes of each file.
#[derive(Clone)]
struct Files(Vec<Vec<u8>>);

impl Media for Files {
    fn devices(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self, device: usize) -> &[u8] {
        &self.0[device]
    }

    fn patch(&mut self, device: usize, at: usize, bytes: &[u8]) {
        self.0[device][at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// A valid volume.
struct Base {
    case: Case,
    files: Files,
    /// Start of the device's data in each file, after the zone table.
    shown: usize,
    pages: Pages,
    ends: Vec<u64>,
}

/// Returns volumes of all layers, except those that need a drive with a collection hint.
fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let cases = Case::all().into_iter().chain(Case::more());
        cases.filter(|case| !case.config.kind.needs_hint()).map(base).collect()
    })
}

fn base(case: Case) -> Base {
    let (image, _) = case.image().expect("a layer of ours");
    let head = match case.infos[0].kind {
        DeviceKind::Zoned(shape) => zonefile::head_sectors(shape.count) as usize * SECTOR,
        DeviceKind::Block => 0,
    };
    let files = Files((0..image.devices()).map(|device| file(&case, &image, device)).collect());
    let volume = Volume {
        uuid: case.config.uuid,
        strip: case.config.superpage as usize * SECTOR,
        starts: vec![head + RESERVE as usize * SECTOR; image.devices()],
        shown: head,
    };
    let pages = Pages::find(&files, &volume);
    let sectors = case.infos[0].sectors;
    let ends = vec![sectors, sectors / 8, sectors + 2 * RESERVE, RESERVE, BLOCK as u64];
    Base { case, files, shown: head, pages, ends }
}

/// Returns the file of a device: its zone table if it is zoned, the superblocks, and the layer's
/// data between them.
fn file(case: &Case, image: &Image, device: usize) -> Vec<u8> {
    let (reserve, data) = (RESERVE as usize * SECTOR, image.bytes(device));
    let shown = [&vec![0; reserve], data, &vec![0; reserve]].concat();
    let sectors = (shown.len() / SECTOR) as u64;
    let mut file = match case.infos[device].kind {
        DeviceKind::Zoned(shape) => {
            let mut head = vec![0; zonefile::head_sectors(shape.count) as usize * SECTOR];
            let mut put = |at: u64, page: Page| {
                head[at as usize * SECTOR..][..BLOCK].copy_from_slice(&page.0);
            };
            for at in zonefile::SHAPE_PLACES {
                put(at, zonefile::emit_shape(&shape, at));
            }
            let entry = |pointer| zonefile::Entry { pointer, ..zonefile::Entry::default() };
            let entries: Vec<_> = image.pointers(device).into_iter().map(entry).collect();
            for (index, part) in entries.chunks(zonefile::ENTRIES as usize).enumerate() {
                for at in zonefile::table_places(index as u32) {
                    put(at, zonefile::emit_table(part, at, at));
                }
            }
            [head, shown].concat()
        }
        DeviceKind::Block => shown,
    };
    let from = file.len() - sectors as usize * SECTOR;
    let superblock = superblock(case, device, sectors);
    for at in places(sectors) {
        file[from + at as usize * SECTOR..][..BLOCK].copy_from_slice(&superblock.emit(at).0);
    }
    file
}

fn superblock(case: &Case, device: usize, device_sectors: u64) -> Superblock {
    let count = case.infos.len() as u8;
    let id = |index: u8| [index + 7; 16];
    let info = |info: &DeviceInfo| match info.kind {
        DeviceKind::Block => DeviceInfo::block(info.sectors, 1),
        DeviceKind::Zoned(_) => info.clone(),
    };
    let infos: Vec<DeviceInfo> = case.infos.iter().map(info).collect();
    let plan = AnyLayer::plan(&case.config, &infos).expect("a layer of ours");
    let (data_start, data_len) = (data_window(device_sectors).0, case.infos[device].sectors);
    Superblock {
        generation: 1,
        volume: case.config.uuid,
        device: id(device as u8),
        index: device as u8,
        count,
        layer_format: case.format(),
        layer: Text::new(&case.config.to_text()).expect("a short text"),
        data_start,
        data_len,
        device_sectors,
        exported: plan.limits.exported,
        created: 1_700_000_000,
        label: Text::new("a label").expect("a short label"),
        change: 5,
        changed: 1_700_000_000,
        members: std::array::from_fn(|at| if at < count.into() { id(at as u8) } else { [0; 16] }),
        lengths: std::array::from_fn(|at| case.infos.get(at).map_or(0, |info| info.sectors)),
        ..Superblock::default()
    }
}

/// Changes the layer or its parameters in all superblocks.
fn change_text(base: &Base, files: &mut Files, rng: &mut Xoshiro256PlusPlus) {
    let kinds = LayerKind::ALL;
    let kind = if rng.random_bool(0.7) {
        base.case.config.kind
    } else {
        kinds[rng.random_range(0..kinds.len())]
    };
    let mut text = if rng.random_bool(0.5) && kind == base.case.config.kind {
        base.case.config.to_text()
    } else {
        kind.to_string()
    };
    let parameters = kind.registration().parameters;
    for _ in 0..rng.random_range(0..4) {
        let Some(key) = parameters.get(rng.random_range(0..16)) else { continue };
        let words: Vec<&str> = key.value.split('|').chain(WORDS).collect();
        text += &format!(":{}={}", key.key, words[rng.random_range(0..words.len())]);
    }
    let Some(layer) = Text::<LAYER_BYTES>::new(&text) else { return };
    for bytes in &mut files.0 {
        let sectors = ((bytes.len() - base.shown) / SECTOR) as u64;
        for at in places(sectors) {
            let page = &mut bytes[base.shown + at as usize * SECTOR..][..BLOCK];
            let old = Superblock::parse(&Page((&*page).try_into().expect("a page")), at);
            let Ok(old) = old else { continue };
            let known = LayerConfig::parse(&text).and_then(|config| {
                let data = DeviceInfo::block(old.data_len, 1);
                let infos: Vec<_> = (0..old.count).map(|_| data.clone()).collect();
                AnyLayer::plan(&config, &infos).map_err(|why| why.to_string())
            });
            let exported = known.map_or(old.exported, |plan| plan.limits.exported);
            let new = Superblock { layer, layer_format: kind.format(), exported, ..old };
            page.copy_from_slice(&new.emit(at).0);
        }
    }
}

/// Checks a volume with changes drawn from the seed. The input selects the volume.
pub(super) fn check(input: &[u8], seed: u64) -> anyhow::Result<()> {
    // A start takes a lock of the machine, so only one volume can be tested at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(which) = input.first() else { return Ok(()) };
    let base = &bases()[usize::from(*which) % bases().len()];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut files = base.files.clone();
    for _ in 0..rng.random_range(0..=MOST) {
        let change = change::draw(&base.pages, &base.ends, &mut rng);
        change::apply(&base.pages, &mut files, &change);
    }
    if rng.random_bool(0.3) {
        change_text(base, &mut files, &mut rng);
    }
    let without = (rng.random_bool(0.1) && files.0.len() > 1).then_some(files.0.len() - 1);
    let starts = rng.random_bool(0.2);
    look(base, &files, (without, starts)).with_context(|| base.case.name)
}

/// Runs the read-only commands on the files, and starts the volume last.
fn look(
    base: &Base,
    files: &Files,
    (without, starts): (Option<usize>, bool),
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let zoned = if base.shown > 0 { "zoned:" } else { "" };
    let mut names = Vec::new();
    for (device, bytes) in files.0.iter().enumerate() {
        let path = folder.path().join(format!("d{device}"));
        write(&path, bytes)?;
        names.push(format!("{zoned}{}", path.display()));
    }
    let devices = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let uuid = uuid::Uuid::from_bytes(base.case.config.uuid);
    let layer = base.case.config.to_text();
    let text = format!("uuid = \"{uuid}\"\nlayer = \"{layer}\"\ndevices = [{devices}]\n");
    let (path, again) = (folder.path().join("v.toml"), folder.path().join("again.toml"));
    fs::write(&path, text)?;
    if let Some(device) = without {
        fs::remove_file(folder.path().join(format!("d{device}")))?;
        names.remove(device);
    }
    let all = |path: &Path| {
        let mut progress = |_, _| {};
        let options = CheckOptions { degraded: true, data: Some(&mut progress) };
        check_with(path, options).map(drop)
    };
    said(all(&path))?;
    let imported = import(&names, &again).map(drop);
    let found = imported.is_ok();
    said(imported)?;
    if found {
        said(all(&again))?;
    }
    if starts {
        let path = if found { &again } else { &path };
        let started = open(path).and_then(|volume| volume.start(&StartOptions::default()));
        said(started.and_then(|(running, port)| {
            drop(port);
            running.stop().map(drop)
        }))?;
    }
    Ok(())
}

/// Checks that an error is a single line.
fn said(result: Result<(), hostftl_volume::Error>) -> anyhow::Result<()> {
    let Err(error) = result else { return Ok(()) };
    let why = error.to_string();
    ensure!(!why.is_empty() && !why.chars().any(char::is_control), "said {why:?}");
    Ok(())
}

/// Writes the blocks that are not zero.
fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let file = fs::File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    for (index, page) in bytes.chunks(BLOCK).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, (index * BLOCK) as u64)?;
        }
    }
    Ok(())
}

/// Returns the index of each volume.
pub(super) fn volumes() -> Vec<Vec<u8>> {
    (0..bases().len()).map(|which| vec![which as u8]).collect()
}

#[cfg(test)]
mod tests {
    use hostftl_volume::Verdict;

    use super::*;

    #[test]
    fn good_volumes_are_sound_and_imported() {
        for base in bases() {
            look(base, &base.files, (None, true)).unwrap();
            let folder = tempfile::tempdir_in(fast_folder()).unwrap();
            let zoned = if base.shown > 0 { "zoned:" } else { "" };
            let mut names = Vec::new();
            for (device, bytes) in base.files.0.iter().enumerate() {
                let path = folder.path().join(format!("d{device}"));
                write(&path, bytes).unwrap();
                names.push(format!("{zoned}{}", path.display()));
            }
            let path = folder.path().join("v.toml");
            import(&names, &path).unwrap_or_else(|why| panic!("{}: {why}", base.case.name));
            let checked = check_with(&path, CheckOptions::default());
            let checked = checked.unwrap_or_else(|why| panic!("{}: {why}", base.case.name));
            assert_eq!(checked.verdict, Verdict::Sound, "{}: {checked:?}", base.case.name);
            assert!(base.pages.kinds() > 0, "{}", base.case.name);
        }
    }
}
