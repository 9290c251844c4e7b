//! Devices of every size on the market: a layer uses them to their last sector, or refuses with a
//! reason.

use std::time::{Duration, Instant};

use crate::common::World;
use crate::common::churn::{data, ready};
use crate::common::far::Sparse;
use hostftl_core::{DeviceInfo, DeviceKind, Layer, Segments};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, LogAt, LogLayout, Mode};

const TIB: u64 = 1 << 31;
/// Sectors of devices on the market, and of the largest device that `log` can address.
const SIZES: [(&str, u64); 8] = [
    ("1 TiB", TIB),
    ("2 TiB", 2 * TIB),
    ("7.68 TB", 7_680_000_000_000 / 512),
    ("16 TiB", 16 * TIB),
    ("20 TB", 20_000_000_000_000 / 512),
    ("61.44 TB", 61_440_000_000_000 / 512),
    ("122.88 TB", 122_880_000_000_000 / 512),
    ("256 TiB", 256 * TIB),
];

/// Returns devices of `sectors` sectors that suit the layer.
fn devices(kind: LayerKind, sectors: u64) -> Vec<DeviceInfo> {
    let block = DeviceInfo::block(sectors, 8);
    match kind {
        LayerKind::Pblk | LayerKind::Rrpc => {
            let size = 1 << 19;
            let shape = Segments {
                size,
                write_unit: 8,
                write_best: 128,
                unreadable: 0,
                max_open: 0,
                count: (sectors / u64::from(size)) as u32 / 4 * 4,
                units: 4,
            };
            vec![DeviceInfo { kind: DeviceKind::Zoned(shape), ..block }]
        }
        LayerKind::Tier => vec![DeviceInfo::block(1 << 20, 8), block],
        LayerKind::Scrambler => vec![DeviceInfo { collection_hint: true, iu_sectors: 32, ..block }],
        _ => vec![block],
    }
}

/// Returns the number of [`SIZES`] that a layer accepts with its defaults.
fn takes(kind: LayerKind) -> usize {
    match kind {
        LayerKind::Mhatl => 7,
        LayerKind::Scrambler | LayerKind::Tier => 6,
        _ => SIZES.len(),
    }
}

#[test]
fn a_size_is_taken_or_refused_in_words() {
    for &kind in LayerKind::ALL {
        for (index, (size, sectors)) in SIZES.into_iter().enumerate() {
            let devices = devices(kind, sectors);
            match AnyLayer::plan(&LayerConfig::new(kind), &devices) {
                Ok(plan) => {
                    assert!(index < takes(kind), "{kind} takes {size}");
                    let exported = plan.limits.exported;
                    assert!(exported <= sectors, "{kind} exports more than {size}");
                    assert!(exported >= sectors / 10 * 7, "{kind} leaves out a part of {size}");
                }
                Err(why) => {
                    assert!(index >= takes(kind), "{kind} does not take {size}: {why}");
                    let words = why.to_string();
                    let limit = words.contains("iB") && words.contains("use ");
                    assert!(limit, "the error of {kind} for {size} has no remedy: {words}");
                }
            }
        }
    }
}

#[test]
fn unaddressable_sizes_are_refused() {
    let why = |kind, sectors| {
        let plan = AnyLayer::plan(&LayerConfig::new(kind), &devices(kind, sectors));
        plan.expect_err("it is too large").to_string()
    };
    assert!(why(LayerKind::Log, 256 * TIB + 1).contains("256 TiB"));
    let many = vec![DeviceInfo::block(256 * TIB, 8); 16];
    let log = LayerConfig::new(LayerKind::Log);
    assert!(AnyLayer::plan(&log, &many).unwrap_err().to_string().contains("PiB"));
    assert!(AnyLayer::plan(&log, &many[..10]).is_ok());
}

/// Checks that the last segment of `log` is within its device and that its address is mapped back
/// to it.
#[test]
fn the_last_segment_has_a_place() {
    for (superpage, count) in [(32, 1), (128, 1), (128, 4), (2048, 10)] {
        for (size, sectors) in SIZES {
            let mut config = LayerConfig::new(LayerKind::Log);
            (config.superpage, config.log.parity) = (superpage, u8::from(count > 1));
            let devices = vec![DeviceInfo::block(sectors, 8); count];
            let layout = LogLayout::new(&config, &devices).expect(size);
            let (segment, slot) = (layout.segments - 1, layout.slots - 1);
            let lba = layout.lba(LogAt { segment, slot, sector: layout.chunk - 8 });
            assert!(lba + 8 <= sectors && lba + u64::from(layout.column) + 8 > sectors, "{size}");
            let byte = lba * 512 + 4080;
            let place = hostftl_format::log::Place::new(15, byte, 16, 15);
            assert_eq!((place.device(), place.byte(), place.len()), (15, byte, 16), "{size}");
            assert_eq!(layout.segment_at(byte), segment, "{size}");
            assert_eq!(layout.slot_at(lba), (segment, slot), "{size}");
        }
    }
}

