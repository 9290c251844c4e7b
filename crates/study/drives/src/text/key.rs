//! Description of a key of a device's file.

/// A key of a device's file, which is also an option after the device's name.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name of the key.
    pub key: &'static str,
    /// Accepted values, with the range.
    pub values: &'static str,
    /// Value used if the key is absent; empty if the key is required.
    pub default: &'static str,
    /// Meaning of the key.
    pub about: &'static str,
}

/// Makes a row of a table of keys.
pub const fn key(
    key: &'static str,
    values: &'static str,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { key, values, default, about }
}
