//! The planned memory is the memory that the layer uses, at common device sizes.

use crate::common::zoned::Pointers;
use hostftl_core::{
    Command, DeviceInfo, Done, Event, Input, Layer, Out, Output, Payload, Segments, Token,
};
use hostftl_layers::policy::Separation;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode, Plan};

/// Memory that does not grow with a device: tables of requests and commands, and a few pages.
const FIXED: u64 = 1 << 20;
/// Sectors of a GiB.
const GIB: u64 = 1 << 21;

/// Returns devices that suit the layer and have `gib` GiB for the exported data.
pub(crate) fn devices(kind: LayerKind, gib: u64) -> (Vec<DeviceInfo>, Option<Pointers>) {
    let block = DeviceInfo::block(gib * GIB, 128);
    if kind.takes_zones() {
        let (units, size) = (if kind == LayerKind::Rrpc { 4 } else { 16 }, 1 << 11);
        let count = (gib * GIB / size) as u32;
        let shape = Segments {
            size: size as u32,
            write_unit: 8,
            write_best: 64,
            unreadable: 0,
            max_open: 0,
            count,
            units,
        };
        let zoned = Pointers::new(shape);
        return (vec![zoned.info()], Some(zoned));
    }
    let list = match kind {
        LayerKind::Tier => vec![DeviceInfo::block(gib * GIB / 16, 8), block],
        LayerKind::Scrambler => {
            vec![DeviceInfo { collection_hint: true, ..DeviceInfo::block(gib * GIB, 32) }]
        }
        _ => vec![block],
    };
    (list, None)
}

/// Creates a layer on devices that answer at once, and starts it. Returns the bytes in use.
fn kept(config: &LayerConfig, gib: u64) -> (Plan, u64) {
    let (infos, mut zoned) = devices(config.kind, gib);
    let plan = AnyLayer::plan(config, &infos).expect("a plan");
    let buffers: Vec<Payload> =
        (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors)).collect();
    let (mut layer, mut out, mut flying) = (None, Out::new(), Vec::<(Token, Command)>::new());
    flying.reserve(4096);
    let counted = allocation_counter::measure(|| {
        let layer =
            layer.insert(AnyLayer::new(config, &infos, buffers, Mode::Format).expect("a layer"));
        let mut input = Input::Timer;
        loop {
            layer.step(0, input, &mut out);
            let mut ready = false;
            for output in out.drain() {
                match output {
                    Output::Submit(token, command) => flying.push((token, command)),
                    Output::Event(Event::Ready { .. }) => ready = true,
                    Output::Event(Event::CheckpointDone) => {}
                    other => panic!("{}: {other:?}", config.kind),
                }
            }
            let next = (!flying.is_empty()).then(|| flying.remove(0));
            input = match next {
                Some((token, mut command)) => {
                    let verdict = zoned.as_mut().and_then(|it| it.perform(&mut command));
                    let result = Ok(verdict.unwrap_or_default());
                    Input::Done(Done { token, command, result })
                }
                None if ready => return,
                None => Input::Timer,
            };
        }
    });
    layer.expect("a layer").power_off();
    (plan, counted.bytes_current as u64)
}

#[test]
fn memory_use_matches_the_plan() {
    for &kind in LayerKind::ALL {
        let config = LayerConfig::new(kind);
        [2, 32].into_iter().for_each(|gib| keeps_what_is_stated(&config, gib));
    }
    let mut config = LayerConfig { spare_permille: 300, ..LayerConfig::new(LayerKind::Log) };
    config.log.separation = Separation::Rate;
    keeps_what_is_stated(&config, 32);
}

fn keeps_what_is_stated(config: &LayerConfig, gib: u64) {
    let (plan, kept) = kept(config, gib);
    let stated = plan.map_bytes + plan.meta_bytes;
    let text = format!(
        "{} on {gib} GiB: {kept} bytes kept, {} of map and {} beside it stated",
        config.kind, plan.map_bytes, plan.meta_bytes
    );
    println!("{text}");
    assert!(kept + (stated >> 6) >= stated, "less than is stated: {text}");
    assert!(kept <= stated + (stated >> 6) + FIXED, "more than is stated: {text}");
}
