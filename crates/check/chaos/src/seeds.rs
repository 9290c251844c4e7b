//! Runs the seeds of a list, or renews the list.

use std::fs;
use std::path::Path;

use hostftl_chaos::{LEAST, NEW, SeedList, Seeds};
use hostftl_layers::LayerKind;

use crate::report::Format;
use crate::{Options, threads};

/// Runs the list at `path`, or writes it. Returns whether all guarantees hold and all events occur.
pub(crate) fn listed(options: &Options, path: &Path, layers: &[LayerKind]) -> Result<bool, String> {
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(_) if options.renew => String::new(),
        Err(error) => return Err(fault(&error)),
    };
    let mut list = SeedList::parse(&text).map_err(|error| fault(&error))?;
    if !options.renew {
        return Ok(run(options, &list, layers));
    }
    // Layers that no longer exist are removed from the list.
    list.0.retain(|name, _| LayerKind::EVERY.iter().any(|layer| layer.name() == name));
    let fine = renew(options, &mut list, layers);
    fs::write(path, list.to_string()).map_err(|error| fault(&error))?;
    Ok(fine)
}

fn run(options: &Options, list: &SeedList, layers: &[LayerKind]) -> bool {
    let format = Format::new(options.json, LEAST);
    let mut stale = Vec::new();
    for &layer in layers {
        let Some(seeds) = list.0.get(layer.name()) else {
            stale.push(layer.name());
            continue;
        };
        match seeds.run(layer, threads(options)) {
            Ok(summary) if format.summary(layer, &summary) => {}
            Ok(_) => stale.push(layer.name()),
            Err(violation) => {
                format.violation(&violation, "");
                return false;
            }
        }
    }
    for layer in &stale {
        eprintln!(
            "hostftl-chaos: the list of seeds is out of date: events are too rare in the seeds of \
             {layer}; renew it with: make seeds LAYER={layer}"
        );
    }
    stale.is_empty()
}

fn renew(options: &Options, list: &mut SeedList, layers: &[LayerKind]) -> bool {
    let format = Format::new(options.json, NEW);
    let mut fine = true;
    for &layer in layers {
        match Seeds::search(layer, threads(options), |summary| format.progress(layer, summary)) {
            Ok((seeds, summary)) => {
                fine &= format.summary(layer, &summary);
                list.0.insert(layer.name().into(), seeds);
            }
            Err(violation) => {
                format.violation(&violation, "");
                fine = false;
            }
        }
    }
    fine
}
