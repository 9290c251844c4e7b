//! Compares the write amplification of placement rules and victim policies with theory. `cargo run
//! --release -p hostftl-lab-placement --example placement [SEEDS [RULE…]]`; docs/STUDIES.md has the
//! tables.
//!
//! A log of 1,024 segments plus spare segments is filled and then overwritten twelve times. The
//! last six overwrites count. The optimum is the lowest write amplification of separate FIFO pools,
//! one for each rate ([`theory::separated`]). It is computed without the pages that are kept free,
//! and only for loads whose rates do not change.

#[path = "../../../ftl/layers/examples/dice/mod.rs"]
mod dice;

use dice::Dice;
use hostftl_lab_placement::{
    ByFrequency, ByHazard, ByRate, Collector, Future, LogSpec, Placement, Rates, SegmentLog, SepBit,
};
use hostftl_sim::theory::{self, Class};

const BLOCKS: u32 = 1 << 17;
const SEGMENT: u32 = 128;
/// Number of overwrites. The second half is measured.
const ROUNDS: u32 = 12;
/// Number of classes of every rule. All rules get the same number of segments, sized for this many
/// classes. A rule with fewer classes gains nothing, and its open segments are its own loss.
const CLASSES: u8 = 12;
const SPARES: [u32; 3] = [70, 150, 250];
/// Largest ratio between the rates of two ranks in one class.
const STEP: f64 = 1.05;

/// Distribution of the writes over the blocks.
#[derive(Clone, Copy)]
enum Load {
    /// The first number is the share of the writes that goes to the share of the blocks in the
    /// second.
    Skewed(f64, f64),
    /// Zipf distribution with this exponent.
    Zipf(f64),
    /// 90/10; the hot tenth is replaced by another after every second overwrite.
    Moving,
    /// 90/10 with two alternating hot tenths, each hot for half an overwrite.
    Turns,
    /// 90/10; each half overwrite is preceded by a sequential scan of an eighth of the blocks.
    Scans,
}

const LOADS: [(&str, Load); 8] = [
    ("uniform", Load::Skewed(1.0, 1.0)),
    ("80/20", Load::Skewed(0.8, 0.2)),
    ("90/10", Load::Skewed(0.9, 0.1)),
    ("zipf 0.99", Load::Zipf(0.99)),
    ("zipf 1.0", Load::Zipf(1.0)),
    ("90/10, moves", Load::Moving),
    ("90/10, by turns", Load::Turns),
    ("90/10 and scans", Load::Scans),
];

/// A rule: its name, its victim policy, and its constructor, which receives all writes. A star in
/// the name means that blocks take their age from their segment, as in `log`.
type Rule = (&'static str, &'static str, fn(&[u32]) -> Box<dyn Placement>);

const RULES: [Rule; 11] = [
    ("sepbit", "cost-benefit", |_| Box::<SepBit>::default()),
    ("sepbit", "declining-cost", |_| Box::<SepBit>::default()),
    ("frequency", "cost-benefit", |_| Box::new(ByFrequency::new(BLOCKS))),
    ("frequency", "declining-cost", |_| Box::new(ByFrequency::new(BLOCKS))),
    ("hazard", "cost-benefit", |_| Box::new(ByHazard::new(BLOCKS))),
    ("hazard", "declining-cost", |_| Box::new(ByHazard::new(BLOCKS))),
    ("sepbit*", "declining-cost", |_| Box::<SepBit>::default()),
    ("rate", "declining-cost", |_| Box::new(ByRate::new(BLOCKS))),
    ("rate*", "declining-cost", |_| Box::new(ByRate::new(BLOCKS))),
    ("rates", "declining-cost", |writes| Box::new(Rates::of(writes, BLOCKS))),
    ("future", "declining-cost", |writes| Box::new(Future::of(writes, BLOCKS))),
];

fn main() {
    let seeds = std::env::args().nth(1).map_or(3, |word| word.parse().expect("a number of seeds"));
    let wanted: Vec<String> = std::env::args().skip(2).collect();
    let is_wanted = |rule: &str| wanted.is_empty() || wanted.iter().any(|word| word == rule);
    let rules: Vec<Rule> = RULES.into_iter().filter(|(rule, ..)| is_wanted(rule)).collect();
    print!("{:16} {:>5} {:>8}", "load", "spare", "optimum");
    rules.iter().for_each(|(rule, gc, _)| print!("  {:>24}", format!("{rule}, {gc}")));
    println!();
    for (name, load) in LOADS {
        for spare_permille in SPARES {
            let spec = LogSpec { blocks: BLOCKS, segment: SEGMENT, spare_permille };
            let wafs: Vec<Vec<f64>> =
                (0..seeds).map(|seed| played(&rules, load, spec, seed)).collect();
            let best = rates(load).map(|rates| theory::separated(spec.alpha(CLASSES), &rates).0);
            let best = best.map_or("–".to_owned(), |waf| format!("{waf:.3}"));
            print!("{name:16} {:>5} {best:>8}", f64::from(spare_permille) / 10.0);
            for rule in 0..rules.len() {
                let mut all: Vec<f64> = wafs.iter().map(|of| of[rule]).collect();
                all.sort_by(f64::total_cmp);
                let (low, high) = (all[0], all[all.len() - 1]);
                print!("  {:>24}", format!("{:.3} ({low:.3}–{high:.3})", all[all.len() / 2]));
            }
            println!();
        }
    }
}

