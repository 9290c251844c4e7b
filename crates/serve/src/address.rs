//! Where a server listens, as a user writes it.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::ServeError;

/// `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(PathBuf);

impl Address {
    /// The unix socket.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl FromStr for Address {
    type Err = ServeError;

    fn from_str(text: &str) -> Result<Self, ServeError> {
        match text.strip_prefix("unix:") {
            Some(path) if !path.is_empty() => Ok(Address(path.into())),
            _ => Err(ServeError::Address(text.to_owned())),
        }
    }
}

impl fmt::Display for Address {
    /// The URI that NBD clients take; its path is absolute, so that it works from any folder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = std::path::absolute(&self.0).unwrap_or_else(|_| self.0.clone());
        f.write_str("nbd+unix:///?socket=")?;
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' => write!(f, "{}", *byte as char)?,
                _ if byte.is_ascii_alphanumeric() => write!(f, "{}", *byte as char)?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_a_uri() {
        let address: Address = "unix:/run/my vol/a+b.sock".parse().unwrap();
        assert_eq!(address.to_string(), "nbd+unix:///?socket=/run/my%20vol/a%2Bb.sock");
        let relative: Address = "unix:x.sock".parse().unwrap();
        assert!(relative.to_string().starts_with("nbd+unix:///?socket=/"));
    }

    #[test]
    fn other_addresses_are_refused() {
        for text in ["/run/x", "unix:", "tcp:localhost", ""] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
