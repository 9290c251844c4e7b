//! The name of an NBD export: `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port of the protocol.
const PORT: u16 = 10809;
/// How long a server may be silent, in seconds: less than the two minutes that a layer waits.
const TIMEOUT: u64 = 90;
const LONGEST_TIMEOUT: u64 = 100;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(String, u16),
}

/// See the module text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    pub place: Place,
    /// The export; empty for the server's default.
    pub export: String,
    /// After how long without an answer a command fails.
    pub timeout: Duration,
}

impl Uri {
    /// Whether `name` is meant to be one.
    pub fn is_meant(name: &str) -> bool {
        ["nbd:", "nbd+", "nbds:", "nbds+"].iter().any(|scheme| name.starts_with(scheme))
    }

    /// Understands a name; the path of a socket becomes absolute.
    ///
    /// # Errors
    /// In words, with what to write instead.
    pub fn parse(name: &str) -> Result<Self, String> {
        let forms = "write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH";
        let (scheme, rest) = name.split_once("://").ok_or(forms)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let (mut socket, mut timeout) = (None, TIMEOUT);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').ok_or_else(|| format!("{pair:?} has no value"))? {
                ("socket", path) => socket = Some(decode(path)?),
                ("timeout", text) => timeout = seconds(text)?,
                (key, _) => return Err(format!("{key:?} is unknown; there are socket, timeout")),
            }
        }
        let place = match (scheme, socket) {
            ("nbd", None) if !host.is_empty() => tcp(host)?,
            ("nbd+unix", Some(path)) if host.is_empty() && !path.is_empty() => {
                let path = std::path::absolute(Path::new(&path));
                Place::Unix(path.map_err(|error| error.to_string())?)
            }
            ("nbds" | "nbds+unix", _) => {
                return Err("TLS to a server is not supported; put a tunnel in front".into());
            }
            _ => return Err(forms.into()),
        };
        Ok(Uri { place, export: decode(export)?, timeout: Duration::from_secs(timeout) })
    }
}

fn tcp(host: &str) -> Result<Place, String> {
    if host.contains('@') {
        return Err("a user has no meaning here".into());
    }
    // The colons of an IPv6 address are within brackets.
    let after = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let (name, port) = match host[after..].rfind(':') {
        Some(colon) => (&host[..after + colon], &host[after + colon + 1..]),
        None => (host, ""),
    };
    let port = if port.is_empty() { Ok(PORT) } else { port.parse() };
    let port = port.map_err(|_| format!("{host:?} has no sensible port"))?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() { Err("there is no host".into()) } else { Ok(Place::Tcp(name.into(), port)) }
}

fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("timeout={text}: write whole seconds from 1 to {LONGEST_TIMEOUT}");
    let some = text.parse().ok().filter(|some| (1..=LONGEST_TIMEOUT).contains(some));
    some.ok_or_else(wrong)
}

/// Undoes `%41`.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} has a % that is not followed by two hex digits");
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not UTF-8"))
}

/// As in a URI.
struct Encoded<'a>(&'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' => write!(f, "{}", byte as char)?,
                _ if byte.is_ascii_alphanumeric() => write!(f, "{}", byte as char)?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Uri {
    /// The one way to write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = Encoded(&self.export);
        let mut sign = '?';
        match &self.place {
            Place::Unix(path) => {
                let path = path.to_string_lossy();
                write!(f, "nbd+unix:///{export}?socket={}", Encoded(&path))?;
                sign = '&';
            }
            Place::Tcp(host, port) if host.contains(':') => {
                write!(f, "nbd://[{host}]:{port}/{export}")?;
            }
            Place::Tcp(host, port) => write!(f, "nbd://{host}:{port}/{export}")?,
        }
        match self.timeout.as_secs() {
            TIMEOUT => Ok(()),
            other => write!(f, "{sign}timeout={other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_in_one_way() {
        let cases = [
            ("nbd://box", "nbd://box:10809/"),
            ("nbd://box:/vol", "nbd://box:10809/vol"),
            ("nbd://[::1]:99/a/b?timeout=7", "nbd://[::1]:99/a/b?timeout=7"),
            ("nbd+unix:///?socket=/run/a%20b.sock", "nbd+unix:///?socket=/run/a%20b.sock"),
            (
                "nbd+unix:///x%2By?timeout=90&socket=/s&timeout=5",
                "nbd+unix:///x%2By?socket=/s&timeout=5",
            ),
        ];
        for (text, whole) in cases {
            let uri = Uri::parse(text).unwrap();
            assert_eq!(uri.to_string(), whole);
            assert_eq!(Uri::parse(whole), Ok(uri));
        }
        let relative = Uri::parse("nbd+unix:///?socket=s").unwrap().to_string();
        assert!(relative.starts_with("nbd+unix:///?socket=/"), "{relative}");
    }

    #[test]
    fn other_names_are_refused_in_words() {
        let cases = [
            ("nbd:box", "nbd://HOST"),
            ("nbd:///x", "nbd://HOST"),
            ("nbd://box/x?socket=/s", "nbd://HOST"),
            ("nbd+unix://host/?socket=/s", "nbd://HOST"),
            ("nbd+unix:///x", "nbd://HOST"),
            ("nbd://box:port/", "port"),
            ("nbd://me@box/", "user"),
            ("nbd://box/%4", "hex"),
            ("nbd://box/?timeout=0", "1 to 100"),
            ("nbd://box/?size=7", "\"size\" is unknown"),
            ("nbds://box/", "TLS"),
        ];
        for (text, word) in cases {
            let why = Uri::parse(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
