//! A drive allocates nothing after it was made.

use std::collections::VecDeque;

use hostftl_core::{Cause, Command, Gather, Payload, Piece, Tally, Target};
use hostftl_drives::{Clock, Drive, DriveSpec};

/// Commands in progress at once.
const DEPTH: u32 = 64;

fn command(i: u64, lba: u64, payload: &mut Payload) -> Command {
    let sectors = 1 + (i % 300) as u32;
    match i % 50 {
        0 => Command::Reset { device: 0, lba, sectors: 600 },
        1 => Command::Flush { device: 0 },
        2..12 => {
            let into = Target::Data(payload.view_mut_sectors(0, sectors));
            Command::Read { device: 0, lba, into, cause: Cause::Host }
        }
        _ => {
            let tally = Tally::single(Cause::Host, sectors);
            let gather = Gather::from_iter([Piece::zero_sectors(sectors)]);
            Command::Program { device: 0, lba, gather, tally, placement: 0 }
        }
    }
}

/// Runs `count` commands from `now` on. Returns the time at which the last one ends.
fn play(drive: &mut Drive, mut now: u64, count: u64, payload: &mut Payload) -> u64 {
    let exported = drive.spec().exported;
    let mut ended = VecDeque::with_capacity(1024);
    let mut free: Vec<u32> = (0..DEPTH).collect();
    for i in 0..count {
        while free.is_empty() {
            now = drive.advance(u64::MAX, &mut ended);
            free.extend(ended.drain(..).map(|over| over.slot));
        }
        let slot = free.pop().expect("one is free");
        let command = command(i, i * 7_919 % (exported - 600), payload);
        if drive.submit(now, slot, &command).is_some() {
            free.push(slot);
        }
        command.void();
    }
    while drive.next_at().is_some() {
        now = drive.advance(u64::MAX, &mut ended);
        ended.clear();
    }
    now
}

#[test]
fn no_command_allocates() {
    for name in DriveSpec::names().filter(|name| *name != "open-channel") {
        let spec = DriveSpec::find(&format!("{name}:capacity=512m:over_provisioning_percent=60"));
        let mut drive = Drive::new(&spec.expect("a possible drive")).expect("it fits");
        let mut now = 0;
        for clock in [Clock::Timed, Clock::Counts] {
            drive.set_clock(clock);
            let mut payload = Payload::issue(0, 1024);
            now = play(&mut drive, now, 20_000, &mut payload);
            let found = allocation_counter::measure(|| {
                now = play(&mut drive, now, 20_000, &mut payload);
            });
            // The two lists of `play` itself.
            assert!(found.count_total <= 2, "{name} allocated {} times", found.count_total);
            payload.void();
        }
        assert!(drive.work().flash.erases > 0, "{name} turned over");
        assert_eq!(drive.check(), Ok(()), "{name}");
    }
}
