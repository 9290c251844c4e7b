//! No layer allocates after `new`: a step must neither fail nor pause for memory.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use common::World;
use hostftl_core::{Layer, SECTOR};
use hostftl_layers::{LayerConfig, LayerKind, Mode};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IN_STEP: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IN_STEP.get() {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn no_step_allocates() {
    for kind in [LayerKind::Passthrough, LayerKind::Hard] {
        let config = LayerConfig { superpage: 32, ..LayerConfig::new(kind) };
        let disk = vec![0; 200 * 32 * SECTOR];
        let mut world = World::start(&config, disk, Mode::Format, 1);
        world.watch = |within| IN_STEP.set(within);
        let space = world.layer.limits().exported - 64;
        for i in 0..5_000u64 {
            let lba = i * 7_919 % space;
            let id = world.write(lba, vec![1; (1 + i as usize % 40) * SECTOR], i % 31 == 0);
            world.wait(id).unwrap();
            world.read(lba, 40).unwrap();
        }
        assert_eq!(COUNT.load(Ordering::Relaxed), 0, "{kind} allocated in a step");
        world.flush();
        if kind == LayerKind::Hard {
            assert!(world.layer.counters().gc_runs > 0, "the volume turned over");
        }
        world.stop();
    }
    IN_STEP.set(true);
    drop(std::hint::black_box(vec![0u8; 64]));
    IN_STEP.set(false);
    assert!(COUNT.load(Ordering::Relaxed) > 0, "the counter counts");
}
