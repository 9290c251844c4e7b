//! The kinds of devices, and the search for a device by its name.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use crate::models;
use crate::registration::{Description, Registration};
use crate::spec::{DriveSpec, file};
use crate::text::{DriveError, Key, Text, split};
use crate::{drive, olive, scm};

/// Every kind, in the order in which users see them. A file without a known `kind` is read as the
/// first one.
static KINDS: &[&Registration] = &[
    &drive::register::BLOCK,
    &drive::register::ZONED,
    &scm::register::REGISTRATION,
    &olive::register::REGISTRATION,
];

/// The values that the key `kind` takes.
static KIND_VALUES: LazyLock<String> =
    LazyLock::new(|| KINDS.iter().map(|it| it.kind).collect::<Vec<_>>().join("|"));

/// Returns the kind of the device that `text` describes.
fn find_kind(text: &Text) -> &'static Registration {
    let kind = text.kind();
    KINDS.iter().find(|it| it.kind == kind).unwrap_or(&KINDS[0])
}

/// Returns the keys that are valid in the file of a device of this kind.
pub(crate) fn keys(registration: &'static Registration) -> impl Iterator<Item = Key> {
    let (values, default) = if registration.is_flash {
        (KIND_VALUES.as_str(), KINDS[0].kind)
    } else {
        (registration.kind, "")
    };
    let kind = Key { key: "kind", values, default, about: registration.about };
    std::iter::once(kind).chain(registration.keys.iter().copied().flatten().copied())
}

/// Returns the names of the built-in devices in alphabetical order, either those that are flash or
/// the others.
fn built_in(is_flash: bool) -> impl Iterator<Item = &'static str> {
    let kinds = KINDS.iter().filter(|it| it.is_flash == is_flash);
    let mut names: Vec<_> = kinds.flat_map(|it| it.built_in).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.into_iter()
}

/// Returns the names of all built-in devices: flash, other devices, and drives that are sold.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let sold = models::Model::all().iter().map(models::Model::name);
    built_in(true).chain(built_in(false)).chain(sold)
}

/// Returns the text of `NAME[:KEY=VALUE]…`, where `NAME` is a built-in device or a file.
pub(crate) fn text(asked: &str) -> Result<Text, DriveError> {
    let (origin, options) = split(asked);
    let text = match KINDS.iter().flat_map(|it| it.built_in).find(|(name, _)| *name == origin) {
        Some((_, text)) => (*text).to_owned(),
        None => models::Model::find(origin).map_or_else(|| read(origin), |it| Ok(it.text()))?,
    };
    let mut found = Text::new(asked, origin, text)?;
    for option in options {
        found.set(&option);
    }
    Ok(found)
}

fn read(origin: &str) -> Result<String, DriveError> {
    let path = Path::new(origin);
    if !path.exists() && !origin.contains('/') && path.extension().is_none() {
        let known = names().collect::<Vec<_>>().join(", ");
        return Err(DriveError::Unknown { name: origin.to_owned(), known });
    }
    hostftl_core::files::read_text(path)
        .map_err(|source| DriveError::Read { path: path.to_owned(), source })
}

/// Returns the device that `NAME[:KEY=VALUE]…` describes.
pub(crate) fn find(asked: &str) -> Result<Arc<dyn Description>, DriveError> {
    let text = text(asked)?;
    (find_kind(&text).read)(&text)
}

impl DriveSpec {
    /// Returns the names of the built-in drives, without those that are sold.
    pub fn names() -> impl Iterator<Item = &'static str> {
        built_in(true)
    }

    /// Returns the drive `NAME[:KEY=VALUE]…`: a built-in drive, or the drive described in the file
    /// `NAME`. Options override keys, as in `mlc-32g:capacity=1g:gc=fifo`.
    ///
    /// # Errors
    /// When no built-in drive and no file has that name, or the description is invalid.
    pub fn find(name: &str) -> Result<Self, DriveError> {
        flash(&text(name)?)
    }

    /// Returns the drive described by `text`, which is TOML or MQSim's XML. `origin` is its name in
    /// messages.
    ///
    /// # Errors
    /// The line that is wrong, and the reason.
    pub fn parse(text: &str, origin: &str) -> Result<Self, DriveError> {
        flash(&Text::new(origin, origin, text.to_owned())?)
    }
}

fn flash(text: &Text) -> Result<DriveSpec, DriveError> {
    let Registration { kind, is_flash, .. } = find_kind(text);
    if !is_flash {
        let why = format!("kind = \"{kind}\" is not a flash drive; only studies support it");
        return Err(text.fault(0, why));
    }
    file::spec(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Returns the keys that the reader of a built-in device's file accepts, taken from its error
    /// for an unknown key.
    fn known(device: &str) -> BTreeSet<String> {
        let error = find(&format!("{device}:nobody=1")).expect_err("no such key");
        let words = error.to_string();
        let (_, list) = words.split_once("expected one of ").expect("it names what it knows");
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn exactly_the_valid_keys_are_described() {
        // All flash kinds share one reader, so each of its keys is described by at least one of
        // them.
        let (flash, others): (Vec<_>, Vec<_>) = KINDS.iter().copied().partition(|it| it.is_flash);
        let groups = std::iter::once(flash).chain(others.into_iter().map(|it| vec![it]));
        for kinds in groups {
            let described = kinds.iter().flat_map(|it| keys(it)).map(|it| it.key.to_owned());
            let described: BTreeSet<String> = described.collect();
            for (device, _) in kinds.iter().flat_map(|it| it.built_in) {
                assert_eq!(described, known(device), "{device}");
            }
        }
    }

    /// A value beyond the range of a key is refused, and the error names the range.
    #[test]
    fn described_ranges_match_the_checks() {
        let mut tried = 0;
        for kind in KINDS {
            let (device, _) = kind.built_in[0];
            for it in keys(kind) {
                let Some((_, most)) = it.values.split_once("..=") else { continue };
                let Ok(most) = most.parse::<f64>() else { continue };
                if most >= f64::from(u32::MAX) {
                    continue;
                }
                let asked = format!("{device}:{}={}", it.key, most + 1.0);
                let error = find(&asked).expect_err(&asked).to_string();
                let range = it.values.replace("..=", " to ");
                let exact = format!("{} must be from {range}", it.key);
                let or = error.contains("exclude each other") || error.contains("invalid value");
                assert!(or || error.contains(&exact), "{asked}: {error}");
                tried += 1;
            }
        }
        assert!(tried > 50, "only {tried} ranges");
    }

    #[test]
    fn devices_have_the_kind_of_their_registration() {
        let all: Vec<_> = names().map(|name| find(name).expect("it is built in")).collect();
        for kind in KINDS {
            let (name, _) = kind.built_in[0];
            let device = find(name).expect("it is built in");
            assert_eq!(device.registration().kind, kind.kind);
            assert_eq!(device.flash().is_some(), kind.is_flash);
            let equal = |it: &&Arc<dyn Description>| device.is_equal(&***it);
            assert_eq!(all.iter().filter(equal).count(), 1, "{name}");
        }
    }
}
