//! Finishes or undoes a change of the members that was cut off, before the next one begins.

use std::path::Path;

use hostftl_format::roster::Standing;
use hostftl_layers::LayerConfig;

use crate::metadata::config::Config;
use crate::open::gather::{OpenOptions, gather};
use crate::open::names::{DeviceId, Names};
use crate::open::volume::{redundancy, seat, verify};
use crate::util::error::Error;

/// Finishes or undoes the change of the members that a cut left behind, durably: `config` is as the
/// volume file at `path` is then, with the devices by member number. Returns the devices that came.
/// Nothing is written when `rehearses`.
///
/// # Errors
/// When the members, or the volume file, can't be written.
pub(crate) fn finish(
    path: &Path,
    config: &mut Config,
    layer: &LayerConfig,
    rehearses: bool,
) -> Result<Vec<DeviceId>, Error> {
    if config.pending.is_empty() {
        config.devices = Names::read(config).list();
        return Ok(Vec::new());
    }
    let listed = (&config.devices[..], &config.pending[..]);
    let found = gather(listed, redundancy(layer), &OpenOptions::default())?;
    config.take_cut(&found);
    verify(path, config, &found)?;
    let names = Names::opened(&config.devices, &found);
    config.devices = names.list();
    let come = found.cut.come.iter().map(|(_, index)| names.id(*index)).collect();
    if !rehearses {
        found.cut.undo()?;
        let said = Standing::of_lost(found.superblock.missing);
        let (mut roster, devices) = seat(found);
        roster.settle(&devices, said)?;
        config.publish_again(path)?;
    }
    Ok(come)
}
