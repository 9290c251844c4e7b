//! Notifications to the service manager, as in sd_notify(3): one datagram of `NAME=value` lines for
//! each change, sent to the socket in NOTIFY_SOCKET. Without that variable nothing is sent.
//!
//! Invariants
//! - Sending never blocks. A datagram that the socket does not accept immediately is dropped; the
//!   next one has the current state.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use hostftl_format::letters::Plain;

/// Maximum length of a status in bytes, because service managers show one line.
const LONGEST: usize = 400;

/// Connection to the service manager of this process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
    /// Maximum time between two watchdog notifications.
    watchdog: Option<Duration>,
    /// Reason why the socket in NOTIFY_SOCKET can't be used.
    trouble: Option<String>,
}

/// Returns the connection to the service manager of this process.
pub(crate) fn manager() -> &'static Notify {
    static MANAGER: OnceLock<Notify> = OnceLock::new();
    MANAGER.get_or_init(Notify::from_environment)
}

impl Notify {
    fn from_environment() -> Self {
        let Some(place) = env::var_os("NOTIFY_SOCKET") else { return Notify::default() };
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| ours && *micros > 0);
        let watchdog = watchdog.map(Duration::from_micros);
        match connect(&place) {
            Ok(socket) => Notify { socket: Some(socket), watchdog, trouble: None },
            Err(error) => {
                let place = place.display();
                let trouble =
                    format!("cannot notify the service manager at NOTIFY_SOCKET={place}: {error}");
                Notify { trouble: Some(trouble), ..Notify::default() }
            }
        }
    }

    /// Returns whether notifications are sent.
    pub(crate) fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns the maximum time between two calls of [`Notify::alive`]; `None` without a watchdog.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Returns the reason why the socket in NOTIFY_SOCKET can't be used.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Sends the current activity, as text for an administrator.
    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", one_line(text)));
    }

    /// Sends the current activity, and extends the timeout of the start or stop to `more` from now.
    pub(crate) fn working(&self, text: &str, more: Duration) {
        let (text, micros) = (one_line(text), more.as_micros());
        self.send(&format!("EXTEND_TIMEOUT_USEC={micros}\nSTATUS={text}"));
    }

    /// Reports that clients can connect.
    pub(crate) fn ready(&self, text: &str) {
        let (pid, text) = (std::process::id(), one_line(text));
        self.send(&format!("READY=1\nMAINPID={pid}\nSTATUS={text}"));
    }

    /// Sends the watchdog notification.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Reports that the process stops, which may take up to `most`.
    pub(crate) fn stopping(&self, text: &str, most: Duration) {
        let (text, micros) = (one_line(text), most.as_micros());
        self.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={micros}\nSTATUS={text}"));
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            socket.send(text.as_bytes()).ok();
        }
    }
}

/// Connects a nonblocking socket to `place`: an absolute path, or `@` and an abstract name.
fn connect(place: &OsStr) -> io::Result<UnixDatagram> {
    let to = match place.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(place)?,
        _ => return Err(io::Error::other("it is neither a path nor an abstract name (@NAME)")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&to)?;
    Ok(socket)
}

/// Returns `text` as one line, cut at [`LONGEST`].
fn one_line(text: &str) -> String {
    let mut line = Plain(text).to_string();
    line.truncate(line.floor_char_boundary(LONGEST));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abstract_socket_names_work_and_others_are_refused() {
        let name = format!("hostftl-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let hears = UnixDatagram::bind_addr(&address).unwrap();
        let socket = connect(OsStr::new(&format!("@{name}"))).unwrap();
        let notify = Notify { socket: Some(socket), ..Notify::default() };
        notify.status("two\nlines");
        let mut text = [0; 100];
        let got = hears.recv(&mut text).unwrap();
        assert_eq!(&text[..got], b"STATUS=two\\nlines");
        for place in ["vsock:2:1234", "", "relative/path"] {
            assert!(connect(OsStr::new(place)).is_err(), "{place}");
        }
    }

    #[test]
    fn a_long_status_is_cut_between_characters() {
        let cut = one_line(&"é".repeat(LONGEST));
        assert!(cut.len() <= LONGEST && cut.chars().all(|letter| letter == 'é'), "{cut}");
    }

    #[test]
    fn a_deaf_service_manager_does_not_block() {
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let notify = Notify { socket: Some(ours), ..Notify::default() };
        (0..100_000).for_each(|_| notify.alive());
    }
}
