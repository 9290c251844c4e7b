//! Ages a drive with the workload itself: the workload is repeated in logical time until write
//! amplification settles.
//!
//! A *span* is the smallest number of whole repetitions that write at least the exported capacity.
//! Write amplification has settled if it differs from that of the previous span by less than
//! [`SETTLED`]. After the maximum number of spans, or [`MOST_ROUNDS`] repetitions, ageing ends
//! without having settled.

use hostftl_core::Layer;
use hostftl_drives::Model;
use hostftl_trace::Op;

use crate::front::Front;
use crate::player::{End, Pace, PlayError, Player};
use crate::warm::{Ageing, Glance, Warmed};
use crate::world::World;

/// Relative change per span below which write amplification has settled.
pub const SETTLED: f64 = 0.02;
/// Maximum number of spans, unless a study sets another.
pub const MOST_SPANS: u64 = 12;
/// Maximum number of repetitions, which bounds workloads with few writes.
const MOST_ROUNDS: u64 = 4096;
/// Queue depth.
const DEPTH: u32 = 32;

/// Repeats the workload of `ageing` without its reads until write amplification settles.
pub(crate) fn repeat<L: Layer, D: Model>(
    world: &mut World<L, D>,
    ageing: &Ageing,
    warmed: &mut Warmed,
    glance: Glance,
) -> Result<(), PlayError> {
    let mut front = Front::new(world);
    let (mut rounds, mut spans, mut former) = (0, 0, None);
    let (mut written, mut programmed) = (0, world.sample().programmed);
    while rounds < MOST_ROUNDS && spans < ageing.most_spans && !warmed.reached {
        let changes = |record: &Result<_, _>| !matches!(record, Ok(it) if is_read(it));
        let records = (ageing.workload)().map_err(PlayError::Trace)?.filter(changes);
        let mut player = Player::new(records, Pace::Closed(DEPTH), world.now());
        // The fill is one span more.
        let (before, most) = ((1 + spans) as f64, (1 + ageing.most_spans) as f64);
        if player.play(world, &mut front, |_| glance(before / most))? == End::Cancelled {
            warmed.cancelled = true;
            break;
        }
        rounds += 1;
        let now = front.totals().written_sectors;
        if now == 0 {
            // Without writes the state of the drive does not change.
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
