//! `hostftl create`: creates a volume.

mod log_options;

use std::path::{Path, PathBuf};

use hostftl_core::{DeviceKind, SECTOR, Size};
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_sim::LayerSpec;
use hostftl_trace::{Grain, Source};
use hostftl_volume::{CreateSpec, Created};

use self::log_options::LogOptions;
use super::compare;
use super::copying::Copying;
use super::preferred::Devices;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{bytes, parse_blocks, parse_share};

/// Create a volume
///
/// Refuses devices that are in use, hold known data or are not blank. Leaves nothing behind if it
/// fails.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl create vol.toml --device sda.img --size 10G --layer log")]
pub(crate) struct Args {
    /// Volume file to write (TOML)
    volume: PathBuf,
    /// Device of the volume; repeat for each device
    ///
    /// A file, a block device, `mem:SIZE`, `nbd://HOST:PORT/EXPORT`,
    /// `nbd+unix:///EXPORT?socket=PATH`, `nbds://HOST:PORT/EXPORT?tls-certificates=FOLDER` for TLS,
    /// `zoned:PATH` for a zoned device, or `zoned:PATH#zones=0-63` for some of its zones.
    #[arg(long = "device", value_name = "DEVICE", required_unless_present = "drive")]
    devices: Vec<String>,
    /// Use drive models in files next to the volume file instead of devices, for evaluation
    ///
    /// Takes the same text or file as `compare --drive`.
    #[arg(long, value_name = "STACK", conflicts_with_all = ["devices", "size", "journal"])]
    drive: Option<String>,
    /// Create missing files with this size, fully allocated
    #[arg(long, value_parser = parse_blocks)]
    size: Option<u64>,
    /// Create sparse files; the volume fails when their file system is full
    #[arg(long, requires = "size")]
    sparse: bool,
    /// Layer with parameters, such as hard:superpage=256k:spare=10; see `hostftl layers`
    #[arg(long, value_name = "LAYER[:KEY=VALUE]...", value_parser = layer_text)]
    ///
    /// With --level the default is log.
    #[arg(required_unless_present_any = ["drive", "level"])]
    layer: Option<LayerText>,
    /// Write unit of the layer [default: the multiple of the drive's unit from 64k on]
    ///
    /// `auto` takes the unit that the devices report, or times writes to the first device, which
    /// overwrites it.
    #[arg(long, value_name = "SIZE|auto", value_parser = superpage)]
    superpage: Option<Superpage>,
    /// Choose slot=auto of the layer scrambler from the first writes of this trace
    #[arg(long, value_name = "TRACE")]
    sample: Option<String>,
    /// Over-provisioning, as a share of the devices [default: 7%, pblk 11%, rrpc 10%]
    ///
    /// `auto` (layer log) reserves enough for segments as long as an erase unit of the devices.
    #[arg(long, value_name = "SHARE|auto", value_parser = spare)]
    spare: Option<Spare>,
    #[command(flatten)]
    log: LogOptions,
    /// Label of the volume
    #[arg(long, default_value = "")]
    label: String,
    /// Overwrite existing data; devices in use are always refused
    #[arg(long)]
    force: bool,
}

impl Args {
    /// Returns whether the text of the layer, or the drive model, decides the superpage.
    fn states_superpage(&self) -> bool {
        let states = |layer: &LayerText| layer.text.contains(":superpage=");
        self.drive.is_some() || self.layer.as_ref().is_some_and(states)
    }
}

/// Value of `--superpage`.
#[derive(Clone, Copy, Debug)]
enum Superpage {
    /// Probe the first device.
    Auto,
    /// Size in sectors.
    Of(u32),
}

/// Value of `--spare`.
#[derive(Clone, Copy, Debug)]
enum Spare {
    /// Derive it from the devices.
    Auto,
    /// Share in thousandths.
    Of(u32),
}

/// Parses a share or `auto`.
fn spare(text: &str) -> Result<Spare, String> {
    if text == "auto" { Ok(Spare::Auto) } else { parse_share(text).map(Spare::Of) }
}

