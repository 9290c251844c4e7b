//! The shadow of a volume: candidates on slices of a drive model.

use hostftl_core::SECTOR;
use hostftl_sim::{Export, LayerSpec, ShadowSpec, SliceOf};

use crate::slice::Slice;
use crate::wrong::Wrong;

/// Layers that `auto` stands for: those that an advice would examine first.
const AUTO: [&str; 2] = ["hatl-auto", "log"];

/// Parses the candidates of a shadow, separated by commas; `auto` stands for several.
///
/// # Errors
/// An unknown layer, or invalid parameters.
pub fn candidates(text: &str) -> Result<Vec<LayerSpec>, String> {
    let names = text.split(',').flat_map(|name| match name {
        "auto" => AUTO.to_vec(),
        name => vec![name],
    });
    names.map(crate::layer).collect()
}

/// Describes a volume for its shadow.
pub struct Volume {
    /// Size of the volume in bytes.
    pub bytes: u64,
    /// Size of its drive in bytes.
    pub drive_bytes: u64,
    /// Share of the volume that holds data.
    pub filled: f64,
}

/// Returns the shadow of `volume` on slices of the drive `model`, with `layers` as candidates, for
/// writes that are multiples of `granularity` sectors.
///
/// # Errors
/// If the drive is unknown, or is a stack of several devices.
pub fn spec(
    volume: &Volume,
    model: &str,
    layers: Vec<LayerSpec>,
    granularity: u32,
) -> Result<ShadowSpec, Wrong> {
    let share = volume.bytes as f64 / volume.drive_bytes as f64;
    let export = Export::Share((share * 1000.0).round().clamp(1.0, 1000.0) as u32);
    // A slice of a whole drive would be the model with its own capacity.
    let (model, real) =
        (model.to_owned(), volume.drive_bytes + volume.drive_bytes / 16 + (1 << 20));
    let slice = move |bytes: u64| Slice::new(&model, bytes, 1.0, export, Some(real));
    slice(volume.bytes.min(1 << 30))?;
    let slice: SliceOf = Box::new(move |bytes| match slice(bytes) {
        Ok((_, stack)) => Ok(stack),
        Err(wrong) => Err(wrong.text),
    });
    let sectors = volume.bytes / SECTOR as u64;
    Ok(ShadowSpec { sectors, layers, filled: volume.filled, granularity, slice })
}
