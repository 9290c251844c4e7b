//! Text of each metadata structure, with the field names of docs/FORMAT.md.

use std::path::Path;

use hostftl_core::{BLOCK, DeviceSet, SECTOR};
use hostftl_format::claim::Claim;
use hostftl_format::log::{Root, root_pages};
use hostftl_format::session::Mark;
use hostftl_format::superblock::Superblock;
use hostftl_layers::RootPlaces;
use serde::Serialize;
use uuid::Uuid;

use crate::metadata::config::Config;
use crate::open::stack::time;

/// Content of a volume file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileText {
    /// Path of the file.
    pub path: String,
    /// UUID of the volume.
    pub volume: String,
    /// Label chosen by the owner.
    pub label: String,
    /// Layer with its parameters.
    pub layer: String,
}

impl FileText {
    pub(super) fn new(path: &Path, config: &Config) -> Self {
        FileText {
            path: path.display().to_string(),
            volume: config.uuid.to_string(),
            label: config.label.clone(),
            layer: config.layer.clone(),
        }
    }
}

/// Metadata of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceDump {
    /// Name of the device.
    pub name: String,
    /// Length in bytes; `None` when it can't be opened.
    pub bytes: Option<u64>,
    /// Reason why no more is shown.
    pub trouble: Option<String>,
    /// Both copies of the superblock.
    pub superblocks: Vec<Found<SuperblockText>>,
    /// Both copies of the session mark.
    pub sessions: Vec<Found<MarkText>>,
    /// Both copies of the claim on a part of a zoned device.
    pub claims: Vec<Found<ClaimText>>,
    /// Copies of both roots.
    pub roots: Vec<Found<RootText>>,
    /// Reason why roots are not shown.
    pub no_roots: Option<String>,
}

impl DeviceDump {
    /// Returns the superblock in effect.
    pub fn superblock(&self) -> Option<&SuperblockText> {
        let sound = self.superblocks.iter().find(|it| it.state == "sound");
        sound.and_then(|it| it.says.as_ref())
    }
}

/// A structure at its location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found<T> {
    /// Offset on the device in bytes.
    pub offset_bytes: u64,
    /// `sound`; `older`, sound but superseded by the other copy; `none`, no structure of this
    /// volume; `damaged`, wrong checksum; `refused`, for the reason in `why`.
    pub state: &'static str,
    /// Reason for the state, where it needs one.
    pub why: Option<String>,
    /// Content.
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
    /// UUID of the device, and its index in the stack.
    pub device: String,
    pub index: u8,
    pub count: u8,
    /// Number of devices when the volume was created.
    pub made_with: u8,
    pub created: Option<String>,
    pub exported_bytes: u64,
    pub data_offset_bytes: u64,
    pub data_bytes: u64,
    pub device_bytes: u64,
    /// Last change of the members, and the change before it, in hexadecimal.
    pub change: String,
    pub parent: String,
    pub changed: Option<String>,
    pub members: Vec<MemberText>,
}

/// Entry of a member in a superblock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemberText {
    /// Index in the stack.
    pub index: u8,
    /// UUID of the device.
    pub device: String,
    /// `belongs`, `left out` or `removed`.
    pub state: &'static str,
    /// Time of its exclusion or removal.
    pub since: Option<String>,
    /// Any of `fresh`, `returning`, `leaving`, `spare`, and `empty` (holds no chunks any more).
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
    let has = |set: u16| DeviceSet::from_bits(set).contains(index);
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
        state: match (has(it.removed), has(it.missing)) {
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
    /// Whether writes are acknowledged only once they are durable.
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

/// Claim on a part of a zoned device.
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
    /// First stripe to replay: all earlier ones are in the images that the root points at.
    pub replay_from: u64,
    /// Last stripe that was durable together with all before it.
    pub durable: u64,
    /// Last root that was on all devices.
    pub everywhere: u64,
    pub generation: u8,
    pub mapped_bytes: u64,
    /// Newest durable record of the journal.
    pub journal: u64,
    /// Pages of the root, and pages of the directory and of counts that it points at.
    pub pages: u32,
    pub directory_pages: u32,
    pub count_pages: u32,
    /// Devices that miss all writes since they were lost; those of them that hold no chunks; all
    /// devices that the root knows.
    pub lost: Vec<u8>,
    pub out: Vec<u8>,
    pub known: Vec<u8>,
    /// Device sets of the most recently opened segments.
    pub sets: Vec<Vec<u8>>,
    pub streams: Vec<StreamText>,
}

/// Location of the first stripe of a stream that is replayed.
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
    /// Converts a root, given the number of count pages and of devices. The root of a journal
    /// differs.
    pub(super) fn new(it: &Root, places: &RootPlaces) -> Self {
        let (counts, all) = (places.counts, DeviceSet::first_n(places.devices.into()).to_bits());
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

/// Returns the numbers of the devices in a stored set.
fn set(bits: u16) -> Vec<u8> {
    DeviceSet::from_bits(bits).iter().collect()
}
