//! Which victims collection of `log` takes.

use hostftl_core::{Codec, Layer, SECTOR};
use hostftl_layers::policy::GcPolicy;
use hostftl_layers::{LayerConfig, LayerKind, Mode};

use crate::common::World;
use crate::common::churn::{Random, data};

/// What a host never overwrites is the oldest for ever; a policy that would take that gains nothing
/// from it, and the host still gets the room that is elsewhere.
#[test]
fn what_is_wholly_live_does_not_stand_in_the_way_of_other_victims() {
    let mut config = LayerConfig { superpage: 64, ..LayerConfig::new(LayerKind::Log) };
    (config.log.compress, config.log.gc) = (Codec::Raw, GcPolicy::Fifo);
    let mut world = World::start(&config, vec![0; 400 * 64 * SECTOR], Mode::Format, 1);
    let blocks = world.layer.limits().exported / 8;
    let mut random = Random(1);
    for version in 0..6 * blocks {
        let rest = blocks / 4 + random.below(blocks - blocks / 4);
        let block = if version < blocks { version } else { rest };
        let id = world.write(block * 8, data(block * 8, 8, version), false);
        assert_eq!(world.wait(id), Ok(()), "write {version} of a volume that has room");
    }
    assert!(world.read(0, 8) == Ok(data(0, 8, 0)), "what was never overwritten");
    world.stop();
}
