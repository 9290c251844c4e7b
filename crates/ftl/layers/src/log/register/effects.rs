//! Effects of the parameters of `log` on given devices, see [`crate::effect`].

use alloc::format;
use alloc::string::String;

use hostftl_core::{Codec, DeviceKind, SECTOR, SECTORS_PER_BLOCK};

use crate::config::LayerConfig;
use crate::effect::{self, Bytes, Effect, Usage, left_by_export};
use crate::log::layout::Layout;
use crate::log::params::SpareRule;

/// Default spare in thousandths.
const USUAL_SPARE: u32 = 70;

/// Returns `config` with its automatic choices made, and its layout; `None` if it is impossible.
fn chosen(config: &LayerConfig, usage: &Usage) -> Option<(LayerConfig, Layout)> {
    let mut config = config.clone();
    let exported = match usage.study {
        Some(study) => study.exported,
        None => config.log.logical_size.map(|bytes| bytes / SECTOR as u64),
    };
    config.choose(usage.devices, exported);
    let layout = Layout::new(&config, usage.devices).ok()?;
    Some((config, layout))
}

/// Checks the effect of the parameter with a key.
pub(super) fn effect(config: &LayerConfig, key: &str, usage: &Usage) -> Effect {
    match key {
        "spare" => spare(config, usage),
        "compress" => compress(config, usage),
        "separation" => separation(config, usage),
        "map-memory" => map_memory(config, usage),
        "rebuild-share" => rebuild_share(usage),
        "fault-after" => fault_after(config, usage),
        "logical-size" => logical_size(usage),
        "reclaim-unit" => reclaim_unit(config, usage),
        _ => Effect::Full,
    }
}

/// Returns a note if segments of a `log` are shorter than the reclaim unit of its devices. If the
/// reclaim unit is stated, [`effect::notes`] has the same.
pub fn short_segments(config: &LayerConfig, usage: &Usage) -> Option<String> {
    let (config, _) = chosen(config, usage)?;
    let (segment, unit) = config.short_segments(usage.devices)?;
    let [segment, unit] = [segment, unit].map(|it| Bytes(it * SECTOR as u64));
    let more = if usage.study.is_some() { "smaller export" } else { "larger spare" };
    Some(format!(
        "segments of {segment} are shorter than the reclaim unit of {unit}, so the device copies \
         more; a {more} allows longer ones"
    ))
}

/// The effect of `spare`, which sets the capacity and limits the length of segments.
fn spare(config: &LayerConfig, usage: &Usage) -> Effect {
    let with = |spare, permille| {
        let mut config = LayerConfig { spare_permille: permille, ..config.clone() };
        config.log.spare = spare;
        chosen(&config, usage).map(|(_, it)| it)
    };
    let (SpareRule::Stated, Some(stated)) =
        (config.log.spare, with(SpareRule::Stated, config.spare_permille))
    else {
        return Effect::Full;
    };
    let shape = |it: &Layout| (it.column, it.reserves.classes);
    let least = with(SpareRule::Stated, 0);
    if config.spare_permille > 0
        && least.is_some_and(|it| (shape(&it), it.blocks) == (shape(&stated), stated.blocks))
        && config.log.logical_size.is_none()
    {
        return Effect::Limited(
            "acts as spare=0, because the layer reserves more in any case".into(),
        );
    }
    let usual = with(SpareRule::Usual, USUAL_SPARE);
    if usual.is_none_or(|it| shape(&it) != shape(&stated)) {
        return Effect::Full;
    }
    left_by_export(usage, stated.blocks * u64::from(SECTORS_PER_BLOCK))
}

