//! Script that makes a log for `hostftl calibrate`.

/// Script with `{device}` and `{passes}` in place of their values.
const SCRIPT: &str = include_str!("plan.sh");
/// Passes that are fitted by default, and one to check the fit.
const PASSES: usize = super::FIT_PASSES + 1;

/// Returns the script for a device.
pub(super) fn script(device: &str) -> String {
    // In single quotes the shell changes no character.
    let device = format!("'{}'", device.replace('\'', "'\\''"));
    SCRIPT.replace("{device}", &device).replace("{passes}", &PASSES.to_string())
}
