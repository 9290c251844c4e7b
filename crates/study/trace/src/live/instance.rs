//! An instance of the kernel's tracing: a folder in tracefs with its own buffers and switches.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Mount points of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Path of the event below an instance.
const EVENT: &str = "events/block/block_rq_issue";
/// Buffer for each processor in KiB: about 40,000 events, enough for the time between two polls.
const BUFFER_KIB: &str = "4096";

/// A tracing instance, removed when it is dropped.
pub(super) struct Instance {
    folder: PathBuf,
}

impl Instance {
    /// Creates an instance for one device, switched off.
    pub(super) fn new(device: u32) -> Result<Self, String> {
        let root = PLACES.map(Path::new).into_iter().find(|place| place.join("instances").exists());
        let root = root.ok_or_else(|| match fs::read_dir(PLACES[0]).map_err(|it| it.kind()) {
            Err(io::ErrorKind::PermissionDenied) => {
                refused(&io::ErrorKind::PermissionDenied.into())
            }
            _ => "tracefs is not mounted; as root, run: mount -t tracefs tracefs \
                  /sys/kernel/tracing"
                .to_owned(),
        })?;
        let folder = root.join("instances").join(format!("hostftl-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| refused(&error))?;
        let instance = Instance { folder };
        if !instance.folder.join(EVENT).exists() {
            return Err("this kernel has no block events (CONFIG_BLK_DEV_IO_TRACE)".to_owned());
        }
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", BUFFER_KIB)?;
        instance.set(&format!("{EVENT}/filter"), &format!("dev == {device}"))?;
        Ok(instance)
    }

    /// Starts or stops the recording of events.
    pub(super) fn switch(&self, on: bool) -> Result<(), String> {
        self.set(&format!("{EVENT}/enable"), if on { "1" } else { "0" })
    }

    /// Opens the events as text. Reads do not block.
    pub(super) fn open_pipe(&self) -> Result<File, String> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        options.open(self.folder.join("trace_pipe")).map_err(|error| refused(&error))
    }

    /// Returns the number of events that were lost for lack of buffer space.
    pub(super) fn lost(&self) -> u64 {
        let processors = fs::read_dir(self.folder.join("per_cpu")).into_iter().flatten().flatten();
        let texts = processors.map(|it| fs::read_to_string(it.path().join("stats")));
        texts.map(|text| lost(&text.unwrap_or_default())).sum()
    }

    fn set(&self, name: &str, value: &str) -> Result<(), String> {
        fs::write(self.folder.join(name), value).map_err(|error| refused(&error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // The kernel removes an instance only when it is unused. An error can't be reported here.
        let _ = self.switch(false);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns the lost events in the statistics of one processor.
fn lost(stats: &str) -> u64 {
    let fields = stats.lines().filter_map(|line| line.split_once(": "));
    let counts = fields.filter(|(name, _)| matches!(*name, "overrun" | "dropped events"));
    counts.map(|(_, count)| count.trim().parse::<u64>().unwrap_or(0)).sum()
}

fn refused(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root can read the block events of the kernel; run the command as root".to_owned()
        }
        _ => format!("cannot use the block events of the kernel (tracefs): {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_are_counted() {
        let stats = "entries: 0\noverrun: 41\ncommit overrun: 7\nbytes: 1200\n\
                     oldest event ts:  4178.123456\nnow ts:  4180.000001\n\
                     dropped events: 1\nread events: 9\n";
        assert_eq!(lost(stats), 42);
        assert_eq!(lost(""), 0);
    }
}
