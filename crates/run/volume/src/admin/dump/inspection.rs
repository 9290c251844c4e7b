//! Inspection of each device: its metadata structures, their copies, and the validity of each
//! checksum.

use hostftl_core::{DeviceInfo, DeviceSet, MetaBuf, Page, SECTORS_PER_BLOCK};
use hostftl_format::assemble::choose;
use hostftl_format::claim::{self, Claim};
use hostftl_format::log::{Root, open_root, root_pages};
use hostftl_format::page::Fault;
use hostftl_format::session::{Mark, PLACES};
use hostftl_format::superblock::{SuperFault, Superblock, data_window};
use hostftl_io::Device;
use hostftl_layers::{LayerConfig, RootPlaces};

use super::source::{Source, Sources};
use super::texts::{ClaimText, DeviceDump, Found, MarkText, RootText, SuperblockText};
use crate::metadata::config::Config;
use crate::open::machine::as_members;
use crate::open::stack::{Copies, copies};

/// Magic bytes of a root.
const ROOT: &[u8] = b"LGRT";

/// Findings on a device.
pub(super) struct Inspection {
    pub dump: DeviceDump,
    pub sectors: u64,
    /// Sound metadata pages and the sector of each.
    pub pages: Vec<(u64, Page)>,
    newest: Option<Superblock>,
}

impl Inspection {
    /// Returns the superblock in effect.
    pub(super) fn newest(&self) -> Option<&Superblock> {
        self.newest.as_ref()
    }
}

/// Inspects all sources.
pub(super) fn all(sources: &Sources) -> Vec<Inspection> {
    let config = sources.file.as_ref().map(|(_, config)| config);
    let mut inspections: Vec<Inspection> = sources.all.iter().map(superblocks).collect();
    let found_superblocks: Vec<Option<Superblock>> =
        inspections.iter().map(|inspection| inspection.newest).collect();
    for (at, (inspection, source)) in inspections.iter_mut().zip(&sources.all).enumerate() {
        let Ok(source) = source else { continue };
        // Without a superblock the volume file identifies the volume of the session marks and
        // roots.
        let volume = match (inspection.newest, config) {
            (Some(own), _) => own.volume,
            (None, Some(config)) => config.uuid.into_bytes(),
            (None, None) => continue,
        };
        inspection.marks(source, volume);
        inspection.claims(source);
        match places(source, config, &found_superblocks, at) {
            Ok((index, places)) if index < places.devices => {
                inspection.roots(source, &places, volume)
            }
            Ok(_) => inspection.dump.no_roots = Some("it is the journal device".into()),
            Err(why) => inspection.dump.no_roots = Some(why),
        }
    }
    inspections
}

fn superblocks(source: &Result<Source, (String, String)>) -> Inspection {
    let mut dump = DeviceDump {
        name: String::new(),
        bytes: None,
        trouble: None,
        superblocks: Vec::new(),
        sessions: Vec::new(),
        claims: Vec::new(),
        roots: Vec::new(),
        no_roots: None,
    };
    let source = match source {
        Ok(source) => source,
        Err((name, why)) => {
            (dump.name, dump.trouble) = (name.clone(), Some(why.clone()));
            return Inspection { dump, sectors: 0, pages: Vec::new(), newest: None };
        }
    };
    let sectors = source.sectors();
    (dump.name, dump.bytes) = (source.name(), Some(sectors * 512));
    let mut inspection = Inspection { dump, sectors, pages: Vec::new(), newest: None };
    if sectors < u64::from(2 * SECTORS_PER_BLOCK) {
        inspection.dump.trouble = Some("too small for a device of a volume".into());
        return inspection;
    }
    match copies(sectors, |at| source.read(at)) {
        Ok(found) => inspection.take(&found),
        Err(why) => inspection.dump.trouble = Some(why),
    }
    inspection
}

impl Inspection {
    fn take(&mut self, found: &Copies) {
        let [(_, head), (_, tail)] = found;
        self.newest = choose(*head, *tail).ok().map(|chosen| chosen.superblock);
        for (at, copy) in found {
            let says = copy.as_ref().ok().map(SuperblockText::from);
            let (state, why) = match copy {
                Ok(copy) if self.newest.is_none_or(|it| it == *copy) => ("sound", None),
                Ok(_) => ("older", None),
                Err(SuperFault::Foreign) => ("none", None),
                Err(SuperFault::Damaged) => ("damaged", None),
                Err(fault) => ("refused", Some(fault.to_string())),
            };
            self.dump.superblocks.push(Found::new(*at, state, why, says));
            self.pages.extend(copy.as_ref().ok().map(|copy| (*at, copy.emit(*at))));
        }
        if let (Ok(_), Ok(_), None) = (head, tail, self.newest) {
            self.dump.trouble = Some("its two superblocks contradict each other".into());
        }
    }

