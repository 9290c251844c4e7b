//! Models of commercial drives: each meets its data sheet, and a slice keeps what it must.

use std::collections::BTreeSet;

use hostftl_core::SECTOR;
use hostftl_drives::models::{Compared, Figure, Model};
use hostftl_drives::pool::Pool;
use hostftl_drives::{DeviceSpec, DriveSpec};

fn find(name: &str) -> DriveSpec {
    DriveSpec::find(name).unwrap_or_else(|error| panic!("{error}"))
}

/// A missed figure fails unless it is a rate with a stated reason, and such a rate must be missed.
#[test]
fn each_model_meets_its_data_sheet() {
    let mut compared = 0;
    for model in Model::all() {
        let measured = model.measure().unwrap_or_else(|why| panic!("{}: {why}", model.name()));
        for line in model.compare(&measured) {
            let Compared { figure, stated, model: has, .. } = line;
            let Some(is_met) = line.is_met() else { continue };
            let is_excused = match figure {
                Figure::Rate(rate) => model.miss(rate).is_some(),
                _ => false,
            };
            assert!(
                is_met != is_excused,
                "{}: {} is {has:?}, the data sheet has {stated}, excused: {is_excused}",
                model.name(),
                figure.key()
            );
            compared += 1;
        }
    }
    assert!(compared > 80, "only {compared} figures were compared");
}

#[test]
fn there_are_models_of_every_class() {
    let models = Model::all();
    assert!(models.len() >= 12, "a dozen models, not {}", models.len());
    let names: BTreeSet<&str> = models.iter().map(Model::name).collect();
    assert_eq!(names.len(), models.len(), "each name once");
    let specs: Vec<DriveSpec> = models.iter().map(|it| find(it.name())).collect();
    let is_any = |what: fn(&DriveSpec) -> bool| specs.iter().any(what);
    assert!(is_any(|it| it.zoned.is_some()), "zones");
    assert!(is_any(|it| it.placements > 1), "FDP");
    assert!(is_any(|it| it.map_unit == 128), "a map unit of 64 KiB");
    assert!(is_any(|it| it.cycles > 100_000), "SLC");
    let largest = models.iter().map(Model::capacity_bytes).max();
    assert_eq!(largest, Some(122_880_000_000_000));
}

#[test]
fn every_value_has_a_source_or_a_reason() {
    for model in Model::all() {
        assert!(model.about().ends_with('.'), "{}", model.name());
        for setting in model.sheet().iter().chain(model.drive()) {
            assert!(setting.origin.text().len() > 2, "{}: {}", model.name(), setting.key);
        }
    }
}

#[test]
fn drive_a_has_the_write_amplification_of_the_measured_drive() {
    assert_calibrated("drive-a-7t", [1.00, 2.93, 3.22, 2.32, 2.27, 1.85, 1.51, 1.18], 0.05);
}

#[test]
fn drive_b_has_the_write_amplification_of_the_measured_drive() {
    assert_calibrated(
        "drive-b-3t:capacity=8g",
        [4.34, 5.55, 4.87, 4.16, 3.44, 2.76, 2.06, 1.37],
        0.08,
    );
}

/// Every block is written once per pass in random order. The counters of the drive have this write
/// amplification by eighths of a pass, on average of the passes 2 to 5.
fn assert_calibrated(name: &str, counters: [f64; 8], bar: f64) {
    let spec = find(name).pool(0);
    let mut pool = Pool::new(spec).unwrap();
    let mut order: Vec<u32> = (0..spec.logical).collect();
    let (mut seed, mut model) = (1_u64, [0.0; 8]);
    for pass in 0..5 {
        for last in (1..order.len()).rev() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            order.swap(last, (seed >> 33) as usize % (last + 1));
        }
        for (eighth, pages) in order.chunks(order.len().div_ceil(8)).enumerate() {
            let before = pool.work();
            pages.iter().for_each(|&page| pool.write(page, &mut |_| {}));
            model[eighth] += if pass > 0 { pool.work().since(&before).waf() / 4.0 } else { 0.0 };
        }
    }
    for (eighth, (model, counter)) in model.iter().zip(counters).enumerate() {
        assert!((model / counter - 1.0).abs() < bar, "eighth {eighth}: {model:.3}, {counter}");
    }
    let mean = model.iter().sum::<f64>() / counters.iter().sum::<f64>();
    assert!((mean - 1.0).abs() < 0.02, "mean {mean:.3}");
}

#[test]
fn a_slice_keeps_dies_and_map_unit_and_has_short_blocks() {
    for model in Model::all() {
        let (whole, small) = (find(model.name()), find(&format!("{}:capacity=8g", model.name())));
        let dies = |spec: &DriveSpec| (spec.shape.dies, spec.shape.lanes(), spec.map_unit);
        assert_eq!(dies(&whole), dies(&small), "{}", model.name());
        // A raw drive has whole segments.
        let beyond = small.exported * SECTOR as u64 - (8 << 30);
        assert!(beyond < small.erase_unit() * SECTOR as u64, "{}", model.name());
        let nominal = model.capacity_bytes() / SECTOR as u64;
        assert_eq!((whole.nominal, small.nominal), (Some(nominal), Some(nominal)));
        assert!(small.shape.rows <= whole.shape.rows, "{}", model.name());
        // The share of the time that erases take does not depend on the size of the slice.
        let erase = |spec: &DriveSpec| spec.erase as f64 / f64::from(spec.shape.rows);
        assert!((erase(&small) / erase(&whole) - 1.0).abs() < 0.01, "{}", model.name());
        let is_whole = whole.shape.blocks >= 512;
        assert!(is_whole || whole.shape.rows < 4 * whole.rows_per_unit(), "{}", model.name());
    }
}

#[test]
fn a_value_of_an_option_has_no_source() {
    let device = |name: &str| DeviceSpec::find(name).expect("it is built in");
    let own = device("solidigm-d5-p5336-61t");
    let changed = device("solidigm-d5-p5336-61t:cycles=1000:capacity=4g");
    assert!(own.origin("cycles", "5000").is_some());
    assert!(changed.model().is_some() && changed.origin("cycles", "1000").is_none());
    assert!(device("tlc").model().is_none() && device("tlc").origin("cell", "tlc").is_none());
}
