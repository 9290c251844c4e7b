//! Ageing of a drive before a run, so that its garbage collection works as on a drive in use.
//!
//! All requests pass through layer and drive with [`Clock::Counts`]: commands complete immediately,
//! and the resulting state is the same as with modelled durations.

use hostftl_core::{Layer, SECTORS_PER_BLOCK};
use hostftl_drives::{Clock, Model, Soon};
use hostftl_trace::{Compressibility, Op, Record, TraceError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::costs::payload_name;
use crate::error::Violation;
use crate::front::{self, Totals};
use crate::player::PlayError;
use crate::self_aging;
use crate::state::{How, Warm};
use crate::world::World;

/// Number of evaluations of write amplification per overwrite of the space.
const LOOKS: usize = 8;
/// Relative change per overwrite of the space below which write amplification is steady.
const STEADY: f64 = 0.01;
/// Maximum number of overwrites of the space.
const MOST_OVERWRITES: usize = 16;
/// Number of writes that are drawn at once, so that the drive's state for them can be prefetched.
const AHEAD: usize = 64;
/// Number of requests between two checks for cancellation.
const GLANCE: u64 = 4096;

/// Record of ageing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmed {
    /// Requested state.
    pub warm: Warm,
    /// Whether write amplification became steady.
    pub reached: bool,
    /// Number of overwrites of the exported capacity after the fill.
    pub overwrites: Option<f64>,
    /// Number of repetitions of the workload.
    pub rounds: Option<u64>,
    /// Totals of the requests to the layer.
    pub asked: Totals,
    /// Whether it was cancelled.
    pub cancelled: bool,
}

impl Warmed {
    /// Creates an empty record.
    fn new(warm: Warm) -> Self {
        let asked = Totals::default();
        Warmed { warm, reached: false, overwrites: None, rounds: None, asked, cancelled: false }
    }

    /// Returns the name in reports.
    pub fn name(&self) -> String {
        let settles = matches!(self.warm.how, How::Steady | How::Own);
        if settles && !self.reached {
            format!("{} (not reached)", self.warm)
        } else {
            self.warm.to_string()
        }
    }
}

/// Parameters of ageing.
pub struct Ageing<'a> {
    /// Requested state.
    pub warm: Warm,
    /// Exported sectors.
    pub exported: u64,
    /// Indirection unit of the drive in sectors.
    pub map_unit: u32,
    /// Maximum number of spans when the workload itself ages the drive.
    pub most_spans: u64,
    /// Seed of random choices.
    pub seed: u64,
    /// Compressibility of the data that fills the drive and overwrites it at random; `None` for
    /// incompressible data.
    pub compress: Option<Compressibility>,
    /// Opens the workload's requests from the start.
    pub workload: &'a dyn Fn() -> Result<Records<'a>, TraceError>,
}

/// Requests of a workload.
pub type Records<'a> = Box<dyn Iterator<Item = Result<Record, TraceError>> + 'a>;

/// Called with the share of ageing that is done; returns whether to stop.
pub type Glance<'a> = &'a mut dyn FnMut(f64) -> bool;

/// Ages `world`.
///
/// # Errors
/// A violation by the layer, a failed request, or a workload that can't be read again.
pub fn warm<L: Layer, D: Model>(
    world: &mut World<L, D>,
    ageing: &Ageing,
    glance: Glance,
) -> Result<Warmed, PlayError> {
    let Ageing { warm, exported, .. } = *ageing;
    let mut warmed = Warmed::new(warm);
    if warm.is_new() {
        return Ok(warmed);
    }
    world.drain()?;
    world.set_clock(Clock::Counts);
    let step = u64::from(world.layer().limits().max_transfer);
    let filled = warm.filled(exported);
    let Ageing { compress, seed, .. } = *ageing;
    // A fill is one overwrite, and a settled state takes several more.
    let most = match warm.how {
        How::Steady => MOST_OVERWRITES as u64 + 1,
        How::Own => ageing.most_spans + 1,
        _ => 1,
    };
    let whole = exported * most;
    let mut host = Host { world, warmed: &mut warmed, compress, seed, whole, glance };
    for lba in (0..filled).step_by(step as usize) {
        if host.write(lba, step.min(filled - lba) as u32)? {
            break;
        }
    }
    if warm.how == How::Steady && !host.warmed.cancelled {
        let block = SECTORS_PER_BLOCK;
        let has_map = host.world.layer().map_bytes() > 0;
        let grain = if has_map { block } else { block.max(ageing.map_unit) };
        overwrite(&mut host, filled, grain)?;
    }
    if warm.how == How::Own && !warmed.cancelled {
        self_aging::repeat(world, ageing, &mut warmed, glance)?;
    }
    world.drain()?;
    world.set_clock(Clock::Timed);
    Ok(warmed)
}

