//! Ageing a drive before a run, so that its collection is at work as on a drive in use.

use std::str::FromStr;

use hostftl_core::{Layer, SECTORS_PER_BLOCK};
use hostftl_trace::{Op, Record, TraceError};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::front::{Front, Totals};
use crate::player::{End, Pace, PlayError, Player};
use crate::work::Work;
use crate::world::World;

/// Requests under way while a drive is aged.
const DEPTH: u32 = 32;
/// Write amplification is steady when an overwrite of the space changes it by less than this.
const STEADY: f64 = 0.01;
/// Overwrites of the space after which it counts as not reached.
const MOST_ROUNDS: u32 = 16;

/// How a drive is aged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Warm {
    /// Not at all: the drive is empty.
    #[default]
    None,
    /// Everything is written once, in order.
    Fill,
    /// Filled, then overwritten at random in 4 KiB blocks until its write amplification is steady.
    Steady,
}

impl FromStr for Warm {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "none" => Ok(Warm::None),
            "fill" => Ok(Warm::Fill),
            "steady" => Ok(Warm::Steady),
            _ => Err(()),
        }
    }
}

/// What ageing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warmed {
    pub warm: Warm,
    pub reached: bool,
    pub asked: Totals,
    pub cancelled: bool,
}

impl Warmed {
    /// The name in reports.
    pub fn name(&self) -> &'static str {
        match (self.warm, self.reached) {
            (Warm::None, _) => "none",
            (Warm::Fill, _) => "fill",
            (Warm::Steady, true) => "steady",
            (Warm::Steady, false) => "steady (not reached)",
        }
    }
}

/// Ages `world`, of which the host uses the first `exported` sectors.
///
/// # Errors
/// What the layer or a drive broke.
pub fn warm<L: Layer>(
    world: &mut World<L>,
    warm: Warm,
    exported: u64,
    seed: u64,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<Warmed, PlayError> {
    let mut warmed = Warmed { warm, reached: false, asked: Totals::default(), cancelled: false };
    if warm == Warm::None {
        return Ok(warmed);
    }
    let step = u64::from(world.layer().limits().max_transfer);
    let fill = (0..exported.div_ceil(step)).map(|i| write(i * step, step.min(exported - i * step)));
    play(world, fill, &mut warmed, cancelled)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x5eed);
    let mut former = 0.0;
    for _ in 0..MOST_ROUNDS {
        if warm == Warm::Fill || warmed.cancelled || warmed.reached {
            break;
        }
        let before = Work::of(world);
        let blocks = exported / u64::from(SECTORS_PER_BLOCK);
        let round = (0..blocks).map(|_| {
            let block = rng.random_range(0..blocks);
            write(block * u64::from(SECTORS_PER_BLOCK), SECTORS_PER_BLOCK.into())
        });
        play(world, round, &mut warmed, cancelled)?;
        let waf = Work::of(world).since(&before).programmed() as f64 / exported as f64;
        warmed.reached = (waf - former).abs() < STEADY * former;
        former = waf;
    }
    Ok(warmed)
}

fn write(lba: u64, sectors: u64) -> Record {
    Record::new(0, Op::Write, 0, lba, sectors)
}

/// Plays `records` as fast as they go, and lets everything end.
fn play<L: Layer>(
    world: &mut World<L>,
    records: impl Iterator<Item = Record>,
    warmed: &mut Warmed,
    cancelled: &mut dyn FnMut() -> bool,
) -> Result<(), PlayError> {
    let mut front = Front::new(world.layer().limits(), world.now());
    let records = records.map(Ok::<_, TraceError>);
    let mut player = Player::new(records, Pace::Closed(DEPTH), world.now());
    let end = player.play(world, &mut front, |_| cancelled())?;
    warmed.cancelled |= end == End::Cancelled;
    warmed.asked += front.totals();
    world.drain()?;
    Ok(())
}
