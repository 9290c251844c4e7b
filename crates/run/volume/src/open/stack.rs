//! The devices of a volume, opened for us alone, with their superblocks.

use std::time::{Duration, UNIX_EPOCH};

use hostftl_core::{Page, SECTOR};
use hostftl_format::assemble::{Chosen, OtherCopy, Verdict, assemble, choose};
use hostftl_format::superblock::{SuperFault, Superblock, places};
use hostftl_io::{Access, Device};
use hostftl_layers::LayerKind;
use uuid::Uuid;

use crate::metadata::claims;
use crate::metadata::config::MISSING;
use crate::metadata::journal;
use crate::metadata::modelled;
use crate::open::cut::Cut;
use crate::util::error::{Error, device};

/// A device and the superblock that counts.
#[derive(Debug)]
pub(crate) struct Member {
    /// The device, whose window is its data.
    pub device: Device,
    /// What it says.
    pub superblock: Superblock,
    /// What is wrong with one of its two copies.
    pub flaw: Option<String>,
    /// Which of the two copies say that.
    pub sound: [bool; 2],
}

/// Opens one device of a volume.
///
/// # Errors
/// When it is no device of a volume, in use, or shorter than it was.
pub(crate) fn open_member(name: &str, access: Access) -> Result<Member, Error> {
    if name == MISSING {
        return Err(device(name, "the volume file names no device in this place"));
    }
    let mut opened = modelled::open_as(name, access)?;
    claims::verify(&opened)?;
    let Chosen { superblock, other, sound } = find_superblock(&opened)?;
    known_format(name, &superblock)?;
    let sectors = opened.bytes() / SECTOR as u64;
    if sectors < superblock.device_sectors {
        let (was, is) = (superblock.device_sectors * SECTOR as u64, opened.bytes());
        let why = format!("has {is} bytes, but the volume needs {was}; was it cut short?");
        return Err(device(name, why));
    }
    opened.set_window(superblock.data_start, superblock.data_len);
    let flaw = other.map(|flaw| match flaw {
        OtherCopy::Older => format!("{name}: one superblock is older than the other"),
        OtherCopy::Faulty(fault) => format!("{name}: one of its two superblocks is {fault}"),
    });
    Ok(Member { device: opened, superblock, flaw, sound })
}

/// The copies of a superblock, with the sectors where they should lie.
pub(crate) type Copies = [(u64, Result<Superblock, SuperFault>); 2];

/// Reads both copies on a device of `sectors` sectors. The second lies where the first says that
/// the device ends.
pub(crate) fn copies<E>(sectors: u64, read: impl Fn(u64) -> Result<Page, E>) -> Result<Copies, E> {
    let parse = |at| read(at).map(|page| Superblock::parse(&page, at));
    let head = parse(0)?;
    let ends_at = head.map_or(sectors, |superblock| superblock.device_sectors);
    let at = places(ends_at.min(sectors))[1];
    let tail = if ends_at > sectors { Err(SuperFault::Foreign) } else { parse(at)? };
    Ok([(0, head), (at, tail)])
}

/// The better of the two superblocks.
fn find_superblock(opened: &Device) -> Result<Chosen, Error> {
    let sectors = opened.bytes() / SECTOR as u64;
    if sectors < 16 {
        let why = format!("has {} bytes, so it is no device of a volume", opened.bytes());
        return Err(device(opened.name(), why));
    }
    let [(_, head), (_, tail)] = copies(sectors, |at| opened.read_page(at))?;
    choose(head, tail).map_err(|fault| match fault {
        SuperFault::Version(_) => {
            let why = format!("has {fault}; use the build that made the volume");
            Error::Format { device: opened.name().into(), why }
        }
        fault => device(opened.name(), format!("has {fault}")),
    })
}

