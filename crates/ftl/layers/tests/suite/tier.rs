//! A tier without its fast device.

use hostftl_core::{
    Command, DeviceError, DeviceInfo, DeviceSet, Done, Event, HostError, HostOp, Input, Layer, Out,
    Output, Payload, Request, Tally, Ticket, Token, Verdict,
};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};

/// A driver with devices that answer at once and have no content. It records the commands.
struct World {
    layer: AnyLayer,
    gone: Option<u8>,
    /// Whether to stop the layer during a commit when all requests are answered.
    stops: bool,
    reads: Vec<(u8, u64)>,
    events: Vec<Event>,
    result: Option<Result<(), HostError>>,
    answers: u32,
    /// Number of memory allocations in steps of the layer.
    allocations: u64,
}

impl World {
    fn new() -> Self {
        let config = LayerConfig::new(LayerKind::Tier);
        let infos = [DeviceInfo::block(4096, 8), DeviceInfo::block(65_536 + 16, 8)];
        let plan = AnyLayer::plan(&config, &infos).unwrap();
        let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors));
        let layer = AnyLayer::new(&config, &infos, buffers.collect(), Mode::Format).unwrap();
        let (reads, events) = (Vec::new(), Vec::new());
        let (result, answers, allocations) = (None, 0, 0);
        let (gone, stops) = (None, false);
        let mut world = World { layer, gone, stops, reads, events, result, answers, allocations };
        world.run(Input::Timer);
        assert!(matches!(world.events[..], [Event::Ready { .. }]));
        world
    }

    fn run(&mut self, input: Input) {
        self.run_all([input]);
    }

    /// Passes all inputs to the layer before any of its commands complete. No deadline expires.
    fn run_all<const N: usize>(&mut self, inputs: [Input; N]) {
        let (mut out, mut flying) = (Out::new(), Vec::<(Token, Command)>::new());
        let mut inputs = inputs.into_iter();
        self.step(inputs.next().expect("one at least"), &mut out);
        loop {
            for output in out.drain() {
                match output {
                    Output::Submit(token, command) => flying.push((token, command)),
                    Output::Event(event) => self.events.push(event),
                    Output::Reclaim(payload) => drop(payload.surrender()),
                    Output::Reply(reply) => {
                        reply.ticket.close();
                        reply.data.map(Payload::surrender);
                        self.result = Some(reply.result);
                        self.answers += 1;
                    }
                }
            }
            if let Some(input) = inputs.next() {
                self.step(input, &mut out);
                continue;
            }
            let is_flush = |(_, command): &(_, _)| matches!(command, Command::Flush { .. });
            if self.stops && flying.iter().any(is_flush) && self.result.is_some() {
                self.stops = false;
                self.step(Input::Stop, &mut out);
                continue;
            }
            // With `stops`, flushes complete last, so that the stop finds one in progress.
            let other = flying.iter().rposition(|it| !self.stops || !is_flush(it));
            let next = other.or(flying.len().checked_sub(1));
            let input = match next.map(|at| flying.remove(at)) {
                Some((token, command)) => {
                    if let Command::Read { device, lba, .. } = command {
                        self.reads.push((device, lba));
                    }
                    let gone = command.device().is_some() && command.device() == self.gone;
                    let result =
                        if gone { Err(DeviceError::Removed) } else { Ok(Verdict::default()) };
                    Input::Done(Done { token, command, result })
                }
                None if self.layer.next_timer() == Some(0) => Input::Timer,
                None => return,
            };
            self.step(input, &mut out);
        }
    }

    fn step(&mut self, input: Input, out: &mut Out) {
        let layer = &mut self.layer;
        self.allocations += allocation_counter::measure(|| layer.step(0, input, out)).count_total;
    }

    fn ask(&mut self, op: HostOp, lba: u64, sectors: u64) -> Result<(), HostError> {
        let tally = Tally::single(hostftl_core::Cause::Host, sectors as u32);
        let ticket = Ticket::issue(7);
        self.run(Input::Host(Request { ticket, op, lba, sectors, tally, placement: 0 }));
        self.result.take().expect("an answer")
    }

    fn read(&mut self, lba: u64) -> Result<(), HostError> {
        self.reads.clear();
        self.ask(HostOp::Read(Payload::issue(99, 8)), lba, 8)
    }

    fn write(&mut self, lba: u64) -> Result<(), HostError> {
        self.ask(HostOp::Write { data: Payload::issue(99, 8), fua: false }, lba, 8)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.layer.power_off();
    }
}

