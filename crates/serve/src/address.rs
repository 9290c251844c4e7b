//! Where a server listens, as a user writes it.

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ServeError;

/// One of the forms in [`Address::FORMS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port on one address of this machine; port 0 lets the kernel choose.
    Tcp(SocketAddr),
    /// The socket that the service manager hands over.
    Systemd,
}

impl Address {
    /// How addresses are written.
    pub const FORMS: &str = "unix:PATH, tcp:ADDRESS:PORT or systemd";
}

impl FromStr for Address {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        let wrong = || ServeError::Address(text.to_owned());
        if let Some(place) = text.strip_prefix("tcp:") {
            let place: SocketAddr = place.parse().map_err(|_| wrong())?;
            return match place.ip().is_unspecified() {
                true => Err(ServeError::Everywhere(text.to_owned())),
                false => Ok(Address::Tcp(place)),
            };
        }
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Address::Unix(path.into())),
            None if text == "systemd" => Ok(Address::Systemd),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Address {
    /// As a user writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(place) => write!(f, "tcp:{place}"),
            Address::Systemd => f.write_str("systemd"),
        }
    }
}

/// The URI of a unix socket; its path is absolute, so that it works from any folder.
pub(crate) fn unix_uri(scheme: &str, path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = format!("{scheme}+unix:///?socket=");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(*byte as char),
            _ if byte.is_ascii_alphanumeric() => uri.push(*byte as char),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri() {
        let uri = unix_uri("nbd", Path::new("/run/my vol/a+b.sock"));
        assert_eq!(uri, "nbd+unix:///?socket=/run/my%20vol/a%2Bb.sock");
        assert!(unix_uri("nbds", Path::new("x.sock")).starts_with("nbds+unix:///?socket=/"));
    }

    #[test]
    fn addresses_are_shown_as_they_are_written() {
        for text in ["unix:a.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:0", "systemd"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        let texts = ["/run/x", "unix:", "tcp:localhost:1", "tcp:10809", "tcp:127.0.0.1", ""];
        for text in texts {
            assert!(matches!(text.parse::<Address>(), Err(ServeError::Address(_))), "{text:?}");
        }
        for text in ["tcp:0.0.0.0:10809", "tcp:[::]:10809"] {
            assert!(matches!(text.parse::<Address>(), Err(ServeError::Everywhere(_))), "{text:?}");
        }
    }
}