/// Whether this build knows the format of the device's layer. A layer of a name that nobody knows
/// is refused when its text is read.
pub(crate) fn known_format(name: &str, superblock: &Superblock) -> Result<(), Error> {
    let text = superblock.layer.as_str();
    let layer = text.split(':').next().unwrap_or_default();
    let Ok(kind) = layer.parse::<LayerKind>() else { return Ok(()) };
    let (found, known) = (superblock.layer_format, kind.format());
    if found == known {
        return Ok(());
    }
    let why = format!(
        "holds format {found} of layer {kind}, and this build knows format {known} alone: use the \
         build that made the volume; nothing was written"
    );
    Err(Error::Format { device: name.into(), why })
}

/// The devices of a volume that are there, in the order of the stack.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// By index; `None` for a member that is not there.
    pub members: Vec<Option<Member>>,
    /// The newest superblock.
    pub superblock: Superblock,
    /// Why devices that were named do not count: each says which, and what to do.
    pub left_out: Vec<String>,
    /// The devices that missed changes, by name, with their superblocks.
    pub stale: Vec<(String, Superblock)>,
    /// The members that are not there though they belong, as a set of bits by index.
    pub unsaid: u16,
    /// A change of the members that was cut off.
    pub cut: Cut,
}

impl Assembly {
    /// The members that are not there, as a set of bits by index.
    pub(crate) fn missing(&self) -> u16 {
        let absent = |(index, member): (usize, &Option<Member>)| match member {
            None => 1 << index,
            Some(_) => 0,
        };
        self.members.iter().enumerate().map(absent).sum()
    }
}

/// What a stack can do without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redundancy {
    /// So many devices.
    pub devices: u32,
    /// Whether there is a journal, which is beside them.
    pub journal: bool,
}

impl Redundancy {
    /// The journal's device as a bit, as the newest superblock says it; 0 without a journal.
    pub(crate) fn journal_in(self, newest: Option<&Superblock>) -> u16 {
        newest.filter(|_| self.journal).map_or(0, journal::bit_of)
    }
}

/// The newest superblock of those of `members` that are in the stack in this order.
pub(crate) fn newest_of<'a>(
    order: &[Option<usize>],
    members: &'a [Superblock],
) -> Option<&'a Superblock> {
    let there = order.iter().flatten().map(|at| &members[*at]);
    there.max_by_key(|one| one.generation)
}

/// The place of a journal that was away while who belongs changed. Its superblock is behind, but
/// that says nothing of what it holds: the layer knows whether it lacks a record.
fn welcome(
    journal: u16,
    newest: &Superblock,
    stale: &[usize],
    members: &[Superblock],
) -> Option<usize> {
    let is_journal = |at: &&usize| {
        let it = &members[**at];
        journal >> it.index & 1 == 1 && newest.members[usize::from(it.index)] == it.device
    };
    stale.iter().find(is_journal).copied()
}

/// Judges members as [`order`] does. A spare is not needed: nothing lies on it.
pub(crate) fn judge(members: &[Superblock], redundancy: Redundancy) -> Verdict {
    let Redundancy { devices, journal } = redundancy;
    let newest = members.iter().max_by_key(|one| one.generation);
    let spares = newest.map_or(0, |newest| newest.spare.count_ones());
    match assemble(members, devices + u32::from(journal) + spares) {
        Verdict::Degraded { mut order, mut stale, unsaid } => {
            let newest = newest_of(&order, members);
            let journal = redundancy.journal_in(newest);
            if let Some(at) = newest.and_then(|newest| welcome(journal, newest, &stale, members)) {
                order[journal.trailing_zeros() as usize] = Some(at);
                stale.retain(|it| *it != at);
            }
            let spare = newest.map_or(0, |newest| newest.spare);
            let needless = journal | spare | newest.map_or(0, |newest| newest.out);
            let absent = order.iter().enumerate().filter(|(_, at)| at.is_none());
            let rows = absent.filter(|(index, _)| needless >> index & 1 == 0).count();
            match rows <= devices as usize {
                true => Verdict::Degraded { order, stale, unsaid: unsaid & !(journal | spare) },
                false => assemble(members, devices),
            }
        }
        other => other,
    }
}

