//! Clearing of a device before it becomes a member.

use hostftl_core::{Page, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::superblock::data_window;
use hostftl_io::Device;

use crate::metadata::roster::write_ends;
use crate::open::volume::open_fresh;
use crate::util::error::Error;

/// Bytes overwritten at the head of the data, where a layer looks for its own structures.
const HEAD: u64 = 16 << 20;

/// Clears a device. A zoned device is reopened, because the states of its zones were read when it
/// was opened.
pub(crate) fn cleared(taken: Device) -> Result<Device, Error> {
    clear(&taken)?;
    if !taken.is_zoned() {
        return Ok(taken);
    }
    let (name, sectors) = (taken.name().to_owned(), taken.info().sectors);
    drop(taken);
    // The lock is released for a moment, so another process may have taken the device: this open
    // fails then.
    let mut again = open_fresh(&name)?;
    again.set_window(data_window(again.bytes() / SECTOR as u64).0, sectors);
    Ok(again)
}

/// Clears everything on a device that could be taken for data of the volume.
fn clear(taken: &Device) -> Result<(), Error> {
    let sectors = taken.bytes() / SECTOR as u64;
    // The superblocks first: a half-cleared device must not look like a member.
    write_ends(taken, sectors, |_| Page::default())?;
    taken.clear_window()?;
    let (start, len) = data_window(sectors);
    if taken.is_zoned() {
        return Ok(());
    }
    let pages = len.min(HEAD / SECTOR as u64) / u64::from(SECTORS_PER_BLOCK);
    for page in 0..pages {
        taken.write_page(start + page * u64::from(SECTORS_PER_BLOCK), &Page::default())?;
    }
    Ok(taken.sync()?)
}
