//! URI of an NBD export: `nbd://HOST[:PORT]/EXPORT` or `nbd+unix:///EXPORT?socket=PATH`, and with
//! TLS `nbds://HOST[:PORT]/EXPORT?tls-certificates=FOLDER` or `nbds+unix:…`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default port of the protocol.
const PORT: u16 = 10809;
/// Default time without a reply in seconds after which a command fails. It is less than the two
/// minutes that a layer waits.
const TIMEOUT: u64 = 90;
const LONGEST_TIMEOUT: u64 = 100;
/// Host name of a server behind a unix socket.
const LOCAL: &str = "localhost";

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    /// Unix socket.
    Unix(PathBuf),
    /// TCP host and port.
    Tcp(String, u16),
}

/// TLS parameters. Their names in the URI are those of libnbd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Security {
    /// Directory with `ca-cert.pem`, which signed the server's certificate, and optionally
    /// `client-cert.pem` and `client-key.pem`.
    pub folder: PathBuf,
    /// Name in the server's certificate.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uri {
    pub place: ServerAddress,
    /// TLS parameters; without them the connection is not encrypted.
    pub security: Option<Security>,
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// Time without a reply after which a command fails.
    pub timeout: Duration,
}

impl Uri {
    /// Returns whether `name` has one of the URI schemes.
    pub(crate) fn is_meant(name: &str) -> bool {
        ["nbd:", "nbd+", "nbds:", "nbds+"].iter().any(|scheme| name.starts_with(scheme))
    }

    /// Parses a URI; the path of a socket becomes absolute.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let forms = "use nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH";
        let (scheme, rest) = name.split_once("://").ok_or(forms)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let parameters = Query::parse(query)?;
        // Both transports exist with and without TLS.
        let plain = scheme.replacen("nbds", "nbd", 1);
        let place = match (&*plain, parameters.socket) {
            ("nbd", None) if !host.is_empty() => tcp(host)?,
            ("nbd+unix", Some(path)) if host.is_empty() && !path.is_empty() => {
                ServerAddress::Unix(absolute(&path)?)
            }
            _ => return Err(forms.into()),
        };
        let security = match (plain != scheme, parameters.certificates, parameters.hostname) {
            (true, Some(folder), name) => Some(Security {
                folder: absolute(&folder)?,
                name: name.unwrap_or_else(|| place.host().to_owned()),
            }),
            (true, None, _) => {
                return Err("TLS needs ?tls-certificates=FOLDER with ca-cert.pem".into());
            }
            (false, None, None) => None,
            (false, ..) => return Err("tls-… needs nbds:// or nbds+unix://".into()),
        };
        let (export, timeout) = (decode(export)?, Duration::from_secs(parameters.timeout));
        Ok(Uri { place, security, export, timeout })
    }
}

impl ServerAddress {
    /// Returns the name of the server in its certificate, unless the URI gives another one.
    fn host(&self) -> &str {
        match self {
            ServerAddress::Unix(_) => LOCAL,
            ServerAddress::Tcp(host, _) => host,
        }
    }
}

/// Parameters after the question mark.
struct Query {
    socket: Option<String>,
    timeout: u64,
    certificates: Option<String>,
    hostname: Option<String>,
}

impl Query {
    fn parse(query: &str) -> Result<Self, String> {
        let mut parameters =
            Query { socket: None, timeout: TIMEOUT, certificates: None, hostname: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').ok_or_else(|| format!("{pair:?} has no value"))? {
                ("socket", path) => parameters.socket = Some(decode(path)?),
                ("timeout", text) => parameters.timeout = seconds(text)?,
                ("tls-certificates", path) => parameters.certificates = Some(decode(path)?),
                ("tls-hostname", name) => parameters.hostname = Some(decode(name)?),
                (key, _) => {
                    let known = "socket, timeout, tls-certificates, tls-hostname";
                    return Err(format!("{key:?} is unknown; known options are {known}"));
                }
            }
        }
        Ok(parameters)
    }
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    std::path::absolute(Path::new(path)).map_err(|error| error.to_string())
}

