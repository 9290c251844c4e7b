//! The description of a key of a device's file.

/// A key of a device's file, which is an option behind the device's name too.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The word.
    pub key: &'static str,
    /// What it takes, with the range.
    pub values: &'static str,
    /// What holds when nothing is said; empty where the key is needed.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// A row of a table of keys.
pub(crate) const fn key(
    key: &'static str,
    values: &'static str,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { key, values, default, about }
}
