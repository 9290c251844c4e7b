//! The exerciser passes in the world that breaks things: every command, over one to four devices.
//! And seeds that found what few others do.

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

/// A seed that passes, and in which `events` happened at least so often: without them it tests
/// nothing any more.
fn passes_with(layer: LayerKind, seed: u64, events: &[(&str, u64)]) {
    let report = report(layer, seed);
    for &(event, least) in events {
        let (_, count, _) = report.tallies.rows(layer).find(|row| row.0 == event).unwrap();
        assert!(count >= least, "{layer} {seed}: {event}: {count}, look for another seed");
    }
}

/// As [`passes_with`], of the first seed from `seed` on in which the events happened: the dice of a
/// layer that changes often fall in another way soon.
fn passes_where(layer: LayerKind, seed: u64, events: &[(&str, u64)]) {
    let has = |report: &Report, (event, least): (&str, u64)| {
        report.tallies.rows(layer).any(|row| row.0 == event && row.1 >= least)
    };
    let mut reports = (seed..seed + 40).map(|seed| report(layer, seed));
    let found = reports.any(|report| events.iter().all(|event| has(&report, *event)));
    assert!(found, "{layer}: none of 40 seeds from {seed} on has {events:?}");
}

/// Stops come while collection is at work: once it had read what it got no room for, and the stop
/// waited for it for ever.
#[test]
fn a_stop_of_log_does_not_wait_for_a_collection_without_room() {
    passes_where(LayerKind::Log, 5030, &[("GC started", 20), ("clean stop", 10)]);
}

/// Recovery did not look at what its first flush said, and took what it read for durable.
#[test]
fn a_volume_whose_first_flush_fails_is_refused() {
    let events = [("volume refused for a fault that passes", 1), ("flush failed", 1)];
    passes_with(LayerKind::Mhatl, 7, &events);
}

/// A flush failed and dropped images of a checkpoint; one that was under way beside it worked, and
/// the root named the images.
#[test]
fn the_scrambler_ends_no_checkpoint_after_a_failed_flush() {
    let events = [("flush failed", 1), ("what a failed flush covered was lost", 1)];
    passes_with(LayerKind::Scrambler, 800, &events);
}

/// Each of many lives was too short to go through a victim, and left a segment that held little:
/// then collection found no free segment above those kept for what only the journal has.
#[test]
fn log_with_a_journal_has_room_after_many_short_lives() {
    let events = [("power cut", 50), ("GC started", 20), ("cut during a journal write", 1)];
    passes_where(LayerKind::Log, 5030, &events);
}

/// The row of images that held a map page was not written, for want of room; reads asked the device
/// for it for ever.
#[test]
fn log_reads_on_after_images_of_the_map_found_no_room() {
    passes_with(LayerKind::Log, 4_001_027, &[("device full", 1)]);
}

/// Two of three devices were lost. The host wrote more than the last one holds with what is kept
/// free, collection gained nothing for ever, and trims waited for it.
#[test]
fn log_refuses_what_the_devices_that_are_left_do_not_hold() {
    let events = [("protected without a spare", 1), ("no space on a thin volume", 10)];
    passes_where(LayerKind::Log, 9_100_127, &events);
}

/// Lost devices are replaced while a volume is served, and come back to it.
#[test]
fn log_takes_devices_while_it_is_served() {
    let replaced = ("lost device replaced while it was served", 1);
    let returned = ("lost device came back while it was served", 1);
    passes_where(LayerKind::Log, 100, &[replaced, returned, ("replacement believed", 2)]);
}

/// One of four devices was lost, the others were full, and collection gained little: what the host
/// wrote was refused, although it has room.
#[test]
fn log_collects_on_where_all_can_be_read() {
    let report = report(LayerKind::Log, 20_001_511);
    assert!(report.requests > 5_000, "{} requests", report.requests);
}

/// A page of the map waited for being made from another device, which was lost then, although its
/// own had got it meanwhile.
#[test]
fn log_reads_what_a_new_device_has_got_meanwhile() {
    let report = report(LayerKind::Log, 95_002_041);
    assert!(report.requests > 500, "{} requests", report.requests);
}

/// A flush of a zoned device failed, the others closed zones and opened more, and the power was cut
/// before a root said who was lost. The start opened a zone too many on the device.
#[test]
fn log_opens_no_zone_too_many_on_a_device_that_was_lost_for_a_while() {
    let report = report(LayerKind::Log, 6_100_288);
    assert!(report.requests > 1000, "{} requests", report.requests);
}

/// Writes that waited for room had pinned all map pages but three, and lanes behind the one that
/// moves records those: collection could not go on, and writes were refused although there was
/// room. With the three alone it would have gained nothing, for a checkpoint after each seals its
/// rows.
#[test]
fn log_leaves_map_pages_to_collection_while_segments_are_few() {
    let report = report(LayerKind::Log, 8_300_754);
    assert!(report.requests > 20_000, "{} requests", report.requests);
}

/// The journal's device failed, and what was open was sealed. A row of copies listed an older
/// version of what a record had; the row with the newer one was not durable yet, and no root said
/// that the journal is not needed. Recovery found the record, and then the row of copies.
#[test]
fn log_lists_nothing_older_than_records_of_a_journal_that_failed() {
    let report = report(LayerKind::Log, 8_802_837);
    assert!(report.cuts > 100, "{} cuts", report.cuts);
}

/// A device had left, which no superblock said yet. Another was to leave at the next start, and
/// what was left had so little room that rows were to lie on the first one, as on one that is lost.
#[test]
fn log_lets_a_device_be_gone_that_had_left() {
    let report = report(LayerKind::Log, 8_700_489);
    assert!(report.requests > 10_000, "{} requests", report.requests);
}

/// Devices of different lengths, one of which had been lost. Each start took segments that all the
/// others have, because the last root said so, until none was left for what only the journal had.
#[test]
fn log_starts_again_and_again_where_devices_differ_in_length() {
    passes_with(LayerKind::Log, 120_000_031, &[("power cut", 20)]);
}

/// The leaves were as many as there is room for. Putting superpages into order saved none, and the
/// host waited for that.
#[test]
fn mhatl_gathers_logical_superpages_when_leaves_are_scarce() {
    let report = report(LayerKind::Mhatl, 4_001_064);
    assert!(report.requests > 10_000, "{} requests", report.requests);
}

/// Free lines lacked segments that were offline: they were enough as lines, so that nothing was
/// collected, and too short for the host.
#[test]
fn pblk_collects_when_free_lines_lack_segments() {
    passes_with(LayerKind::Pblk, 86, &[("segment went offline", 10)]);
}

#[test]
fn pblk_opens_a_line_that_lacks_a_segment_when_no_other_is_free() {
    passes_with(LayerKind::Pblk, 6_000_735, &[("segment went offline", 1)]);
}
