//! The drive allocates nothing after it was made, whatever it is asked.

#[allow(dead_code, reason = "every test uses a part of the rig")]
mod rig;

use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_core::Layer;
use hostftl_drives::DriveSpec;
use hostftl_drives::pool::{Frontiers, Pool, PoolSpec};
use rig::Rig;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Runs a step and counts what it allocates.
fn counted(step: &mut dyn FnMut()) {
    let found = allocation_counter::measure(step);
    COUNT.fetch_add(found.count_total, Ordering::Relaxed);
}

#[test]
fn no_step_allocates() {
    let text = include_str!("../../../stacks/drives/hatl-2g.toml").replace("= 2048", "= 64");
    let text = text.replace("percent = 7", "percent = 25");
    let text = text.replace("per_superblock = 128", "per_superblock = 16");
    let spec = DriveSpec::parse(&text, "small").expect("a possible drive");
    let mut rig = Rig::new(&spec);
    rig.around = counted;
    for i in 0..40_000u64 {
        let lba = i * 7_919 % (spec.exported - 600);
        match i % 50 {
            0 => rig.send_trim(lba, 600),
            1 => rig.read(lba, 300),
            _ => rig.send_write(lba, 1 + (i % 500) as u32),
        }
    }
    rig.drain();
    assert_eq!(COUNT.load(Ordering::Relaxed), 0, "the drive allocated in a step");
    assert!(rig.ftl.counters().gc_runs > 100, "the drive turned over");
    rig.finish();
}

#[test]
fn no_write_to_a_pool_allocates() {
    for gc in ["greedy", "fifo", "random", "d-choices:10", "cost-benefit"] {
        let gc = gc.parse().expect("a policy");
        let (frontiers, logical) = (Frontiers::Separate, 3_000);
        let spec = PoolSpec { segments: 64, pages: 60, logical, gc, frontiers, seed: 1 };
        let mut pool = Pool::new(spec);
        let found = allocation_counter::measure(|| {
            for i in 0..40_000 {
                match i % 50 {
                    0 => pool.trim(i * 7_919 % logical),
                    _ => pool.write(i * 7_907 % logical, &mut |_| {}),
                }
            }
        });
        assert_eq!(found.count_total, 0, "{gc} allocated");
        assert!(pool.work().erases > 300, "{gc} turned over");
    }
}
