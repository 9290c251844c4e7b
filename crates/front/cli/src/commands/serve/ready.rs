//! The lines that say that clients can connect.

use std::io::{self, Write};

use crate::console::Console;
use crate::notify;

use super::manager;
use super::volumes::Live;

/// Prints the server's `ready` lines, as JSON if that is wanted, and tells the service manager.
pub(super) struct Ready<'a> {
    console: &'a mut Console,
    live: &'a [Live],
    said: Vec<u8>,
}

impl<'a> Ready<'a> {
    pub(super) fn new(console: &'a mut Console, live: &'a [Live]) -> Self {
        Ready { console, live, said: Vec::new() }
    }
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.said.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let text = String::from_utf8_lossy(&self.said).into_owned();
        self.said.clear();
        let uris: Vec<_> = text.lines().map(|it| it.strip_prefix("ready ").unwrap_or(it)).collect();
        let printed = match (self.console.is_json(), &uris[..]) {
            (true, [uri]) => self.console.value(&serde_json::json!({ "ready": uri })),
            (true, uris) => self.console.value(&serde_json::json!({ "ready": uris })),
            (false, _) => self.console.lines(text.trim_end()),
        };
        let printed = printed.and_then(|()| self.console.flush());
        printed.map_err(|failure| io::Error::other(failure.text))?;
        notify::manager().ready(&manager::serving(self.live));
        Ok(())
    }
}
