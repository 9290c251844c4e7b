//! Settings and parameters of a study that have no effect.

use hostftl_layers::{StudyUsage, notes, short_segments};

use crate::export::Export;
use crate::layer_spec::LayerSpec;
use crate::load::Loaded;
use crate::stack::Stack;
use crate::study::{Study, Watch};

/// Reports unused settings of devices, and parameters of layers that do not take effect as stated.
/// `studies` differ only in their export, pace and seed. Parameters that can never take effect are
/// errors of their rows.
pub(crate) fn report_unused<'a>(
    studies: impl IntoIterator<Item = &'a Study>,
    loads: &[&Loaded],
    watch: &dyn Watch,
) {
    let mut notes: Vec<Note> = Vec::new();
    for (at, study) in studies.into_iter().enumerate() {
        if at == 0 {
            report_devices(study, watch);
        }
        for stack in &study.drives {
            for layer in &study.layers {
                let texts = layer.notes(stack, usage(study.export, stack, loads));
                let texts = texts.unwrap_or_default();
                texts.into_iter().for_each(|text| add(&mut notes, (stack, layer), text));
            }
        }
    }
    for Note { drive, layers, text } in notes {
        let layers = match &layers[..] {
            [first, _, _, ..] => format!("{first} and {} others", layers.len() - 1),
            _ => layers.join(" and "),
        };
        watch.unused(&format!("{layers} on {drive}"), &[text]);
    }
}

/// A note on one drive, and the layers that it applies to.
struct Note<'a> {
    drive: &'a str,
    layers: Vec<&'a str>,
    text: String,
}

/// Adds a note, or the layer to an equal note.
fn add<'a>(notes: &mut Vec<Note<'a>>, (stack, layer): (&'a Stack, &'a LayerSpec), text: String) {
    let (drive, layer) = (&stack.name[..], &layer.name[..]);
    match notes.iter_mut().find(|note| note.drive == drive && note.text == text) {
        Some(note) if note.layers.contains(&layer) => {}
        Some(note) => note.layers.push(layer),
        None => notes.push(Note { drive, layers: vec![layer], text }),
    }
}

/// Returns the use of a layer on `stack` with all of `loads`.
pub(crate) fn usage(export: Export, stack: &Stack, loads: &[&Loaded]) -> StudyUsage {
    let exported = match export {
        Export::Most => None,
        export => Some(export.sectors(stack, 0)),
    };
    StudyUsage { exported, is_incompressible: loads.iter().all(|load| !load.compresses) }
}

/// Reports each device with unused settings once.
fn report_devices(study: &Study, watch: &dyn Watch) {
    let devices = study.drives.iter().flat_map(|stack| &stack.devices);
    let mut reported: Vec<&str> = Vec::new();
    for device in devices.filter(|device| !device.left().is_empty()) {
        if !reported.contains(&device.name()) {
            reported.push(device.name());
            watch.unused(device.name(), device.left());
        }
    }
}

impl LayerSpec {
    /// Returns a note for each stated parameter that does not take effect as stated on `stack`.
    ///
    /// # Errors
    /// A parameter that can never have an effect, with the reason.
    pub(crate) fn notes(&self, stack: &Stack, study: StudyUsage) -> Result<Vec<String>, String> {
        let notes =
            self.check(stack, study, |config, usage| notes(config, usage, |key| self.states(key)));
        let notes = notes.unwrap_or_else(|| Ok(Vec::new()))?;
        Ok(if self.is_possible(stack, study) { notes } else { Vec::new() })
    }

    /// Returns a note if segments of `log` on `stack` are shorter than the reclaim unit, unless the
    /// reclaim unit is stated.
    pub fn short_segments(&self, stack: &Stack, export: Export) -> Option<String> {
        let study = usage(export, stack, &[]);
        if self.states("reclaim-unit") {
            return None;
        }
        let note = self.check(stack, study, short_segments)??;
        self.is_possible(stack, study).then_some(note)
    }

    /// Returns whether the text of the layer has a parameter.
    fn states(&self, key: &str) -> bool {
        let mut words = self.name.split(':').filter_map(|word| word.split_once('='));
        words.any(|(known, _)| known == key)
    }

    /// Returns whether the layer can run. A row that can't has a reason of its own.
    fn is_possible(&self, stack: &Stack, study: StudyUsage) -> bool {
        let (infos, unit) = (stack.infos(), stack.map_unit());
        let plan = self.spared(&infos, unit, study.exported).plan(&infos, unit);
        plan.is_ok_and(|plan| plan.limits.exported >= study.exported.unwrap_or(0))
    }
}