/// Returns the maximum number of sectors that a plan accepts for the device that `devices` creates.
fn most(config: &LayerConfig, devices: impl Fn(u64) -> Vec<DeviceInfo>) -> u64 {
    let takes = |sectors| AnyLayer::plan(config, &devices(sectors)).is_ok();
    let (mut most, mut beyond) = (TIB / 2, 1 << 44);
    assert!(takes(most) && !takes(beyond), "the limit is between 512 GiB and 8 PiB");
    while beyond - most > 1 {
        let middle = most.midpoint(beyond);
        if takes(middle) { most = middle } else { beyond = middle }
    }
    most
}

/// Limits of device or volume in docs/OPERATING.md: layer, TiB, whether the limit applies to the
/// volume, and part of the error message.
const LIMITS: [(&str, u64, bool, &str); 10] = [
    ("hard", 256, false, "up to 256 TiB"),
    ("mhatl:superpage=256k", 256, false, "up to 256 TiB"),
    ("shatl", 256, false, "up to 256 TiB"),
    ("shatl:mode=ressd", 256, false, "up to 256 TiB"),
    ("hatl-auto", 256, false, "up to 256 TiB"),
    ("scrambler", 64, false, "64 TiB with slots of 16 KiB"),
    ("scrambler:slot=2k", 8, false, "64 TiB with slots of 16 KiB"),
    ("log", 256, false, "up to 256 TiB"),
    ("tier", 64, false, "64 TiB with pages of 16 KiB"),
    ("tier:page=64k", 256, false, "256 TiB with page=64k"),
];

/// Returns devices of which the last has `sectors` sectors.
fn of(config: &LayerConfig, sectors: u64) -> Vec<DeviceInfo> {
    let mut list = devices(config.kind, sectors);
    if config.kind == LayerKind::Scrambler {
        list[0].iu_sectors = 32;
    }
    list
}

#[test]
fn sizes_beyond_the_limit_are_refused_with_a_reason() {
    for (layer, tib, volume, words) in LIMITS {
        let mut config = LayerConfig::parse(layer).expect("a layer");
        if layer == "scrambler" {
            config = LayerConfig::parse("scrambler:slot=4k").expect("a layer");
        }
        let most = most(&config, |sectors| of(&config, sectors));
        let plan = AnyLayer::plan(&config, &of(&config, most)).expect("it is taken");
        let size = if volume { plan.limits.exported } else { most };
        // Sizes are rounded to whole superpages, pages or slots, and a tier or log reserves some
        // space. The size of a volume grows with the device in steps.
        let step = if volume { TIB / 400 } else { 8192 };
        let (low, high) = (tib * TIB - step, tib * TIB + 8192);
        assert!((low..=high).contains(&size), "{layer} takes {size} sectors, not {tib} TiB");
        let why = AnyLayer::plan(&config, &of(&config, most + 1)).expect_err("it is too large");
        assert!(why.to_string().contains(words), "{layer}: {why}");
    }
}

