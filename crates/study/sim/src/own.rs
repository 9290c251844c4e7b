//! Ageing a drive by the workload itself: it is repeated over its own span, by the clock that only
//! counts, until write amplification settles.
//!
//! A *span* here is as many whole rounds of the workload as write at least what is exported. Write
//! amplification has settled when that of a span differs from that of the span before by less than
//! [`SETTLED`]; after [`MOST_SPANS`] spans, or [`MOST_ROUNDS`] rounds, it counts as not reached.

use hostftl_core::Layer;
use hostftl_drives::Model;
use hostftl_trace::Op;

use crate::front::Front;
use crate::player::{End, Pace, PlayError, Player};
use crate::warm::{Ageing, Warmed};
use crate::world::World;

/// Write amplification has settled when a span changes it by less than this.
pub const SETTLED: f64 = 0.02;
/// Spans after which it counts as not reached.
pub const MOST_SPANS: u64 = 12;
/// Rounds after which it counts as not reached, however little they write.
const MOST_ROUNDS: u64 = 4096;
/// Requests that are under way at once.
const DEPTH: u32 = 32;

/// Repeats the workload of `ageing`, without its reads, until it makes no difference any more.
pub(crate) fn repeat<L: Layer, D: Model>(
    world: &mut World<L, D>,
    ageing: &Ageing,
    warmed: &mut Warmed,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<(), PlayError> {
    let mut front = Front::new(world);
    let (mut rounds, mut spans, mut former) = (0, 0, None);
    let (mut written, mut programmed) = (0, world.sample().programmed);
    while rounds < MOST_ROUNDS && spans < MOST_SPANS && !warmed.reached {
        let changes = |record: &Result<_, _>| !matches!(record, Ok(it) if is_read(it));
        let records = (ageing.workload)().map_err(PlayError::Trace)?.filter(changes);
        let mut player = Player::new(records, Pace::Closed(DEPTH), world.now());
        if player.play(world, &mut front, |_| cancelled())? == End::Cancelled {
            warmed.cancelled = true;
            break;
        }
        rounds += 1;
        let now = front.totals().written_sectors;
        if now == 0 {
            // What writes nothing changes nothing.
            warmed.reached = true;
            break;
        }
        if now - written < ageing.exported {
            continue;
        }
        let done = world.sample().programmed;
        let waf = (done - programmed) as f64 / (now - written) as f64;
        warmed.reached = former.is_some_and(|former: f64| (waf - former).abs() < SETTLED * former);
        (former, written, programmed, spans) = (Some(waf), now, done, spans + 1);
    }
    let totals = front.totals();
    warmed.rounds = Some(rounds);
    warmed.overwrites = Some(totals.written_sectors as f64 / ageing.exported as f64);
    warmed.asked += totals;
    Ok(())
}

fn is_read(record: &hostftl_trace::Record) -> bool {
    record.op == Op::Read
}