    fn marks(&mut self, source: &Source, volume: [u8; 16]) {
        for at in PLACES {
            let (state, why, says) = match source.read(at) {
                Err(why) => ("refused", Some(why), None),
                Ok(page) => match Mark::parse(&page, volume, at) {
                    Ok(mark) => {
                        self.pages.push((at, page));
                        ("sound", None, Some(MarkText::from(&mark)))
                    }
                    Err(Fault::Foreign) => ("none", None, None),
                    Err(Fault::Damaged) => ("damaged", None, None),
                },
            };
            self.dump.sessions.push(Found::new(at, state, why, says));
        }
    }

    /// Reads the claims. A whole device has none.
    fn claims(&mut self, source: &Source) {
        for at in claim::places(self.sectors) {
            let Ok(page) = source.read(at) else { continue };
            let Some(claim) = Claim::parse(&page) else { continue };
            self.pages.push((at, page));
            let says = Some(ClaimText::from(&claim));
            self.dump.claims.push(Found::new(at, "sound", None, says));
        }
    }

    fn roots(&mut self, source: &Source, places: &RootPlaces, volume: [u8; 16]) {
        let start = self.newest.map_or(data_window(self.sectors).0, |own| own.data_start);
        for lba in places.at {
            let mut buf = MetaBuf::new(places.pages as usize);
            let at = start + lba;
            let sectors = (at..).step_by(SECTORS_PER_BLOCK as usize);
            let pages = buf.pages_mut().iter_mut().zip(sectors);
            let read = pages.map(|(page, at)| source.read(at).map(|read| *page = read));
            let read: Result<Vec<()>, String> = read.collect();
            let root = open_root(&buf, &volume, lba, places.counts);
            let (state, why) = match (&root, read) {
                (Some(_), Ok(_)) => ("sound", None),
                (_, Err(why)) => ("refused", Some(why)),
                (None, Ok(_)) if &buf.pages()[0].0[4..8] == ROOT => ("damaged", None),
                (None, Ok(_)) => ("none", None),
            };
            let says = root.as_ref().map(|root| RootText::new(root, places));
            self.dump.roots.push(Found::new(at, state, why, says));
            let whole = root.map_or(0, |root| root_pages(root.directories + places.counts));
            let sectors = (at..).step_by(SECTORS_PER_BLOCK as usize);
            self.pages.extend(sectors.zip(buf.pages().iter().take(whole as usize).cloned()));
        }
    }
}

/// Returns the newest root of a device at `places` of its window, which starts at sector `start`.
pub(super) fn newest_root(
    device: &Device,
    places: &RootPlaces,
    (start, volume): (u64, [u8; 16]),
) -> Option<Root> {
    let read = |lba: u64| {
        let mut buf = MetaBuf::new(places.pages as usize);
        let sectors = (start + lba..).step_by(SECTORS_PER_BLOCK as usize);
        for (page, at) in buf.pages_mut().iter_mut().zip(sectors) {
            *page = device.read_page(at).ok()?;
        }
        open_root(&buf, &volume, lba, places.counts)
    };
    places.at.into_iter().filter_map(read).max_by_key(|root| root.number)
}

/// Returns the index of source number `at` in the stack, and the location of the roots on it.
fn places(
    source: &Source,
    config: Option<&Config>,
    found_superblocks: &[Option<Superblock>],
    at: usize,
) -> Result<(u8, RootPlaces), String> {
    if source.is_zoned() {
        return Err("roots of zoned devices have no fixed places".into());
    }
    let window = |sectors: u64| data_window(sectors).1;
    let (layer, infos, index) = match (found_superblocks[at], config) {
        (Some(own), _) => {
            let same = found_superblocks.iter().flatten().filter(|it| it.volume == own.volume);
            let newest =
                *same.clone().max_by_key(|it| it.generation).expect("its superblock is valid");
            let long = |index: u8| {
                let it = same.clone().find(|it| it.index == index);
                it.map_or(newest.lengths[usize::from(index)], |it| it.data_len)
            };
            let layer = LayerConfig::parse(newest.layer.as_str())?;
            let layer = LayerConfig { uuid: own.volume, ..layer };
            // The location of the roots depends on the member list.
            let layer = as_members(layer, DeviceSet::from_bits(newest.missing), &newest);
            (layer, (0..newest.count).map(long).collect::<Vec<_>>(), own.index)
        }
        (None, Some(config)) => {
            let in_order = found_superblocks
                .iter()
                .enumerate()
                .all(|(place, own)| own.is_none_or(|own| usize::from(own.index) == place));
            // The position in the list is no member number then.
            if !in_order {
                return Err("its number in the volume is unknown".into());
            }
            let long =
                |it: &Option<Superblock>| it.map_or(window(source.sectors()), |it| it.data_len);
            (config.layer_config()?, found_superblocks.iter().map(long).collect(), at as u8)
        }
        (None, None) => return Err("its layer is unknown".into()),
    };
    let promises = &layer.kind.registration().promises;
    let none = || format!("not shown for layer {}", layer.kind);
    let roots_at = promises.roots.ok_or_else(none)?.at;
    let infos: Vec<DeviceInfo> = infos.into_iter().map(|len| DeviceInfo::block(len, 1)).collect();
    roots_at(&layer, &infos).map(|places| (index, places)).map_err(|why| why.to_string())
}
