//! Description of a drive: an error with its line, or a possible drive.

use anyhow::ensure;
use hostftl_drives::{DriveError, DriveSpec};

/// Returns built-in drives.
pub(super) fn drives() -> Vec<Vec<u8>> {
    [
        include_str!("../../../stacks/drives/hatl-2g.toml"),
        include_str!("../../../stacks/drives/mlc-32g.toml"),
        include_str!("../../../stacks/drives/qlc-64k.toml"),
        include_str!("../../../stacks/drives/tlc.toml"),
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Parses the input as text, with invalid UTF-8 replaced.
pub(super) fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let text = String::from_utf8_lossy(input);
    match DriveSpec::parse(&text, "input") {
        Ok(spec) => {
            let physical = spec.shape.sectors();
            ensure!(spec.exported > 0 && spec.exported < physical, "{spec:?}");
            ensure!(spec.exported.is_multiple_of(spec.map_unit.into()), "{spec:?}");
            ensure!((0..spec.pool_count()).all(|index| spec.pool(index).check().is_ok()));
            ensure!(spec.memory() > spec.exported / u64::from(spec.map_unit), "{spec:?}");
        }
        Err(DriveError::Line { line, why, .. }) => {
            ensure!((1..=text.lines().count().max(1) + 1).contains(&line), "line {line}: {why}");
            ensure!(!why.contains('\n'), "more than one line: {why}");
        }
        Err(other) => anyhow::bail!("text can't be unreadable: {other}"),
    }
    Ok(())
}
