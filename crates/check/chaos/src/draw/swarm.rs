//! Swarm options: each seed enables a different subset of features and faults, so that rare
//! combinations occur.

use hostftl_core::Codec;
use hostftl_core::Nanos;
use hostftl_layers::{Devices, LayerKind, TierPolicy};

use crate::dice::Dice;
use crate::matrix::{Claim, Claims, Row};

/// Device length in sectors at which every layer must work.
pub(crate) const ROOMY: u64 = 1 << 17;

/// Order in which commands in flight complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Random.
    Any,
    /// Mostly the oldest.
    Oldest,
    /// Mostly the newest.
    Newest,
}

/// Lengths of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Up to 4 KiB.
    Small,
    /// Mostly small, some up to 64 KiB.
    Mixed,
    /// 4 KiB to 64 KiB.
    Large,
    /// Always 4 KiB.
    Block,
    /// One or two sectors.
    Tiny,
}

/// Possible faults of a seed, as far as the claims of the layer admit them.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "docs/SEMANTICS.md explains each")]
pub struct Faults {
    pub cut: bool,
    pub hang: bool,
    pub device_failure: bool,
    pub read_error: bool,
    pub metadata_rot: bool,
    pub log_rot: bool,
    pub data_rot: bool,
    pub lost: bool,
    pub misdirected: bool,
    pub stale: bool,
    pub bad_segment: bool,
    pub write_error: bool,
    pub flush_error: bool,
    pub no_space: bool,
    pub failing: bool,
}

impl Faults {
    /// Draws the possible faults of a seed among those that are admitted.
    pub fn draw(dice: &mut Dice, claims: &Claims) -> Self {
        let mut some = |row: Row, permille| claims.admits(row) && dice.chance(permille);
        Faults {
            cut: some(Row::PowerCut, 900),
            hang: some(Row::Hang, 250),
            device_failure: some(Row::FailedDevice, 250),
            read_error: some(Row::ReadError, 150),
            metadata_rot: some(Row::MetadataRot, 150),
            log_rot: some(Row::LogRot, 150),
            data_rot: claims.get(Row::DataRot) == Claim::Kept && some(Row::DataRot, 150),
            lost: some(Row::LostWrite, 150),
            misdirected: some(Row::MisdirectedWrite, 150),
            stale: some(Row::StaleDevice, 150),
            bad_segment: some(Row::BadSegment, 300),
            ..Faults::default() // The rest has dice of its own.
        }
    }

    /// Returns whether only data is damaged, and only between two lives.
    pub fn concern_data_only(&self) -> bool {
        let Faults { hang, device_failure, metadata_rot, log_rot, lost, misdirected, .. } = *self;
        let Faults { stale, bad_segment, write_error, flush_error, no_space, failing, .. } = *self;
        let others =
            [hang, device_failure, metadata_rot, log_rot, lost, misdirected, stale, bad_segment];
        !others.into_iter().chain([write_error, flush_error, no_space, failing]).any(|it| it)
    }
}

