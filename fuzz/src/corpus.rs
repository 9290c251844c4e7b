//! The stored inputs, `corpus/TARGET/*`: starting points of runs, and regression inputs of a test.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::targets::Target;

/// Returns the folder of a target's inputs.
fn folder(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name)
}

/// Returns the stored inputs of a target with their paths, sorted by name.
pub(crate) fn kept(target: &Target) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = folder(target);
    let entries = fs::read_dir(&folder)
        .with_context(|| format!("{}: run with --keep to fill it", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<PathBuf>, _>>()?;
    paths.sort();
    let read = |path: PathBuf| fs::read(&path).map(|bytes| (path, bytes));
    Ok(paths.into_iter().map(read).collect::<Result<_, _>>()?)
}

/// Returns the starting points of a target's runs: the stored inputs, and the present output of the
/// emitters.
pub(crate) fn seeds(target: &Target) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut seeds: Vec<Vec<u8>> = kept(target)?.into_iter().map(|(_, bytes)| bytes).collect();
    let made = (target.made)().into_iter().filter(|bytes| !seeds.contains(bytes));
    seeds.extend(made.collect::<Vec<_>>());
    Ok(seeds)
}

/// Stores the present output of the emitters. Existing inputs are left as they are.
pub(crate) fn keep_made(target: &Target) -> anyhow::Result<()> {
    fs::create_dir_all(folder(target))?;
    let there = kept(target)?;
    let missing = |bytes: &Vec<u8>| there.iter().all(|(_, kept)| kept != bytes);
    for (number, bytes) in (target.made)().into_iter().filter(missing).enumerate() {
        keep(target, &format!("made-{:02}", there.len() + number), &bytes)?;
    }
    Ok(())
}

/// Stores an input under a name and returns its path.
pub(crate) fn keep(target: &Target, name: &str, bytes: &[u8]) -> anyhow::Result<PathBuf> {
    let path = folder(target).join(name);
    fs::create_dir_all(folder(target))?;
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard;
    use crate::targets::ALL;

    const MOST_BYTES: usize = 100 << 10;

    #[test]
    fn the_corpus_breaks_no_parser() {
        for target in ALL {
            // One-time allocations of a target are not counted.
            drop((target.made)());
            for (path, bytes) in kept(target).unwrap() {
                for seed in 0..12 {
                    let outcome = guard::check(target, &bytes, seed);
                    outcome.unwrap_or_else(|why| panic!("{}: {why:#}", path.display()));
                }
            }
        }
    }

    #[test]
    fn every_target_has_a_small_corpus() {
        let mut bytes = 0;
        for target in ALL {
            let kept = kept(target).unwrap();
            assert!(!kept.is_empty(), "nothing is kept for {}", target.name);
            bytes += kept.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        assert!(bytes <= MOST_BYTES, "{bytes} bytes are kept; at most {MOST_BYTES} are wanted");
    }
}
