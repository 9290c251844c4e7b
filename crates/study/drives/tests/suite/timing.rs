//! Small cases with times that can be calculated by hand.

use crate::rig::Rig;
use hostftl_core::Cause;
use hostftl_drives::DriveSpec;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A page takes 50 µs to read, 500 µs to program and 10 µs on the bus; a block takes 1000 µs to
/// erase.
const BASE: &str = "cell = 'mlc'\npages = 8\npage_kib = 4\nblocks = 32\n\
    over_provisioning_percent = 50\nread_us = 50\nprogram_us = 500\nerase_us = 1000\nbus_us = 10\n";

fn rig(more: &str) -> Rig {
    let mut text = BASE.to_owned();
    for key in ["channels", "ways"] {
        if !more.contains(key) {
            text += &format!("{key} = 1\n");
        }
    }
    Rig::new(&DriveSpec::parse(&(text + more), "timing").expect("a possible drive"))
}

/// Makes a drive on which the first `units` map units were written before the measurement.
fn written(more: &str, units: u64) -> Rig {
    let mut rig = rig(more);
    let unit = rig.drive.spec().map_unit;
    (0..units).for_each(|index| {
        rig.write(index * u64::from(unit), unit);
    });
    rig.flush();
    rig.drain();
    rig
}

#[test]
fn a_die_serves_one_command_at_a_time() {
    let mut rig = rig("");
    let write = rig.write(0, 8);
    rig.drain();
    let read = rig.read(0, 8);
    rig.drain();
    let part = rig.read(2, 4);
    rig.drain();
    let nothing = rig.read(8, 8);
    assert_eq!((rig.took(write), rig.took(read), rig.took(part)), (510.0, 60.0, 55.0));
    assert_eq!(rig.took(nothing), 0.0, "what was never written is not on flash");
    let spent = rig.log[write].2;
    assert_eq!((spent.die, spent.bus, spent.queue), (500_000, 10_000, 0));
}

#[test]
fn two_reads_of_a_die_are_serialised() {
    let mut rig = written("", 2);
    let (one, two) = (rig.read(0, 8), rig.read(8, 8));
    rig.drain();
    assert_eq!((rig.took(one), rig.took(two)), (60.0, 120.0));
    assert_eq!(rig.log[two].2.queue, 60_000);
}

#[test]
fn two_dies_share_a_bus() {
    let mut rig = written("ways = 2\n", 2);
    let (one, two) = (rig.read(0, 8), rig.read(8, 8));
    rig.drain();
    assert_eq!((rig.took(one), rig.took(two)), (60.0, 70.0));
    assert_eq!((rig.log[two].2.queue, rig.log[two].2.bus), (0, 20_000));
    assert_eq!(rig.drive.work().flash.busy.bus, 40_000);
    assert_eq!(rig.drive.work().read_busy(Cause::Host), 120_000, "waiting is not work");
}

#[test]
fn two_channels_are_independent() {
    let mut rig = written("channels = 2\n", 2);
    let (one, two) = (rig.read(0, 8), rig.read(8, 8));
    let (three, four) = (rig.write(16, 8), rig.write(24, 8));
    rig.drain();
    assert_eq!((rig.took(one), rig.took(two)), (60.0, 60.0));
    assert_eq!((rig.took(three), rig.took(four)), (570.0, 570.0));
}

#[test]
fn planes_work_together_when_they_can() {
    for (multiplane, last) in [("multiplane = true\n", 510.0 + 520.0), ("", 3.0 * 510.0)] {
        let mut rig = rig(&format!("planes = 2\n{multiplane}"));
        let first = rig.write(0, 8);
        let (second, third) = (rig.write(8, 8), rig.write(16, 8));
        rig.drain();
        assert_eq!(rig.took(first), 510.0);
        assert_eq!(rig.took(second).max(rig.took(third)), last);
    }
}

#[test]
fn a_read_interrupts_a_program() {
    let more = "suspend = true\nsuspend_us = 20\n";
    let mut rig = written(more, 8);
    let write = rig.write(64, 8);
    rig.now += 5_000;
    let early = rig.read(0, 8);
    rig.drain();
    // The program is suspended, but not its transfer.
    assert_eq!(rig.took(early), 5.0 + 20.0 + 50.0 + 10.0);
    assert_eq!(rig.took(write), 510.0 + 80.0);
    let write = rig.write(72, 8);
    rig.now += 100_000;
    let (read, next) = (rig.read(8, 8), rig.read(16, 8));
    rig.drain();
    assert_eq!((rig.took(read), rig.took(next)), (80.0, 140.0));
    assert_eq!(rig.took(write), 510.0 + 140.0);
    let spent = rig.log[write].2;
    assert_eq!((spent.die, spent.bus, spent.queue), (500_000, 10_000, 140_000));
}