/// Overwrites random units of `grain` sectors until write amplification is steady.
fn overwrite<L: Layer, D: Model>(
    host: &mut Host<L, D>,
    exported: u64,
    grain: u32,
) -> Result<(), Violation> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(host.seed ^ 0x5eed);
    let units = exported / u64::from(grain);
    let mut programmed = vec![host.world.sample().programmed];
    for look in 1..=MOST_OVERWRITES * LOOKS {
        let share = |look: usize| units * look as u64 / LOOKS as u64;
        let mut left = share(look) - share(look - 1);
        while left > 0 {
            let mut lbas = [0; AHEAD];
            let lbas = &mut lbas[..left.min(AHEAD as u64) as usize];
            lbas.fill_with(|| rng.random_range(0..units) * u64::from(grain));
            left -= lbas.len() as u64;
            host.world.look_ahead(lbas, Soon::Later);
            host.world.look_ahead(lbas, Soon::Next);
            for &mut lba in lbas {
                if host.write(lba, grain)? {
                    return Ok(());
                }
            }
        }
        programmed.push(host.world.sample().programmed);
        host.warmed.overwrites = Some(look as f64 / LOOKS as f64);
        if look >= 2 * LOOKS {
            let last = (programmed[look] - programmed[look - LOOKS]) as f64;
            let former = (programmed[look - LOOKS] - programmed[look - 2 * LOOKS]) as f64;
            if (last - former).abs() < STEADY * former {
                host.warmed.reached = true;
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A host that sends writes in order and checks only for failures.
struct Host<'a, L: Layer, D: Model> {
    world: &'a mut World<L, D>,
    warmed: &'a mut Warmed,
    compress: Option<Compressibility>,
    seed: u64,
    /// Sectors that ageing writes at most.
    whole: u64,
    glance: Glance<'a>,
}

impl<L: Layer, D: Model> Host<'_, L, D> {
    /// Writes a range. Returns true if ageing was cancelled.
    fn write(&mut self, lba: u64, sectors: u32) -> Result<bool, Violation> {
        loop {
            let credits = self.world.credits();
            if credits.requests > 0 && credits.sectors >= sectors {
                break;
            }
            if !self.world.advance()? {
                return Err(Violation::Stall { now: self.world.now(), outstanding: 1 });
            }
        }
        let asked = &mut self.warmed.asked;
        asked.issued += 1;
        asked.transfers += 1;
        asked.written_sectors += u64::from(sectors);
        let saved = self.compress.map(|it| it.draw(self.seed, lba, asked.issued));
        let payload = payload_name(0, saved);
        self.world.send(front::request(0, payload, Op::Write, lba, sectors.into()))?;
        while let Some(answer) = self.world.answer() {
            answer.result.map_err(|error| Violation::Request { lba, error })?;
        }
        if self.warmed.asked.issued.is_multiple_of(GLANCE) {
            let share = self.warmed.asked.written_sectors as f64 / self.whole as f64;
            self.warmed.cancelled = (self.glance)(share.min(1.0));
        }
        Ok(self.warmed.cancelled)
    }
}
