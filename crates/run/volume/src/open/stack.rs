//! Devices of a volume, opened exclusively, with their superblocks.

use std::time::{Duration, UNIX_EPOCH};

use hostftl_core::{DeviceSet, Page, SECTOR};
use hostftl_format::assemble::{Chosen, OtherCopy, Verdict, assemble, choose};
use hostftl_format::superblock::{SuperFault, Superblock, places};
use hostftl_io::{Access, Device};
use hostftl_layers::LayerKind;
use uuid::Uuid;

use crate::metadata::claims;
use crate::metadata::config::MISSING;
use crate::metadata::journal;
use crate::metadata::modelled;
use crate::open::cut::InterruptedChange;
use crate::util::error::{Error, device};

/// A device and its superblock in effect.
#[derive(Debug)]
pub(crate) struct Member {
    /// Device; its window is the data.
    pub device: Device,
    /// Superblock in effect.
    pub superblock: Superblock,
    /// Flaw of one of the two copies.
    pub flaw: Option<String>,
    /// Validity of each of the two copies.
    pub sound: [bool; 2],
}

/// Opens a device of a volume.
pub(crate) fn open_member(name: &str, access: Access) -> Result<Member, Error> {
    if name == MISSING {
        return Err(device(name, "the volume file has no device for this number"));
    }
    let mut opened = modelled::open_as(name, access)?;
    // Before the superblock: with a wrong range it would be that of a neighbouring part.
    claims::verify(&opened)?;
    let Chosen { superblock, other, sound } = find_superblock(&opened)?;
    known_format(name, &superblock)?;
    let sectors = opened.bytes() / SECTOR as u64;
    if sectors < superblock.device_sectors {
        let (was, is) = (superblock.device_sectors * SECTOR as u64, opened.bytes());
        let why = format!("has {is} bytes, but the volume needs {was}; it was truncated");
        return Err(device(name, why));
    }
    opened.set_window(superblock.data_start, superblock.data_len);
    let flaw = other.map(|flaw| match flaw {
        OtherCopy::Older => format!("{name}: one superblock is older than the other"),
        OtherCopy::Faulty(fault) => format!("{name}: one of its two superblocks is {fault}"),
    });
    Ok(Member { device: opened, superblock, flaw, sound })
}

/// Both copies of a superblock, with the sectors of their locations.
pub(crate) type Copies = [(u64, Result<Superblock, SuperFault>); 2];

/// Reads both copies on a device of `sectors` sectors. The location of the second depends on the
/// device length in the first.
pub(crate) fn copies<E>(sectors: u64, read: impl Fn(u64) -> Result<Page, E>) -> Result<Copies, E> {
    let parse = |at| read(at).map(|page| Superblock::parse(&page, at));
    let head = parse(0)?;
    let ends_at = head.map_or(sectors, |superblock| superblock.device_sectors);
    let at = places(ends_at.min(sectors))[1];
    // A truncated device has lost its second copy; the page now at its end is not one.
    let tail = if ends_at > sectors { Err(SuperFault::Foreign) } else { parse(at)? };
    Ok([(0, head), (at, tail)])
}

/// Returns the superblock in effect.
fn find_superblock(opened: &Device) -> Result<Chosen, Error> {
    let sectors = opened.bytes() / SECTOR as u64;
    // The two superblocks, of one block each, do not fit.
    if sectors < 16 {
        let why = format!("is too small for a device of a volume ({} bytes)", opened.bytes());
        return Err(device(opened.name(), why));
    }
    let [(_, head), (_, tail)] = copies(sectors, |at| opened.read_page(at))?;
    choose(head, tail).map_err(|fault| match fault {
        SuperFault::Version(_) => {
            let why = format!("has {fault}; use the version that created the volume");
            Error::Format { device: opened.name().into(), why }
        }
        fault => device(opened.name(), format!("has {fault}")),
    })
}

/// Checks that this version supports the layer format of a device. An unknown layer passes here:
/// parsing its text refuses it.
pub(crate) fn known_format(name: &str, superblock: &Superblock) -> Result<(), Error> {
    let text = superblock.layer.as_str();
    let layer = text.split(':').next().unwrap_or_default();
    let Ok(kind) = layer.parse::<LayerKind>() else { return Ok(()) };
    let (found, known) = (superblock.layer_format, kind.format());
    if found == known {
        return Ok(());
    }
    let why = format!(
        "has format {found} of layer {kind}, but this version supports format {known}; use the \
         version that created the volume; nothing was written"
    );
    Err(Error::Format { device: name.into(), why })
}

