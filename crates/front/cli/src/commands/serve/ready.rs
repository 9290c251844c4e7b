//! Report that clients can connect.

use std::io::{self, Write};

use crate::console::Console;
use crate::notify;

use super::manager;
use super::volumes::ServedVolume;

/// Writer for the `ready` lines of a server. A flush prints them, as JSON with `--json`, and
/// notifies the service manager.
pub(super) struct Ready<'a> {
    console: &'a mut Console,
    all: &'a [ServedVolume],
    lines: Vec<u8>,
}

impl<'a> Ready<'a> {
    pub(super) fn new(console: &'a mut Console, all: &'a [ServedVolume]) -> Self {
        Ready { console, all, lines: Vec::new() }
    }
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.lines).into_owned();
        self.lines.clear();
        let uris: Vec<_> = text.lines().map(|it| it.strip_prefix("ready ").unwrap_or(it)).collect();
        let printed = match (self.console.is_json(), &uris[..]) {
            (true, [uri]) => self.console.value(&serde_json::json!({ "ready": uri })),
            (true, uris) => self.console.value(&serde_json::json!({ "ready": uris })),
            (false, _) => self.console.lines(text.trim_end()),
        };
        let printed = printed.and_then(|()| self.console.flush());
        printed.map_err(|failure| io::Error::other(failure.text))?;
        notify::manager().ready(&manager::serving(self.all));
        Ok(())
    }
}