#[test]
fn without_suspend_a_read_waits() {
    let mut rig = written("", 8);
    let write = rig.write(64, 8);
    rig.now += 100_000;
    let read = rig.read(0, 8);
    rig.drain();
    assert_eq!((rig.took(write), rig.took(read)), (510.0, 410.0 + 60.0));
}

#[test]
fn a_partial_write_reads_the_rest_first() {
    let mut rig = written("map_unit_kib = 8\n", 1);
    let write = rig.write(4, 4);
    rig.drain();
    // Two pages are read and two are programmed.
    assert_eq!(rig.took(write), 2.0 * 60.0 + 2.0 * 510.0);
    let (work, spent) = (rig.drive.work(), rig.log[write].2);
    assert_eq!((work.rmw, spent.rmw), (1, 120_000));
    assert_eq!(work.sectors[Cause::Host as usize], 16 + 4);
    assert_eq!(work.sectors[Cause::Rmw as usize], 12);
    let fresh = rig.write(16, 4);
    rig.drain();
    assert_eq!(rig.took(fresh), 2.0 * 510.0, "over nothing the rest is zeros");
}

#[test]
fn a_stripe_operates_as_one_lane() {
    let mut rig = written("channels = 2\nways = 2\nstripe = 'all'\n", 1);
    assert_eq!(rig.drive.spec().map_unit, 32);
    let (write, read) = (rig.write(0, 8), rig.read(32, 32));
    rig.drain();
    // Each channel transfers the pages of two chips, before and after.
    assert_eq!(rig.took(write), 50.0 + 20.0 + 20.0 + 500.0);
    assert_eq!(rig.took(read), 0.0);
}

#[test]
fn parts_merged_in_the_buffer_cost_one_program() {
    let mut rig = written("map_unit_kib = 8\nwrite_buffer_kib = 64\nmerge = true\n", 1);
    let before = rig.drive.work();
    let (one, two) = (rig.write(0, 4), rig.write(4, 12));
    assert_eq!((rig.took(one), rig.took(two)), (0.0, 0.0), "answered from the buffer");
    rig.drain();
    let work = rig.drive.work().since(&before);
    assert_eq!((work.flash.programs, work.rmw), (2, 0));
    rig.write(16, 4);
    rig.write(16, 4);
    let hit = rig.read(16, 4);
    assert_eq!(rig.took(hit), 0.0);
    let work = rig.drive.work().since(&before);
    assert_eq!(work.absorbed[Cause::Host as usize], 4, "the first version never left");
    assert_eq!((work.waiting[Cause::Host as usize], work.hits), (4, 1));
}

#[test]
fn a_full_buffer_evicts_the_oldest() {
    let mut rig = written("map_unit_kib = 8\nwrite_buffer_kib = 64\nmerge = true\n", 8);
    let before = rig.drive.work();
    // Half of the buffer, four units, is for partial units.
    (0..5).for_each(|unit| {
        rig.write(unit * 16, 8);
    });
    rig.drain();
    let work = rig.drive.work().since(&before);
    assert_eq!((work.rmw, work.waiting[Cause::Host as usize]), (1, 32));
    // One page was new as a whole and need not be read.
    assert_eq!(work.flash.reads[Cause::Rmw as usize], 1);
}

#[test]
fn a_flush_waits_unless_the_buffer_is_protected() {
    let text = "write_buffer_kib = 64\nplp = ";
    let mut rig = rig(&format!("{text}true\n"));
    let (write, flush) = (rig.write(0, 8), rig.flush());
    rig.drain();
    assert_eq!((rig.took(write), rig.took(flush)), (0.0, 0.0));
    assert!(!rig.drive.info().volatile_cache);
    let mut rig = self::rig(&format!("{text}false\n"));
    let (write, flush, late) = (rig.write(0, 8), rig.flush(), rig.write(8, 8));
    rig.drain();
    assert_eq!((rig.took(write), rig.took(late)), (0.0, 0.0));
    assert_eq!(rig.took(flush), 510.0, "it does not wait for what came later");
    assert!(rig.drive.info().volatile_cache);
    let idle = rig.flush();
    assert_eq!(rig.took(idle), 0.0);
}

