//! No layer allocates after `new`, because a step must neither fail nor pause for memory.

use crate::common::World;
use hostftl_core::{Event, Layer, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

#[test]
fn no_step_allocates() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(vec![0u8; 64])));
    assert!(counted.count_total > 0, "the counter counts");
    for kind in LayerKind::block_layers() {
        let config = LayerConfig { superpage: 32, ..LayerConfig::new(kind) };
        let disk = vec![0; 300 * 32 * SECTOR];
        let mut world = World::start(&config, disk, Mode::Format, 1);
        let space = world.layer.limits().exported - 64;
        for i in 0..5_000u64 {
            let lba = i * 7_919 % space;
            let id = world.write(lba, vec![1; (1 + i as usize % 40) * SECTOR], i % 31 == 0);
            world.wait(id).unwrap();
            world.read(lba, 40).unwrap();
        }
        assert_eq!(world.allocations, 0, "{kind} allocated in a step");
        world.flush();
        if kind == LayerKind::Scrambler {
            assert!(world.events.contains(&Event::CheckpointDone), "its log turned over");
        } else if kind != LayerKind::Passthrough {
            assert!(world.layer.counters().gc_runs > 0, "the volume turned over");
        }
        world.stop();
    }
}
