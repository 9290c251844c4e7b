//! Run of one seed, from blank devices to the last verified sector.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use hostftl_format::page::crc32c;
use hostftl_layers::{LayerKind, Mode};

use crate::events::Tallies;
use crate::life::{End, Life};
use crate::world::World;

/// Maximum number of lives of a seed.
const LIVES: u32 = 2000;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Report of a seed without violations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Calls of `Layer::step`.
    pub steps: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Requests of the host.
    pub requests: u64,
    /// Counts of named events.
    pub tallies: Tallies,
}

/// Broken guarantee.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Number of the seed.
    pub seed: u64,
    /// Name of the layer.
    pub layer: &'static str,
    /// Step of the seed at which it was detected.
    pub step: u64,
    /// Expected and actual result.
    pub what: String,
}

/// Turns panics of layers into violations without output on the terminal.
pub fn catch_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or(String::new(), |at| format!(" at {at}"));
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        PANIC.with(|cell| cell.borrow_mut().get_or_insert(format!("panic{place}: {text}")).len());
    }));
}

/// Runs one seed. `spare` keeps memory from seed to seed.
///
/// # Errors
/// The first broken guarantee.
pub fn run_seed(
    seed: u64,
    layer: LayerKind,
    trace: bool,
    spare: &mut Option<World>,
) -> Result<Report, Violation> {
    let violation = |what| Violation { seed, layer: layer.name(), step: 0, what };
    let mut world = World::new(seed, layer, trace).map_err(violation)?;
    if let Some(used) = spare.take() {
        world.inherit(used);
    }
    let report = run_world(&mut world, seed, layer)?;
    *spare = Some(world);
    Ok(report)
}

/// Returns a CRC-32C of all inputs and outputs of a layer in one seed, and of its violation, if
/// any. It changes when the behaviour of the layer changes.
pub fn digest_seed(seed: u64, layer: LayerKind) -> u32 {
    let mut world = match World::new(seed, layer, false) {
        Ok(world) => world,
        Err(why) => return crc32c(0, why.as_bytes()),
    };
    world.digest = Some(0);
    let outcome = run_world(&mut world, seed, layer);
    let digest = world.digest.unwrap_or_default();
    outcome.map_or_else(|violation| crc32c(digest.into(), violation.what.as_bytes()), |_| digest)
}

fn run_world(world: &mut World, seed: u64, layer: LayerKind) -> Result<Report, Violation> {
    let violation = |step, what| Violation { seed, layer: layer.name(), step, what };
    PANIC.with(|cell| cell.borrow_mut().take());
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| run_lives(world)));
    let step = world.steps;
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(what)) => return Err(violation(step, what)),
        Err(_) => {
            let what = PANIC.with(|cell| cell.borrow_mut().take()).unwrap_or_default();
            return Err(violation(step, what));
        }
    }
    Ok(Report {
        steps: world.steps,
        cuts: world.cuts,
        requests: world.sent.0,
        tallies: world.tallies,
    })
}

