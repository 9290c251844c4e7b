//! State of a long run in a file, so that the run can be resumed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostftl_chaos::{Pairs, Summary, Tallies};
use serde::{Deserialize, Serialize};

/// State of one layer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    next: u64,
    seeds: u64,
    steps: u64,
    cuts: u64,
    requests: u64,
    seconds: f64,
    events: Vec<u64>,
    pairs: Vec<u64>,
}

/// State of all layers; without a file it is kept only in memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    path: Option<PathBuf>,
    layers: BTreeMap<String, Kept>,
}

impl State {
    /// Reads the state from the file; a file that does not exist is an empty state.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(State::default()) };
        let name = path.display();
        let layers = match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|why| format!("{name}: not the state of a run ({why}); remove it"))?,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(why) => return Err(format!("{name}: {why}")),
        };
        Ok(State { path: Some(path.to_path_buf()), layers })
    }

    /// Returns the summary of a layer's run.
    pub(crate) fn summary(&self, layer: &str) -> Option<Summary> {
        let kept = self.layers.get(layer)?;
        Some(Summary {
            next: kept.next,
            seeds: kept.seeds,
            steps: kept.steps,
            cuts: kept.cuts,
            requests: kept.requests,
            tallies: Tallies::from_numbers(&kept.events)?,
            pairs: Pairs::from_numbers(&kept.pairs)?,
            elapsed: Duration::try_from_secs_f64(kept.seconds).ok()?,
        })
    }

    /// Writes the state of a layer atomically.
    pub(crate) fn keep(&mut self, layer: &str, summary: &Summary) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let kept = Kept {
            next: summary.next,
            seeds: summary.seeds,
            steps: summary.steps,
            cuts: summary.cuts,
            requests: summary.requests,
            seconds: summary.elapsed.as_secs_f64(),
            events: summary.tallies.numbers().to_vec(),
            pairs: summary.pairs.numbers().to_vec(),
        };
        self.layers.insert(layer.into(), kept);
        let text = serde_json::to_string(&self.layers).expect("numbers have a JSON form");
        let fresh = path.with_extension("new");
        let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path));
        written.map_err(|why| format!("{}: {why}", path.display()))
    }
}