/// Returns the write amplification of each rule.
fn played(rules: &[Rule], load: Load, spec: LogSpec, seed: u64) -> Vec<f64> {
    let writes = writes(load, seed);
    let waf = |(name, gc, of): &Rule| {
        let mut rule = of(&writes);
        let collector = Collector::known(gc.parse().expect("a policy"), &spec, CLASSES, seed);
        let mut log = SegmentLog::new(spec, CLASSES, collector);
        if name.ends_with('*') {
            log = log.with_ages_of_segments();
        }
        let half = (BLOCKS + BLOCKS * ROUNDS / 2) as usize;
        writes[..half].chunks(512).for_each(|batch| log.write(batch, &mut *rule));
        let before = log.counts();
        writes[half..].chunks(512).for_each(|batch| log.write(batch, &mut *rule));
        let after = log.counts();
        1.0 + (after.copied - before.copied) as f64 / (after.written - before.written) as f64
    };
    rules.iter().map(waf).collect()
}

/// Returns the rates and sizes of the classes, or `None` for a load whose rates change.
fn rates(load: Load) -> Option<Vec<Class>> {
    match load {
        Load::Skewed(rate, fraction) => {
            let rest = Class { rate: 1.0 - rate, fraction: 1.0 - fraction };
            let all = [Class { rate, fraction }, rest];
            Some(all.into_iter().filter(|class| class.fraction > 0.0).collect())
        }
        Load::Zipf(power) => {
            let sums = sums(power);
            let all = sums[sums.len() - 1];
            let (mut from, mut classes) = (0, Vec::new());
            while from < sums.len() {
                let to = ((from as f64 * STEP) as usize).max(from + 1).min(sums.len());
                let below = if from == 0 { 0.0 } else { sums[from - 1] };
                let rate = (sums[to - 1] - below) / all;
                classes.push(Class { rate, fraction: (to - from) as f64 / sums.len() as f64 });
                from = to;
            }
            Some(classes)
        }
        Load::Moving | Load::Turns | Load::Scans => None,
    }
}

/// Returns the partial sums of `1 / rank^power`.
fn sums(power: f64) -> Vec<f64> {
    let add = |sum: &mut f64, rank: u32| {
        *sum += f64::from(rank).powf(-power);
        Some(*sum)
    };
    (1..=BLOCKS).scan(0.0, add).collect()
}

/// Returns the writes of a load, after one write of every block. The hot blocks are chosen at
/// random.
fn writes(load: Load, seed: u64) -> Vec<u32> {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (seed + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut order: Vec<u32> = (0..BLOCKS).collect();
    for last in (1..BLOCKS).rev() {
        order.swap(last as usize, dice.below(last + 1) as usize);
    }
    let sums = if let Load::Zipf(power) = load { sums(power) } else { Vec::new() };
    let mut all: Vec<u32> = (0..BLOCKS).collect();
    let mut shift = 0;
    for at in 0..BLOCKS * ROUNDS {
        match load {
            Load::Moving if at.is_multiple_of(2 * BLOCKS) => shift = dice.below(BLOCKS),
            Load::Turns => {
                shift = if (at / (BLOCKS / 2)).is_multiple_of(2) { 0 } else { BLOCKS / 2 }
            }
            Load::Scans if at.is_multiple_of(BLOCKS / 2) => {
                let first = dice.below(BLOCKS);
                all.extend((0..BLOCKS / 8).map(|block| (first + block) % BLOCKS));
            }
            _ => {}
        }
        let block = match load {
            Load::Skewed(writes, blocks) => skewed(&mut dice, writes, blocks),
            Load::Zipf(_) => {
                let sum = dice.share() * sums[sums.len() - 1];
                sums.partition_point(|until| *until <= sum) as u32
            }
            Load::Moving | Load::Turns | Load::Scans => skewed(&mut dice, 0.9, 0.1),
        };
        all.push(order[((block + shift) % BLOCKS) as usize]);
    }
    all
}

fn skewed(dice: &mut Dice, writes: f64, blocks: f64) -> u32 {
    let hot = (f64::from(BLOCKS) * blocks) as u32;
    if dice.share() < writes { dice.below(hot) } else { hot + dice.below(BLOCKS - hot) }
}