/// Writes at the end of the devices, whose sectors are numbered modulo `sectors`, and of the
/// volume, cuts the power, and reads everything again. Returns the time that the start took.
fn far_end(config: &LayerConfig, devices: &[DeviceInfo], sectors: u64) -> Duration {
    let mut world = World::start_far(config, devices, Sparse::default(), Mode::Format, 1);
    assert!(ready(&world), "{:?}", world.events);
    let exported = world.layer.limits().exported;
    let tail = exported - 2048;
    let id = world.write(tail, data(tail, 2048, 3), false);
    world.wait(id).unwrap();
    let places: Vec<u64> = (0..40).map(|i| if i < 20 { i * 8 } else { exported - i * 8 }).collect();
    for (version, at) in (1..3).flat_map(|version| places.iter().map(move |at| (version, *at))) {
        let id = world.write(at, data(at, 8, version), version == 2 && at.is_multiple_of(64));
        world.wait(id).unwrap();
    }
    world.flush();
    let far = world.cut_far();
    let last = far.last(sectors);
    assert!(last > sectors - sectors / 64, "the far end was not written: {last} of {sectors}");
    let begun = Instant::now();
    let mut world = World::start_far(config, devices, far, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    let taken = begun.elapsed();
    for &at in &places {
        assert_eq!(world.read(at, 8).unwrap(), data(at, 8, 2), "sector {at} of {exported}");
    }
    for (at, count) in [(tail, 1728), (exported - 152, 152)] {
        assert_eq!(world.read(at, count).unwrap(), data(at, count, 3), "{at} of {exported}");
    }
    world.begin_stop();
    world.settle();
    let mut world = World::start_far(config, devices, world.cut_far(), Mode::Open, 3);
    assert_eq!(world.read(places[30], 8).unwrap(), data(places[30], 8, 2));
    world.cut_far();
    taken
}

/// The homes of the last sectors are at the end of the device.
#[test]
fn layers_with_homes_are_whole_at_their_limit() {
    for layer in ["shatl", "shatl:mode=ressd", "hatl-auto"] {
        let config = LayerConfig::parse(layer).expect("a layer");
        let most = most(&config, |sectors| of(&config, sectors));
        far_end(&config, &of(&config, most), most);
    }
}

/// Writes through `layer` at the end of a device of 61.44 TB. A start after a cut takes at most ten
/// seconds.
fn far_end_of_61_tb(layer: &str) {
    let mut config = LayerConfig::parse(layer).expect("a layer");
    config.shatl.far = true;
    let taken = far_end(&config, &devices(config.kind, SIZES[5].1), SIZES[5].1);
    println!("{layer}: {taken:?}");
    assert!(taken < Duration::from_secs(10), "the start of {layer} took {taken:?}");
}

#[test]
fn layers_with_a_hidden_area_are_whole_on_61_tb() {
    ["shatl", "shatl:mode=ressd", "hatl-auto"].into_iter().for_each(far_end_of_61_tb);
}

/// The tables of superpages take about a gigabyte.
#[test]
#[ignore = "takes a gigabyte of memory: `make live`"]
fn hard_and_mhatl_are_whole_on_61_tb() {
    ["hard:superpage=1m", "mhatl:superpage=1m"].into_iter().for_each(far_end_of_61_tb);
}

/// Everything that the layer plans, with its buffers.
#[test]
fn layers_with_homes_take_64_mib_per_tib() {
    for layer in ["shatl", "hatl-auto"] {
        let config = LayerConfig::parse(layer).expect("a layer");
        for (size, sectors) in &SIZES[1..] {
            let plan = AnyLayer::plan(&config, &devices(config.kind, *sectors)).expect(size);
            let buffers = u64::from(plan.buffers) * u64::from(plan.buffer_sectors) * 512;
            let bytes = plan.map_bytes + plan.meta_bytes + buffers;
            assert!(bytes <= sectors / 32, "{layer} takes {bytes} bytes for {size}");
        }
    }
}

/// Pages beyond the fast device's slots go to the end of the slow device.
#[test]
fn tier_is_whole_at_its_limit() {
    for (layer, fast) in [("tier", 1024), ("tier:page=64k", 8192)] {
        let config = LayerConfig::parse(layer).expect("a layer");
        let pair = |slow| vec![DeviceInfo::block(fast, 8), DeviceInfo::block(slow, 8)];
        let most = most(&config, pair);
        far_end(&config, &pair(most), fast + most);
    }
}

#[test]
fn log_is_whole_beyond_16_tib() {
    for (sectors, count) in [(SIZES[4].1, 1), (SIZES[4].1, 3)] {
        let mut config = LayerConfig { superpage: 2048, ..LayerConfig::new(LayerKind::Log) };
        (config.log.backwards, config.log.map_memory) = (true, Some(0));
        config.log.parity = u8::from(count > 1);
        far_end(&config, &vec![DeviceInfo::block(sectors, 8); count], sectors);
    }
}

#[test]
fn passthrough_is_whole_at_256_tib() {
    let device = DeviceInfo::block(256 * TIB, 8);
    far_end(&LayerConfig::new(LayerKind::Passthrough), &[device], 256 * TIB);
}

/// The tables take 4 GiB of address space, most of which is never touched.
#[test]
#[ignore = "takes 4 GiB of address space: `make live`"]
fn log_is_whole_at_256_tib() {
    let mut config = LayerConfig { superpage: 2048, ..LayerConfig::new(LayerKind::Log) };
    (config.log.backwards, config.log.map_memory) = (true, Some(0));
    far_end(&config, &[DeviceInfo::block(256 * TIB, 8)], 256 * TIB);
}

/// The first write to lent homes ends the loan of a part in one step, even if the part has more
/// superpages than the number of map entries that a step touches.
#[test]
#[ignore = "takes gigabytes of memory: `make live`"]
fn hatl_auto_ends_a_loan_on_a_drive_of_640_gb() {
    let config = LayerConfig::parse("hatl-auto").expect("a layer");
    let devices = of(&config, 640_000_000_000 / 512);
    let mut world = World::start_far(&config, &devices, Sparse::default(), Mode::Format, 1);
    let tail = world.layer.limits().exported - 2048;
    let id = world.write(tail, data(tail, 2048, 3), false);
    world.wait(id).unwrap();
    assert_eq!(world.read(tail, 2048).unwrap(), data(tail, 2048, 3));
    world.cut_far();
}
