//! Chaos runs of the exerciser, with every command over one to four devices, and of seeds that
//! cover rare situations.

use hostftl_chaos::{Report, run_seed};
use hostftl_layers::LayerKind;

#[test]
fn every_command_holds_under_power_cuts_and_any_order_of_completion() {
    let mut spare = None;
    let mut cuts = 0;
    for seed in 0..40 {
        let report = run_seed(seed, LayerKind::Exerciser, false, &mut spare);
        cuts += report.unwrap_or_else(|violation| panic!("{violation:?}")).cuts;
    }
    assert!(cuts > 100, "only {cuts} power cuts");
}

fn report(layer: LayerKind, seed: u64) -> Report {
    let report = run_seed(seed, layer, false, &mut None);
    report.unwrap_or_else(|violation| panic!("{violation:?}"))
}

/// Checks that a seed passes and contains `events` at least the given number of times; without them
/// it tests nothing.
fn passes_with(layer: LayerKind, seed: u64, events: &[(&str, u64)]) {
    let report = report(layer, seed);
    for &(event, least) in events {
        let (_, count, _) = report.tallies.rows(layer).find(|row| row.0 == event).unwrap();
        assert!(count >= least, "{layer} {seed}: {event}: {count}, look for another seed");
    }
}

/// Checks the first seed from `seed` on that contains the events. It is for layers whose behaviour
/// changes often, which moves events to other seeds.
fn passes_where(layer: LayerKind, seed: u64, events: &[(&str, u64)]) {
    let has = |report: &Report, (event, least): (&str, u64)| {
        report.tallies.rows(layer).any(|row| row.0 == event && row.1 >= least)
    };
    let mut reports = (seed..seed + 40).map(|seed| report(layer, seed));
    let found = reports.any(|report| events.iter().all(|event| has(&report, *event)));
    assert!(found, "{layer}: none of 40 seeds from {seed} on has {events:?}");
}

/// A stop that comes during garbage collection must not wait for the space of data that was read
/// but cannot be placed.
#[test]
fn a_stop_of_log_does_not_wait_for_a_collection_without_room() {
    passes_where(LayerKind::Log, 5030, &[("GC started", 20), ("clean stop", 10)]);
}

/// Recovery must check the result of its first flush before it treats data as durable.
#[test]
fn a_failed_first_flush_refuses_the_volume() {
    let events = [("volume refused for a transient fault", 1), ("flush failed", 1)];
    passes_with(LayerKind::Mhatl, 7, &events);
}

/// A failed flush may drop images of a checkpoint. A concurrent flush that succeeds must not let
/// the root refer to them.
#[test]
fn the_scrambler_ends_no_checkpoint_after_a_failed_flush() {
    let events = [("flush failed", 1), ("data of a failed flush lost", 1)];
    passes_with(LayerKind::Scrambler, 800, &events);
}

/// Many short lives each leave a segment with little data. GC must still find a free segment above
/// the reserve for data that is only in the journal.
#[test]
fn log_with_a_journal_has_room_after_many_short_lives() {
    let events = [("power cut", 50), ("GC started", 20), ("cut during a journal write", 1)];
    passes_where(LayerKind::Log, 5030, &events);
}

/// A stripe of map images that was not written for want of space must not be read from the device
/// forever.
#[test]
fn log_reads_on_after_images_of_the_map_found_no_room() {
    passes_with(LayerKind::Log, 4_001_027, &[("device full", 1)]);
}

/// With two of three devices lost, the host writes more than the last one can hold beside the
/// reserves. Writes must be refused, and trims must not wait for garbage collection.
#[test]
fn log_refuses_data_beyond_the_remaining_devices() {
    let events = [("rebuilt without a spare", 1), ("no space on a thin volume", 10)];
    passes_where(LayerKind::Log, 9_100_127, &events);
}

/// Lost devices are replaced while a volume is served, or return to it.
#[test]
fn log_takes_devices_while_it_is_served() {
    let replaced = ("lost device replaced while served", 1);
    let returned = ("lost device returned while served", 1);
    passes_where(LayerKind::Log, 100, &[replaced, returned, ("replacement joined", 2)]);
}

/// A cut tears the head of a stripe, and a bad sector appears in another chunk. No flush covers the
/// stripe, so the log ends before it instead of refusing the volume.
#[test]
fn log_opens_with_a_torn_stripe_and_a_bad_sector() {
    let report = report(LayerKind::Log, 1231);
    assert!(report.requests > 5_000, "{} requests", report.requests);
}

/// With one of four devices lost and the others full, GC gains little. Writes must not be refused
/// while there is space.
#[test]
fn log_continues_gc_while_all_data_is_readable() {
    let report = report(LayerKind::Log, 20_001_535);
    assert!(report.requests > 4_000, "{} requests", report.requests);
}

/// A map page that waits for its rebuild must be read from its own device once that has it, in case
/// the source device is lost.
#[test]
fn log_reads_rebuilt_data_from_a_new_device() {
    let report = report(LayerKind::Log, 95_002_041);
    assert!(report.requests > 500, "{} requests", report.requests);
}

/// A flush of a zoned device fails, the others close and open zones, and the power is cut before a
/// root records the loss. The start must not open too many zones on the device.
#[test]
fn log_respects_open_zones_on_a_returned_device() {
    let report = report(LayerKind::Log, 6_100_288);
    assert!(report.requests > 1000, "{} requests", report.requests);
}

/// Writes that wait for space may pin nearly all map pages, and waiting GC lanes the rest. GC must
/// have enough map pages to continue while segments are scarce. The few remaining pages would not
/// suffice, because the checkpoint after each round seals the open stripes.
#[test]
fn log_reserves_map_pages_for_gc_while_segments_are_few() {
    let report = report(LayerKind::Log, 8_300_754);
    assert!(report.requests > 20_000, "{} requests", report.requests);
}

/// When the journal's device fails, all open stripes are sealed. A stripe of copies must not list
/// an older version than a journal record: recovery would apply it after the record, until the
/// newer stripe is durable or a root records that the journal is not needed.
#[test]
fn log_lists_no_version_older_than_a_failed_journal() {
    let report = report(LayerKind::Log, 8_802_837);
    assert!(report.cuts > 100, "{} cuts", report.cuts);
}

/// A device was removed before the superblocks recorded it, and another one is to be removed at the
/// next start. When space is scarce, stripes must not include the removed device like a lost one.
#[test]
fn log_tolerates_the_absence_of_a_removed_device() {
    let report = report(LayerKind::Log, 8_700_489);
    assert!(report.requests > 10_000, "{} requests", report.requests);
}

/// With devices of different lengths, one of them lost, each start must leave segments for data
/// that is only in the journal.
#[test]
fn log_restarts_repeatedly_on_devices_of_mixed_length() {
    passes_with(LayerKind::Log, 120_000_031, &[("power cut", 20)]);
}

/// When the number of leaves reaches its limit and ordering superpages saves none, the host must
/// not wait forever.
#[test]
fn mhatl_gathers_superpages_when_leaves_are_scarce() {
    let report = report(LayerKind::Mhatl, 4_001_064);
    assert!(report.requests > 10_000, "{} requests", report.requests);
}

/// Free lines may lack offline segments. Garbage collection must start when they are too short for
/// the host, even if their number is sufficient.
#[test]
fn pblk_collects_when_free_lines_are_incomplete() {
    passes_with(LayerKind::Pblk, 86, &[("segment went offline", 10)]);
}

#[test]
fn pblk_opens_an_incomplete_line_if_no_other_is_free() {
    passes_with(LayerKind::Pblk, 6_000_735, &[("segment went offline", 1)]);
}