/// Parses the size of a superpage in bytes, below 512 MiB, or `auto`.
fn superpage(text: &str) -> Result<Superpage, String> {
    if text == "auto" {
        return Ok(Superpage::Auto);
    }
    let wrong =
        |why| format!("`{text}`: a superpage is whole sectors of 512 bytes, below 512M{why}");
    let size = Size::parse(text).ok_or_else(|| wrong(String::new()))?;
    let size = size.whole(SECTOR as u64).map_err(|why| wrong(format!(": {why}")))?;
    let sectors = u32::try_from(size / SECTOR as u64).ok().filter(|sectors| *sectors < 1 << 20);
    sectors.map(Superpage::Of).ok_or_else(|| wrong(String::new()))
}

/// A layer in the notation of `compare --layers`.
#[derive(Clone, Debug)]
struct LayerText {
    text: String,
    config: LayerConfig,
    /// Device of its journal, if the text names one.
    journal: Option<String>,
}

/// Parses a layer, for clap. The value of `log:journal=NAME` is a device, with `--drive` a drive
/// model.
fn layer_text(text: &str) -> Result<LayerText, String> {
    let (plain, journal) = LayerSpec::journal_apart(text);
    let config = super::layer_config(&plain)?;
    Ok(LayerText { text: text.to_owned(), config, journal })
}

/// Layer and devices of the new volume.
struct Parts {
    layer: LayerConfig,
    devices: Vec<String>,
    /// Size in bytes of files that do not exist yet; those of block drive models have their own.
    size: Option<u64>,
    journal: Option<String>,
    /// Indirection unit of the devices in sectors; 0 if unknown.
    iu_sectors: u32,
}

/// Returns the layer and the devices of a stack of drive models, in files named after the volume
/// file: `vol.0.drive` and so on beside `vol.toml`.
fn modelled(args: &Args, stack: &str) -> Result<Parts, Failure> {
    let stack = compare::stack(stack)?;
    let no_layer = || {
        let like = match &stack.devices[..] {
            [one] if one.is_raw() => ", such as --layer rrpc",
            [one, other] if one != other => ", such as --layer tier",
            _ => "",
        };
        Failure::usage(format!("{} names no layer; add --layer{like}", stack.name))
    };
    let choice = match &args.layer {
        Some(layer) => LayerSpec::parse(&layer.text).map_err(Failure::usage)?,
        None => {
            let named = stack.layers.iter().find(|layer| layer.kind().is_some());
            named.cloned().ok_or_else(no_layer)?
        }
    };
    let (mut devices, mut size) = (Vec::new(), None);
    for (index, spec) in choice.devices(&stack).iter().enumerate() {
        let file = args.volume.with_extension(format!("{index}.drive"));
        let file = file
            .to_str()
            .ok_or_else(|| Failure::usage("the path is not valid UTF-8; rename it"))?;
        devices.push(match spec.device_info().kind {
            DeviceKind::Block => format!("drive:{}@{file}", spec.name()),
            DeviceKind::Zoned(segments) => {
                let (name, bytes) = hostftl_io::zoned_name(file, &segments);
                size = size.max(Some(bytes));
                name
            }
        });
    }
    let iu_sectors = stack.map_unit();
    let mut layer = choice.on(iu_sectors);
    let unit = stack.infos().iter().map(|info| info.reclaim_unit * SECTOR as u64).max();
    layer.log.reclaim_unit = layer.log.reclaim_unit.or(unit.filter(|unit| *unit > 0));
    Ok(Parts { layer, devices, size, journal: None, iu_sectors })
}