#[test]
fn a_flush_writes_a_part_filled_page_aside() {
    let mut rig = rig("map_unit_kib = 1\nwrite_buffer_kib = 64\nplp = false\n");
    rig.write(0, 2);
    let flush = rig.flush();
    rig.drain();
    assert_eq!(rig.took(flush), 510.0);
    let work = rig.drive.work();
    assert_eq!((work.flash.programs, work.open, work.aside), (1, 2, 2));
    rig.write(2, 6);
    rig.drain();
    let work = rig.drive.work();
    assert_eq!((work.flash.programs, work.open), (2, 0), "the page itself");
    assert_eq!(work.sectors[Cause::Rmw as usize], 8, "and the one aside");
    assert_eq!(rig.drive.check(), Ok(()));
}

#[test]
fn a_full_buffer_makes_writes_wait() {
    let mut rig = rig("write_buffer_kib = 16\n");
    let writes: Vec<usize> = (0..4).map(|index| rig.write(index * 8, 8)).collect();
    rig.drain();
    let took: Vec<f64> = writes.iter().map(|&write| rig.took(write)).collect();
    // Half of the buffer holds two pages.
    assert_eq!(took, [0.0, 0.0, 510.0, 1020.0]);
}

/// `Q` random requests hit `N(1 − (1 − 1/N)^Q)` of `N` chips on average.
#[test]
fn chips_hit_by_random_requests() {
    let mut rig = rig("channels = 4\nways = 4\nbus_us = 0\n".replace("bus_us = 0\n", "").as_str());
    rig.fill();
    let units = rig.drive.spec().exported / 8;
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(9);
    for queued in [1, 4, 16, 64] {
        let (mut hit, rounds) = (0, 2_000);
        for _ in 0..rounds {
            let reads = (0..queued).map(|_| rig.read(dice.random_range(0..units) * 8, 8));
            let reads: Vec<usize> = reads.collect();
            rig.drain();
            // The first request of each die does not wait for it.
            hit += reads.iter().filter(|&&read| rig.log[read].2.queue == 0).count();
        }
        let expected = 16.0 * (1.0 - (1.0 - 1.0 / 16.0_f64).powi(queued));
        let found = hit as f64 / f64::from(rounds);
        assert!((found / expected - 1.0).abs() < 0.02, "{queued}: {found}, not {expected}");
    }
}

#[test]
fn commands_are_serialised_on_the_host_link() {
    // 4 KiB take 10 µs on the link.
    let link = "channels = 2\nlink_mbs = 409.6\ncommand_us = 5\nlatency_us = 20\n";
    let mut rig = written(link, 2);
    let (one, two) = (rig.read(0, 8), rig.read(8, 8));
    rig.drain();
    assert_eq!((rig.took(one), rig.took(two)), (95.0, 110.0), "60 in the drive, 15 each, and 20");
    assert_eq!(rig.log[two].2.bus, 60_000, "10 on the bus of the flash, 50 on the link");
    // The directions are independent, and a flush has no data.
    let (read, write) = (rig.read(8, 8), rig.write(64, 8));
    rig.drain();
    assert_eq!((rig.took(read), rig.took(write)), (95.0, 545.0));
    let flush = rig.flush();
    rig.drain();
    assert_eq!(rig.took(flush), 25.0);
}

#[test]
fn a_buffered_write_takes_the_time_of_the_host_link() {
    let mut rig = rig("write_buffer_kib = 64\nlatency_us = 20\nlink_mbs = 409.6\n");
    let (one, two) = (rig.write(0, 8), rig.write(8, 8));
    rig.drain();
    assert_eq!((rig.took(one), rig.took(two)), (30.0, 40.0));
}

#[test]
fn the_budget_limits_only_programs() {
    let mut rig = written("channels = 3\nprogram_dies = 2\n", 3);
    let writes = [24, 32, 40].map(|lba| rig.write(lba, 8));
    rig.drain();
    assert_eq!(writes.map(|write| rig.took(write)), [510.0, 510.0, 1020.0]);
    let reads = [0, 8, 16].map(|lba| rig.read(lba, 8));
    rig.drain();
    assert_eq!(reads.map(|read| rig.took(read)), [60.0; 3]);
}
