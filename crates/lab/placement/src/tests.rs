//! Compares the segment log with closed forms, and placement rules with each other.

use super::*;
use hostftl_sim::theory;

const SPEC: LogSpec = LogSpec { blocks: 60_000, segment: 256, spare_permille: 200 };

/// Returns random blocks below `blocks`; `hot` of 10 writes go to the first tenth.
fn draws(blocks: u32, count: usize, hot: u64) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |end: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((u128::from(state) * u128::from(end)) >> 64) as u32
    };
    let blocks = u64::from(blocks);
    let one = |_| if draw(10) < hot as u32 { draw(blocks / 10) } else { draw(blocks) };
    (0..count).map(one).collect()
}

/// Returns the write amplification of the second half of `writes`, after each block was written
/// once.
fn waf(collector: Collector, placement: &mut dyn Placement, writes: &[u32], batch: usize) -> f64 {
    let log = SegmentLog::new(SPEC, placement.classes(), collector);
    measure_waf(log, placement, writes, batch)
}

/// Returns the same for a given log.
fn measure_waf(
    mut log: SegmentLog,
    placement: &mut dyn Placement,
    writes: &[u32],
    batch: usize,
) -> f64 {
    let all: Vec<u32> = (0..SPEC.blocks).collect();
    all.chunks(batch).for_each(|lbas| log.write(lbas, placement));
    let (first, second) = writes.split_at(writes.len() / 2);
    first.chunks(batch).for_each(|lbas| log.write(lbas, placement));
    let before = log.counts();
    second.chunks(batch).for_each(|lbas| log.write(lbas, placement));
    log.check().expect("everything is counted once");
    let (written, copied) =
        (log.counts().written - before.written, log.counts().copied - before.copied);
    1.0 + copied as f64 / written as f64
}

fn known(policy: GcPolicy, placement: &dyn Placement) -> Collector {
    Collector::known(policy, &SPEC, placement.classes(), 1)
}

#[test]
fn uniform_writes_match_the_theory() {
    let writes = draws(SPEC.blocks, 600_000, 0);
    let mut plain = Plain { parted: false };
    let found = waf(known(GcPolicy::Fifo, &plain), &mut plain, &writes, 1000);
    // Free and open segments do not circulate.
    let pages = f64::from((SPEC.segments(1) - 3) * SPEC.segment);
    let wanted = theory::fifo(pages / f64::from(SPEC.blocks));
    assert!((found / wanted - 1.0).abs() < 0.03, "{found} where theory has {wanted}");
}

#[test]
fn sepbit_copies_less_and_hardly_depends_on_the_batch() {
    let writes = draws(SPEC.blocks, 600_000, 8);
    let mut plain = Plain { parted: true };
    let two = waf(known(GcPolicy::Greedy, &plain), &mut plain, &writes, 1000);
    let sepbit = |batch| {
        let mut sepbit = SepBit::default();
        waf(known(GcPolicy::Greedy, &sepbit), &mut sepbit, &writes, batch)
    };
    let (one, many) = (sepbit(1), sepbit(4096));
    assert!(one < 0.95 * two, "{one} where two classes have {two}");
    assert!((many / one - 1.0).abs() < 0.01, "{many} in batches, {one} one by one");
}

/// The future copies less than rates, and frequency copies less than SepBIT.
#[test]
fn better_informed_rules_copy_less() {
    let writes = draws(SPEC.blocks, 600_000, 9);
    let found = |mut rule: Box<dyn Placement>, gc: &str| {
        let collector = known(gc.parse().expect("a policy"), &*rule);
        waf(collector, &mut *rule, &writes, 1000)
    };
    let all: Vec<u32> = (0..SPEC.blocks).chain(writes.iter().copied()).collect();
    let sepbit = found(Box::<SepBit>::default(), "cost-benefit");
    let frequency = found(Box::new(ByFrequency::new(SPEC.blocks)), "declining-cost");
    let hazard = found(Box::new(ByHazard::new(SPEC.blocks)), "declining-cost");
    let rates = found(Box::new(Rates::of(&writes, SPEC.blocks)), "declining-cost");
    let future = found(Box::new(Future::of(&all, SPEC.blocks)), "declining-cost");
    let wafs = (future, rates, hazard, frequency, sepbit);
    assert!(future < rates && rates < hazard, "{wafs:?}");
    assert!(hazard < 1.01 * frequency && frequency < 0.97 * sepbit, "{wafs:?}");
}

/// The ages of segments, which are known to `log`, suffice to separate rates.
#[test]
fn the_rates_of_log_copy_less_than_lifetimes() {
    let writes = draws(SPEC.blocks, 600_000, 9);
    let found = |mut rule: Box<dyn Placement>| {
        let collector = known(GcPolicy::DecliningCost, &*rule);
        let log = SegmentLog::new(SPEC, rule.classes(), collector).with_ages_of_segments();
        measure_waf(log, &mut *rule, &writes, 1000)
    };
    let (sepbit, rate) =
        (found(Box::<SepBit>::default()), found(Box::new(ByRate::new(SPEC.blocks))));
    assert!(rate < 0.95 * sepbit, "{rate} where lifetimes have {sepbit}");
}

/// With many rates and a changing hot set, one byte per block is better than the class of a
/// segment.
#[test]
fn one_byte_per_block_distinguishes_many_rates() {
    let draws = draws(SPEC.blocks, 1_200_000, 0);
    // Nested halves, each of which is written as often as the whole.
    let halves = |at: usize| ((at as u32).wrapping_mul(40_503) >> 4) % 10;
    let ladder = |(at, lba): (usize, &u32)| *lba >> halves(at);
    let ladder: Vec<u32> = draws.iter().enumerate().map(ladder).collect();
    let moving = |(at, lba): (usize, &u32)| match at % 10 {
        0 => *lba,
        _ => lba / 10 + 10_000 * ((at / 200_000) as u32 % 5),
    };
    let moving: Vec<u32> = draws.iter().enumerate().map(moving).collect();
    let found = |mut rule: Box<dyn Placement>, writes: &[u32]| {
        let collector = known(GcPolicy::DecliningCost, &*rule);
        waf(collector, &mut *rule, writes, 1000)
    };
    for (writes, most) in [(ladder, 0.95), (moving, 0.98)] {
        let frequency = found(Box::new(ByFrequency::new(SPEC.blocks)), &writes);
        let hazard = found(Box::new(ByHazard::new(SPEC.blocks)), &writes);
        assert!(hazard < most * frequency, "{hazard} where a class a block has {frequency}");
    }
}

/// Selects the emptiest segment, like greedy.
struct Emptiest;

impl Choose for Emptiest {
    fn choose(&mut self, sealed: &Sealed) -> Vec<usize> {
        let all = sealed.valid.iter().enumerate();
        all.min_by_key(|(_, valid)| **valid).map(|(at, _)| at).into_iter().collect()
    }
}

#[test]
fn an_external_policy_can_reproduce_a_builtin_one() {
    let writes = draws(SPEC.blocks, 200_000, 8);
    let mut plain = Plain { parted: true };
    let greedy = waf(known(GcPolicy::Greedy, &plain), &mut plain, &writes, 1000);
    let asked = waf(Collector::Asked(Box::new(Emptiest)), &mut plain, &writes, 1000);
    assert!((asked / greedy - 1.0).abs() < 0.01, "{asked} where greedy has {greedy}");
}