#[test]
fn without_the_fast_device_clean_pages_are_read_and_dirty_ones_reported() {
    let mut world = World::new();
    assert_eq!(world.read(0), Ok(()), "page 0 is here and clean");
    for lba in [64, 96, 320] {
        assert_eq!(world.write(lba), Ok(()), "a page that is dirty");
    }
    assert_eq!(world.layer.lost_ranges(), [], "nothing is lost yet");
    world.gone = Some(0);
    assert_eq!(world.read(64), Err(HostError::Io), "only the fast device had it");
    assert_eq!(world.layer.members().lost(), DeviceSet::single(0));
    assert_eq!(world.layer.lost_ranges(), [(64, 64), (320, 32)]);
    assert_eq!(world.read(8), Ok(()));
    assert_eq!(world.reads, [(1, 8)], "the slow device has it");
    assert_eq!(world.read(96), Err(HostError::Io));
    assert_eq!(world.read(4096), Ok(()), "pages that were never cached");
    assert_eq!(world.write(4096), Err(HostError::Io), "nothing is written any more");
    assert_eq!(world.ask(HostOp::Flush, 0, 0), Err(HostError::Io));
}

#[test]
fn without_the_slow_device_cached_pages_are_read() {
    let mut world = World::new();
    assert_eq!(world.write(64), Ok(()));
    world.gone = Some(1);
    assert_eq!(world.read(4096), Err(HostError::Io));
    assert_eq!(world.layer.members().lost(), DeviceSet::single(1));
    assert_eq!(world.read(64), Ok(()));
    assert_eq!(world.layer.lost_ranges(), [(0, 64), (96, 65_536 - 96)]);
}

fn flush() -> Input {
    let (ticket, tally) = (Ticket::issue(7), Tally::default());
    Input::Host(Request { ticket, op: HostOp::Flush, lba: 0, sectors: 0, tally, placement: 0 })
}

#[test]
fn requests_during_a_commit_wait_for_no_deadline() {
    let mut world = World::new();
    world.write(64).unwrap();
    let before = world.answers;
    world.run_all([flush(), flush()]);
    assert_eq!(world.answers - before, 2, "the second flush needs a commit of its own");
}

#[test]
fn a_stop_during_a_commit_waits_for_no_deadline() {
    let mut world = World::new();
    for page in 0..400 {
        world.stops |= page == 101;
        if page > 101 && !world.stops {
            break;
        }
        world.write(page * 32).unwrap();
        if page == 100 {
            world.ask(HostOp::Flush, 0, 0).unwrap();
        }
    }
    assert!(!world.stops, "a commit for cleaned slots was in flight");
    assert!(matches!(world.events.last(), Some(Event::Stopped)), "{:?}", world.events);
}

#[test]
fn no_step_allocates() {
    let mut world = World::new();
    for at in 0..4000_u64 {
        let lba = at * 7919 % 8000 * 8;
        let answer = match at % 7 {
            0 => world.ask(HostOp::Flush, 0, 0),
            1 | 2 => world.read(lba),
            3 => world.ask(HostOp::Trim { fua: true }, lba, 640),
            _ => world.write(lba),
        };
        assert_eq!(answer, Ok(()));
    }
    assert_eq!(world.layer.check(), Ok(()));
    assert!(world.layer.counters().gc_runs > 500, "slots were cleaned");
    assert_eq!(world.allocations, 0);
}
