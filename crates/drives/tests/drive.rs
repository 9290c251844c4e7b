//! The drive's costs, its garbage collection, and bad descriptions.

mod rig;

use hostftl_core::{Cause, Layer};
use hostftl_drives::{DriveError, DriveSpec};
use rig::Rig;

fn hatl() -> DriveSpec {
    DriveSpec::find("hatl-2g").expect("it is built in")
}

#[test]
fn a_full_superpage_costs_one_program() {
    let mut rig = Rig::new(&hatl());
    rig.write(0, 128);
    rig.write(0, 128);
    assert_eq!(rig.now, 1_600_000);
    assert_eq!(rig.sectors(Cause::Host), 256);
    assert_eq!(rig.flash.work().reads, 0);
    rig.finish();
}

#[test]
fn a_partial_write_reads_and_programs_and_books_the_rest() {
    let mut rig = Rig::new(&hatl());
    rig.write(0, 128);
    let before = rig.now;
    rig.write(8, 8);
    assert_eq!(rig.now - before, 860_000);
    assert_eq!((rig.sectors(Cause::Host), rig.sectors(Cause::Rmw)), (128 + 8, 120));
    assert_eq!(rig.flash.work().reads_by[Cause::Rmw as usize], 1);
    rig.finish();
}

#[test]
fn a_partial_write_over_nothing_needs_no_read() {
    let mut rig = Rig::new(&hatl());
    rig.write(130, 8);
    assert_eq!(rig.now, 800_000);
    rig.read(0, 128);
    assert_eq!(rig.now, 800_000, "what was never written is not on flash");
    rig.read(128, 4);
    assert_eq!(rig.now, 860_000);
    rig.finish();
}

#[test]
fn a_long_write_is_cut_at_superpages() {
    let mut rig = Rig::new(&hatl());
    rig.write(120, 8 + 256 + 4);
    assert_eq!(rig.flash.work().programs, 4);
    assert_eq!((rig.sectors(Cause::Host), rig.sectors(Cause::Rmw)), (268, 120 + 124));
    rig.finish();
}

#[test]
fn overlapping_writes_take_turns() {
    let mut rig = Rig::new(&hatl());
    rig.write(0, 128);
    let before = rig.now;
    for i in 0..10 {
        rig.send_write(i, 8);
    }
    rig.send_trim(0, 300);
    rig.send_write(200, 8);
    rig.drain();
    // Ten read-modify-writes one after another, and one write over nothing.
    assert_eq!(rig.now - before, 10 * 860_000 + 800_000);
    rig.finish();
    assert_eq!(rig.ftl.mapped(), 1, "the trim came behind the ten and before the last");
}

#[test]
fn trim_keeps_what_it_covers_in_part() {
    let mut rig = Rig::new(&hatl());
    rig.write(0, 128 * 8);
    rig.send_trim(64, 128 * 3);
    rig.send_trim(130, 20);
    rig.drain();
    assert_eq!(rig.ftl.mapped(), 6);
    rig.finish();
}

#[test]
fn a_trim_of_the_whole_drive_is_one_request() {
    let mut rig = Rig::new(&hatl());
    rig.write(0, 128 * 8);
    rig.send_trim(0, hatl().exported);
    rig.drain();
    assert_eq!(rig.ftl.mapped(), 0);
    rig.finish();
}

/// A small drive: some 900 superblocks of 64 superpages of 4 KiB.
fn small(spare: f64) -> DriveSpec {
    let text = format!(
        "kind = 'superpage-mapped'\nchannels = 1\nways = 1\npage_kib = 4\n\
         superpages_per_superblock = 64\nexported_mib = 200\n\
         over_provisioning_percent = {spare}\nread_us = 60\nprogram_us = 800\nerase_us = 1500\n\
         bus_us = 0\n"
    );
    DriveSpec::parse(&text, "small").expect("a possible drive")
}

/// FIFO's write amplification: A = 1 / (1 - e^(-alpha/A)).
fn fifo(alpha: f64) -> f64 {
    (0..10_000).fold(2.0, |a: f64, _| 0.5 * a + 0.5 / (1.0 - (-alpha / a).exp()))
}

