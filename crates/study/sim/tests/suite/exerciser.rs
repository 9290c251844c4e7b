//! The virtual driver executes every command: the exerciser's script over one to four drives.

use hostftl_core::{Cause, HostOp, Layer, Payload, Request, Tally, Ticket};
use hostftl_drives::DriveSpec;
use hostftl_layers::exerciser::{ExerciserOp, ExerciserRequest, requests};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};
use hostftl_sim::{HostCosts, Violation, World};

const ROUNDS: u64 = 60;

fn request(id: u64, wish: ExerciserRequest) -> Request {
    let ExerciserRequest { kind, lba, sectors, fua } = wish;
    let data = || Payload::issue(1000 + id as u32, sectors);
    let tally = match kind {
        ExerciserOp::Write => Tally::single(Cause::Host, sectors),
        _ => Tally::default(),
    };
    let op = match kind {
        ExerciserOp::Read => HostOp::Read(data()),
        ExerciserOp::Write => HostOp::Write { data: data(), fua },
        ExerciserOp::Trim => HostOp::Trim { fua },
        ExerciserOp::Zeroes => HostOp::Zeroes { fua },
        ExerciserOp::Flush => HostOp::Flush,
    };
    Request { ticket: Ticket::issue(id), op, lba, sectors: sectors.into(), tally, placement: 0 }
}

/// Creates a world of the exerciser over `count` drives.
fn world(count: usize) -> World<AnyLayer> {
    let spec = DriveSpec::find("hatl-2g").expect("it is built in");
    let devices = vec![spec.device_info(); count];
    let config = LayerConfig::new(LayerKind::Exerciser);
    let plan = AnyLayer::plan(&config, &devices).expect("up to four devices");
    let buffers = (0..plan.buffers).map(|id| Payload::issue(id, plan.buffer_sectors));
    let layer = AnyLayer::new(&config, &devices, buffers.collect(), Mode::Format).unwrap();
    World::new(layer, &vec![spec; count], HostCosts::default()).expect("it starts")
}

/// A world without metadata reports a violation instead of returning zeros.
#[test]
fn metadata_is_kept_only_on_demand() {
    let mut world = world(1);
    world.send(request(0, requests(1).next().expect("a write"))).expect("no law is broken");
    assert_eq!(world.drain(), Err(Violation::Metadata));
}

#[test]
fn every_command_on_every_device() {
    for count in 1..=4 {
        let mut world = world(count);
        world.keep_metadata();
        let mut answered = 0;
        for (id, wish) in requests(ROUNDS).enumerate() {
            while world.credits().requests == 0 {
                assert!(world.advance().expect("no law is broken"), "stalled before {wish:?}");
            }
            world.send(request(id as u64, wish)).expect("no law is broken");
            while let Some(answer) = world.answer() {
                assert_eq!((answer.id, answer.result), (answered, Ok(())));
                answered += 1;
            }
        }
        world.drain().expect("no law is broken");
        world.stop().expect("it stops");
        while let Some(answer) = world.answer() {
            assert_eq!((answer.id, answer.result), (answered, Ok(())));
            answered += 1;
        }
        assert_eq!(answered, requests(ROUNDS).count() as u64);
        assert!(world.layer().idle());
        world.layer().check().expect("the exerciser has everything back");
    }
}
