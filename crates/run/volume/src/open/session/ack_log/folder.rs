//! Location of the files of acknowledgement logs, and the choice of the valid one.
//!
//! A file is named after its volume and the number of the run that acknowledged its entries. The
//! session mark on the devices has that number too. A file is valid if the mark proves that its run
//! was the last one that served the volume, and did not end cleanly. Any later server, on any
//! machine, has written a mark with a higher number: newer data may exist then, and the file is
//! never applied.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use uuid::Uuid;

use super::AckLog;
use super::entry::{Entry, Label};
use super::ring::Ring;
use crate::util::counted::counted;
use crate::util::error::{Error, file};
use crate::util::events::{Events, Level};
use crate::util::runtime_dir;

/// Size of an acknowledgement log in bytes. A flush is started when half of it is used.
const ROOM: u64 = 64 << 20;
/// File system type of a tmpfs in statfs(2).
const TMPFS: i64 = 0x0102_1994;
const ENDING: &str = ".stash";

/// Creates an empty log for run `run` of a volume.
pub(crate) fn make(volume: Uuid, run: u64, boot: [u8; 16]) -> Result<AckLog, Error> {
    let folders = runtime_dir::in_memory();
    let is_there = |folder: &&PathBuf| {
        runtime_dir::own(folder).is_ok()
            && statfs(folder.as_path()).is_ok_and(|it| is_tmpfs(it.f_type))
    };
    let Some(folder) = folders.iter().find(is_there) else {
        let why = "neither it nor /dev/shm is a tmpfs; use --ack media";
        let what = "store acknowledged writes there (--ack memfd)";
        return Err(file(&folders[0], what)(io::Error::other(why)));
    };
    let path = folder.join(format!("{}.{run}{ENDING}", volume.simple()));
    let label = Label { volume: volume.into_bytes(), run, boot, room: ROOM, tail: 0 };
    let ring = Ring::create(&path, label);
    ring.map(AckLog::new).map_err(file(&path, "reserve 64 MiB of memory for acknowledged writes"))
}

#[allow(clippy::unnecessary_cast, reason = "the type differs between machines")]
fn is_tmpfs(kind: impl Into<i64>) -> bool {
    kind.into() == TMPFS
}

/// Acknowledgement log of a run that died.
#[derive(Debug)]
pub(crate) struct PreviousLog {
    pub(super) ring: Ring,
    pub(super) entries: Vec<Entry>,
}

impl PreviousLog {
    /// Finds the log of run `run` of a volume since the machine was booted; `None` when there is
    /// none.
    pub(crate) fn find(volume: Uuid, run: u64, boot: [u8; 16]) -> Result<Option<Self>, Error> {
        for (path, owner) in files(volume) {
            if owner == run {
                let opened = Ring::open(&path, volume.into_bytes());
                let found = opened.map_err(file(&path, "read acknowledged writes"))?;
                // The name of a file is not proof; only its label is.
                let ours = found.filter(|(ring, _)| ring.label().run == run);
                // The memory of an earlier boot is lost, so such a file can only be a copy.
                let here = ours.filter(|(ring, _)| ring.label().boot == boot && boot != [0; 16]);
                if let Some((ring, entries)) = here {
                    return Ok(Some(PreviousLog { ring, entries }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Describes the changes that have to be applied.
    pub(crate) fn waits(&self) -> String {
        let (count, path) = (counted(self.count(), "acknowledged write"), self.path().display());
        format!("{path} has {count} for the next `hostftl serve`, not yet all on the devices")
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.ring.path()
    }
}

/// Refuses a volume whose devices have no mark of a run later than `run` although a log of a later
/// run holds entries: the devices are older copies and would diverge from the volume.
pub(crate) fn refuse_newer(volume: Uuid, run: u64) -> Result<(), Error> {
    for (path, owner) in files(volume).into_iter().filter(|(_, owner)| *owner > run) {
        let opened = Ring::open(&path, volume.into_bytes());
        let found = opened.map_err(file(&path, "read acknowledged writes"))?;
        if let Some((_, entries)) = found.filter(|(_, entries)| !entries.is_empty()) {
            let why = format!(
                "it has {} of run {owner}, but the devices are at run {run}: older copies; \
                 reconnect the devices themselves, or remove this file and lose its writes",
                counted(entries.len() as u64, "acknowledged write"),
            );
            return Err(Error::Refused { path, why });
        }
    }
    Ok(())
}

/// Removes the logs of all runs of a volume except `run`. An obsolete log with entries is reported,
/// unless it is of the run `done`, whose changes are all durable.
pub(crate) fn tidy(volume: Uuid, run: u64, done: u64, events: &Events) {
    for (path, owner) in files(volume) {
        if owner == run {
            continue;
        }
        let left = Ring::open(&path, volume.into_bytes()).ok().flatten();
        let lost = left.map_or(0, |(_, entries)| entries.len() as u64);
        // The changes of the previous run were applied before its log is removed.
        if lost > 0 && done != owner {
            let text = format!(
                "cannot apply {} of an earlier run, because the volume was served elsewhere \
                 since; {} removed",
                counted(lost, "acknowledged write"),
                path.display()
            );
            events.report(Level::Warning, "note", text);
        }
        fs::remove_file(&path).ok();
    }
}

/// Removes the log of run `run` of a volume, which never started.
pub(crate) fn forget_run(volume: Uuid, run: u64) {
    let of_run = files(volume).into_iter().filter(|(_, owner)| *owner == run);
    of_run.for_each(|(path, _)| drop(fs::remove_file(path)));
}

/// Removes all logs of a deleted volume.
pub(crate) fn forget(volume: Uuid) {
    files(volume).iter().for_each(|(path, _)| drop(fs::remove_file(path)));
}

/// Returns the logs of a volume in directories of this user, with the numbers of their runs.
fn files(volume: Uuid) -> Vec<(PathBuf, u64)> {
    let folders = runtime_dir::in_memory();
    let user = fs::metadata("/proc/self").map(|it| it.uid()).ok();
    let ours = |folder: &&PathBuf| {
        // Another user could place forged writes in a directory of their own.
        fs::symlink_metadata(folder).is_ok_and(|it| it.is_dir() && Some(it.uid()) == user)
    };
    let listed = folders.iter().filter(ours).filter_map(|folder| fs::read_dir(folder).ok());
    let prefix = format!("{}.", volume.simple());
    let parse = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let run = name.strip_prefix(&prefix)?.strip_suffix(ENDING)?.parse().ok()?;
        Some((path, run))
    };
    listed.flatten().flatten().filter_map(|entry| parse(entry.path())).collect()
}
