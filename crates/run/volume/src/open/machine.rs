//! A layer over its devices: its plan, its driver, and the update of the superblocks after
//! recovery.

use std::sync::Arc;

use hostftl_core::{BLOCK, DeviceInfo, DeviceSet, Layer};
use hostftl_format::roster::Standing;
use hostftl_format::superblock::Superblock;
use hostftl_io::{
    Arena, Class, Device, Driver, EngineKind, HOST_CLASSES, IoError, Memory, Parts, Tap, Waker,
};
use hostftl_layers::{AnyLayer, LayerConfig, Members, Mode, Plan};

use crate::metadata::journal;
use crate::metadata::roster::{Roster, standing};
use crate::open::event_host::explain_full;
use crate::util::error::Error;

/// Returns the layer with the member list of the newest superblock. Members in the set `missing`
/// are absent.
pub(crate) fn as_members(
    layer: LayerConfig,
    missing: DeviceSet,
    newest: &Superblock,
) -> LayerConfig {
    let members = Members {
        missing,
        // An absent device has no data to complete.
        fresh: DeviceSet::from_bits(newest.fresh) - missing,
        returning: DeviceSet::from_bits(newest.returning) - missing,
        born: newest.born,
        removed: DeviceSet::from_bits(newest.removed),
        leaving: DeviceSet::from_bits(newest.leaving),
        spare: DeviceSet::from_bits(newest.spare),
        // From the volume file; the caller sets it.
        planned: DeviceSet::EMPTY,
    };
    LayerConfig {
        members,
        // A volume whose members never changed keeps the layout of its creation.
        exported: if newest.born == 0 && newest.removed | newest.leaving == 0 {
            0
        } else {
            newest.exported
        },
        ..layer
    }
}

/// Returns the requirements and limits of a layer on these devices.
pub(crate) fn plan(layer: &LayerConfig, infos: &[DeviceInfo]) -> Result<Plan, Error> {
    AnyLayer::plan(layer, infos)
        .map_err(|why| Error::Layer { layer: layer.kind.to_string(), why: why.to_string() })
}

pub(crate) fn infos(devices: &[Device]) -> Vec<DeviceInfo> {
    devices.iter().map(Device::info).collect()
}

/// A driver with its layer, and the objects that the host shares with it.
pub(crate) struct Machine {
    pub driver: Driver<AnyLayer>,
    pub arena: Arc<Arena>,
    pub waker: Arc<Waker>,
    /// Note on the engine.
    pub note: Option<String>,
}

/// Creates a layer and its driver over devices.
pub(crate) fn assemble_machine(
    layer: &LayerConfig,
    plan: &Plan,
    devices: Vec<Device>,
    mode: Mode,
    tap: Option<Box<dyn Tap>>,
) -> Result<Machine, Error> {
    let none = Class { bytes: BLOCK as u32, count: 0 };
    let arena = Arena::new(&HOST_CLASSES, none).map_err(IoError::Start)?;
    let waker = Arc::new(Waker::new().map_err(IoError::Start)?);
    let driver = drive(layer, plan, (devices, mode), (&arena, &waker), tap)?;
    let note = driver.engine().1;
    Ok(Machine { driver, arena, waker, note })
}

/// Creates a layer and its driver over devices, with the buffers of its hosts.
pub(crate) fn drive(
    layer: &LayerConfig,
    plan: &Plan,
    (devices, mode): (Vec<Device>, Mode),
    (arena, waker): (&Arc<Arena>, &Arc<Waker>),
    tap: Option<Box<dyn Tap>>,
) -> Result<Driver<AnyLayer>, Error> {
    let engine = EngineKind::choose()?;
    let own = Class::with_sectors(plan.buffer_sectors, plan.buffers);
    let memory = Memory::new(arena.clone(), own).map_err(IoError::Start)?;
    let buffers = memory.layer_buffers(plan.buffer_sectors.max(1));
    let made = AnyLayer::new(layer, &infos(&devices), buffers, mode)
        .map_err(|why| Error::Layer { layer: layer.kind.to_string(), why: why.to_string() })?;
    let parts = Parts { devices, memory, waker: waker.clone(), engine, tap };
    Ok(Driver::new(made, parts)?)
}

/// Updates the superblocks of `roster` to the current member states, and returns the set of lost
/// members.
pub(crate) fn settle(
    layer: &LayerConfig,
    roster: Option<&mut Roster>,
    driver: &Driver<AnyLayer>,
) -> Result<DeviceSet, Error> {
    let lost = layer.members.missing | driver.layer().members().lost();
    // A journal may return later, because its content is known to be old: do not exclude it.
    let lost = lost - journal::set(layer, driver.devices().len());
    if let Some(roster) = roster {
        let standing =
            Standing { lost: lost.to_bits(), ..standing(driver.layer(), layer.members.fresh) };
        roster.settle(driver.devices(), standing).map_err(explain_full)?;
    }
    Ok(lost)
}
