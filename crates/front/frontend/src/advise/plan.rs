//! The first study of an advice: the slice of the drive, and the layers that suit it.

use std::path::Path;

use hostftl_core::SECTOR;
use hostftl_layers::LayerKind;
use hostftl_sim::{Export, LayerSpec, Load, Pace, Stack, Study, default_memory, runs_on};
use hostftl_trace::Source;

use super::{Request, Told, interrupted, quick};
use crate::question::{source, stack};
use crate::slice::Slice;
use crate::wrong::Wrong;

/// Default layers besides none.
const LAYERS: [&str; 7] = ["hard", "mhatl", "shatl", "hatl-auto", "log", "pblk", "rrpc"];

/// Spans of ageing of the first rounds, which select the layers to examine further. One span
/// overwrites the exported capacity at least once.
const SCREENED: u64 = 1;

/// Returns the error for a workload without a clock where its own rate is needed.
fn without_clock() -> Wrong {
    Wrong::usage(
        "the workload has no clock, so the amount that it writes per day is unknown: state it, as \
         in --load 12TB/day or --load 0.3dwpd, or give synth:… an iops=",
    )
}

/// Returns the study of all layers on a slice of the drive, none first, with the counting clock,
/// and the layers that can't run on the whole drive. `folder` is for the head of the workload.
pub(super) fn study(
    args: &Request,
    folder: &Path,
    cancelled: &dyn Fn() -> bool,
) -> Result<(Study, Slice, Vec<Told>), Wrong> {
    let source = source(&args.trace, false)?;
    let source = if args.quick { quick::head(source, args.seed, folder)? } else { source };
    let is_endless = match source.plain() {
        Source::Synth(work) => work.iops == 0,
        Source::Mixture(mixture) => mixture.parts()[0].iops == 0,
        _ => false,
    };
    if args.load.needs_clock() && is_endless {
        return Err(without_clock());
    }
    let filled = f64::from(args.fill.filled_permille()) / 1000.0;
    let hot = args.hot.map_or(filled, |permille| f64::from(permille) / 1000.0);
    if hot > filled {
        return Err(Wrong::usage(format!(
            "--hot {}% is more than --fill {}%: the data of the workload is part of the data on \
             the drive",
            hot * 100.0,
            filled * 100.0
        )));
    }
    let whole = stack(&args.drive)?;
    if whole.devices.len() > 1 {
        let why = "advise takes one drive; use compare for stacks of several drives";
        return Err(Wrong::usage(format!("{}: {why}", whole.name)));
    }
    let compact = matches!(source.plain(), Source::File(_));
    let load = Load { name: args.trace.clone(), source };
    let extent = load.extent(args.seed, compact, cancelled)?.ok_or_else(interrupted)?;
    if args.load.needs_clock() && extent.duration_ns == 0 {
        return Err(without_clock());
    }
    let export = export_share(args, &whole);
    let footprint = extent.sectors.max(1) * SECTOR as u64;
    let (slice, stack) = Slice::new(&args.drive, footprint, hot, export, args.scale_to)?;
    let mut layers = layers(args, &stack);
    let mut impossible = Vec::new();
    layers.retain(|layer| match fits(&slice, &stack, layer, export) {
        Ok(()) => true,
        Err(why) => {
            impossible.push(Told::failed(&layer.name, why));
            false
        }
    });
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let study = Study {
        compact,
        workloads: vec![load],
        drives: vec![stack],
        layers,
        warm: vec![args.fill],
        export,
        cache: args.cache.clone(),
        pace: Pace::Counted,
        most_spans: SCREENED,
        seed: args.seed,
        threads: args.threads.map_or(cores, usize::from),
        memory: args.memory.unwrap_or_else(default_memory),
    };
    Ok((study, slice, impossible))
}

/// Returns the exported capacity as a share if it is in bytes. These are bytes of the whole drive,
/// so the slice exports the same share.
fn export_share(args: &Request, whole: &Stack) -> Export {
    let Export::Bytes(bytes) = args.export else { return args.export };
    let nominal = whole.devices[0].flash().and_then(|it| it.nominal).unwrap_or(whole.sectors());
    let drive = args.scale_to.unwrap_or(nominal * SECTOR as u64);
    Export::Share((bytes as f64 / drive as f64 * 1000.0).round().clamp(1.0, 1000.0) as u32)
}

/// Returns the layers to examine, none first.
fn layers(args: &Request, stack: &Stack) -> Vec<LayerSpec> {
    // Some layers support only one kind of drive. Layers that the user named are included anyway.
    let of_raw = [LayerKind::Log, LayerKind::Pblk, LayerKind::Rrpc];
    let suits = |layer: &LayerSpec| match (layer.kind(), stack.is_raw()) {
        (Some(kind), true) => of_raw.contains(&kind),
        (Some(kind), false) => !of_raw[1..].contains(&kind),
        (None, _) => false,
    };
    let usual = || LAYERS.map(|name| LayerSpec::parse(name).expect("a built-in entry"));
    let usual = || usual().into_iter().filter(suits).collect();
    let mut layers: Vec<LayerSpec> = args.layers.clone().unwrap_or_else(usual);
    if !stack.is_raw() {
        layers.retain(|layer| layer.kind() != Some(LayerKind::Passthrough));
        layers.insert(0, LayerKind::Passthrough.into());
    }
    layers
}

/// Checks whether a layer can run on the whole drive.
fn fits(slice: &Slice, stack: &Stack, layer: &LayerSpec, export: Export) -> Result<(), String> {
    let factor = slice.drive_bytes as f64 / slice.slice_bytes as f64;
    runs_on(stack, layer, export, factor)
}