/// Devices of a volume that are present, in the order of the stack.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// Members by index; `None` for an absent one.
    pub members: Vec<Option<Member>>,
    /// Newest superblock.
    pub superblock: Superblock,
    /// Reasons why named devices were omitted, with their names and the remedy.
    pub excluded: Vec<String>,
    /// Devices that missed changes, by name, with their superblocks.
    pub stale: Vec<(String, Superblock)>,
    /// Absent members that the superblocks do not exclude.
    pub unrecorded: DeviceSet,
    /// An interrupted change of the members.
    pub cut: InterruptedChange,
}

impl Assembly {
    /// Returns the absent members.
    pub(crate) fn missing(&self) -> DeviceSet {
        absent(&self.members)
    }
}

/// Returns the positions that are empty.
pub(crate) fn absent<T>(places: &[Option<T>]) -> DeviceSet {
    let all = (0..).zip(places);
    all.filter(|(_, place)| place.is_none()).map(|(index, _)| index).collect()
}

/// Devices that a stack can do without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redundancy {
    /// Number of devices.
    pub devices: u32,
    /// Whether there is a journal, which is not among these devices.
    pub journal: bool,
}

impl Redundancy {
    /// Returns the number of the journal according to the newest superblock; `None` without a
    /// journal.
    pub(crate) fn journal_in(self, newest: Option<&Superblock>) -> Option<u8> {
        newest.filter(|_| self.journal).map(journal::number)
    }
}

/// Returns the newest superblock of the members in `order`.
pub(crate) fn find_newest<'a>(
    order: &[Option<usize>],
    members: &'a [Superblock],
) -> Option<&'a Superblock> {
    let there = order.iter().flatten().map(|at| &members[*at]);
    there.max_by_key(|one| one.generation)
}

/// Returns the position of a stale journal that is accepted although it was absent during a change
/// of the members. Its superblock does not show whether its content is current; the layer detects a
/// missing record.
fn welcome(
    journal: u8,
    newest: &Superblock,
    stale: &[usize],
    members: &[Superblock],
) -> Option<usize> {
    let is_journal = |at: &&usize| {
        let it = &members[**at];
        it.index == journal && newest.members[usize::from(it.index)] == it.device
    };
    stale.iter().find(is_journal).copied()
}

/// Judges members for [`order`]. A spare is optional, because it holds no data.
pub(crate) fn judge(members: &[Superblock], redundancy: Redundancy) -> Verdict {
    let Redundancy { devices, journal } = redundancy;
    let newest = members.iter().max_by_key(|one| one.generation);
    let set = |bits: Option<u16>| DeviceSet::from_bits(bits.unwrap_or(0));
    // Only `devices` of the others may be absent; this is checked below.
    let spares = set(newest.map(|it| it.spare)).len();
    match assemble(members, devices + u32::from(journal) + spares) {
        Verdict::Degraded { mut order, mut stale, unsaid } => {
            let newest = find_newest(&order, members);
            let (newest, journal) = (newest.copied(), redundancy.journal_in(newest));
            if let (Some(newest), Some(journal)) = (&newest, journal)
                && let Some(at) = welcome(journal, newest, &stale, members)
            {
                order[usize::from(journal)] = Some(at);
                stale.retain(|it| *it != at);
            }
            let journal = journal.map_or(DeviceSet::EMPTY, DeviceSet::single);
            let optional = journal | set(newest.map(|it| it.spare));
            // These hold no chunks that the volume needs, so their absence costs no redundancy.
            let needless = optional | set(newest.map(|it| it.out));
            if (absent(&order) - needless).len() <= devices {
                let unsaid = (DeviceSet::from_bits(unsaid) - optional).to_bits();
                Verdict::Degraded { order, stale, unsaid }
            } else {
                // Too many data devices are absent: report the members that are required.
                assemble(members, devices)
            }
        }
        other => other,
    }
}

