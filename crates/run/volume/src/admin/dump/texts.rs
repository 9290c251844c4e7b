//! What is shown of each structure, in the words of docs/FORMAT.md.

use std::path::Path;

use hostftl_core::{BLOCK, SECTOR};
use hostftl_format::claim::Claim;
use hostftl_format::log::{Root, root_pages};
use hostftl_format::session::Mark;
use hostftl_format::superblock::Superblock;
use hostftl_layers::RootPlaces;
use serde::Serialize;
use uuid::Uuid;

use crate::metadata::config::Config;
use crate::open::stack::time;

/// What a volume's file has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileText {
    /// Its path.
    pub path: String,
    /// The volume's UUID.
    pub volume: String,
    /// What its owner calls it.
    pub label: String,
    /// The layer with its parameters.
    pub layer: String,
}

impl FileText {
    pub(super) fn of(path: &Path, config: &Config) -> Self {
        FileText {
            path: path.display().to_string(),
            volume: config.uuid.to_string(),
            label: config.label.clone(),
            layer: config.layer.clone(),
        }
    }
}

/// What a device says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceDump {
    /// Its name.
    pub name: String,
    /// Its length; none when it can't be opened.
    pub bytes: Option<u64>,
    /// Why there is no more to be said of it.
    pub trouble: Option<String>,
    /// Both copies of the superblock.
    pub superblocks: Vec<Found<SuperblockText>>,
    /// Both places of the session mark.
    pub sessions: Vec<Found<MarkText>>,
    /// Both copies of the claim on a part of a zoned device.
    pub claims: Vec<Found<ClaimText>>,
    /// The copies of both roots.
    pub roots: Vec<Found<RootText>>,
    /// Why roots are not shown.
    pub no_roots: Option<String>,
}

impl DeviceDump {
    /// The superblock that counts.
    pub fn superblock(&self) -> Option<&SuperblockText> {
        let sound = self.superblocks.iter().find(|it| it.state == "sound");
        sound.and_then(|it| it.says.as_ref())
    }
}

/// A structure at its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found<T> {
    /// Where it lies on the device.
    pub offset_bytes: u64,
    /// `sound`; `older`, sound but replaced by the other copy; `none`, nothing of this volume is
    /// there; `damaged`, the checksum does not match; `refused`, `why` says for what reason.
    pub state: &'static str,
    /// What more there is to say of the state.
    pub why: Option<String>,
    /// What it says.
    pub says: Option<T>,
}

impl<T> Found<T> {
    pub(super) fn new(at: u64, state: &'static str, why: Option<String>, says: Option<T>) -> Self {
        Found { offset_bytes: at * SECTOR as u64, state, why, says }
    }
}

/// A superblock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/FORMAT.md")]
pub struct SuperblockText {
    pub generation: u64,
    pub volume: String,
    pub label: String,
    pub layer: String,
    pub layer_format: u32,
    /// The device, by its UUID and its place in the stack.
    pub device: String,
    pub index: u8,
    pub count: u8,
    /// With how many devices the volume was made.
    pub made_with: u8,
    pub created: Option<String>,
    pub exported_bytes: u64,
    pub data_offset_bytes: u64,
    pub data_bytes: u64,
    pub device_bytes: u64,
    /// The last change of the members, and the one before it, in hexadecimal.
    pub change: String,
    pub parent: String,
    pub changed: Option<String>,
    pub members: Vec<MemberText>,
}

/// A member of the stack, as a superblock has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberText {
    /// Its place.
    pub index: u8,
    /// The device's UUID.
    pub device: String,
    /// `belongs`, `left out` or `removed`.
    pub state: &'static str,
    /// Since when it does not belong.
    pub since: Option<String>,
    /// Any of `fresh`, `returning`, `leaving`, `spare`, and `empty`: nothing lies on it any more.
    pub marks: Vec<&'static str>,
}

impl From<&Superblock> for SuperblockText {
    fn from(it: &Superblock) -> Self {
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        SuperblockText {
            generation: it.generation,
            volume: Uuid::from_bytes(it.volume).to_string(),
            label: it.label.as_str().into(),
            layer: it.layer.as_str().into(),
            layer_format: it.layer_format,
            device: Uuid::from_bytes(it.device).to_string(),
            index: it.index,
            count: it.count,
            made_with: if it.born == 0 { it.count } else { it.born },
            created: time(it.created),
            exported_bytes: bytes(it.exported),
            data_offset_bytes: bytes(it.data_start),
            data_bytes: bytes(it.data_len),
            device_bytes: bytes(it.device_sectors),
            change: format!("{:016x}", it.change),
            parent: format!("{:016x}", it.parent),
            changed: time(it.changed),
            members: (0..it.count).map(|index| member(it, index)).collect(),
        }
    }
}

