//! What a service manager is told: one datagram of `NAME=value` lines for each change, to the
//! socket that NOTIFY_SOCKET names (sd_notify(3)). Without that variable nothing is told.
//!
//! Invariants
//! - Telling never waits: a datagram that the socket does not take at once is lost, and the next
//!   one says what holds then.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use hostftl_format::letters::Plain;

/// The longest status in bytes; service managers show one line.
const LONGEST: usize = 400;

/// The way to the service manager of this process, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
    /// Within what time it wants to hear that the process still works.
    watchdog: Option<Duration>,
    /// Why the manager that there is can't be told.
    trouble: Option<String>,
}

/// The one that started this process.
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

    /// Whether somebody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.socket.is_some()
    }

    /// Within what time the manager wants [`Notify::alive`]; none when it does not wait for that.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Why the manager can't be told, if there is one.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What the process does now, for people.
    pub(crate) fn status(&self, text: &str) {
        self.send(&format!("STATUS={}", one_line(text)));
    }

    /// The same, and the start or the stop under way may take that much longer from now on.
    pub(crate) fn working(&self, text: &str, more: Duration) {
        let (text, micros) = (one_line(text), more.as_micros());
        self.send(&format!("EXTEND_TIMEOUT_USEC={micros}\nSTATUS={text}"));
    }

    /// Clients can connect.
    pub(crate) fn ready(&self, text: &str) {
        let (pid, text) = (std::process::id(), one_line(text));
        self.send(&format!("READY=1\nMAINPID={pid}\nSTATUS={text}"));
    }

    /// The process still does its work.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The process ends, which may take `most`.
    pub(crate) fn stopping(&self, text: &str, most: Duration) {
        let (text, micros) = (one_line(text), most.as_micros());
        self.send(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={micros}\nSTATUS={text}"));
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // See the module text.
            socket.send(text.as_bytes()).ok();
        }
    }
}

/// A socket towards `place`: a path, or a name in the abstract space behind an `@`.
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

/// As much of `text` as a status has room for, as one line.
fn one_line(text: &str) -> String {
    let mut line = Plain(text).to_string();
    line.truncate(line.floor_char_boundary(LONGEST));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_abstract_space_work_and_others_are_refused() {
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
    fn a_manager_that_does_not_listen_makes_nobody_wait() {
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let notify = Notify { socket: Some(ours), ..Notify::default() };
        (0..100_000).for_each(|_| notify.alive());
    }
}