/// Options of one seed. Probabilities are in thousandths.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Number of devices in the stack.
    pub devices: u32,
    /// Only device with faults, for a layer that can work without one.
    pub victim: Option<u8>,
    /// Second device with faults at the same time, for a layer that can work without two.
    pub second_victim: Option<u8>,
    /// Sectors of each device.
    pub sectors: u64,
    /// Sectors of the fast device of a tier, and the policy that selects its pages.
    pub fast: u64,
    pub tier: TierPolicy,
    /// Journal device of a log.
    pub journal: Option<u8>,
    /// Only device with faults of a tier, or of a log with a journal.
    pub mortal: Option<u8>,
    /// Device without parity that an older copy may replace.
    pub older: Option<u8>,
    /// Write unit of the layer in sectors.
    pub superpage: u32,
    /// Indirection unit of the devices in sectors.
    pub iu_sectors: u32,
    /// Number of parities of a log over several devices, and its compression.
    pub parity: u8,
    pub compress: Codec,
    /// Whether small flushes follow one another, so that short stripes share a slot of a log.
    pub stacked: bool,
    /// Over-provisioning of the layer in thousandths.
    pub spare: u32,
    /// Deadline of commands in ns.
    pub deadline: Nanos,
    /// Whether devices have a volatile cache.
    pub volatile: bool,
    /// Whether devices benefit from discards.
    pub discard: bool,
    /// Probability that a sector reaches the medium before it is overwritten.
    pub destage: u32,
    /// Maximum number of requests in flight.
    pub depth: u32,
    /// Number of requests of a life before it stops.
    pub life: u64,
    /// Weights of read, write, trim, zeroes and flush.
    pub mix: [u32; 5],
    /// Probability of FUA.
    pub fua: u32,
    /// Lengths of requests.
    pub sizes: Sizes,
    /// Alignment of requests in sectors.
    pub grain: u64,
    /// Probability that a request goes to the hot spot, and the length of the hot spot in sectors.
    pub hot: (u32, u64),
    /// Probability that a request follows the previous one.
    pub sequential: u32,
    /// Whether the volume is first filled sequentially.
    pub fill: bool,
    /// Weights of timer, completion and request, when several are possible.
    pub weights: [u32; 3],
    /// Order of completions, and the probability that it is followed.
    pub order: (Order, u32),
    /// Typical number of steps from ready to a cut.
    pub cut_every: u64,
    /// Probability that a life is cut during its start.
    pub cut_early: u32,
    /// Probability that a cut is aimed at a command of the layer's background work.
    pub aim: u32,
    /// Probability that a life starts with a read of the whole volume.
    pub audit: u32,
    /// Whether a large volume has the extra options that its layer sometimes has.
    pub also: bool,
    /// Probability that an operator makes a request, at each choice.
    pub admin_commands: u32,
    /// Whether devices are added and removed.
    pub changes: bool,
    /// Whether the stack is busy: it has all kinds of faults and changes.
    pub is_stress: bool,
    /// Whether the volume always exports more than fits. `spares` is whether most added devices are
    /// spares.
    pub thin: bool,
    /// Whether most added devices are spares.
    pub spares: bool,
    /// Whether its devices differ in length.
    pub mixed_sizes: bool,
    /// Whether lost devices are replaced while the volume is served.
    pub online_changes: bool,
    /// Possible faults.
    pub faults: Faults,
}

/// Properties of a stack that determine the claims of its layer.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// Number of devices.
    pub devices: u32,
    /// Number of devices that may be lost.
    pub parity: u8,
}

impl Stack {
    /// Draws the stack of a seed for `layer`. If it has parity, `with_two` selects two parities for
    /// three or more devices.
    pub fn draw(dice: &mut Dice, layer: LayerKind, with_two: bool) -> Self {
        let choices = &layer.registration().chaos;
        let devices = dice.pick_of_several(choices.devices);
        let has_parity = devices > 1 && dice.chance(choices.parity.0);
        let parity = u8::from(has_parity) + u8::from(has_parity && devices > 2 && with_two);
        Stack { devices, parity }
    }
}

const SIZES: [Sizes; 6] =
    [Sizes::Small, Sizes::Small, Sizes::Mixed, Sizes::Mixed, Sizes::Large, Sizes::Block];

/// Draws the size of a tier's fast device, its policy, and the only device with faults. The sizes
/// range from a few pages to more than the first directory page covers.
fn tiers(layer: LayerKind, dice: &mut Dice, page: u32) -> (u64, TierPolicy, Option<u8>) {
    if layer.registration().devices != Devices::FastAndSlow {
        return (0, TierPolicy::Lru, None);
    }
    let slots = dice.pick(&[4, 6, 10, 30, 100, 300, 1500]);
    let policies = [TierPolicy::Lru, TierPolicy::Lru, TierPolicy::Exclusive, TierPolicy::Writes];
    let policy = match dice.below(5) {
        4 => TierPolicy::After(dice.between(2, 4) as u8),
        index => policies[index as usize],
    };
    let fast = 128 + slots * u64::from(page) + dice.below(u64::from(page));
    (fast, policy, dice.pick(&[None, Some(0), Some(1)]))
}

