//! The collection hint through the whole virtual driver: a layer requests it, and the drive's pool
//! returns it.

use hostftl_core::{
    About, Ack, Cause, Command, Counters, Credits, DeviceError, Done, Event, HostOp, Input, Layer,
    Limits, MetaBuf, Nanos, Out, Output, Reply, Request, Tally, Ticket, Token, Verdict,
};
use hostftl_drives::DriveSpec;
use hostftl_format::report;
use hostftl_sim::{HostCosts, World};

/// A layer that writes zeros on request, and requests the collection hint on a flush.
#[derive(Default)]
struct Asker {
    ticket: Option<Ticket>,
    hints: Option<Result<Vec<u64>, DeviceError>>,
}

impl Layer for Asker {
    fn step(&mut self, _: Nanos, input: Input, out: &mut Out) {
        let command = match input {
            Input::Timer => {
                return out.push(Output::Event(Event::Ready { replayed: 0, dropped: 0 }));
            }
            Input::Stop => return out.push(Output::Event(Event::Stopped)),
            Input::Done(done) => return self.done(done, out),
            Input::Host(Request { ticket, op: HostOp::Flush, .. }) => {
                self.ticket = Some(ticket);
                let into = MetaBuf::new(4);
                Command::Report { device: 0, about: About::Collectible, into }
            }
            Input::Host(Request { ticket, op: HostOp::Zeroes { .. }, lba, sectors, .. }) => {
                self.ticket = Some(ticket);
                let gather = [hostftl_core::Piece::zero_sectors(sectors as u32)];
                let tally = Tally::single(Cause::Host, sectors as u32);
                let gather = hostftl_core::Gather::from_iter(gather);
                Command::Program { device: 0, lba, gather, tally, placement: 0 }
            }
            other => unreachable!("{other:?}"),
        };
        out.push(Output::Submit(Token(1), command));
    }

    fn credits(&self) -> Credits {
        Credits { requests: 1, sectors: 1 << 11 }
    }

    fn next_timer(&self) -> Option<Nanos> {
        None
    }

    fn limits(&self) -> Limits {
        Limits { exported: 1 << 16, max_transfer: 1 << 11, align: 8, ack: Ack::Media }
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn map_bytes(&self) -> u64 {
        0
    }

    fn idle(&self) -> bool {
        self.ticket.is_none()
    }

    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn power_off(&mut self) {
        self.ticket.take().map(Ticket::close);
    }
}

impl Asker {
    fn done(&mut self, done: Done, out: &mut Out) {
        if let Command::Report { into, .. } = done.command {
            self.hints = Some(done.result.map(|Verdict { bytes, .. }| {
                let count = bytes as usize / report::UNIT_BYTES;
                (0..count).map(|index| report::unit(into.pages(), index).unwrap()).collect()
            }));
        }
        let ticket = self.ticket.take().expect("something was asked");
        out.push(Output::Reply(Reply { ticket, data: None, result: Ok(()) }));
    }
}

fn ask(world: &mut World<Asker>, op: HostOp, lba: u64, sectors: u64) {
    let (ticket, tally) = (Ticket::issue(0), Tally::default());
    world.send(Request { ticket, op, lba, sectors, tally, placement: 0 }).unwrap();
    while world.answer().is_none() {
        assert!(world.advance().unwrap(), "the layer never answered");
    }
}

/// Fills a drive, overwrites every second indirection unit, and requests the collection hint.
fn hints(drive: &str) -> (u64, Result<Vec<u64>, DeviceError>) {
    let spec = DriveSpec::find(drive).unwrap();
    let unit = u64::from(spec.map_unit);
    let mut world = World::new(Asker::default(), std::slice::from_ref(&spec), HostCosts::default());
    let world = world.as_mut().unwrap();
    for lba in (0..spec.exported / unit).chain((0..spec.exported / unit).step_by(2)) {
        ask(world, HostOp::Zeroes { fua: false }, lba * unit, unit);
    }
    world.drain().unwrap();
    ask(world, HostOp::Flush, 0, 0);
    (unit, world.layer().hints.clone().expect("the drive answered"))
}

#[test]
fn a_drive_reports_its_next_victim() {
    let (unit, hints) = hints("mlc-32g:capacity=64m:hint=true");
    let hints = hints.unwrap();
    assert!(!hints.is_empty(), "the next victims hold something");
    assert!(hints.iter().all(|lba| lba.is_multiple_of(unit)), "first sectors of map units");
    let mut once = hints.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), hints.len(), "each once");
}

#[test]
fn a_drive_without_the_hint_refuses() {
    assert_eq!(hints("mlc-32g:capacity=64m").1, Err(DeviceError::Unsupported));
}
