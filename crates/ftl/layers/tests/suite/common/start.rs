//! Starts of a driver with a layer: over one or several devices, from the first step or until the
//! layer is ready.

use std::collections::{HashMap, HashSet};

use hostftl_compute::Tools;
use hostftl_core::{DeviceInfo, Input, Out, Payload, SECTOR};
use hostftl_layers::{AnyLayer, LayerConfig, Mode};

use super::{World, far, zoned};

/// Divides `disk` into `count` devices.
fn parts(disk: &[u8], count: u64) -> Vec<DeviceInfo> {
    let part = DeviceInfo::block((disk.len() / SECTOR) as u64 / count, 8);
    vec![part; count as usize]
}

impl World {
    /// Starts the layer on `disk` and waits until it is ready or refuses.
    pub(crate) fn start(config: &LayerConfig, disk: Vec<u8>, mode: Mode, seed: u64) -> Self {
        let block = DeviceInfo::block((disk.len() / SECTOR) as u64, config.superpage);
        let device = DeviceInfo { collection_hint: config.kind.needs_hint(), ..block };
        Self::start_on(vec![device], None, config, disk, mode, seed)
    }

    /// Starts the layer on a device that supports discards.
    pub(crate) fn start_discarding(
        config: &LayerConfig,
        disk: Vec<u8>,
        mode: Mode,
        seed: u64,
    ) -> Self {
        let block = DeviceInfo::block((disk.len() / SECTOR) as u64, config.superpage);
        let device = DeviceInfo { discard: true, ..block };
        Self::start_on(vec![device], None, config, disk, mode, seed)
    }

    /// Starts the layer on a device with a map unit of `unit` sectors.
    pub(crate) fn start_over(
        config: &LayerConfig,
        unit: u32,
        disk: Vec<u8>,
        mode: Mode,
        seed: u64,
    ) -> Self {
        let block = DeviceInfo::block((disk.len() / SECTOR) as u64, unit);
        Self::start_on(vec![block], None, config, disk, mode, seed)
    }

    /// Starts the layer with a journal in the last `sectors` sectors of `disk`; the journal may be
    /// a missing member.
    pub(crate) fn start_journaled(
        config: &LayerConfig,
        disk: Vec<u8>,
        sectors: u64,
        mode: Mode,
        seed: u64,
    ) -> Self {
        let rows = (disk.len() / SECTOR) as u64 - sectors;
        let devices = [rows, sectors].map(|sectors| DeviceInfo::block(sectors, 8));
        Self::start_on(devices.into(), None, config, disk, mode, seed)
    }

    /// Starts the layer on two devices, the halves of `disk`, which support discards if `discard`.
    pub(crate) fn start_pair(
        config: &LayerConfig,
        disk: Vec<u8>,
        discard: bool,
        mode: Mode,
        seed: u64,
    ) -> Self {
        let half = DeviceInfo::block((disk.len() / SECTOR) as u64 / 2, 8);
        let half = DeviceInfo { discard, ..half };
        Self::start_on(vec![half.clone(), half], None, config, disk, mode, seed)
    }

    /// Starts the layer on `count` devices, equal parts of `disk`.
    pub(crate) fn start_array(
        config: &LayerConfig,
        disk: Vec<u8>,
        count: u64,
        mode: Mode,
        seed: u64,
    ) -> Self {
        Self::start_on(parts(&disk, count), None, config, disk, mode, seed)
    }

    /// Starts the layer on `count` devices and waits only until it is ready; further commands may
    /// be in flight then.
    pub(crate) fn start_array_until_ready(
        config: &LayerConfig,
        disk: Vec<u8>,
        count: u64,
        mode: Mode,
        seed: u64,
    ) -> Self {
        let devices = parts(&disk, count);
        let mut world = Self::begin_with(devices, None, config, (disk, None), mode, seed);
        while world.events.is_empty() {
            world.settle_once();
        }
        world
    }

    /// Passes only the first timer to a layer that opens the volume on `count` devices.
    pub(crate) fn wake_array(config: &LayerConfig, disk: Vec<u8>, count: u64, seed: u64) -> Self {
        let devices = parts(&disk, count);
        Self::begin_with(devices, None, config, (disk, None), Mode::Open, seed)
    }

    pub(super) fn start_on(
        devices: Vec<DeviceInfo>,
        zoned: Option<zoned::Pointers>,
        config: &LayerConfig,
        disk: Vec<u8>,
        mode: Mode,
        seed: u64,
    ) -> Self {
        Self::start_with(devices, zoned, config, (disk, None), mode, seed)
    }

    pub(super) fn start_with(
        devices: Vec<DeviceInfo>,
        zoned: Option<zoned::Pointers>,
        config: &LayerConfig,
        held: (Vec<u8>, Option<far::Sparse>),
        mode: Mode,
        seed: u64,
    ) -> Self {
        let mut world = Self::begin_with(devices, zoned, config, held, mode, seed);
        while world.zoned.is_some() && world.events.is_empty() {
            world.settle_once();
        }
        if world.zoned.is_none() {
            world.settle();
        }
        world
    }

    fn begin_with(
        devices: Vec<DeviceInfo>,
        zoned: Option<zoned::Pointers>,
        config: &LayerConfig,
        (disk, far): (Vec<u8>, Option<far::Sparse>),
        mode: Mode,
        seed: u64,
    ) -> Self {
        let second = if devices.len() > 1 { devices[0].sectors } else { 0 };
        let plan = AnyLayer::plan(config, &devices).expect("a plan");
        let mut buffers = HashMap::new();
        let mut owned = Vec::new();
        for id in 0..plan.buffers {
            buffers.insert(id, vec![0xee; plan.buffer_sectors as usize * SECTOR]);
            owned.push(Payload::issue(id, plan.buffer_sectors));
        }
        let layer = AnyLayer::new(config, &devices, owned, mode).expect("a layer");
        let mut world = World {
            layer,
            disk,
            events: Vec::new(),
            steps: 0,
            allocations: 0,
            zoned,
            meta_reads: (0, 0),
            data_read: 0,
            elapsed: 0,
            cache: None,
            bad: HashSet::new(),
            far,
            second,
            buffers,
            tools: Tools::default(),
            flying: Vec::new(),
            replies: HashMap::new(),
            read_back: HashMap::new(),
            out: Out::new(),
            next_id: 1000,
            seed,
        };
        world.step(Input::Timer);
        world
    }
}