/// Returns the layer and the devices of the command line.
fn parts(args: &Args) -> Result<Parts, Failure> {
    if let Some(stack) = &args.drive {
        return modelled(args, stack);
    }
    let layer = args.layer.clone();
    let (layer, journal) = match layer {
        Some(layer) => (layer.config, layer.journal),
        None => (LayerConfig::new(LayerKind::Log), None),
    };
    let journal = journal.or_else(|| args.log.journal());
    let (devices, size) = (args.devices.clone(), args.size);
    Ok(Parts { layer, devices, size, journal, iu_sectors: 0 })
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    // After a signal the created files are removed.
    interrupt::undo();
    refuse_twice(args)?;
    let Parts { mut layer, mut devices, size, journal, iu_sectors } = parts(args)?;
    set_common(args, &mut layer).map_err(Failure::usage)?;
    let sampled =
        args.sample.as_deref().map(|trace| suit(&mut layer, iu_sectors, trace)).transpose()?;
    let complete = args.drive.is_some();
    // The other models add a note of their own, also when a device names them.
    let raw_model = (complete && size.is_some())
        .then(|| "raw drive model, for evaluation only; its delays are not simulated".to_owned());
    let added = (&mut devices, journal);
    args.log.apply(&mut layer, added, complete).map_err(Failure::usage)?;
    let mut spec = CreateSpec {
        path: args.volume.clone(),
        devices,
        size,
        allocate: !args.sparse && args.drive.is_none(),
        layer,
        label: args.label.clone(),
        force: args.force,
    };
    let devices = spec.devices.clone();
    let reported = Devices::query(&devices);
    let superpage = match args.superpage {
        Some(Superpage::Auto) => Some(find_superpage(&mut spec, &reported)?),
        Some(Superpage::Of(_)) => None,
        None if args.states_superpage() => None,
        None => reported.set_superpage(&mut spec.layer),
    };
    let reclaim_unit = reported.set_reclaim_unit(&mut spec.layer);
    let virtual_spare = args.log.reserve_device(&mut spec)?;
    let mut clearing = Copying::new(console.is_watched(), "cleared");
    let mut created =
        hostftl_volume::create_with(&spec, &mut |done, all| clearing.show(done, all))?;
    drop(clearing);
    // `create_with` may have chosen the spare.
    spec.layer = created.config.layer_config().map_err(Failure::failed)?;
    created.notes.extend(reclaim_unit.into_iter().chain(sampled).chain(superpage));
    created.notes.extend(virtual_spare.into_iter().chain(raw_model));
    created.notes.extend(reported.notes(&spec.layer));
    if console.is_json() { json(&spec, &created, console) } else { text(&spec, &created, console) }
}

/// Refuses a parameter that both `--layer` and an option state.
fn refuse_twice(args: &Args) -> Result<(), Failure> {
    let text = args.layer.as_ref().map_or("", |layer| &layer.text);
    let common = [
        ("--superpage", "superpage", args.superpage.is_some()),
        ("--spare", "spare", args.spare.is_some()),
    ];
    let mut given = common.into_iter().chain(args.log.given()).filter(|(_, _, given)| *given);
    let twice = given.find(|(_, key, _)| text.contains(&format!(":{key}=")));
    twice.map_or(Ok(()), |(option, key, _)| {
        let why = format!("{option} and {key}= of --layer are both given; omit one of them");
        Err(Failure::usage(why))
    })
}

/// Sets the parameters of `--superpage` and `--spare`, which several layers have.
fn set_common(args: &Args, layer: &mut LayerConfig) -> Result<(), String> {
    match args.superpage {
        Some(Superpage::Of(sectors)) => {
            layer.set("superpage", &(u64::from(sectors) * SECTOR as u64).to_string())?;
        }
        Some(Superpage::Auto) if layer.kind.registration().parameter("superpage").is_none() => {
            return Err(format!("{} has no parameter 'superpage'; omit --superpage", layer.kind));
        }
        Some(Superpage::Auto) | None => {}
    }
    match args.spare {
        Some(Spare::Auto) => layer.set("spare", "auto"),
        Some(Spare::Of(permille)) => {
            layer.set("spare", &format!("{}.{}", permille / 10, permille % 10))
        }
        None => Ok(()),
    }
}

/// Chooses the slot size from the first writes of a trace, and returns a note about it.
fn suit(layer: &mut LayerConfig, iu_sectors: u32, trace: &str) -> Result<String, Failure> {
    let source: Source = trace.parse()?;
    let mut grain = Grain::default();
    for record in source.open(1, false)? {
        grain.see(&record?);
        if grain.is_known() {
            break;
        }
    }
    if !layer.suit(grain.sectors(), iu_sectors) {
        let why = "--sample needs a layer with slot=auto, such as scrambler:slot=auto";
        return Err(Failure::usage(why));
    }
    let size = |sectors: u32| bytes(u64::from(sectors) * SECTOR as u64);
    let slot = layer.kind.registration().parameter("slot").and_then(|it| (it.get)(layer));
    let slot = slot.expect("the layer has slots");
    Ok(format!(
        "slot={slot}: the first writes of {trace} are multiples of {}",
        size(grain.sectors())
    ))
}