/// Puts the members of a volume in the order of the stack. `excluded` are the reasons for omitted
/// devices.
pub(crate) fn order(
    members: Vec<Member>,
    mut excluded: Vec<String>,
    redundancy: Redundancy,
) -> Result<Assembly, Error> {
    let name = |at: usize| members[at].device.name();
    let mut missed = Vec::new();
    let superblocks: Vec<Superblock> = members.iter().map(|member| member.superblock).collect();
    let (order, unrecorded) = match judge(&superblocks, redundancy) {
        Verdict::Complete { order } => {
            (order.into_iter().map(Some).collect::<Vec<_>>(), DeviceSet::EMPTY)
        }
        Verdict::Degraded { order, stale, unsaid } => {
            missed.extend(stale.iter().map(|at| (name(*at).to_owned(), members[*at].superblock)));
            let newest = find_newest(&order, &superblocks).expect("it can be used");
            let removed = DeviceSet::from_bits(newest.removed);
            let is_removed = |at: &usize| removed.contains(members[*at].superblock.index);
            // A removed device is not a member any more, so its stale superblock needs no note.
            excluded.extend(stale.into_iter().filter(|at| !is_removed(at)).map(|at| {
                let since = newest.lost[usize::from(members[at].superblock.index)];
                let since = time(since).map_or(String::new(), |since| format!(" since {since}"));
                format!("{}: it missed writes{since} and is stale", name(at))
            }));
            (order, DeviceSet::from_bits(unsaid))
        }
        bad => {
            let mut why = describe(&bad, &members);
            excluded.iter().for_each(|one| why += &format!("; {one}"));
            return Err(Error::Stack(why));
        }
    };
    let mut slots: Vec<Option<Member>> = members.into_iter().map(Some).collect();
    let take = |at: Option<usize>| at.map(|at| slots[at].take().expect("each place occurs once"));
    let members: Vec<Option<Member>> = order.into_iter().map(take).collect();
    let used = members.iter().flatten().map(|member| member.superblock);
    // The members in use may lag behind each other after an interrupted update.
    let superblock = used.max_by_key(|one| one.generation);
    let superblock = superblock.expect("a stack that can be used has a member");
    Ok(Assembly {
        members,
        superblock,
        excluded,
        stale: missed,
        unrecorded,
        cut: InterruptedChange::default(),
    })
}

/// Formats a time of a superblock; `None` when none is recorded.
pub(crate) fn time(seconds: u64) -> Option<String> {
    let since = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).filter(|_| seconds > 0)?;
    // RFC 3339 ends with the year 9999.
    (seconds < 253_402_300_800).then(|| humantime::format_rfc3339_seconds(since).to_string())
}

/// Describes the problem of a set of devices, and the remedy.
fn describe(bad: &Verdict, members: &[Member]) -> String {
    let name = |at: usize| members[at].device.name();
    let of = |at: usize| &members[at].superblock;
    match bad {
        Verdict::Missing { members } => {
            let missing: Vec<String> = members.iter().map(|index| index.to_string()).collect();
            let count = of(0).count;
            format!("the volume has {count} devices; number {} is missing", missing.join(", "))
        }
        Verdict::Foreign { at } => format!(
            "{} belongs to another volume ({}) than {} ({}); give the right device",
            name(*at),
            label(of(*at)),
            name(0),
            label(of(0))
        ),
        Verdict::Duplicate { at: [one, two] } => {
            let (one, two) = (name(*one), name(*two));
            format!("{one} and {two} are copies of one device; disconnect one of them")
        }
        Verdict::Stale { at } => format!(
            "{} is stale, and the volume needs its data; reconnect the devices of the last run",
            name(*at)
        ),
        Verdict::Apart { at } => {
            let side = |at: usize| match time(of(at).changed) {
                Some(since) => format!("{} since {since}", name(at)),
                None => name(at).into(),
            };
            let [one, two] = *at;
            let newer = if of(one).changed >= of(two).changed { one } else { two };
            format!(
                "{} and {} were served separately ({}; {}), so each may have writes that the \
                 other lacks; {} was served last; to keep one, run `hostftl import DEVICE \
                 --output NEW.toml` with that device (and those served with it), which excludes \
                 the other permanently",
                name(one),
                name(two),
                side(one),
                side(two),
                name(newer),
            )
        }
        Verdict::Contradiction { at } => {
            let other = usize::from(*at == 0);
            format!("{} and {} describe their volume differently", name(other), name(*at))
        }
        Verdict::Nothing => "no device of the volume is there".into(),
        Verdict::Complete { .. } | Verdict::Degraded { .. } => unreachable!("it can be used"),
    }
}

/// Returns the label of a volume, or else its UUID.
fn label(superblock: &Superblock) -> String {
    match superblock.label.as_str() {
        "" => Uuid::from_bytes(superblock.volume).to_string(),
        label => label.into(),
    }
}
