//! The description of a drive: refused with its line, or a drive that is possible.

use anyhow::ensure;
use hostftl_drives::{DriveError, DriveSpec};

/// The drives that are shipped.
pub fn drives() -> Vec<Vec<u8>> {
    [
        include_str!("../../../stacks/drives/hatl-1g.toml"),
        include_str!("../../../stacks/drives/hatl-2g.toml"),
        include_str!("../../../stacks/drives/hatl-32g.toml"),
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Reads the input as far as it is text.
pub fn check(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let text = String::from_utf8_lossy(input);
    match DriveSpec::parse(&text, "input") {
        Ok(spec) => {
            let segment = u64::from(spec.superblock) * u64::from(spec.superpage);
            let physical = segment * u64::from(spec.superblocks);
            ensure!(spec.exported > 0 && spec.exported < physical, "{spec:?}");
            ensure!(spec.exported.is_multiple_of(spec.superpage.into()), "{spec:?}");
        }
        Err(DriveError::Line { line, why, .. }) => {
            ensure!((1..=text.lines().count().max(1) + 1).contains(&line), "line {line}: {why}");
            ensure!(!why.contains('\n'), "more than one line: {why}");
        }
        Err(other) => anyhow::bail!("text can't be unreadable: {other}"),
    }
    Ok(())
}
