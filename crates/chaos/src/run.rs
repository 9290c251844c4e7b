//! One seed, from blank devices to the last verified sector.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};

use hostftl_layers::{LayerKind, Mode};

use crate::events::Tallies;
use crate::life::{End, Life};
use crate::world::World;

/// A seed has at most so many lives.
const LIVES: u32 = 2000;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What a seed that found nothing wrong did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Calls of `Layer::step`.
    pub steps: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Requests of the host.
    pub requests: u64,
    /// Named events.
    pub tallies: Tallies,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// The layer's name.
    pub layer: &'static str,
    /// The step of the seed at which it showed.
    pub step: u64,
    /// What was expected and what was found.
    pub what: String,
}

/// Makes panics of layers into violations instead of text on the terminal.
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
/// The first promise that was broken.
pub fn run_seed(
    seed: u64,
    layer: LayerKind,
    trace: bool,
    spare: &mut Option<World>,
) -> Result<Report, Violation> {
    let violation = |step, what| Violation { seed, layer: layer.name(), step, what };
    let mut world = World::new(seed, layer, trace).map_err(|what| violation(0, what))?;
    if let Some(used) = spare.take() {
        world.inherit(used);
    }
    PANIC.with(|cell| cell.borrow_mut().take());
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| live(&mut world)));
    let step = world.steps;
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(what)) => return Err(violation(step, what)),
        Err(_) => {
            let what = PANIC.with(|cell| cell.borrow_mut().take()).unwrap_or_default();
            return Err(violation(step, what));
        }
    }
    let report = Report {
        steps: world.steps,
        cuts: world.cuts,
        requests: world.sent.0,
        tallies: world.tallies,
    };
    *spare = Some(world);
    Ok(report)
}

/// Life after life, until the host has done enough; then one that reads everything in peace.
fn live(world: &mut World) -> Result<(), String> {
    let mut mode = Mode::Format;
    world.blank();
    for _ in 0..LIVES {
        let formatting = mode == Mode::Format;
        match Life::new(world, mode, false)?.run()? {
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
    let mut last = Life::new(world, mode, true)?;
    last.demand_audit();
    last.run().map(|_| ())
}
