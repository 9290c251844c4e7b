//! The kinds of devices, and the search for a device by its name.

use std::path::Path;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use crate::drive::register::{BLOCK, ZONED};
use crate::models;
use crate::registration::{Description, Registration};
use crate::spec::{DriveSpec, file};
use crate::text::{DriveError, Key, Text, split};

/// The known kinds.
#[derive(Clone)]
struct Kinds {
    /// Every kind, in the order in which users see them. A file without a known `kind` is read as
    /// the first one.
    list: Vec<&'static Registration>,
    /// The values that the key `kind` takes. [`Key`] holds texts for the life of the program, so
    /// each registration leaks one.
    values: &'static str,
}

static KINDS: LazyLock<RwLock<Kinds>> =
    LazyLock::new(|| RwLock::new(Kinds::new(vec![&BLOCK, &ZONED])));

impl Kinds {
    fn new(list: Vec<&'static Registration>) -> Self {
        let values: Vec<_> = list.iter().map(|it| it.kind).collect();
        Kinds { values: values.join("|").leak(), list }
    }
}

/// Adds the kinds of another crate behind the known ones. A kind that is known already is skipped.
pub fn register(registrations: &[&'static Registration]) {
    let mut kinds = KINDS.write().unwrap_or_else(PoisonError::into_inner);
    let is_new = |it: &&&Registration| kinds.list.iter().all(|known| known.kind != it.kind);
    let added: Vec<_> = registrations.iter().filter(is_new).copied().collect();
    if !added.is_empty() {
        *kinds = Kinds::new(kinds.list.iter().copied().chain(added).collect());
    }
}

/// Returns the known kinds.
fn kinds() -> Kinds {
    KINDS.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the kind of the device that `text` describes.
fn find_kind(text: &Text) -> &'static Registration {
    let kind = text.kind();
    kinds().list.into_iter().find(|it| it.kind == kind).unwrap_or(&BLOCK)
}

/// Returns the keys that are valid in the file of a device of this kind.
pub(crate) fn keys(registration: &'static Registration) -> impl Iterator<Item = Key> {
    let (values, default) =
        if registration.is_flash { (kinds().values, BLOCK.kind) } else { (registration.kind, "") };
    let kind = Key { key: "kind", values, default, about: registration.about };
    std::iter::once(kind).chain(registration.keys.iter().copied().flatten().copied())
}

/// Returns the names of the built-in devices in alphabetical order, either those that are flash or
/// the others.
fn built_in(is_flash: bool) -> impl Iterator<Item = &'static str> {
    let kinds = kinds().list.into_iter().filter(move |it| it.is_flash == is_flash);
    let mut names: Vec<_> = kinds.flat_map(|it| it.built_in).map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.into_iter()
}

/// Returns the names of all built-in devices: flash, other devices, and commercial drives.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let sold = models::Model::all().iter().map(models::Model::name);
    built_in(true).chain(built_in(false)).chain(sold)
}

/// Returns the text of `NAME[:KEY=VALUE]…`, where `NAME` is a built-in device or a file.
pub(crate) fn text(asked: &str) -> Result<Text, DriveError> {
    let (origin, options) = split(asked);
    let kinds = kinds().list.into_iter();
    let text = match kinds.flat_map(|it| it.built_in).find(|(name, _)| *name == origin) {
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
    /// Returns the names of the built-in drives, without commercial ones.
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
