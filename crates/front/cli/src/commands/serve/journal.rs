//! Events in the journal of systemd, with fields, in its native protocol: one datagram of
//! `FIELD=value` lines for each event.
//!
//! `journalctl HOSTFTL_VOLUME=vol HOSTFTL_EVENT=device-lost` then finds events without a search in
//! texts.

use std::env;
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use hostftl_format::letters::Plain;
use hostftl_volume::{Event, Level};

/// Socket of the journal.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Connection to the journal.
#[derive(Debug)]
pub(super) struct Journal(UnixDatagram);

impl Journal {
    /// Returns the journal if standard error leads there, as in a service of systemd; lines on
    /// standard error would then be a second copy without fields.
    pub(super) fn of_standard_error() -> Option<Self> {
        let stream = env::var("JOURNAL_STREAM").ok()?;
        let error = std::fs::metadata("/proc/self/fd/2").ok()?;
        let is_ours = stream == format!("{}:{}", error.st_dev(), error.st_ino());
        is_ours.then(|| Journal::at(Path::new(SOCKET)).ok()).flatten()
    }

    fn at(socket: &Path) -> std::io::Result<Self> {
        let journal = UnixDatagram::unbound()?;
        journal.set_nonblocking(true)?;
        journal.connect(socket)?;
        Ok(Journal(journal))
    }

    /// Sends an event of `volume`. Returns whether the journal accepted it: it does not wait.
    pub(super) fn send(&self, volume: &str, event: &Event) -> bool {
        self.0.send(datagram(volume, event).as_bytes()).is_ok()
    }
}

fn datagram(volume: &str, event: &Event) -> String {
    let priority = match event.level {
        Level::Error => 3,
        Level::Warning => 4,
        Level::Info => 6,
    };
    let (volume, line, device) = (Plain(volume), event.line(), event.device);
    let device = device.map_or(String::new(), |device| format!("HOSTFTL_DEVICE={device}\n"));
    format!(
        "MESSAGE={volume}: {}\nPRIORITY={priority}\nSYSLOG_IDENTIFIER=hostftl\n\
         HOSTFTL_VOLUME={volume}\nHOSTFTL_EVENT={}\nHOSTFTL_NUMBER={}\nHOSTFTL_COUNT={}\n{device}",
        Plain(&line),
        event.kind,
        event.number,
        event.count
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_entry_with_fields() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let hears = UnixDatagram::bind(&socket).unwrap();
        let journal = Journal::at(&socket).unwrap();
        let event = Event {
            number: 7,
            unix_ms: 1,
            first_unix_ms: 1,
            count: 1,
            level: Level::Error,
            kind: "device-lost".into(),
            device: Some(2),
            text: "device 2 (/dev/sdc) is lost".into(),
        };
        assert!(journal.send("a\nMESSAGE=b", &event));
        let mut got = [0; 1000];
        let length = hears.recv(&mut got).unwrap();
        let expected = "MESSAGE=a\\nMESSAGE=b: device 2 (/dev/sdc) is lost\nPRIORITY=3\n\
                        SYSLOG_IDENTIFIER=hostftl\nHOSTFTL_VOLUME=a\\nMESSAGE=b\n\
                        HOSTFTL_EVENT=device-lost\nHOSTFTL_NUMBER=7\nHOSTFTL_COUNT=1\n\
                        HOSTFTL_DEVICE=2\n";
        assert_eq!(String::from_utf8_lossy(&got[..length]), expected);
    }
}