/// Greedy's write amplification for `pages` in a segment, after Xiang and Kurkoski.
fn greedy(alpha: f64, pages: f64) -> f64 {
    let k = 1.0 + 1.0 / (2.0 * pages);
    fifo(k * alpha) / k
}

#[test]
fn greedy_agrees_with_theory() {
    assert!((greedy(1.25, 64.0) - 2.5982).abs() < 0.0005, "the formula itself");
    for spare in [14.0, 25.0] {
        let spec = small(spare);
        let mut rig = Rig::new(&spec);
        let units = spec.exported / 8;
        rig.fill();
        rig.overwrite(8 * units);
        let before = rig.flash.work();
        rig.overwrite(2 * units);
        let work = rig.flash.work().since(&before);
        // The frontier and the reserve of two hold nothing that could be collected.
        let alpha = f64::from(spec.superblocks - 3) * 64.0 / units as f64;
        let (ours, law) = (work.programs as f64 / (2 * units) as f64, greedy(alpha, 64.0));
        println!("alpha {alpha:.4}: ours {ours:.4}, theory {law:.4}");
        assert!((ours / law - 1.0).abs() < 0.03, "alpha {alpha}: {ours} against {law}");
        rig.finish();
    }
}

#[test]
fn wear_is_even_and_follows_the_writes() {
    let spec = small(14.0);
    let mut rig = Rig::new(&spec);
    rig.fill();
    rig.overwrite(4 * spec.exported / 8);
    let work = rig.flash.work();
    let erased = rig.flash.erased();
    assert_eq!(erased.iter().map(|&count| u64::from(count)).sum::<u64>(), work.erases);
    let mean = work.programs as f64 / f64::from(spec.superblocks * 64) - 1.0;
    let ours = work.erases as f64 / f64::from(spec.superblocks);
    assert!((ours - mean).abs() < 0.05 * mean, "{ours} erases, {mean} from the programs");
    rig.finish();
}

#[test]
fn bad_descriptions_name_the_key_and_the_line() {
    let text = include_str!("../../../stacks/drives/hatl-2g.toml");
    let why = |from: &str, to: &str| {
        assert!(text.contains(from), "the test changes what is not there");
        DriveSpec::parse(&text.replace(from, to), "my.toml").unwrap_err().to_string()
    };
    assert!(why("ways = 4", "wasy = 4").starts_with("my.toml:4: unknown field `wasy`"));
    assert!(why("ways = 4", "ways = 'x'").starts_with("my.toml:4: invalid type: string"));
    assert_eq!(why("ways = 4", "ways = 0"), "my.toml:4: ways must be from 1 to 64");
    assert!(why("percent = 7", "percent = 0").starts_with("my.toml:8: over_provisioning_percent"));
    assert!(why("read_us = 60", "read_us = -1").starts_with("my.toml:9: read_us must be from"));
    assert!(why("bus_us = 0", "bus_us = -1").starts_with("my.toml:12: bus_us must be from 0"));
    assert!(why("read_us = 60", "").contains("missing field `read_us`"));
    assert_eq!(
        DriveSpec::parse(&text.replace("bus_us = 0", "bus_us = 5"), "bus").unwrap().bus,
        5_000
    );
    assert_eq!(DriveSpec::parse(&text.replace("bus_us = 0", "\n"), "none").unwrap().bus, 0);
    let unknown = DriveSpec::find("hatl-3g").unwrap_err();
    assert!(matches!(unknown, DriveError::Unknown { .. }), "{unknown}");
    assert_eq!(
        unknown.to_string(),
        "no drive 'hatl-3g': use hatl-1g, hatl-2g, hatl-32g, or the path of a TOML file"
    );
}

#[test]
fn the_drives_of_the_paper_have_the_sizes_of_the_paper() {
    let spec = DriveSpec::find("hatl-32g").unwrap();
    assert_eq!((spec.superpage, spec.exported), (128, 67_108_864));
    assert_eq!((spec.read, spec.program, spec.erase), (60_000, 800_000, 1_500_000));
    let share = spec.exported as f64 / spec.flash_info().sectors as f64;
    assert!((0.929..=0.93).contains(&share), "7 % spare: {share}");
    assert!(Rig::new(&spec).ftl.map_bytes() < 8 << 20);
}
