//! `hostftl create`: makes a volume.

use std::path::PathBuf;

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use hostftl_volume::{CreateSpec, Created};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, parse_share, parse_size};

/// Make a volume; says its usable size and the memory that it takes
///
/// A device that is in use, holds something known, or is not blank is refused. Nothing is left
/// behind when it fails.
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file, a small TOML, to be made
    volume: PathBuf,
    /// A file, a block device, or mem:SIZE; again for each device of the stack
    #[arg(long = "device", value_name = "DEVICE", required = true)]
    devices: Vec<String>,
    /// Make files that do not exist, sparse, of this size
    #[arg(long, value_parser = parse_size)]
    size: Option<u64>,
    /// The layer
    #[arg(long, value_parser = super::layer)]
    layer: LayerKind,
    /// The unit in which the layer writes
    #[arg(long, value_parser = superpage, default_value = "64k")]
    superpage: u32,
    /// The share of the devices that is kept free for collection
    #[arg(long, value_parser = parse_share, default_value = "7%")]
    spare: u32,
    /// What to call the volume
    #[arg(long, default_value = "")]
    label: String,
    /// Destroy what the devices hold
    #[arg(long)]
    force: bool,
}

/// A superpage's size in sectors.
fn superpage(text: &str) -> Result<u32, String> {
    let size = parse_size(text)?;
    let sectors = u32::try_from(size / SECTOR as u64).ok().filter(|sectors| *sectors < 1 << 20);
    match sectors.filter(|_| size.is_multiple_of(SECTOR as u64)) {
        Some(sectors) => Ok(sectors),
        None => Err(format!("`{text}`: a superpage is whole sectors of 512 bytes, below 512M")),
    }
}

/// Runs the command.
///
/// # Errors
/// When a device or the volume's file stands in the way.
pub fn run(args: Args, console: &mut Console) -> Result<(), Failure> {
    let spec = CreateSpec {
        path: args.volume,
        devices: args.devices,
        size: args.size,
        layer: args.layer,
        superpage: args.superpage,
        spare_permille: args.spare as u16,
        label: args.label,
        force: args.force,
    };
    let created = hostftl_volume::create(&spec)?;
    match console.is_json() {
        true => json(&spec, &created, console),
        false => text(&spec, &created, console),
    }
}

fn json(spec: &CreateSpec, created: &Created, console: &mut Console) -> Result<(), Failure> {
    console.value(&serde_json::json!({
        "volume": spec.path,
        "uuid": created.config.uuid.to_string(),
        "layer": spec.layer.name(),
        "ack": created.ack.name(),
        "exported_bytes": created.exported_bytes,
        "device_bytes": created.device_bytes,
        "spare_permille": spec.spare_permille,
        "superpage_bytes": created.config.superpage_bytes,
        "map_bytes": created.map_bytes,
        "buffer_bytes": created.buffer_bytes,
        "devices": created.config.devices,
        "notes": created.notes,
    }))
}

fn text(spec: &CreateSpec, created: &Created, console: &mut Console) -> Result<(), Failure> {
    let kept = created.device_bytes.saturating_sub(created.exported_bytes);
    let spare = match spec.layer {
        LayerKind::Passthrough => String::new(),
        _ => format!(", {} % of it spare", f64::from(spec.spare_permille) / 10.0),
    };
    console.line(format!("made {}: layer {}", spec.path.display(), spec.layer))?;
    console.field("usable", bytes(created.exported_bytes))?;
    console
        .field("kept back", format!("{} of {}{spare}", bytes(kept), bytes(created.device_bytes)))?;
    console.field(
        "memory",
        format!(
            "{} for the map and {} for buffers while it is served",
            bytes(created.map_bytes),
            bytes(created.buffer_bytes)
        ),
    )?;
    console.field("answers", super::answers(created.ack.name()))?;
    created.notes.iter().try_for_each(|note| console.field("note", note))
}
