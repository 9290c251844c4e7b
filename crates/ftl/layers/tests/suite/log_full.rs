//! The whole exported range of `log` can be overwritten indefinitely in any order, for all chunk
//! sizes, over-provisioning, reclaim units, separations, redundancies and numbers of devices, with
//! incompressible data.

use core::fmt::Debug;

use hostftl_core::{DeviceInfo, DeviceKind, HostError, Layer, Segments};
use hostftl_layers::policy::{GcPolicy, Separation};
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Mode};

use crate::common::bare::{Bare, Media};
use crate::common::churn::Random;

/// Blocks of a write during the fill.
const PART: u64 = 16;

/// A volume and its workload.
struct Case {
    config: LayerConfig,
    devices: Vec<DeviceInfo>,
    /// Whether some blocks are compressible.
    packs: bool,
    /// Number of concurrent requests.
    depth: u32,
    seed: u64,
}

/// The order in which blocks are overwritten.
#[derive(Clone, Copy, Debug)]
enum Order {
    Random,
    /// One block of each segment in turn, so that all segments lose one record after the other.
    Spread,
    Sequential,
    /// A few hot blocks and others between them, so that several streams alternate.
    Hot,
    /// Parts are trimmed, and rewritten at the end.
    Trims,
}

const ORDERS: [Order; 5] =
    [Order::Random, Order::Spread, Order::Sequential, Order::Hot, Order::Trims];

/// Draws a layer for a number of devices and of sectors in a chunk.
fn layer(devices: u64, chunk: u64, pick: &mut impl FnMut(&[u64]) -> u64) -> LayerConfig {
    let mut config = LayerConfig::new(LayerKind::Log);
    config.superpage = chunk as u32;
    config.spare_permille = pick(&[0, 0, 10, 70, 70, 200, 500]) as u32;
    config.log.parity = pick(&[0, 1, 2]).min(devices - 1) as u8;
    config.log.separation = [
        Separation::None,
        Separation::Two,
        Separation::Lifetime,
        Separation::Rate,
        Separation::Phases,
    ][pick(&[0, 1, 2, 3, 4, 4, 4]) as usize];
    config.log.gc = [GcPolicy::CostBenefit, GcPolicy::Greedy, GcPolicy::Fifo, GcPolicy::Random]
        [pick(&[0, 0, 1, 2, 3]) as usize];
    config.log.few_pairs = pick(&[0, 0, 1]) == 1;
    config.log.map_memory = [None, Some(0)][pick(&[0, 0, 1]) as usize];
    config
}

/// Draws a block device by its approximate number of segments.
fn block(chunk: u64, sectors: u64, pick: &mut impl FnMut(&[u64]) -> u64) -> DeviceInfo {
    let reclaim_unit = pick(&[0, 0, 4 * chunk, 16 * chunk, 100 * chunk + 8]);
    let (map_unit, merges) = (pick(&[1, 8, 8, chunk]) as u32, pick(&[0, 1]) == 1);
    let sectors = sectors + 8 * pick(&[0, 1, 7, 31]);
    DeviceInfo { reclaim_unit, merges, ..DeviceInfo::block(sectors, map_unit) }
}

/// Draws a zoned device by the number and the sectors of its zones.
fn zoned(size: u64, count: u64, pick: &mut impl FnMut(&[u64]) -> u64) -> DeviceInfo {
    let (unit, max_open) = (pick(&[8, 16]) as u32, pick(&[0, 4, 6, 14]) as u32);
    let (size, count) = (size as u32, count as u32);
    let shape = Segments {
        size,
        write_unit: unit,
        write_best: unit,
        unreadable: 0,
        max_open,
        count,
        units: 1,
    };
    let sectors = u64::from(size) * u64::from(count);
    DeviceInfo { kind: DeviceKind::Zoned(shape), ..DeviceInfo::block(sectors, unit) }
}

impl Case {
    /// Returns the case of a seed, or `None` if its volume is impossible or has more than
    /// `most_blocks` blocks.
    fn drawn(seed: u64, most_blocks: u64) -> Option<Self> {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let pick = &mut |list: &[u64]| list[random.below(list.len() as u64) as usize];
        let chunk = pick(&[32, 40, 64, 128, 256, 512, 1000, 1024, 2048]);
        let count = pick(&[1, 1, 1, 2, 3, 4, 6, 16]);
        let mut config = layer(count, chunk, pick);
        let segments = pick(&[40, 60, 80, 100, 150, 200, 250, 400, 800]);
        let size = pick(&[4, 4, 5, 8, 16, 33]) * chunk;
        let mut devices = match pick(&[0, 0, 0, 0, 1]) {
            0 => vec![block(chunk, segments * size, pick); count as usize],
            _ => vec![zoned(size, segments, pick); count as usize],
        };
        if matches!(devices[0].kind, DeviceKind::Block) {
            config.log.journal = count > 1 && pick(&[0, 0, 0, 1]) == 1;
            devices[0].sectors -= pick(&[0, 0, 1]) * (segments / 4) * size;
        }
        let (packs, depth) = (pick(&[0, 0, 1]) == 1, pick(&[0, 0, 3, 60]) as u32);
        let exported = AnyLayer::plan(&config, &devices).ok()?.limits.exported;
        let fits = exported / 8 <= most_blocks;
        fits.then_some(Case { config, devices, packs, depth, seed })
    }

