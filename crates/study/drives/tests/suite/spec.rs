//! Descriptions of drives: built-in drives, options, and errors.

use hostftl_drives::{Drive, DriveError, DriveSpec, Pooling};

const MLC: &str = include_str!("../../../../../stacks/drives/mlc-32g.toml");
const TLC: &str = include_str!("../../../../../stacks/drives/tlc.toml");
const QLC: &str = include_str!("../../../../../stacks/drives/qlc-64k.toml");
const HATL: &str = include_str!("../../../../../stacks/drives/hatl-2g.toml");

fn find(name: &str) -> DriveSpec {
    DriveSpec::find(name).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn refused(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the test changes what is not there: {from}");
    DriveSpec::parse(&text.replace(from, to), "my.toml").unwrap_err().to_string()
}

#[test]
fn the_drives_of_the_paper_have_the_sizes_of_the_paper() {
    let spec = find("hatl-32g");
    assert_eq!((spec.map_unit, spec.exported), (128, 67_108_864));
    assert_eq!((spec.read, spec.program, spec.erase, spec.bus), (60_000, 800_000, 1_500_000, 0));
    assert_eq!((spec.shape.lanes(), spec.shape.rows, spec.shape.stripe), (1, 128, 16));
    let share = spec.exported as f64 / spec.shape.sectors() as f64;
    assert!((0.929..=0.93).contains(&share), "7 % spare: {share}");
}

#[test]
fn mlc_32g_matches_common_simulators() {
    let spec = find("mlc-32g");
    assert_eq!(spec.shape.sectors() * 512, 32 << 30);
    assert_eq!((spec.shape.channels, spec.shape.dies, spec.shape.lanes_per_die), (8, 32, 2));
    assert_eq!((spec.shape.blocks, spec.shape.rows, spec.map_unit), (256, 256, 16));
    assert_eq!((spec.read, spec.program, spec.erase), (75_000, 750_000, 3_800_000));
    assert_eq!(spec.bus, 24_601, "8 KiB at 333 MB/s");
    assert_eq!((spec.pools, spec.pool_count()), (Pooling::Plane, 64));
    let share = spec.exported as f64 / spec.shape.sectors() as f64;
    assert!((share - 0.873).abs() < 1e-6, "{share}");
}

#[test]
fn every_shipped_drive_fits_twelve_bytes_a_page() {
    // Memory that does not depend on the pages, such as a write buffer, matters in a small drive.
    let is_small = |name: &&str| ["-1g", "-2g", "-7t"].iter().any(|end| name.ends_with(end));
    for name in DriveSpec::names().filter(|name| !is_small(name)) {
        let spec = find(name);
        // If several map units share a page, the model has a page for each of them.
        let pages =
            spec.shape.sectors() as f64 / f64::from(spec.map_unit.min(spec.shape.row_sectors));
        let bytes = spec.memory() as f64 / pages;
        assert!(bytes <= 12.0, "{name}: {bytes:.2} B a page");
        assert!(spec.exported * 512 >= 27 << 30, "{name} is a slice of 32 GiB");
    }
}

#[test]
fn the_memory_estimate_matches_the_tables() {
    for name in ["mlc-32g:capacity=4g", "tlc:capacity=1g", "hatl-2g"] {
        let spec = find(name);
        let drive = Drive::new(&spec).expect("it fits");
        let (stated, takes) = (spec.memory(), drive.bytes());
        assert!(
            takes <= stated && stated <= takes + (2 << 20),
            "{name}: {stated} stated, {takes} taken"
        );
    }
}

#[test]
fn options_change_keys() {
    let spec = find("mlc-32g:capacity=4g:gc=d-choices:10:plp=false:write_buffer_kib=512");
    assert_eq!(spec.exported * 512, 4 << 30);
    assert_eq!(spec.gc.to_string(), "d-choices:10");
    assert!(!spec.plp && spec.device_info().volatile_cache);
    assert_eq!(spec.name, "mlc-32g:capacity=4g:gc=d-choices:10:plp=false:write_buffer_kib=512");
    let small = find("mlc-32g:capacity=256m");
    assert_eq!(small.exported * 512, 256 << 20);
    assert!(small.shape.blocks >= 64 && small.shape.rows < 256, "{:?}", small.shape);
    assert_eq!(find("hatl-2g:map_unit_kib=128").map_unit, 256);
}

#[test]
fn errors_name_the_wrong_option() {
    let why = |name: &str| DriveSpec::find(name).unwrap_err().to_string();
    assert_eq!(why("tlc:gc=lru").split("; use").next(), Some("tlc:gc=lru: no gc 'lru'"));
    assert!(why("tlc:colour=red").starts_with("tlc:colour=red: unknown field `colour`"));
    assert!(
        why("tlc:capacity=big").contains("capacity must be a size"),
        "{}",
        why("tlc:capacity=big")
    );
    assert!(why("tlc:capacity=2").contains("whole number of map units"));
    assert!(why("tlc:plp=maybe").starts_with("tlc:plp=maybe: invalid type: string"));
    let unknown = DriveSpec::find("tcl").unwrap_err();
    assert!(matches!(unknown, DriveError::Unknown { .. }), "{unknown}");
    assert!(unknown.to_string().contains("use hatl-1g, hatl-2g, hatl-32g, mlc-32g, open-channel"));
    assert!(why("nowhere/drive.toml").starts_with("cannot read the drive nowhere/drive.toml: "));
}

#[test]
fn impossible_geometry_names_the_key_and_the_line() {
    let at = |why: String, line: &str| {
        assert!(why.starts_with(&format!("my.toml:{line}")), "{why}");
        why
    };
    at(refused(MLC, "ways = 4", "wasy = 4"), "5: unknown field `wasy`");
    at(refused(MLC, "ways = 4", "ways = 'x'"), "5: invalid type: string");
    at(refused(MLC, "channels = 8", "channels = 0"), "4: channels must be from 1 to 64");
    at(refused(MLC, "planes = 2", "planes = 17"), "7: planes must be from 1 to 16");
    at(refused(MLC, "pages = 256", "pages = 1"), "9: pages must be from 2");
    at(refused(MLC, "blocks = 256", "blocks = 3"), "8: blocks must be from 4");
    at(refused(MLC, "blocks = 256", ""), "1: missing capacity");
    at(
        refused(MLC, "blocks = 256", "blocks = 256\ncapacity = '1g'"),
        "9: capacity and blocks exclude each other",
    );
    at(refused(MLC, "percent = 12.7", "percent = 91"), "11: over_provisioning_percent must");
    at(
        refused(MLC, "percent = 12.7", "percent = 0"),
        "11: over_provisioning_percent = 0 leaves 256",
    );
    at(refused(MLC, "bus_mts = 333", "bus_mts = 0"), "12: bus_mts must be from 1");
    at(
        refused(MLC, "bus_mts = 333", "bus_mts = 333\nbus_us = 1"),
        "13: bus_us and bus_mts exclude each other",
    );
    at(refused(MLC, "\"plane\"", "\"die\""), "13: no pools 'die'; use plane or drive");
    at(refused(MLC, "cell = \"mlc\"", "cell = \"xlc\""), "3: unknown variant `xlc`");
    at(refused(HATL, "\"all\"", "3"), "7: stripe = 3 does not divide 16 planes evenly");
    at(refused(HATL, "\"all\"", "\"some\""), "7: stripe must be \"all\" or a number");
    at(refused(HATL, "\"all\"", "0"), "7: stripe = 0 does not divide");
    at(refused(HATL, "\"2g\"", "\"2000001k\""), "9: capacity must be a whole number of map units");
    at(refused(HATL, "read_us = 60", "read_us = 0"), "11: read_us must be from 0.001");
    at(refused(HATL, "bus_us = 0", "bus_us = -1"), "14: bus_us must be from 0");
    at(refused(QLC, "map_unit_kib = 64", "map_unit_kib = 24"), "10: map_unit_kib must divide");
    at(refused(QLC, "map_unit_kib = 64", "map_unit_kib = 128"), "15: merge needs map units");
    at(refused(QLC, "kib = 8192", "kib = 128"), "15: merge needs a write_buffer_kib");
    at(refused(TLC, "kib = 8192", "kib = 100"), "13: write_buffer_kib must be at least");
    at(refused(TLC, "\"separate\"", "\"three\""), "15: no frontiers 'three'");
    at(refused(TLC, "\"32g\"", "\"32g\"\nservice = \"slow\""), "12: no service 'slow'");
    assert!(refused(MLC, "channels = 8", "").contains("missing field `channels`"));
}

#[test]
fn too_much_memory_is_refused_with_both_figures() {
    let spec = find("mlc-32g");
    assert!(spec.fits(Some(spec.memory())).is_ok());
    let error = spec.fits(Some(16 << 20)).unwrap_err().to_string();
    let needed = spec.memory() >> 20;
    assert!(error.contains(&format!("needs {needed} MiB")) && error.contains("16 MiB"), "{error}");
}

#[test]
fn a_slice_of_a_real_drive_has_a_share_of_its_blocks_and_of_their_erase() {
    let real = TLC.replace("32g", "16g");
    let real = real.replace("pages = 128", "pages = 128\nnominal = '7.68TB'\nnominal_pages = 2048");
    let spec = DriveSpec::parse(&real, "my.toml").expect("a possible drive");
    assert_eq!(spec.nominal, Some(15_000_000_000));
    assert_eq!((spec.shape.rows, spec.erase), (64, 3_500_000 / 32), "551 blocks instead of 276");
    let why = refused(&real, "'7.68TB'", "'big'");
    assert!(why.contains("nominal must be a size"), "{why}");
}
