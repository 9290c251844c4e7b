//! The volume file: a one-line error, or a configuration that survives a round trip.

use std::fs;

use anyhow::{Context, ensure};
use hostftl_volume::Config;

use super::fast_folder;

/// Returns a volume file as `create` writes it, and a handwritten one.
pub(super) fn volumes() -> Vec<Vec<u8>> {
    let create = "# A HostFTL volume.\nuuid = \"67e55044-10b1-426f-9247-bb680e5fe0c8\"\n\
        label = \"a \\\"label\\\"\"\nlayer = \"hard:superpage=64k:spare=7\"\n\
        devices = [\"/dev/null\", \"/dev/zero\"]\n";
    let memory = "uuid='67e5504410b1426f9247bb680e5fe0c8'\r\nlayer='none'\r\n\
        devices=['mem:1G',]";
    [create, memory].map(|text| text.as_bytes().to_vec()).into()
}

/// Loads the input. Checks that a valid configuration is the same after it was written and read
/// back.
pub(super) fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(fast_folder())?;
    let path = folder.path().join("v.toml");
    fs::write(&path, input)?;
    match Config::load(&path) {
        Ok(config) => {
            let again = folder.path().join("again.toml");
            config.draft(&again).context("what was read can be written")?.publish()?;
            let read = Config::load(&again).context("what was written can be read")?;
            ensure!(read == config, "{config:?} is read back as {read:?}");
        }
        Err(error) => {
            let why = error.to_string();
            ensure!(!why.contains('\n'), "more than one line: {why:?}");
            ensure!(why.contains("v.toml"), "it does not name the file: {why}");
        }
    }
    Ok(())
}
