//! The devices of a volume, opened for us alone, with what their superblocks say.

use hostftl_core::SECTOR;
use hostftl_format::assemble::{Chosen, OtherCopy, Verdict, assemble, choose};
use hostftl_format::superblock::{SuperFault, Superblock, places};
use hostftl_io::{Device, IoError};
use uuid::Uuid;

use crate::error::{Error, device};
use crate::modelled;

/// What a volume file has in the place of a device that is known to be lost.
pub const MISSING: &str = "missing";

/// A device and the superblock that counts.
#[derive(Debug)]
pub struct Member {
    /// The device, whose window is its data.
    pub device: Device,
    /// What it says.
    pub superblock: Superblock,
    /// What is wrong with one of its two copies.
    pub flaw: Option<String>,
}

/// Opens one device of a volume.
///
/// # Errors
/// When it is no device of a volume, in use, or shorter than it was.
pub fn open_member(name: &str) -> Result<Member, Error> {
    if name == MISSING {
        return Err(device(name, "the volume file names no device in this place"));
    }
    let mut opened = modelled::open(name)?;
    let Chosen { superblock, other } = find_superblock(&opened)?;
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
    Ok(Member { device: opened, superblock, flaw })
}

/// The better of the two superblocks. The second lies where the first says that the device ends.
fn find_superblock(opened: &Device) -> Result<Chosen, Error> {
    let sectors = opened.bytes() / SECTOR as u64;
    if sectors < 16 {
        let why = format!("has {} bytes, so it is no device of a volume", opened.bytes());
        return Err(device(opened.name(), why));
    }
    let parse = |at| -> Result<Result<Superblock, SuperFault>, Error> {
        Ok(Superblock::parse(&opened.read_page(at)?, at))
    };
    let head = parse(0)?;
    let ends_at = match head {
        Ok(superblock) if superblock.device_sectors < sectors => superblock.device_sectors,
        Ok(superblock) if superblock.device_sectors > sectors => {
            let flaw = OtherCopy::Faulty(SuperFault::Foreign);
            return Ok(Chosen { superblock, other: Some(flaw) });
        }
        _ => sectors,
    };
    let tail = parse(places(ends_at)[1])?;
    choose(head, tail).map_err(|fault| device(opened.name(), format!("has {fault}")))
}

/// The devices of a volume that are there, in the order of the stack.
#[derive(Debug)]
pub struct Assembly {
    /// By index; `None` for a member that is not there.
    pub members: Vec<Option<Member>>,
    /// The newest superblock.
    pub superblock: Superblock,
    /// Why devices that were named do not count: each says which, and what to do.
    pub left_out: Vec<String>,
}

impl Assembly {
    /// The members that are not there, as a set of bits by index.
    pub fn missing(&self) -> u16 {
        let absent = |(index, member): (usize, &Option<Member>)| match member {
            None => 1 << index,
            Some(_) => 0,
        };
        self.members.iter().enumerate().map(absent).sum()
    }
}

/// Opens the devices of a volume whose layer can do without so many. A device that is not there, or
/// holds nothing of a volume, is left out; one that is in use, or belongs elsewhere, is an error.
///
/// # Errors
/// When they are not a stack that can be used.
pub fn assemble_all(names: &[String], tolerates: u32) -> Result<Assembly, Error> {
    let (mut members, mut left_out) = (Vec::new(), Vec::new());
    for name in names {
        match open_member(name) {
            Ok(member) => members.push(member),
            Err(error) if tolerates > 0 && is_absence(&error) => left_out.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    order(members, left_out, tolerates)
}

/// Whether an error says that there is no such member, and not that something is wrong with the
/// way in which it is used.
fn is_absence(error: &Error) -> bool {
    match error {
        Error::Device { .. } => true,
        Error::Io(IoError::System { what, source, .. }) => {
            let refused = source.kind() == std::io::ErrorKind::PermissionDenied;
            *what != "lock it" && !refused
        }
        _ => false,
    }
}

/// Puts the members of a volume in the order of the stack; those that `left_out` names are not
/// among them.
///
/// # Errors
/// When they are no stack that can be used.
pub fn order(
    members: Vec<Member>,
    mut left_out: Vec<String>,
    tolerates: u32,
) -> Result<Assembly, Error> {
    let superblocks: Vec<Superblock> = members.iter().map(|member| member.superblock).collect();
    let name = |at: usize| members[at].device.name();
    let order = match assemble(&superblocks, tolerates) {
        Verdict::Complete { order } => order.into_iter().map(Some).collect(),
        Verdict::Degraded { order, stale } => {
            left_out.extend(stale.into_iter().map(|at| {
                format!("{}: it missed writes, so what it holds is not up to date", name(at))
            }));
            order
        }
        bad => {
            let mut why = describe(&bad, &superblocks, name);
            left_out.iter().for_each(|one| why += &format!("; {one}"));
            return Err(Error::Stack(why));
        }
    };
    let newest = superblocks.iter().max_by_key(|one| one.generation).copied();
    let mut slots: Vec<Option<Member>> = members.into_iter().map(Some).collect();
    let take = |at: Option<usize>| at.map(|at| slots[at].take().expect("each place occurs once"));
    let members = order.into_iter().map(take).collect();
    let superblock = newest.expect("a stack that can be used has a member");
    Ok(Assembly { members, superblock, left_out })
}

/// What is wrong with a set of devices, and what to do.
fn describe<'a>(bad: &Verdict, list: &[Superblock], name: impl Fn(usize) -> &'a str) -> String {
    match bad {
        Verdict::Missing { members } => {
            let missing: Vec<String> = members.iter().map(|index| index.to_string()).collect();
            let count = list[0].count;
            format!("the volume has {count} devices; number {} is not here", missing.join(", "))
        }
        Verdict::Foreign { at } => format!(
            "{} belongs to another volume ({}) than {} ({}); name the device that belongs here",
            name(*at),
            label(&list[*at]),
            name(0),
            label(&list[0])
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
