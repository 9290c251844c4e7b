//! Devices that are about to become members, and the files that are created for them.

pub(crate) mod clear;
pub(crate) mod created_files;
pub(crate) mod peer_geometry;

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use hostftl_core::SECTOR;
use hostftl_format::superblock::{RESERVE, data_window};
use hostftl_io::{Device, make_zoned_file, zoned_path};

use crate::metadata::{claims, storage};
use crate::open::take::created_files::CreatedFiles;
use crate::open::take::peer_geometry::PeerGeometry;
use crate::open::volume::open_fresh;
use crate::util::allocate::allocate;
use crate::util::blank::find_content;
use crate::util::busy::find_user;
use crate::util::error::{Error, device, file};
use crate::util::private::{new_private, sync_folder};

/// A device that is about to become a member.
pub(crate) struct ClaimedDevice {
    /// Device, opened exclusively, with its window at the future data.
    pub device: Device,
    /// Removes its file if it was created.
    pub undo: CreatedFiles,
    /// Description of its content.
    pub held: Option<String>,
}

/// Opens the device `name`, which the user named `asked`, for a volume. A missing file is created
/// in the geometry of the other devices. Content is an error without `force`.
fn take_device(
    asked: &str,
    name: &str,
    peers: &PeerGeometry,
    force: bool,
) -> Result<ClaimedDevice, Error> {
    let mut undo = CreatedFiles::default();
    make_file((asked, name), peers, false, &mut undo)?;
    for made in undo.paths() {
        allocate(made, "use another file system, or a sparse file (truncate -s)")?;
    }
    let device = open_fresh(name)?;
    let held = content(&device, force)?;
    Ok(ClaimedDevice { device, undo, held })
}

/// Creates the file of a device if it is missing, and otherwise checks its use. `exactly` requires
/// an existing file to have the size of the others.
pub(crate) fn make_file(
    (asked, name): (&str, &str),
    peers: &PeerGeometry,
    exactly: bool,
    undo: &mut CreatedFiles,
) -> Result<(), Error> {
    let zoned = zoned_path(name).transpose()?;
    let is_zoned = zoned.is_some();
    let local = zoned.or_else(|| name.starts_with('/').then(|| name.into()));
    let Some(path) = local.map(PathBuf::from) else { return Ok(()) };
    let path = path.as_path();
    match (path.metadata(), peers.size) {
        (Ok(meta), size) => {
            if let Some(size) = size.filter(|size| *size != meta.len() && exactly) {
                let why = format!("exists with {} bytes, not {size}; omit --size", meta.len());
                return Err(device(name, why));
            }
            // Mounts and partitions are listed by their real paths.
            let canonical = fs::canonicalize(path).map_err(file(path, "find it"))?;
            let users = |path| find_user(path).or_else(|| storage::user_beside(path));
            if let Some(user) = canonical.to_str().and_then(users) {
                return Err(device(name, user));
            }
            // Its intended size is unknown.
            if meta.is_file() && meta.len() == 0 {
                let why = "is empty; remove it and use --size, or extend it";
                return Err(device(name, why));
            }
        }
        (Err(error), Some(size)) if error.kind() == ErrorKind::NotFound => {
            if is_zoned {
                let made = make_zoned_file(asked, size, peers.zones)?;
                undo.add(name, path, &made);
                sync_folder(path).map_err(file(path, "sync its directory"))?;
                return Ok(());
            }
            let made = new_private(path).map_err(file(path, "create the file"))?;
            // Registered at once, so that a failure from here on removes the file.
            undo.add(name, path, &made);
            // Sparse for now; the caller allocates it.
            made.set_len(size).map_err(file(path, "set its size"))?;
            sync_folder(path).map_err(file(path, "sync its directory"))?;
        }
        (Err(error), None) if error.kind() == ErrorKind::NotFound => {
            return Err(device(name, "does not exist; add --size to create it"));
        }
        (Err(error), _) => return Err(file(path, "examine it")(error)),
    }
    Ok(())
}

/// Describes the content of the device; an error unless `force` permits destroying it.
pub(crate) fn content(one: &Device, force: bool) -> Result<Option<String>, Error> {
    let content = find_content(one)?;
    match &content {
        Some(content) if !force => {
            let why = format!("holds {content}; --force overwrites it");
            Err(device(one.name(), why))
        }
        _ => Ok(content),
    }
}

/// Opens a device that is added to the others, exclusively. All its capacity is used; of a zoned
/// device only as much as the others have. A missing file is created. `names` are the user's name
/// and the full name.
pub(crate) fn take_whole(
    names: (&str, &str),
    peers: &PeerGeometry,
    force: bool,
) -> Result<ClaimedDevice, Error> {
    if let Some(needed) = peers.needed() {
        return take_with_room(names, peers, needed, force);
    }
    take_room(names, peers, force, |room| match room {
        0 => Err("has no room for data".into()),
        room => Ok(room),
    })
}

/// Opens a device of which `needed` sectors are used; a new file is at least that long.
pub(crate) fn take_with_room(
    names: (&str, &str),
    peers: &PeerGeometry,
    needed: u64,
    force: bool,
) -> Result<ClaimedDevice, Error> {
    let peers = peers.with_room(needed + 2 * RESERVE);
    take_room(names, &peers, force, |room| {
        if room < needed {
            let (room, needed) = (room * SECTOR as u64, needed * SECTOR as u64);
            Err(format!("has room for {room} bytes of data, and the volume needs {needed}"))
        } else {
            Ok(needed)
        }
    })
}

/// Opens a device; `used` computes the number of used sectors from its capacity in sectors.
fn take_room(
    (asked, name): (&str, &str),
    peers: &PeerGeometry,
    force: bool,
    used: impl FnOnce(u64) -> Result<u64, String>,
) -> Result<ClaimedDevice, Error> {
    let mut taken = take_device(asked, name, peers, force)?;
    let (start, room) = data_window(taken.device.bytes() / SECTOR as u64);
    let used = used(room).map_err(|why| device(name, why))?;
    // A part of a zoned device may belong to a volume that is not served and so holds no lock.
    claims::refuse_taken(&taken.device)?;
    taken.device.set_window(start, used);
    Ok(taken)
}
