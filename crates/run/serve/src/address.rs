//! Listening addresses in the form that users write.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ServeError;

/// Listening address, in one of the forms of [`Address::FORMS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Unix socket.
    Unix(PathBuf),
    /// TCP port on one address of this machine; with port 0 the kernel chooses one.
    Tcp(SocketAddr),
    /// Socket that the service manager passes to the process.
    Systemd,
}

impl Address {
    /// Accepted forms of an address.
    pub const FORMS: &str = "unix:PATH, tcp:ADDRESS:PORT or systemd";
}

impl Address {
    /// Returns whether clients can connect from every network of the machine or its container.
    pub fn is_everywhere(&self) -> bool {
        matches!(self, Address::Tcp(place) if place.ip().is_unspecified())
    }

    /// Returns whether only processes of this machine can connect: true for a unix socket.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Unix(_) => true,
            Address::Tcp(_) => false,
            Address::Systemd => handed_is_unix(),
        }
    }
}

/// Returns whether the inherited socket, the first descriptor after standard error, is a unix
/// socket.
fn handed_is_unix() -> bool {
    let link = fs::read_link("/proc/self/fd/3").unwrap_or_default();
    let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    inode.is_some_and(|inode| table.lines().any(|line| line.split(' ').any(|word| word == inode)))
}

impl FromStr for Address {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let wrong = || ServeError::Address(text.to_owned());
        if let Some(place) = text.strip_prefix("tcp:") {
            return place.parse().map(Address::Tcp).map_err(|_| wrong());
        }
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Address::Unix(path.into())),
            None if text == "systemd" => Ok(Address::Systemd),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Address {
    /// Writes the form that users write.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(place) => write!(f, "tcp:{place}"),
            Address::Systemd => f.write_str("systemd"),
        }
    }
}

/// Returns the URI of an export on a unix socket. The path is made absolute, so the URI is valid in
/// any working directory.
pub(crate) fn unix_uri(scheme: &str, path: &Path, export: &str) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (export, path) = (escaped(export.as_bytes()), escaped(path.as_os_str().as_bytes()));
    format!("{scheme}+unix:///{export}?socket={path}")
}

/// Percent-encodes text for use in a URI.
pub(crate) fn escaped(text: &[u8]) -> String {
    let mut escaped = String::new();
    for byte in text {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => escaped.push(*byte as char),
            _ if byte.is_ascii_alphanumeric() => escaped.push(*byte as char),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri() {
        let uri = unix_uri("nbd", Path::new("/run/my vol/a+b.sock"), "");
        assert_eq!(uri, "nbd+unix:///?socket=/run/my%20vol/a%2Bb.sock");
        let uri = unix_uri("nbd", Path::new("/run/a.sock"), "my vol@2");
        assert_eq!(uri, "nbd+unix:///my%20vol%402?socket=/run/a.sock");
        assert!(unix_uri("nbds", Path::new("x.sock"), "").starts_with("nbds+unix:///?socket=/"));
    }

    #[test]
    fn addresses_are_shown_as_they_are_written() {
        for text in ["unix:a.sock", "tcp:0.0.0.0:10809", "tcp:[::1]:0", "systemd"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        let texts = ["/run/x", "unix:", "tcp:localhost:1", "tcp:10809", "tcp:127.0.0.1", ""];
        for text in texts {
            assert!(matches!(text.parse::<Address>(), Err(ServeError::Address(_))), "{text:?}");
        }
    }
}