/// Sets the superpage to the unit that the devices report. If they report none, the first device
/// is probed by timing. Returns a note on the origin of the value. Timing overwrites a device,
/// so `rehearse` checks the whole specification first and keeps the device open exclusively.
fn find_superpage(spec: &mut CreateSpec, reported: &Devices) -> Result<String, Failure> {
    let (found, origin) = match reported.unit(spec.layer.kind) {
        Some(unit) => (Some(unit.bytes), format!("reported by the drive, {}", unit.source)),
        None => time_superpage(spec)?,
    };
    let sectors = found.map(|bytes| (bytes / SECTOR as u64) as u32);
    spec.layer.superpage = sectors.unwrap_or(spec.layer.superpage);
    Ok(format!("superpage {} ({origin})", bytes(u64::from(spec.layer.superpage) * SECTOR as u64)))
}

/// Times writes to the first device. Returns its superpage in bytes, if any, and its origin.
fn time_superpage(spec: &CreateSpec) -> Result<(Option<u64>, String), Failure> {
    let device = &spec.devices[0];
    let model = device.strip_prefix("drive:").and_then(|rest| rest.split_once('@'));
    let probed = match model {
        Some((drive, _)) => super::probe::of(drive, 1)?,
        None if !Path::new(device).exists() => {
            return Ok((None, "default: a file that does not exist cannot be probed".into()));
        }
        None if !spec.force => {
            let why = "the drive reports no unit, and --superpage auto would overwrite the device \
                       to time writes; add --force";
            return Err(Failure::usage(format!("{device}: {why}")));
        }
        None => super::probe::of_held(&hostftl_volume::rehearse(spec)?[0], 1)?,
    };
    let origin = match probed.superpage {
        Some(_) => "found by timing, because the drive reports none",
        None => "default: the drive reports none, and timing found none",
    };
    Ok((probed.superpage, origin.into()))
}

fn json(spec: &CreateSpec, created: &Created, console: &mut Console) -> Result<(), Failure> {
    console.value(&serde_json::json!({
        "volume": spec.path,
        "uuid": created.config.uuid.to_string(),
        "layer": spec.layer.kind.name(),
        "ack": created.ack.name(),
        "exported_bytes": created.exported_bytes,
        "device_bytes": created.device_bytes,
        "unused_bytes": created.unused_bytes,
        "parameters": created.config.layer,
        "spare_permille": spec.layer.spare_permille,
        "superpage_bytes": spec.layer.superpage * SECTOR as u32,
        "memory": created.memory,
        "devices": created.config.devices,
        "notes": created.notes,
    }))
}

fn text(spec: &CreateSpec, created: &Created, console: &mut Console) -> Result<(), Failure> {
    let reserved = created.device_bytes.saturating_sub(created.exported_bytes);
    let spare = match spec.layer.kind.registration().parameter("spare") {
        None => String::new(),
        Some(_) => {
            let permille = spec.layer.spare_permille;
            let share = (created.device_bytes / 1000 * u64::from(permille)).min(reserved);
            let percent = f64::from(permille) / 10.0;
            format!(" (of which over-provisioning {}, {percent} %)", bytes(share))
        }
    };
    console.line(format!("created {}: layer {}", spec.path.display(), spec.layer.kind))?;
    console.field("usable", bytes(created.exported_bytes))?;
    let device = bytes(created.device_bytes);
    console.field("reserved", format!("{} of {device}{spare}", bytes(reserved)))?;
    if created.unused_bytes > 0 {
        let unused = bytes(created.unused_bytes);
        console.field("unused", format!("{unused} on larger devices, without equal partners"))?;
    }
    console.field("memory", format!("{} while served", super::memory(&created.memory)))?;
    console.field("writes", super::acknowledges(created.ack.name()))?;
    created.notes.iter().try_for_each(|note| console.field("note", note))
}
