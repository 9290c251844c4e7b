//! Values of keys and their limits.

use std::fmt::Display;

use hostftl_core::Size;
use toml::Spanned;

/// Position in the file, and the error there.
pub type Fault = (usize, String);

/// Parses the capacity of a device, the value of `key`, in whole units of `unit` bytes, below
/// 2^`below`.
///
/// # Errors
/// When the text is no size, or the size is not valid.
pub fn capacity(
    key: &str,
    text: &str,
    (unit, named): (u64, &str),
    below: u32,
) -> Result<u64, String> {
    let most = 1 << (below - 40);
    let wrong = || format!("{key} must be a size such as \"512m\" or \"1.92TB\", below {most}t");
    let size = Size::parse(text).filter(|size| size.bytes() >> below == 0).ok_or_else(wrong)?;
    size.whole(unit).map_err(|why| format!("{key} must be a whole number of {named}: {why}"))
}

/// Checks that a number is from `least` to `most`.
///
/// # Errors
/// When it is not.
pub fn within<T>(key: &str, value: &Spanned<T>, least: T, most: T) -> Result<T, Fault>
where
    T: Copy + PartialOrd + Display,
{
    let number = *value.get_ref();
    if number >= least && number <= most {
        return Ok(number);
    }
    Err((value.span().start, format!("{key} must be from {least} to {most}")))
}

/// Checks a number like [`within`]. Returns `or` if the key is not set.
///
/// # Errors
/// When the number is outside the range.
pub fn optional<T>(
    key: &str,
    value: &Option<Spanned<T>>,
    least: T,
    most: T,
    or: T,
) -> Result<T, Fault>
where
    T: Copy + PartialOrd + Display,
{
    value.as_ref().map_or(Ok(or), |value| within(key, value, least, most))
}