fn tcp(host: &str) -> Result<ServerAddress, String> {
    // The protocol has no users, and the host name would otherwise include it.
    if host.contains('@') {
        return Err("a user name is not supported".into());
    }
    // The colons of an IPv6 address are in brackets.
    let after = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let (name, port) = match host[after..].rfind(':') {
        Some(colon) => (&host[..after + colon], &host[after + colon + 1..]),
        None => (host, ""),
    };
    let port = if port.is_empty() { Ok(PORT) } else { port.parse() };
    let port = port.map_err(|_| format!("{host:?} has an invalid port"))?;
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() {
        Err("the host is missing".into())
    } else {
        Ok(ServerAddress::Tcp(name.into(), port))
    }
}

fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "timeout={text} is invalid; use whole seconds from 1 to \
                            {LONGEST_TIMEOUT}"
        )
    };
    let some = text.parse().ok().filter(|some| (1..=LONGEST_TIMEOUT).contains(some));
    some.ok_or_else(wrong)
}

/// Decodes percent-encoded bytes such as `%41`.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || format!("{text:?} has a % without two hex digits");
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

/// Text that is displayed percent-encoded.
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
    /// Writes the canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let export = Encoded(&self.export);
        let scheme = if self.security.is_some() { "nbds" } else { "nbd" };
        let mut pairs = Vec::new();
        match &self.place {
            ServerAddress::Unix(path) => {
                write!(f, "{scheme}+unix:///{export}")?;
                pairs.push(("socket", path.to_string_lossy().into_owned()));
            }
            // An IPv6 address needs brackets before a port.
            ServerAddress::Tcp(host, port) if host.contains(':') => {
                write!(f, "{scheme}://[{host}]:{port}/{export}")?;
            }
            ServerAddress::Tcp(host, port) => write!(f, "{scheme}://{host}:{port}/{export}")?,
        }
        if let Some(Security { folder, name }) = &self.security {
            pairs.push(("tls-certificates", folder.to_string_lossy().into_owned()));
            if name != self.place.host() {
                pairs.push(("tls-hostname", name.clone()));
            }
        }
        // Default values are omitted, so equal URIs have equal texts.
        if self.timeout.as_secs() != TIMEOUT {
            pairs.push(("timeout", self.timeout.as_secs().to_string()));
        }
        for (index, (key, value)) in pairs.iter().enumerate() {
            let sign = if index == 0 { '?' } else { '&' };
            write!(f, "{sign}{key}={}", Encoded(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let cases = [
            ("nbd://box", "nbd://box:10809/"),
            ("nbd://box:/vol", "nbd://box:10809/vol"),
            ("nbd://[::1]:99/a/b?timeout=7", "nbd://[::1]:99/a/b?timeout=7"),
            ("nbd+unix:///?socket=/run/a%20b.sock", "nbd+unix:///?socket=/run/a%20b.sock"),
            (
                "nbd+unix:///x%2By?timeout=90&socket=/s&timeout=5",
                "nbd+unix:///x%2By?socket=/s&timeout=5",
            ),
            (
                "nbds://box/vol?tls-certificates=/etc/pki/a%20b&timeout=5",
                "nbds://box:10809/vol?tls-certificates=/etc/pki/a%20b&timeout=5",
            ),
            (
                "nbds+unix:///?tls-hostname=store&tls-certificates=/c&socket=/s",
                "nbds+unix:///?socket=/s&tls-certificates=/c&tls-hostname=store",
            ),
            (
                "nbds://box/?tls-hostname=box&tls-certificates=/c",
                "nbds://box:10809/?tls-certificates=/c",
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
            ("nbds://box/", "tls-certificates=FOLDER"),
            ("nbd://box/?tls-certificates=/c", "nbds://"),
            ("nbdss://box/?tls-certificates=/c", "nbd://HOST"),
        ];
        for (text, word) in cases {
            let why = Uri::parse(text).unwrap_err();
            assert!(why.contains(word), "{text}: {why}");
        }
    }
}