/// Draws the weights of reads, writes, trims, zeroes and flushes.
fn mix(dice: &mut Dice) -> [u32; 5] {
    [
        dice.pick(&[1, 5, 20]),
        dice.pick(&[10, 20, 50]),
        dice.pick(&[0, 1, 3, 10]),
        dice.pick(&[0, 1, 3]),
        dice.pick(&[0, 1, 3, 10]),
    ]
}

impl Swarm {
    /// Draws the options of a seed for `layer`.
    pub fn draw(dice: &mut Dice, claims: &Claims, layer: LayerKind, stack: Stack) -> Self {
        let choices = &layer.registration().chaos;
        let Stack { devices, parity } = stack;
        let superpage = dice.pick(choices.superpages);
        let megabytes = dice.pick(choices.megabytes);
        let (faults, (fast, tier, mortal)) =
            (Faults::draw(dice, claims), tiers(layer, dice, superpage));
        let mut swarm = Swarm {
            devices,
            fast,
            tier,
            journal: None,
            mortal,
            older: None,
            victim: (parity > 0).then(|| dice.below(devices.into()) as u8),
            second_victim: None,
            sectors: match choices.sectors {
                Some(sectors) => sectors,
                None => megabytes * 2048 + dice.below(256) * 8,
            },
            superpage,
            iu_sectors: if choices.has_small_units {
                dice.pick(&[8, superpage])
            } else {
                superpage
            },
            parity,
            stacked: dice.chance(500),
            compress: dice.pick(&[Codec::Lz4, Codec::Raw]),
            spare: dice.pick(choices.spares),
            deadline: if faults.hang { 1 << 40 } else { 0 },
            volatile: claims.admits(Row::VolatileCache) && dice.chance(850),
            discard: dice.chance(500),
            destage: dice.pick(&[0, 100, 500, 1000]),
            depth: dice.pick(&[1, 2, 4, 8, 16, 32]),
            life: dice.pick(&[20, 100, 300, 1000, 4000]),
            mix: mix(dice),
            fua: dice.pick(&[0, 0, 20, 100, 500]),
            sizes: dice.pick(&SIZES),
            grain: dice.pick(&[1, 1, 8, 8, u64::from(superpage)]),
            hot: (dice.pick(&[0, 300, 700, 950]), dice.pick(&[8, 64, 512])),
            sequential: dice.pick(&[0, 0, 100, 500, 900]),
            fill: dice.chance(500),
            weights: [&[1, 5, 10][..], &[1, 5, 10, 20], &[1, 5, 10, 20]].map(|it| dice.pick(it)),
            order: (
                dice.pick(&[Order::Any, Order::Any, Order::Oldest, Order::Newest]),
                dice.pick(&[500, 800, 950, 995]),
            ),
            cut_every: dice.pick(&[30, 100, 300, 1000, 3000]),
            cut_early: dice.pick(&[0, 50, 200, 500]),
            aim: dice.pick(&[0, 0, 5, 20]),
            audit: dice.pick(&[100, 300, 700]),
            also: false,
            admin_commands: 0,
            is_stress: false,
            thin: false,
            spares: false,
            mixed_sizes: false,
            changes: false,
            online_changes: false,
            faults,
        };
        if choices.stacks_flushes && swarm.stacked {
            (swarm.mix[4], swarm.sizes) = (40, Sizes::Small);
        }
        swarm.perhaps_without_flushes(dice);
        swarm
    }

    /// Makes some hosts send no flushes and wait for each reply, so that only the layer itself can
    /// resolve a shortage.
    fn perhaps_without_flushes(&mut self, dice: &mut Dice) {
        if dice.chance(50) {
            (self.mix[4], self.fua, self.depth) = (0, 0, 1);
        }
    }
}