    fn start(&self, media: Media, mode: Mode) -> Bare {
        Bare::start(&self.config, &self.devices, media, mode, (self.seed, self.packs))
    }

    /// Writes everything that is exported and overwrites it in all orders, with a few cuts.
    fn run(&self) {
        let mut bare = self.start(Media::new(&self.devices), Mode::Format);
        let random = &mut Random(self.seed);
        self.expect(self.fill(&mut bare), "the first fill");
        for order in ORDERS {
            let flush = [0, 0, 1, 4, 50][random.below(5) as usize];
            self.expect(self.overwrite(&mut bare, order, flush, random), (order, flush));
            bare.layer.check().expect("the invariants hold");
            if random.below(3) == 0 {
                bare = self.start(bare.cut(), Mode::Open);
            }
        }
        drop(bare.cut());
    }

    fn expect(&self, done: Result<(), HostError>, when: impl Debug) {
        let Case { config, devices, seed, packs, depth } = self;
        assert!(
            done.is_ok(),
            "seed {seed}, {when:?}: {done:?}; packs {packs}, depth {depth}; {config:?}; {devices:?}"
        );
    }

    fn fill(&self, bare: &mut Bare) -> Result<(), HostError> {
        let blocks = bare.blocks();
        for block in (0..blocks).step_by(PART as usize) {
            bare.write(block, PART.min(blocks - block), false)?;
            bare.wait(self.depth)?;
        }
        bare.wait(0)
    }

    /// Overwrites about as many blocks as are exported, with a flush after every `flush` writes, or
    /// without flushes if 0.
    fn overwrite(
        &self,
        bare: &mut Bare,
        order: Order,
        flush: u64,
        random: &mut Random,
    ) -> Result<(), HostError> {
        let blocks = bare.blocks();
        let (hot, stride) = ((blocks / 50).max(1), (blocks / 97).max(1) | 1);
        for at in 0..if flush == 1 { blocks / 4 } else { blocks } {
            let block = match order {
                Order::Random | Order::Trims => random.below(blocks),
                Order::Spread => (at * stride + at * stride / blocks) % blocks,
                Order::Sequential => at,
                Order::Hot if at % 4 > 0 => random.below(hot),
                Order::Hot => random.below(blocks),
            };
            match order {
                Order::Trims if at % 8 == 0 => {
                    bare.trim(block, (1 + random.below(64)).min(blocks - block))?;
                }
                _ => bare.write(block, 1, false)?,
            }
            bare.wait(self.depth)?;
            if flush > 0 && at % flush == 0 {
                bare.flush()?;
            }
        }
        match order {
            Order::Trims => self.fill(bare),
            _ => bare.wait(0),
        }
    }
}

/// Runs the cases of seeds with at most `most_blocks` blocks. Returns their number.
fn run(seeds: impl Iterator<Item = u64>, most_blocks: u64) -> usize {
    let cases = seeds.filter_map(|seed| Case::drawn(seed, most_blocks));
    cases.inspect(Case::run).count()
}

#[test]
fn the_whole_export_can_be_overwritten_in_any_order() {
    let ran = run(0..400, 3000);
    assert!(ran > 40, "{ran} volumes are so small");
}

/// Runs more and larger volumes, for some minutes.
#[test]
#[ignore = "takes minutes: `make live`"]
fn the_whole_export_can_be_overwritten_in_many_volumes() {
    assert!(run(1000..4000, 15_000) > 500);
}

/// A head of three pages may fill the remainder of a chunk behind a stripe of images. A checkpoint
/// must not wait for room for an image there, or the host's writes are refused.
#[test]
fn a_stripe_of_images_may_fit_only_its_head() {
    for (chunk, head) in [(512, 2), (1024, 3)] {
        let mut config = LayerConfig { superpage: chunk, ..LayerConfig::new(LayerKind::Log) };
        config.log.few_pairs = true;
        let device = DeviceInfo::block(100 * 4 * u64::from(chunk), 8);
        let (devices, seed) = (vec![device], 1);
        let case = Case { config, devices, packs: false, depth: 0, seed };
        let mut bare = case.start(Media::new(&case.devices), Mode::Format);
        case.expect(case.fill(&mut bare), "the first fill");
        let random = &mut Random(1);
        for turn in 0..60 {
            case.expect(case.overwrite(&mut bare, Order::Random, 4, random), turn);
            if bare.image_rows.contains(&head) {
                break;
            }
        }
        assert!(bare.image_rows.contains(&head), "such a row was written, of chunks of {chunk}");
        // Replay must continue behind such a stripe.
        let mut bare = case.start(bare.cut(), Mode::Open);
        case.expect(case.fill(&mut bare), "the last fill");
        drop(bare.cut());
    }
}