/// The effect of `compress`. Studies do not compress: the workload states the ratio.
fn compress(config: &LayerConfig, usage: &Usage) -> Effect {
    match (usage.study, config.log.compress) {
        (None, _) | (_, Codec::Raw) => Effect::Full,
        (Some(study), _) if study.is_incompressible => Effect::Limited(
            "no effect on incompressible data; add compress=RATIO to the workload".into(),
        ),
        (_, Codec::Lz4) => Effect::Full,
        (_, Codec::Zstd(_)) => Effect::Limited(
            "acts as lz4, because the workload of a study states how well data compresses".into(),
        ),
    }
}

/// The effect of `separation`, which needs enough segments for its classes.
fn separation(config: &LayerConfig, usage: &Usage) -> Effect {
    let Some((config, layout)) = chosen(config, usage) else { return Effect::Full };
    let classes = layout.reserves.classes;
    let rule = config.log.separation;
    match rule.acting(classes, layout.blocks) {
        acting if acting == rule => Effect::Full,
        acting => Effect::Limited(format!(
            "acts as {acting}, because spare and open zones allow only {classes} classes"
        )),
    }
}

/// The effect of `map-memory`, which is raised to a minimum and limited to the whole map.
fn map_memory(config: &LayerConfig, usage: &Usage) -> Effect {
    let bytes = |memory: u64| {
        let plan = effect::planned(config, usage, |it| it.log.map_memory = Some(memory));
        plan.map(|plan| plan.map_bytes)
    };
    let (Some(memory), Some(least), Some(most)) =
        (config.log.map_memory, bytes(0), bytes(u64::MAX))
    else {
        return Effect::Full;
    };
    match bytes(memory) {
        Some(used) if used == most => {
            Effect::Limited(format!("limited to the whole map, {}", Bytes(most)))
        }
        Some(used) if used == least => {
            Effect::Limited(format!("raised to the minimum of {}", Bytes(least)))
        }
        _ => Effect::Full,
    }
}

/// The effect of `rebuild-share`.
fn rebuild_share(usage: &Usage) -> Effect {
    match usage.study {
        Some(_) => Effect::Limited("no effect, because a study has no rebuild and no scrub".into()),
        None => Effect::Full,
    }
}

/// The effect of `fault-after`.
fn fault_after(config: &LayerConfig, usage: &Usage) -> Effect {
    match (usage.study, config.log.parity) {
        (Some(_), _) => {
            Effect::Limited("no effect, because the devices of a study do not fail".into())
        }
        (None, 0) => Effect::Limited(
            "no effect, because a volume without redundancy keeps failing devices".into(),
        ),
        (None, _) => Effect::Full,
    }
}

/// The effect of `logical-size`.
fn logical_size(usage: &Usage) -> Effect {
    match usage.study.and_then(|study| study.exported) {
        Some(exported) => Effect::Limited(format!(
            "sets only the size of the map, because the study exports {}; use --export",
            Bytes(exported * SECTOR as u64)
        )),
        None => Effect::Full,
    }
}

/// The effect of `reclaim-unit`, which sets the segment length.
fn reclaim_unit(config: &LayerConfig, usage: &Usage) -> Effect {
    if usage.devices.iter().any(|it| it.kind != DeviceKind::Block) {
        return Effect::Never("the segments of zoned devices are their zones; omit the parameter");
    }
    if let Some(short) = short_segments(config, usage) {
        return Effect::Limited(short);
    }
    let mut without = config.clone();
    without.log.reclaim_unit = None;
    let (Some((_, stated)), Some((_, without))) = (chosen(config, usage), chosen(&without, usage))
    else {
        return Effect::Full;
    };
    let shape = |it: &Layout| (it.column, it.reserves.classes, it.reserves.kept());
    let reported = usage.devices.iter().map(|it| it.reclaim_unit * SECTOR as u64).max();
    if shape(&stated) != shape(&without) {
        return Effect::Full;
    }
    if config.log.reclaim_unit == reported {
        return Effect::Limited("no effect, because the device reports the same".into());
    }
    let segment = Bytes(u64::from(stated.column) * SECTOR as u64);
    Effect::Limited(format!("no effect, because segments have {segment} with and without it"))
}