/// Puts the members of a volume in the order of the stack; those that `left_out` names are not
/// among them.
///
/// # Errors
/// When they are no stack that can be used.
pub(crate) fn order(
    members: Vec<Member>,
    mut left_out: Vec<String>,
    redundancy: Redundancy,
) -> Result<Assembly, Error> {
    let name = |at: usize| members[at].device.name();
    let mut missed = Vec::new();
    let superblocks: Vec<Superblock> = members.iter().map(|member| member.superblock).collect();
    let (order, unsaid) = match judge(&superblocks, redundancy) {
        Verdict::Complete { order } => (order.into_iter().map(Some).collect::<Vec<_>>(), 0),
        Verdict::Degraded { order, stale, unsaid } => {
            missed.extend(stale.iter().map(|at| (name(*at).to_owned(), members[*at].superblock)));
            let newest = newest_of(&order, &superblocks).expect("it can be used");
            let is_gone = |at: &usize| newest.gone >> members[*at].superblock.index & 1 == 1;
            left_out.extend(stale.into_iter().filter(|at| !is_gone(at)).map(|at| {
                let since = newest.lost[usize::from(members[at].superblock.index)];
                let since = time(since).map_or(String::new(), |since| format!(" since {since}"));
                format!("{}: it missed writes{since}, so what it holds is not up to date", name(at))
            }));
            (order, unsaid)
        }
        bad => {
            let mut why = describe(&bad, &members);
            left_out.iter().for_each(|one| why += &format!("; {one}"));
            return Err(Error::Stack(why));
        }
    };
    let mut slots: Vec<Option<Member>> = members.into_iter().map(Some).collect();
    let take = |at: Option<usize>| at.map(|at| slots[at].take().expect("each place occurs once"));
    let members: Vec<Option<Member>> = order.into_iter().map(take).collect();
    let used = members.iter().flatten().map(|member| member.superblock);
    let superblock = used.max_by_key(|one| one.generation);
    let superblock = superblock.expect("a stack that can be used has a member");
    Ok(Assembly { members, superblock, left_out, stale: missed, unsaid, cut: Cut::default() })
}

/// A moment of a superblock, for people; `None` when none is known.
pub(crate) fn time(seconds: u64) -> Option<String> {
    let since = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).filter(|_| seconds > 0)?;
    // Beyond the year 9999 there is no way to write it.
    (seconds < 253_402_300_800).then(|| humantime::format_rfc3339_seconds(since).to_string())
}

/// What is wrong with a set of devices, and what to do.
fn describe(bad: &Verdict, members: &[Member]) -> String {
    let name = |at: usize| members[at].device.name();
    let of = |at: usize| &members[at].superblock;
    match bad {
        Verdict::Missing { members } => {
            let missing: Vec<String> = members.iter().map(|index| index.to_string()).collect();
            let count = of(0).count;
            format!("the volume has {count} devices; number {} is not here", missing.join(", "))
        }
        Verdict::Foreign { at } => format!(
            "{} belongs to another volume ({}) than {} ({}); name the device that belongs here",
            name(*at),
            label(of(*at)),
            name(0),
            label(of(0))
        ),
        Verdict::Duplicate { at: [one, two] } => {
            let (one, two) = (name(*one), name(*two));
            format!("{one} and {two} are copies of one device; name one, and keep the other away")
        }
        Verdict::Stale { at } => format!(
            "{} missed changes of the volume: it is stale, and the volume can't do without it; \
             bring back the devices that were there last",
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
                "{} and {} were served apart ({}; {}), so each may hold writes that the other \
                 lacks; {} went on alone last. Choose the one to keep: `hostftl import DEVICE \
                 --output NEW.toml` with that device (and those that were served with it) writes a \
                 volume file without the other, which is then out for good",
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

/// What a volume is called, for people.
fn label(of: &Superblock) -> String {
    match of.label.as_str() {
        "" => Uuid::from_bytes(of.volume).to_string(),
        label => label.into(),
    }
}
