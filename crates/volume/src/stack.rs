//! The devices of a volume, opened for us alone, with what their superblocks say.

use hostftl_core::SECTOR;
use hostftl_format::assemble::{Chosen, OtherCopy, Verdict, assemble, choose};
use hostftl_format::superblock::{SuperFault, Superblock, places};
use hostftl_io::Device;

use crate::error::{Error, device};

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
    let mut opened = Device::open(name)?;
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

/// Puts the members of a volume in the order of the stack.
///
/// # Errors
/// When they are not exactly one whole stack.
pub fn order(members: Vec<Member>) -> Result<Vec<Member>, Error> {
    let superblocks: Vec<Superblock> = members.iter().map(|member| member.superblock).collect();
    let name = |at: usize| members[at].device.name();
    let why = match assemble(&superblocks) {
        Verdict::Complete { order } => {
            let mut slots: Vec<Option<Member>> = members.into_iter().map(Some).collect();
            let take = |at: usize| slots[at].take().expect("each place occurs once");
            return Ok(order.into_iter().map(take).collect());
        }
        Verdict::Missing { members: missing } => {
            let list: Vec<String> = missing.iter().map(|index| index.to_string()).collect();
            let count = superblocks[0].count;
            format!("the volume has {count} devices; number {} is not here", list.join(", "))
        }
        Verdict::Foreign { at } => {
            format!("{} belongs to another volume than {}", name(at), name(0))
        }
        Verdict::Duplicate { at: [one, two] } => {
            format!("{} and {} are copies of one device; name one", name(one), name(two))
        }
        Verdict::Stale { at } => format!("{} missed changes of the volume: it is stale", name(at)),
        Verdict::Contradiction { at } => {
            format!("{} and {} describe their volume differently", name(0), name(at))
        }
        Verdict::Nothing => "no device was named".into(),
    };
    Err(Error::Stack(why))
}
