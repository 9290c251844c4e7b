//! A layer of any kind, chosen when a stack is opened and not for each request.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hostftl_core::{
    AdminCommand, AdminOutcome, ArrayVec, Counters, Credits, DeviceInfo, Gauges, Input, Layer,
    Limits, Members, Nanos, Out, Payload, Refusal, Task,
};

use crate::config::{LayerConfig, Mode, Plan, PlanError};
use crate::raid5::Raid5;
use crate::registration::Registered;

impl Registered for Raid5 {}

/// A layer of any kind, the only type that driver code uses.
///
/// The layer is boxed: with an enum, every crate that holds one would compile the drop code of each
/// layer.
#[derive(Debug)]
pub struct AnyLayer(Box<dyn Registered>);

impl AnyLayer {
    /// Returns the resources and limits of `config` over `devices`.
    ///
    /// # Errors
    /// If the layer cannot work on these devices.
    pub fn plan(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Plan, PlanError> {
        (config.kind.registration().plan)(config, devices)
    }

    /// Creates the layer, ready for its first `Input::Timer`. `buffers` must match
    /// [`AnyLayer::plan`].
    ///
    /// # Errors
    /// As [`AnyLayer::plan`].
    ///
    /// # Panics
    /// If the buffers do not match the plan.
    pub fn new(
        config: &LayerConfig,
        devices: &[DeviceInfo],
        buffers: Vec<Payload>,
        mode: Mode,
    ) -> Result<Self, PlanError> {
        let plan = Self::plan(config, devices)?;
        assert_eq!(buffers.len(), plan.buffers as usize, "the layer has its buffers");
        assert!(buffers.iter().all(|buffer| buffer.sectors() == plan.buffer_sectors));
        let new = config.kind.registration().new;
        new(config, devices, buffers, mode).map(AnyLayer)
    }

    /// Creates the baseline array with the arguments of [`Raid5::new`]. [`LayerConfig`] cannot
    /// select it, so no volume can use it.
    ///
    /// # Errors
    /// As [`Raid5::plan`].
    ///
    /// # Panics
    /// If the buffers do not match the plan.
    pub fn raid5(
        devices: &[DeviceInfo],
        chunk: u32,
        ops: u16,
        buffers: Vec<Payload>,
    ) -> Result<Self, PlanError> {
        assert!(buffers.iter().all(|buffer| buffer.sectors() == chunk), "each holds a chunk");
        Ok(AnyLayer(Box::new(Raid5::new(devices, chunk, ops, buffers)?)))
    }

    /// Returns the CRC-32C of the map, for tests of recovery, or `None` if the layer does not
    /// support it.
    pub fn map_crc(&self) -> Option<u32> {
        self.0.map_crc()
    }

    /// Returns the number of pages that each rule of `scrambler` chose: unwritten, in the device's
    /// next victim, and with the fewest used slots. Zeros for other layers.
    pub fn rules(&self) -> [u64; 3] {
        self.0.rules()
    }
}

impl Layer for AnyLayer {
    fn step(&mut self, now: Nanos, input: Input, out: &mut Out) {
        self.0.step(now, input, out)
    }

    fn operate(&mut self, command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        self.0.operate(command)
    }

    fn tasks(&self) -> ArrayVec<Task, 5> {
        self.0.tasks()
    }

    fn credits(&self) -> Credits {
        self.0.credits()
    }

    fn next_timer(&self) -> Option<Nanos> {
        self.0.next_timer()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn gauges(&self) -> Option<Gauges> {
        self.0.gauges()
    }

    fn members(&self) -> Members {
        self.0.members()
    }

    fn has_failed(&self) -> bool {
        self.0.has_failed()
    }

    fn lost_ranges(&self) -> Vec<(u64, u64)> {
        self.0.lost_ranges()
    }

    fn map_bytes(&self) -> u64 {
        self.0.map_bytes()
    }

    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        self.0.facts()
    }

    fn mapped(&self, lba: u64, sectors: u64) -> (bool, u64) {
        self.0.mapped(lba, sectors)
    }

    fn has_fast_zeroes(&self) -> bool {
        self.0.has_fast_zeroes()
    }

    fn idle(&self) -> bool {
        self.0.idle()
    }

    fn check(&self) -> Result<(), &'static str> {
        self.0.check()
    }

    fn power_off(&mut self) {
        self.0.power_off()
    }
}
