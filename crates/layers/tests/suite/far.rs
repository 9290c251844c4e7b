//! Devices of every size that is sold: a layer takes them to their last sector, or says why not.

use crate::common::World;
use crate::common::churn::{data, ready};
use crate::common::far::Sparse;
use hostftl_core::{DeviceInfo, DeviceKind, Layer, Segments};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, LogAt, LogLayout, Mode};

const TIB: u64 = 1 << 31;
/// Sectors of devices that are sold, and of what a place of `log` can name.
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

/// Devices of so many sectors that the layer takes.
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
        LayerKind::Scrambler => vec![DeviceInfo { collection_hint: true, ..block }],
        _ => vec![block],
    }
}

/// How many of [`SIZES`] each layer takes at its defaults.
fn takes(kind: LayerKind) -> usize {
    match kind {
        LayerKind::Hard | LayerKind::Mhatl | LayerKind::Shatl | LayerKind::HatlAuto => 1,
        LayerKind::Scrambler => 3,
        LayerKind::Tier => 5,
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
                    assert!(limit, "{kind} does not say what to do about {size}: {words}");
                }
            }
        }
    }
}

#[test]
fn what_no_layer_can_name_is_refused() {
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

/// Every segment of `log` lies on its device and is found again by its address.
#[test]
fn the_last_segment_has_a_place() {
    for (superpage, count) in [(32, 1), (128, 1), (128, 4), (2048, 10)] {
        for (size, sectors) in SIZES {
            let mut config = LayerConfig::new(LayerKind::Log);
            (config.superpage, config.log.parity) = (superpage, count > 1);
            let devices = vec![DeviceInfo::block(sectors, 8); count];
            let layout = LogLayout::new(&config, &devices).expect(size);
            let (segment, slot) = (layout.segments - 1, layout.slots - 1);
            let lba = layout.lba(LogAt { segment, slot, sector: layout.chunk - 8 });
            assert!(lba + 8 <= sectors && lba + u64::from(layout.column) + 8 > sectors, "{size}");
            let byte = lba * 512 + 4080;
            let place = hostftl_format::log::Place::new(15, byte, 16, 15);
            assert_eq!((place.device(), place.byte(), place.len()), (15, byte, 16), "{size}");
            assert_eq!(layout.segment_of(byte), segment, "{size}");
            assert_eq!(layout.slot_of(lba), (segment, slot), "{size}");
        }
    }
}

/// Writes at the far end of the devices and of the volume, cuts the power, and reads it again.
fn far_end(config: &LayerConfig, devices: &[DeviceInfo]) {
    let sectors = devices[0].sectors;
    let mut world = World::start_far(config, devices, Sparse::default(), Mode::Format, 1);
    assert!(ready(&world), "{:?}", world.events);
    let exported = world.layer.limits().exported;
    let places: Vec<u64> = (0..40).map(|i| if i < 20 { i * 8 } else { exported - i * 8 }).collect();
    for (version, at) in (1..3).flat_map(|version| places.iter().map(move |at| (version, *at))) {
        let id = world.write(at, data(at, 8, version), version == 2 && at.is_multiple_of(64));
        world.wait(id).unwrap();
    }
    world.flush();
    let far = world.cut_far();
    let last = far.last(sectors);
    assert!(last > sectors - sectors / 64, "the far end was not written: {last} of {sectors}");
    let mut world = World::start_far(config, devices, far, Mode::Open, 2);
    assert!(ready(&world), "{:?}", world.events);
    for &at in &places {
        assert_eq!(world.read(at, 8).unwrap(), data(at, 8, 2), "sector {at} of {exported}");
    }
    world.begin_stop();
    world.settle();
    let mut world = World::start_far(config, devices, world.cut_far(), Mode::Open, 3);
    assert_eq!(world.read(places[30], 8).unwrap(), data(places[30], 8, 2));
    world.cut_far();
}

#[test]
fn log_is_whole_beyond_16_tib() {
    for (sectors, count) in [(SIZES[4].1, 1), (SIZES[4].1, 3)] {
        let mut config = LayerConfig { superpage: 2048, ..LayerConfig::new(LayerKind::Log) };
        (config.log.backwards, config.log.map_memory) = (true, Some(0));
        config.log.parity = count > 1;
        far_end(&config, &vec![DeviceInfo::block(sectors, 8); count]);
    }
}

#[test]
fn passthrough_is_whole_at_256_tib() {
    far_end(&LayerConfig::new(LayerKind::Passthrough), &[DeviceInfo::block(256 * TIB, 8)]);
}

/// 4 GiB of tables, most of which nobody touches.
#[test]
#[ignore = "takes 4 GiB of address space: `make live`"]
fn log_is_whole_at_256_tib() {
    let mut config = LayerConfig { superpage: 2048, ..LayerConfig::new(LayerKind::Log) };
    (config.log.backwards, config.log.map_memory) = (true, Some(0));
    far_end(&config, &[DeviceInfo::block(256 * TIB, 8)]);
}