/// Runs lives until the host has done enough, then one without faults that reads everything.
fn run_lives(world: &mut World) -> Result<(), String> {
    let mut mode = Mode::Format;
    world.blank();
    for _ in 0..LIVES {
        let formatting = mode == Mode::Format;
        world.choose_missing(mode);
        match Life::new(world, mode, false)?.run()? {
            End::Refused if world.refused_for_now => {}
            End::Refused if world.enough() => return Ok(()),
            End::Refused => {
                world.blank();
                mode = Mode::Format;
            }
            End::Cut(ready) if formatting && !ready => {}
            End::Cut(_) => mode = Mode::Open,
            End::Stopped if world.enough() => break,
            End::Stopped => mode = Mode::Open,
        }
    }
    if mode == Mode::Format {
        mode = Mode::Open;
    }
    world.choose_missing(mode);
    world.bring_journal();
    world.config.log.map_memory = None; // All pages come, so that all counts can be checked.
    let mut last = Life::new(world, mode, true)?;
    last.demand_audit();
    last.run().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::swarm::Faults;
    use crate::matrix::{Claim, Claims};

    /// Returns whether one of the first seeds shows that passthrough does not tolerate `faults`.
    fn is_seen(faults: Faults) -> bool {
        (0..60).any(|seed| {
            let mut world = World::new(seed, LayerKind::Passthrough, false).expect("a plan");
            world.swarm.faults = faults;
            run_lives(&mut world).is_err()
        })
    }

    #[test]
    fn the_checker_detects_faults_unnoticed_by_passthrough() {
        assert!(!is_seen(Faults { cut: true, ..Faults::default() }), "a cut alone is no fault");
        assert!(is_seen(Faults { lost: true, ..Faults::default() }), "lost write");
        assert!(is_seen(Faults { misdirected: true, ..Faults::default() }), "misdirected write");
        assert!(is_seen(Faults { data_rot: true, ..Faults::default() }), "bit rot");
        assert!(is_seen(Faults { stale: true, ..Faults::default() }), "stale device");
    }

    /// Returns whether one of the first seeds shows `faults` to a host, when passthrough is claimed
    /// to hide them.
    fn is_heard(faults: Faults) -> bool {
        (0..20).any(|seed| {
            let mut world = World::new(seed, LayerKind::Passthrough, false).expect("a plan");
            world.claims = Claims::all(Claim::Kept);
            world.swarm.faults = faults;
            run_lives(&mut world).is_err()
        })
    }

    #[test]
    fn transient_faults_are_reported_without_redundancy() {
        assert!(is_heard(Faults { write_error: true, ..Faults::default() }), "write error");
        assert!(is_heard(Faults { flush_error: true, ..Faults::default() }), "flush error");
        assert!(is_heard(Faults { no_space: true, ..Faults::default() }), "no space");
    }

    /// Returns whether one of the first seeds shows that a log without parity does not tolerate
    /// `faults` of one device, when that is claimed.
    fn is_seen_of_one(faults: Faults) -> bool {
        let world = |seed| World::new(seed, LayerKind::Log, false).expect("a plan");
        let mut worlds = (0..200).map(world).filter(|world| world.swarm.parity == 0).take(40);
        worlds.any(|mut world| {
            world.claims = Claims::all(Claim::Kept);
            world.swarm.victim = Some(0);
            world.swarm.faults = faults;
            run_lives(&mut world).is_err()
        })
    }

    #[test]
    fn a_cut_is_borne_without_parity() {
        assert!(!is_seen_of_one(Faults { cut: true, ..Faults::default() }), "a cut is borne");
    }

    #[test]
    fn dead_and_stale_devices_are_not_tolerated_without_parity() {
        assert!(
            is_seen_of_one(Faults { device_failure: true, ..Faults::default() }),
            "dead device"
        );
        assert!(is_seen_of_one(Faults { stale: true, ..Faults::default() }), "stale device");
    }

    #[test]
    fn corrupting_devices_are_not_tolerated_without_parity() {
        assert!(is_seen_of_one(Faults { read_error: true, ..Faults::default() }), "read error");
        assert!(is_seen_of_one(Faults { data_rot: true, ..Faults::default() }), "bit rot");
        assert!(is_seen_of_one(Faults { lost: true, ..Faults::default() }), "lost write");
        let misdirected = Faults { misdirected: true, ..Faults::default() };
        assert!(is_seen_of_one(misdirected), "misdirected write");
    }

    #[test]
    fn a_seed_fixes_the_whole_run() {
        for layer in [LayerKind::Passthrough, LayerKind::Hard, LayerKind::Exerciser] {
            let run = |spare: &mut Option<World>| {
                let report = run_seed(11, layer, false, spare).expect("nothing is wrong");
                (report.steps, report.cuts, report.requests, report.tallies)
            };
            let mut spare = None;
            let first = run(&mut None);
            run_seed(12, layer, false, &mut spare).expect("nothing is wrong");
            assert_eq!(first, run(&mut spare), "memory of another seed makes no difference");
        }
    }
}
