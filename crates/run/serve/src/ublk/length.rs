//! Length of a block device, which follows its volume where the kernel supports it.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use hostftl_core::SECTOR;
use hostftl_io::ublk::{Features, UblkError};
use hostftl_volume::front::Port;
use hostftl_volume::{Events, Level};

use crate::server::Exported;

/// Length of a block device.
#[derive(Debug)]
pub(super) struct DeviceLength {
    port: Port,
    events: Events,
    /// Whether the kernel can change the length of a device in use.
    follows: bool,
    /// Length in sectors that was last set, or refused.
    reported: AtomicU64,
}

impl DeviceLength {
    /// Creates the length of a device of `sectors` sectors, under a kernel with these features.
    pub(super) fn new(exported: &Exported, features: Features, sectors: u64) -> Self {
        let (port, events) = (exported.port.clone(), exported.events.clone());
        let follows = features.has(Features::UPDATE_SIZE);
        DeviceLength { port, events, follows, reported: sectors.into() }
    }

    /// Sets the new length with `set`, once, when the length of the volume differs from that of the
    /// device `path`.
    pub(super) fn follow(&self, set: impl FnOnce(u64) -> Result<(), UblkError>, path: &str) {
        let sectors = self.port.export().bytes / SECTOR as u64;
        if self.reported.swap(sectors, SeqCst) == sectors {
            return;
        }
        let bytes = sectors * SECTOR as u64;
        let (level, text) = match self.follows.then(|| set(sectors)) {
            Some(Ok(())) => (Level::Info, format!("{path} resized to {bytes} bytes")),
            Some(Err(error)) => {
                (Level::Warning, format!("cannot resize {path} to {bytes} bytes: {error}"))
            }
            None => {
                let text = format!(
                    "cannot resize {path} to {bytes} bytes while it is served (needs Linux 6.16); \
                     unmount it and restart the server"
                );
                (Level::Warning, text)
            }
        };
        self.events.report(level, "note", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_new_length_is_set_once_on_supporting_kernels() {
        for (features, times) in [(Features::UPDATE_SIZE, 1), (Features::USER_COPY, 0)] {
            let exported = Exported::new(hostftl_volume::ram_port("ram", 1 << 20));
            let reported = Cell::new(0);
            let set = |sectors| {
                assert_eq!(sectors, 2048);
                reported.set(reported.get() + 1);
                Ok(())
            };
            let as_made = DeviceLength::new(&exported, features, 2048);
            as_made.follow(set, "/dev/ublkb0");
            assert_eq!((reported.get(), exported.events.since(0).len()), (0, 0), "nothing changed");
            let shorter = DeviceLength::new(&exported, features, 1024);
            (0..2).for_each(|_| shorter.follow(set, "/dev/ublkb0"));
            assert_eq!(reported.get(), times);
            let events = exported.events.since(0);
            assert_eq!(events.len(), 1);
            assert!(events[0].text.contains("1048576 bytes"), "{}", events[0].text);
        }
    }
}