fn member(it: &Superblock, index: u8) -> MemberText {
    let has = |set: u16| set >> index & 1 == 1;
    let marks = [
        ("fresh", it.fresh),
        ("returning", it.returning),
        ("leaving", it.leaving),
        ("spare", it.spare),
        ("empty", it.out),
    ];
    MemberText {
        index,
        device: Uuid::from_bytes(it.members[usize::from(index)]).to_string(),
        state: match (has(it.gone), has(it.missing)) {
            (true, _) => "removed",
            (false, true) => "left out",
            (false, false) => "belongs",
        },
        since: time(it.lost[usize::from(index)]),
        marks: marks.into_iter().filter(|(_, set)| has(*set)).map(|(word, _)| word).collect(),
    }
}

/// A session mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/FORMAT.md")]
pub struct MarkText {
    pub number: u64,
    pub run: u64,
    /// Whether it was written before the first client, and not at a clean stop.
    pub serving: bool,
    /// Whether writes are answered only once they are durable.
    pub durable: bool,
    /// Whether clients may be on other machines.
    pub beyond: bool,
    pub generation: u32,
    pub plain: u32,
    pub machine: String,
    pub boot: String,
}

impl From<&Mark> for MarkText {
    fn from(it: &Mark) -> Self {
        MarkText {
            number: it.number,
            run: it.run,
            serving: it.serving,
            durable: it.through,
            beyond: it.beyond,
            generation: it.generation,
            plain: it.plain,
            machine: Uuid::from_bytes(it.machine).simple().to_string(),
            boot: Uuid::from_bytes(it.boot).to_string(),
        }
    }
}

/// The claim on a part of a zoned device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/FORMAT.md")]
pub struct ClaimText {
    pub volume: String,
    pub label: String,
    pub first_zone: u32,
    pub zones: u32,
}

impl From<&Claim> for ClaimText {
    fn from(it: &Claim) -> Self {
        ClaimText {
            volume: Uuid::from_bytes(it.volume).to_string(),
            label: it.label.as_str().into(),
            first_zone: it.first,
            zones: it.count,
        }
    }
}

/// A root of `log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/FORMAT.md")]
pub struct RootText {
    pub number: u64,
    pub epoch: u32,
    pub life: u32,
    /// All rows before this one are in the images that the root points at.
    pub replay_from: u64,
    /// The last row that was durable, with all before it.
    pub durable: u64,
    /// The last root that was on all devices.
    pub everywhere: u64,
    pub generation: u8,
    pub mapped_bytes: u64,
    /// The newest record of the journal that was durable.
    pub journal: u64,
    /// Pages of the root, and the pages of the directory and of counts that it points at.
    pub pages: u32,
    pub directory_pages: u32,
    pub count_pages: u32,
    /// Devices that miss what was written since they were lost; those of them on which nothing
    /// lies; and those that the root knows.
    pub lost: Vec<u8>,
    pub out: Vec<u8>,
    pub known: Vec<u8>,
    /// The sets of devices on which segments were opened last.
    pub sets: Vec<Vec<u8>>,
    pub streams: Vec<StreamText>,
}

/// Where the first row of a stream lies that is replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of docs/FORMAT.md")]
pub struct StreamText {
    pub stream: usize,
    pub segment: u32,
    pub slot: u32,
    pub sector: u32,
    pub devices: Vec<u8>,
}

impl RootText {
    /// Of a root that points at so many pages of counts, on so many devices; a journal's is another
    /// thing.
    pub(super) fn of(it: &Root, places: &RootPlaces) -> Self {
        let (counts, all) = (places.counts, ((1_u32 << places.devices) - 1) as u16);
        let streams = it.streams.iter().enumerate().filter_map(|(stream, begin)| {
            let begin = begin.as_ref()?;
            let (segment, slot, sector) = (begin.segment, begin.slot, begin.sector);
            Some(StreamText { stream, segment, slot, sector, devices: set(begin.members) })
        });
        RootText {
            number: it.number,
            epoch: it.epoch,
            life: it.life,
            replay_from: it.replay_from,
            durable: it.durable,
            everywhere: it.everywhere,
            generation: it.generation,
            mapped_bytes: it.mapped * BLOCK as u64,
            journal: it.journal,
            pages: root_pages(it.directories.saturating_add(counts)),
            directory_pages: it.directories,
            count_pages: counts,
            lost: set(it.lost & all),
            out: set(it.out & all),
            known: set(it.known),
            sets: it.sets.iter().filter(|it| **it != 0).map(|it| set(*it)).collect(),
            streams: streams.collect(),
        }
    }
}

/// The numbers of a set of bits.
fn set(bits: u16) -> Vec<u8> {
    (0..16).filter(|index| bits >> index & 1 == 1).collect()
}
